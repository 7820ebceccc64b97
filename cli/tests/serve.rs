//! `groupcommit serve` as a program: its signals, and `kill -9` under load with clients that retry.
//!
//! `GROUPCOMMIT_KILLS` sets the number of kills (3 unless told).
#![cfg(feature = "serve")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use groupcommit_testkit::SetOnPanic;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// A running server and its address.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(database: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_groupcommit"))
            .arg("serve")
            .arg(database)
            .args(["--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut said = String::new();
        let stdout = process.stdout.as_mut().expect("piped");
        BufReader::new(stdout).read_line(&mut said).expect("speaks");
        let address = said.split("http://").nth(1).and_then(|rest| rest.split(';').next());
        let address = address.unwrap_or_else(|| panic!("no address: {said}")).to_owned();
        Self { process, address }
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id()).expect("fits");
        kill(Pid::from_raw(id), signal).expect("is running");
    }
}

/// Sends a pipeline of one statement, perhaps with a key; its answer, unless the server went away.
fn execute(address: &str, key: Option<&str>, sql: &str) -> std::io::Result<String> {
    let body = format!(
        r#"{{"requests":[{{"type":"execute","stmt":{{"sql":"{sql}"}}}},{{"type":"close"}}]}}"#
    );
    let key = key.map_or_else(String::new, |key| format!("idempotency-key: \"{key}\"\r\n"));
    let mut socket = TcpStream::connect(address)?;
    write!(
        socket,
        "POST /v2/pipeline HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{key}content-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 200") && answer.ends_with('}') {
        Ok(answer)
    } else {
        Err(std::io::Error::other(answer))
    }
}

fn place() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory")
}

#[test]
fn a_termination_signal_ends_it_in_order() {
    let place = place();
    let database = place.path().join("app.db");
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut server = Server::start(&database);
        execute(&server.address, None, "CREATE TABLE IF NOT EXISTS t (a)").expect("answers");
        server.signal(signal);
        assert_eq!(server.process.wait().expect("ends").code(), Some(0));
        assert!(!place.path().join("app.db-wal").exists(), "the log is emptied");
    }
}

#[test]
fn an_address_in_use_is_a_sentence() {
    let place = place();
    let server = Server::start(&place.path().join("app.db"));
    let second = Command::new(env!("CARGO_BIN_EXE_groupcommit"))
        .args(["serve", "other.db", "--listen", &server.address])
        .current_dir(place.path())
        .output()
        .expect("runs");
    assert_eq!(second.status.code(), Some(2));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains(&format!("cannot listen on {}", server.address)), "{said}");
    let mut server = server;
    server.signal(Signal::SIGKILL);
    server.process.wait().expect("ends");
}

#[test]
fn under_kills_every_key_is_applied_once_and_no_answer_is_lost() {
    const CLIENTS: i64 = 8;
    const ANSWERS_BETWEEN_KILLS: u64 = 100;
    let kills: u64 =
        std::env::var("GROUPCOMMIT_KILLS").map_or(3, |text| text.parse().expect("a number"));
    let place = place();
    let database = place.path().join("app.db");
    let mut server = Server::start(&database);
    execute(&server.address, None, "CREATE TABLE t (client, number)").expect("answers");
    let address = std::sync::Mutex::new(server.address.clone());
    let (answered, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let has_failed = AtomicBool::new(false);
    let (progress, has_progressed) = std::sync::mpsc::channel();
    let written: Vec<i64> = thread::scope(|scope| {
        let _ends = SetOnPanic(&has_failed);
        let client = |client: i64| {
            let progress = progress.clone();
            let (address, answered, stop) = (&address, &answered, &stop);
            let has_failed = &has_failed;
            scope.spawn(move || {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) && !has_failed.load(Ordering::Relaxed) {
                    let (key, sql) = (
                        format!("{client}-{number}"),
                        format!("INSERT INTO t VALUES ({client}, {number})"),
                    );
                    // Again and again, until one is answered; the server may be gone if the test fails.
                    while execute(&address.lock().expect("whole").clone(), Some(&key), &sql)
                        .is_err()
                    {
                        assert!(!has_failed.load(Ordering::SeqCst), "the test has failed");
                        thread::yield_now();
                    }
                    number += 1;
                    answered.fetch_add(1, Ordering::Relaxed);
                    progress.send(()).expect("the test listens");
                }
                number
            })
        };
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        for _ in 0..kills {
            let until = answered.load(Ordering::Relaxed) + ANSWERS_BETWEEN_KILLS;
            while answered.load(Ordering::Relaxed) < until {
                has_progressed.recv().expect("clients run");
            }
            server.signal(Signal::SIGKILL);
            server.process.wait().expect("ends");
            server = Server::start(&database);
            address.lock().expect("whole").clone_from(&server.address);
        }
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("ends")).collect()
    });
    server.signal(Signal::SIGTERM);
    assert_eq!(server.process.wait().expect("ends").code(), Some(0));
    let database = rusqlite::Connection::open(&database).expect("opens");
    for (client, &numbers) in (0..CLIENTS).zip(&written) {
        let sql = "SELECT count(*), count(DISTINCT number), coalesce(max(number) + 1, 0) FROM t WHERE client = ?1";
        let counts: (i64, i64, i64) = database
            .query_row(sql, [client], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .expect("reads");
        assert_eq!(counts, (numbers, numbers, numbers), "client {client}");
    }
}
