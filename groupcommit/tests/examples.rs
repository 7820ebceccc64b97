//! The examples, run as a user runs them. `cargo test` builds them before it runs this.
#![cfg(feature = "sqlite")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    thread,
};

use groupcommit::sqlite::{Database, rusqlite::Connection};

/// The built example, which lies beside the folder of this test.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().expect("this test has a path");
    let built: PathBuf =
        test.ancestors().nth(2).expect("a build folder").join("examples").join(name);
    assert!(built.exists(), "{} is not built; run `cargo test --examples`", built.display());
    Command::new(built)
}

fn run(name: &str, arguments: &[&Path]) -> String {
    let output = example(name).args(arguments).output().expect("starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{errors}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

fn count(path: &Path, table: &str) -> i64 {
    let connection = Connection::open(path).expect("opens");
    connection
        .query_row(&format!("SELECT count(*) FROM {table}"), (), |row| row.get(0))
        .expect("counts")
}

#[test]
fn quickstart_puts_a_hundred_visits_on_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.db");
    let said = run("quickstart", &[&path]);
    assert!(said.starts_with("100 visits, in "), "{said}");
    assert_eq!(count(&path, "visits"), 100);
}

#[test]
fn callbacks_and_deadlines_shows_every_outcome_but_unknown() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.db");
    let said = run("callbacks_and_deadlines", &[&path]);
    let expected = "order 1: 1 row on disk\n\
                    order 2: 1 row on disk\n\
                    order 2: rejected, rolled back\n\
                    order 3: past its deadline, not run\n\
                    order 4: cancelled: true\n\
                    2 orders on disk\n";
    assert_eq!(said, expected);
    assert_eq!(count(&path, "orders"), 2);
}

#[test]
fn bulk_load_reports_progress_and_loads_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.db");
    let said = run("bulk_load", &[&path, Path::new("25000")]);
    assert!(said.ends_with("loaded 25000 rows\n"), "{said}");
    assert!(said.lines().filter(|line| line.contains(" rows durable after ")).count() > 1);
    assert_eq!(count(&path, "points"), 25_000);
}

#[test]
fn metrics_exports_what_the_snapshot_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.db");
    let said = run("metrics", &[&path]);
    let label = format!("database=\"{}\"", path.display());
    let committed = format!("groupcommit_transactions_total{{{label},outcome=\"committed\"}} 1001");
    assert!(said.contains(&committed), "{said}");
    assert!(said.contains("# 1001 transactions committed in "), "{said}");
    for histogram in ["group_transactions", "queue_wait_seconds", "execute_seconds"] {
        assert!(said.contains(&format!("groupcommit_{histogram}_count{{{label}}} ")), "{said}");
    }
}

/// The web service, stopped when dropped.
struct Service {
    process: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Service {
    fn start(database: &Path) -> Self {
        let mut process = example("web")
            .arg(database)
            .arg("127.0.0.1:0")
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut output = BufReader::new(process.stdout.take().expect("piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("says where it listens");
        let address = line.trim().strip_prefix("listening on ").expect("an address").to_owned();
        Self { process, output, address }
    }

    /// Status and body of the answer to one request.
    fn request(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("connects");
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .expect("sends");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.expect("a status"), body.to_owned())
    }

    /// Asks the service to stop, and returns what it said at its end.
    fn stop(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("is signalled");
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("ends its output");
        assert!(self.process.wait().expect("ends").success());
        rest
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Already ended where `stop` was called; then there is nothing to end.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn web_answers_when_the_write_is_on_disk_and_drains_when_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.db");
    let service = Service::start(&path);

    thread::scope(|scope| {
        for client in 0..8 {
            let service = &service;
            scope.spawn(move || {
                for n in 0..20 {
                    let body = format!(r#"{{"device":"d{client}","value":{n}}}"#);
                    let (status, answer) = service.request("POST", "/readings", &body);
                    assert_eq!(status, 201, "{answer}");
                    let stored: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
                    assert!(stored["id"].as_i64().expect("an id") > 0);
                }
                let (status, answer) = service.request("GET", &format!("/readings/d{client}"), "");
                assert_eq!((status, answer.as_str()), (200, r#"{"readings":20,"mean":9.5}"#));
            });
        }
    });

    let (status, answer) = service.request("POST", "/readings", r#"{"device":"","value":1}"#);
    assert_eq!(status, 422, "{answer}");
    assert!(answer.starts_with("rejected"), "{answer}");
    let (status, _) = service.request("POST", "/readings", "not JSON");
    assert_eq!(status, 400);

    assert_eq!(service.stop(), "closed\n");
    assert_eq!(count(&path, "readings"), 160);
    Database::open(&path).expect("opens again").close().expect("closes");
}
