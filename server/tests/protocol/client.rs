//! A server in this process, and a client that says exactly what it is told to.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    thread,
    time::Duration,
};

use groupcommit::sqlite::Database;
use groupcommit_serve::{Options, bind};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// A server on a database of its own.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) database: Database,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path().join("app.db")).unwrap();
        Self::on(database, folder, options)
    }

    pub(crate) fn on(database: Database, folder: tempfile::TempDir, options: Options) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (address_sender, address) = std::sync::mpsc::channel();
        let served = database.clone();
        let thread = thread::spawn(move || {
            tokio::runtime::Runtime::new().unwrap().block_on(async {
                let serving = bind(served, "127.0.0.1:0", options).await.unwrap();
                address_sender.send(serving.address().unwrap()).unwrap();
                serving.run(async { drop(stopped.await) }).await;
            });
        });
        let address = address.recv().unwrap();
        Self { address, database, stop: Some(stop), thread: Some(thread), _folder: folder }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Stops the server and waits until it has.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop();
        }
    }
}

/// One keep-alive connection.
pub(crate) struct Client {
    pub(crate) socket: BufReader<TcpStream>,
}

/// What came back.
#[derive(Debug, PartialEq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(known, _)| known == name);
        header.map(|(_, value)| value.as_str())
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        // Longer than anything here lasts; a test that hangs fails.
        socket.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        Self { socket: BufReader::new(socket) }
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        );
        let mut message = head.into_bytes();
        message.extend_from_slice(body);
        self.socket.get_mut().write_all(&message).unwrap();
    }

    pub(crate) fn receive(&mut self) -> Reply {
        let mut line = String::new();
        self.socket.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no status: {line:?}"));
        let status = status.parse().unwrap();
        let mut headers = Vec::new();
        loop {
            line.clear();
            self.socket.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let find = |name: &str| headers.iter().find(|(known, _)| known == name);
        let mut body = Vec::new();
        if let Some((_, length)) = find("content-length") {
            body.resize(length.parse().unwrap(), 0);
            self.socket.read_exact(&mut body).unwrap();
        } else if find("transfer-encoding").is_some() {
            loop {
                line.clear();
                self.socket.read_line(&mut line).unwrap();
                let length = usize::from_str_radix(line.trim_end(), 16).unwrap();
                let mut chunk = vec![0; length + 2];
                self.socket.read_exact(&mut chunk).unwrap();
                if length == 0 {
                    break;
                }
                body.extend_from_slice(&chunk[..length]);
            }
        }
        Reply { status, headers, body: String::from_utf8(body).unwrap() }
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, "", body.to_string().as_bytes());
        self.receive()
    }

    pub(crate) fn get(&mut self, path: &str) -> Reply {
        self.send("GET", path, "", b"");
        self.receive()
    }

    /// The whole answer to a pipeline, which must be 200.
    pub(crate) fn pipeline(&mut self, baton: Option<&str>, requests: Value) -> Value {
        let reply = self.post("/v3/pipeline", &json!({"baton": baton, "requests": requests}));
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    /// The result of one request of a pipeline.
    pub(crate) fn one(&mut self, request: Value) -> Value {
        let mut answer = self.pipeline(None, json!([request, {"type": "close"}]));
        answer["results"][0].take()
    }

    /// Runs one statement; the answer's `result`, or its `error`.
    pub(crate) fn execute(&mut self, sql: &str) -> Result<Value, Value> {
        let mut answer = self.one(json!({"type": "execute", "stmt": {"sql": sql}}));
        if answer["type"] == "ok" {
            Ok(answer["response"]["result"].take())
        } else {
            Err(answer["error"].take())
        }
    }

    /// Runs a batch of statements without conditions or with them: `(sql, condition)`.
    pub(crate) fn batch(&mut self, steps: &[(&str, Value)]) -> Value {
        let mut answer = self.one(json!({"type": "batch", "batch": batch(steps)}));
        assert_eq!(answer["type"], "ok", "{answer}");
        answer["response"]["result"].take()
    }

    /// The values of the first column.
    pub(crate) fn column(&mut self, sql: &str) -> Vec<Value> {
        let result = self.execute(sql).unwrap();
        let rows = result["rows"].as_array().unwrap();
        rows.iter().map(|row| row[0].get("value").cloned().unwrap_or(Value::Null)).collect()
    }
}

pub(crate) fn batch(steps: &[(&str, Value)]) -> Value {
    let step =
        |(sql, condition): &(&str, Value)| json!({"stmt": {"sql": sql}, "condition": condition});
    json!({"steps": steps.iter().map(step).collect::<Vec<_>>()})
}

pub(crate) fn ok(step: usize) -> Value {
    json!({"type": "ok", "step": step})
}

pub(crate) fn not(condition: Value) -> Value {
    json!({"type": "not", "cond": condition})
}

pub(crate) fn execute(sql: &str) -> Value {
    json!({"type": "execute", "stmt": {"sql": sql}})
}
