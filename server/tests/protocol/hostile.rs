//! What no client should send: a clear error each, and the server goes on.

use std::{
    io::{Read as _, Write as _},
    time::Duration,
};

use groupcommit_serve::Options;
use serde_json::json;

use crate::client::{Client, Server, execute};

fn code(client: &mut Client, path: &str, body: &[u8]) -> (u16, String) {
    client.send("POST", path, "", body);
    let reply = client.receive();
    (reply.status, reply.json()["code"].as_str().unwrap().to_owned())
}

#[test]
fn malformed_requests_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    let malformed = (400, "MALFORMED_REQUEST".to_owned());
    for body in [
        "",
        "{",
        "null",
        "[]",
        "\u{0}",
        r#"{"requests":{}}"#,
        r#"{"requests":[{"type":"fly"}]}"#,
        r#"{"requests":[{"type":"execute","stmt":{"sql":1}}]}"#,
        r#"{"baton":7,"requests":[]}"#,
        r#"{"requests":[{"type":"store_sql","sql_id":99999999999,"sql":"x"}]}"#,
    ] {
        assert_eq!(code(&mut client, "/v2/pipeline", body.as_bytes()), malformed, "{body}");
    }
    assert_eq!(code(&mut client, "/v3/cursor", b"\xff\xfe"), malformed);
    for body in
        [r#"{"requests":[{"type":"execute"}]}"#, r#"{"requests":[{"type":"fetch_cursor"}]}"#]
    {
        let refused = code(&mut client, "/v2/pipeline", body.as_bytes());
        assert_eq!(refused, (400, "PROTOCOL_ERROR".to_owned()), "{body}");
    }
    assert!(client.execute("SELECT 1").is_ok());
}

#[test]
fn deep_conditions_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    for depth in [50, 1_000, 100_000] {
        let nested = format!(
            "{}{{\"type\":\"is_autocommit\"}}{}",
            r#"{"type":"not","cond":"#.repeat(depth),
            "}".repeat(depth)
        );
        let body = format!(
            r#"{{"batch":{{"steps":[{{"stmt":{{"sql":"SELECT 1"}},"condition":{nested}}}]}}}}"#
        );
        client.send("POST", "/v1/batch", "", body.as_bytes());
        let expected = if depth == 50 { 200 } else { 400 };
        assert_eq!(client.receive().status, expected, "{depth}");
    }
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let mut options = Options::default();
    options.body_bytes_max = 1_000;
    let server = Server::with(options);
    let large = vec![b' '; 1_001];
    let refused = (413, "BODY_TOO_LARGE".to_owned());
    assert_eq!(code(&mut server.client(), "/v2/pipeline", &large), refused);
    // The same without saying how long it is.
    let mut client = server.client();
    let head =
        "POST /v2/pipeline HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    client.socket.get_mut().write_all(head.as_bytes()).unwrap();
    client
        .socket
        .get_mut()
        .write_all(format!("3e9\r\n{}\r\n0\r\n\r\n", " ".repeat(1_001)).as_bytes())
        .unwrap();
    assert_eq!(client.receive().status, 413);
}

#[test]
fn bodies_together_are_bounded() {
    let mut options = Options::default();
    options.memory_bytes_max = 100_000;
    let server = Server::with(options);
    let refused = (503, "OVERLOADED".to_owned());
    assert_eq!(code(&mut server.client(), "/v2/pipeline", &[b' '; 10_000]), refused);
    assert_eq!(server.client().post("/v2/pipeline", &json!({"requests": []})).status, 200);
}

#[test]
fn a_body_that_never_ends_is_given_up() {
    let mut options = Options::default();
    options.send_timeout = Duration::from_millis(50);
    let server = Server::with(options);
    let mut client = server.client();
    let head = "POST /v2/pipeline HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{";
    client.socket.get_mut().write_all(head.as_bytes()).unwrap();
    let reply = client.receive();
    assert_eq!((reply.status, &reply.json()["code"]), (408, &json!("REQUEST_TIMEOUT")));
}

#[test]
fn a_read_that_never_ends_is_interrupted() {
    let mut options = Options::default();
    options.request_timeout = Duration::from_millis(200);
    let server = Server::with(options);
    let mut client = server.client();
    let endless =
        "WITH RECURSIVE n (a) AS (VALUES (1) UNION ALL SELECT a + 1 FROM n) SELECT count(*) FROM n";
    assert_eq!(client.execute(endless).unwrap_err()["code"], "SQLITE_INTERRUPT");
    let body = json!({"batch": {"steps": [{"stmt": {"sql": endless}}]}});
    let lines = client.post("/v3/cursor", &body).body;
    assert!(lines.contains("SQLITE_INTERRUPT"), "{lines}");
    client.execute("CREATE TABLE t (a)").unwrap();
    let write = endless.replace("SELECT count", "INSERT INTO t SELECT count");
    let body = json!({"requests": [execute(&write)]});
    assert_eq!(client.post("/v2/pipeline", &body).status, 503);
    assert!(client.execute("INSERT INTO t VALUES (1)").is_ok());
}

#[test]
fn a_client_that_goes_away_leaves_nothing_behind() {
    let server = Server::start();
    server.client().execute("CREATE TABLE t (a)").unwrap();
    let long = "WITH RECURSIVE n (a) AS (VALUES (1) UNION ALL SELECT a + 1 FROM n LIMIT 300000) SELECT count(*) FROM n";
    // More of them than there are reading connections: each must be free again.
    for _ in 0..4 * Options::default().readers {
        let body = json!({"requests": [execute(long)]}).to_string();
        server.client().send("POST", "/v2/pipeline", "", body.as_bytes());
    }
    let begin = json!({"requests": [execute("BEGIN"), execute("INSERT INTO t VALUES (1)")]});
    server.client().send("POST", "/v2/pipeline", "", begin.to_string().as_bytes());
    assert!(server.client().execute("INSERT INTO t VALUES (2)").is_ok());
    assert_eq!(server.client().column("SELECT a FROM t"), ["2"]);
}

#[test]
fn pages_in_a_browser_are_not_answered() {
    let server = Server::start();
    let mut client = server.client();
    client.send("POST", "/v2/pipeline", "origin: http://evil.example\r\n", b"{\"requests\":[]}");
    assert_eq!(client.receive().status, 403);
    let head = "GET /dump HTTP/1.1\r\nhost: evil.example\r\n\r\n";
    client.socket.get_mut().write_all(head.as_bytes()).unwrap();
    assert_eq!(client.receive().status, 403);
}

#[test]
fn what_is_no_http_ends_the_connection() {
    let server = Server::start();
    let mut client = server.client();
    client.socket.get_mut().write_all(b"\x16\x03\x01 hello\r\n\r\n").unwrap();
    let mut rest = Vec::new();
    client.socket.read_to_end(&mut rest).unwrap();
    assert!(server.client().execute("SELECT 1").is_ok());
}

#[test]
fn a_long_text_of_statements_does_not_exhaust_the_stack() {
    let server = Server::start();
    let mut client = server.client();
    let many = "SELECT 1;".repeat(200_000);
    assert_eq!(client.execute(&many).unwrap_err()["code"], "SQL_MANY_STATEMENTS");
    let answer = client.one(json!({"type": "sequence", "sql": many}));
    assert_eq!(answer["type"], "ok");
}
