//! The protocol over a WebSocket.

use std::io::{Read as _, Write as _};

use serde_json::{Value, json};

use crate::client::{Client, Server, batch};

/// A WebSocket as bare as can be: masked text frames out, frames in.
struct WebSocket(Client);

impl WebSocket {
    fn open(server: &Server, subprotocol: &str) -> Self {
        let mut client = server.client();
        let upgrade = format!(
            "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{subprotocol}"
        );
        client.send("GET", "/", &upgrade, b"");
        let reply = client.receive();
        assert_eq!(reply.status, 101, "{reply:?}");
        assert_eq!(reply.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        Self(client)
    }

    fn send(&mut self, message: &str) {
        let bytes = message.as_bytes();
        let mut frame = vec![0x81, 0x80 | 127];
        frame.extend((bytes.len() as u64).to_be_bytes());
        frame.extend([0; 4]); // a mask that changes nothing
        frame.extend(bytes);
        self.0.socket.get_mut().write_all(&frame).unwrap();
    }

    /// The next message; a close frame as its reason.
    fn receive(&mut self) -> Value {
        let mut head = [0; 2];
        self.0.socket.read_exact(&mut head).unwrap();
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                self.0.socket.read_exact(&mut length).unwrap();
                usize::from(u16::from_be_bytes(length))
            }
            127 => {
                let mut length = [0; 8];
                self.0.socket.read_exact(&mut length).unwrap();
                usize::try_from(u64::from_be_bytes(length)).unwrap()
            }
            length => usize::from(length),
        };
        let mut payload = vec![0; length];
        self.0.socket.read_exact(&mut payload).unwrap();
        match head[0] {
            0x88 => Value::String(String::from_utf8(payload[2..].to_vec()).unwrap()),
            _ => serde_json::from_slice(&payload).unwrap(),
        }
    }

    fn request(&mut self, id: i32, request: &Value) -> Value {
        self.send(&json!({"type": "request", "request_id": id, "request": request}).to_string());
        let message = self.receive();
        assert_eq!(message["request_id"], id, "{message}");
        message
    }
}

fn execute(stream: i32, sql: &str) -> Value {
    json!({"type": "execute", "stream_id": stream, "stmt": {"sql": sql}})
}

#[test]
fn streams_of_a_connection_run_beside_each_other() {
    let server = Server::start();
    let mut socket = WebSocket::open(&server, "sec-websocket-protocol: hrana3, hrana2\r\n");
    socket.send(r#"{"type":"hello","jwt":null}"#);
    assert_eq!(socket.receive()["type"], "hello_ok");
    for stream in [1, 2] {
        let opened = socket.request(stream, &json!({"type": "open_stream", "stream_id": stream}));
        assert_eq!(opened["response"]["type"], "open_stream");
    }
    assert_eq!(socket.request(3, &execute(1, "CREATE TABLE t (a)"))["type"], "response_ok");
    assert_eq!(socket.request(4, &execute(1, "BEGIN"))["type"], "response_ok");
    // Waits for the transaction of the other stream.
    let waits = json!({"type": "request", "request_id": 5, "request": execute(2, "INSERT INTO t VALUES (2)")});
    socket.send(&waits.to_string());
    assert_eq!(socket.request(6, &execute(1, "INSERT INTO t VALUES (1)"))["type"], "response_ok");
    socket.send(
        &json!({"type": "request", "request_id": 7, "request": execute(1, "COMMIT")}).to_string(),
    );
    let mut answered =
        [socket.receive()["request_id"].clone(), socket.receive()["request_id"].clone()];
    answered.sort_by_key(Value::as_i64);
    assert_eq!(answered, [json!(5), json!(7)]);
    assert_eq!(server.client().column("SELECT a FROM t ORDER BY a"), ["1", "2"]);
}

#[test]
fn a_cursor_is_fetched_in_parts() {
    let server = Server::start();
    let mut socket = WebSocket::open(&server, "");
    socket.request(1, &json!({"type": "open_stream", "stream_id": 0}));
    socket.request(2, &json!({"type": "store_sql", "sql_id": 4, "sql": "VALUES (1), (2), (3)"}));
    let mut steps = batch(&[("", Value::Null)]);
    steps["steps"][0]["stmt"] = json!({"sql_id": 4});
    let open = json!({"type": "open_cursor", "stream_id": 0, "cursor_id": 9, "batch": steps});
    assert_eq!(socket.request(3, &open)["response"]["type"], "open_cursor");
    let fetch = json!({"type": "fetch_cursor", "cursor_id": 9, "max_count": 2});
    let mut kinds = Vec::new();
    loop {
        let fetched = socket.request(4, &fetch)["response"].clone();
        let entries = fetched["entries"].as_array().unwrap();
        assert!(entries.len() <= 2);
        kinds.extend(entries.iter().map(|entry| entry["type"].as_str().unwrap().to_owned()));
        if fetched["done"] == true {
            break;
        }
    }
    assert_eq!(kinds, ["step_begin", "row", "row", "row", "step_end"]);
    socket.request(5, &json!({"type": "close_cursor", "cursor_id": 9}));
    assert_eq!(socket.request(6, &fetch)["type"], "response_error");
}

#[test]
fn errors_are_answers_and_malformed_messages_end_the_connection() {
    let server = Server::start();
    let mut socket = WebSocket::open(&server, "sec-websocket-protocol: hrana2\r\n");
    let error = socket.request(1, &execute(5, "SELECT 1"));
    assert_eq!(error["error"]["code"], "STREAM_NOT_OPEN");
    socket.request(2, &json!({"type": "open_stream", "stream_id": 5}));
    assert_eq!(socket.request(3, &execute(5, "SELEC"))["error"]["code"], "SQL_INPUT_ERROR");
    socket.send("{");
    assert!(socket.receive().as_str().unwrap().contains("EOF"), "the reason is told");
}

#[test]
fn a_client_that_speaks_no_version_of_ours_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
        sec-websocket-key: x\r\nsec-websocket-protocol: hrana3-protobuf\r\n";
    client.send("GET", "/", upgrade, b"");
    assert_eq!(client.receive().status, 400);
}

#[test]
fn stopping_the_server_closes_its_sockets() {
    let mut server = Server::start();
    let mut socket = WebSocket::open(&server, "");
    socket.request(1, &json!({"type": "open_stream", "stream_id": 1}));
    server.stop();
    assert_eq!(socket.receive(), "shutting down");
}
