//! Outcomes told apart: rejected, not run, unknown.

use std::{convert::Infallible, io::BufRead as _, sync::mpsc, thread, time::Duration};

use groupcommit::{
    Ticket,
    sqlite::{Database, Limits},
};
use groupcommit_serve::Options;
use serde_json::{Value, json};

use crate::client::{Client, Server, batch, execute, ok};

#[test]
fn what_a_full_server_refuses_has_not_run_and_may_be_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits::new(1, 1 << 20);
    let database = Database::options().limits(limits).open(folder.path().join("app.db")).unwrap();
    let server = Server::on(database, folder, Options::default());
    let mut client = server.client();
    client.execute("CREATE TABLE t (a)").unwrap();
    let held = hold(&server); // the one transaction that the database admits
    let body = json!({"requests": [execute("INSERT INTO t VALUES (1)"), {"type": "close"}]});
    let reply = client.post("/v2/pipeline", &body);
    assert_eq!((reply.status, &reply.json()["code"]), (503, &json!("NOT_RUN")));
    assert_eq!(reply.header("retry-after"), Some("1"));
    held.end();
    assert_eq!(client.post("/v2/pipeline", &body).status, 200);
    assert_eq!(client.column("SELECT a FROM t"), ["1"]);
}

#[test]
fn a_closed_database_refuses_everything() {
    let server = Server::start();
    let mut client = server.client();
    server.database.close().unwrap();
    for sql in ["SELECT 1", "CREATE TABLE t (a)", "VACUUM"] {
        let body = json!({"requests": [execute(sql), {"type": "close"}]});
        let reply = client.post("/v2/pipeline", &body);
        assert_eq!((reply.status, &reply.json()["code"]), (503, &json!("NOT_RUN")), "{sql}");
    }
}

#[test]
fn a_write_whose_flush_failed_is_told_to_be_unknown() {
    let insert = execute("INSERT INTO t VALUES (1)");
    let stmt = &insert["stmt"];
    let steps =
        batch(&[("BEGIN", Value::Null), ("INSERT INTO t VALUES (1)", ok(0)), ("COMMIT", ok(1))]);
    let pipeline = |request: &Value| json!({"requests": [request, {"type": "close"}]});
    let mut begun = None;
    for (path, headers, body) in [
        ("/v2/pipeline", "", pipeline(&insert)),
        ("/v3/pipeline", "", pipeline(&json!({"type": "batch", "batch": steps}))),
        ("/v3/pipeline", "idempotency-key: k\r\n", pipeline(&insert)),
        ("/v3/cursor", "", json!({"batch": steps})),
        ("/v1/execute", "", json!({"stmt": stmt})),
        ("/v1/batch", "", json!({"batch": steps})),
        // A transaction over several requests, whose BEGIN and INSERT have been answered before.
        ("/v3/pipeline", "", pipeline(&execute("COMMIT"))),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("app.db");
        let database = Database::open(&file).unwrap();
        let server = Server::on(database, folder, Options::default());
        let mut client = server.client();
        client.execute("CREATE TABLE t (a)").unwrap();
        let mut body = body;
        if body == pipeline(&execute("COMMIT")) {
            let opened = json!([execute("BEGIN"), insert]);
            begun = Some(client.pipeline(None, opened));
            body["baton"] = begun.as_ref().unwrap()["baton"].clone();
        }
        // The flush finds that the log is not the one that it wrote to.
        std::fs::remove_file(file.with_extension("db-wal")).unwrap();
        client.send("POST", path, headers, body.to_string().as_bytes());
        let reply = client.receive();
        let told = (reply.status, &reply.json()["code"]);
        assert_eq!(told, (500, &json!("OUTCOME_UNKNOWN")), "{path} {body}: {reply:?}");
        assert_eq!(reply.header("retry-after"), None, "it may have been written");
        // Nothing runs any more.
        let reply = client.post("/v2/pipeline", &pipeline(&insert));
        assert_eq!((reply.status, &reply.json()["code"]), (503, &json!("NOT_RUN")), "{path}");
    }
    assert!(begun.is_some());
}

#[test]
fn one_failing_among_a_thousand_at_once_fails_alone() {
    const REQUESTS: usize = 1_000;
    const FAILS: usize = 500;
    raise_file_limit();
    let server = Server::start();
    let mut client = server.client();
    client.execute("CREATE TABLE t (a INTEGER UNIQUE)").unwrap();
    client.execute("INSERT INTO t VALUES (500)").unwrap();
    let mut clients: Vec<Client> = (0..REQUESTS).map(|_| server.client()).collect();
    let held = hold(&server);
    for (number, client) in clients.iter_mut().enumerate() {
        let insert = execute(&format!("INSERT INTO t VALUES ({number}) RETURNING a"));
        let body = json!({"requests": [insert, {"type": "close"}]}).to_string();
        client.send("POST", "/v2/pipeline", "", body.as_bytes());
    }
    // So that they share groups.
    while server.database.stats().in_flight < REQUESTS {
        thread::yield_now();
    }
    let commits_before = server.database.stats().commits;
    held.end();
    for (number, client) in clients.iter_mut().enumerate() {
        let reply = client.receive();
        assert_eq!(reply.status, 200, "{number}: {reply:?}");
        let answer = &reply.json()["results"][0];
        if number == FAILS {
            assert_eq!(answer["error"]["extended_code"], "SQLITE_CONSTRAINT_UNIQUE");
            continue;
        }
        let result = &answer["response"]["result"];
        assert_eq!(result["rows"][0][0]["value"], number.to_string(), "{answer}");
        assert_eq!(result["affected_row_count"], 1);
    }
    let commits = server.database.stats().commits - commits_before;
    assert!(commits < 20, "a failure cost {commits} commits");
    assert_eq!(client.column("SELECT count(*) FROM t"), ["1000"]);
}

#[test]
fn overload_is_refused_before_anything_ran_and_those_admitted_go_on() {
    const ADMITTED: usize = 8;
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits::new(ADMITTED + 1, 1 << 20);
    let database = Database::options().limits(limits).open(folder.path().join("app.db")).unwrap();
    let server = Server::on(database, folder, Options::default());
    server.client().execute("CREATE TABLE t (a INTEGER)").unwrap();
    let mut clients: Vec<Client> = (0..100).map(|_| server.client()).collect();
    let held = hold(&server);
    let body = |number: usize| {
        let insert = execute(&format!("INSERT INTO t VALUES ({number})"));
        json!({"requests": [insert, {"type": "close"}]}).to_string()
    };
    for (number, client) in clients.iter_mut().take(ADMITTED).enumerate() {
        client.send("POST", "/v2/pipeline", "", body(number).as_bytes());
        while server.database.stats().in_flight < number + 2 {
            thread::yield_now();
        }
    }
    // Answered although nothing can be written: they do not wait for those before them.
    for (number, client) in clients.iter_mut().enumerate().skip(ADMITTED) {
        client.send("POST", "/v2/pipeline", "", body(number).as_bytes());
        let reply = client.receive();
        assert_eq!((reply.status, &reply.json()["code"]), (503, &json!("NOT_RUN")));
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
    assert_eq!(clients.last_mut().unwrap().execute("SELECT 1").unwrap()["rows_read"], 1);
    held.end();
    for client in &mut clients[..ADMITTED] {
        let reply = client.receive();
        assert_eq!(reply.json()["results"][0]["type"], "ok", "{reply:?}");
    }
    let expected: Vec<String> = (0..ADMITTED).map(|number| number.to_string()).collect();
    assert_eq!(server.client().column("SELECT a FROM t ORDER BY a"), expected);
}

/// A server whose memory has room for one large response, and a client to which it is being sent.
fn with_large_response(options: Options) -> (Server, Client) {
    let mut options = options;
    options.memory_bytes_max = 20 << 20;
    let server = Server::with(options);
    let mut slow = server.client();
    slow.send("POST", "/v2/pipeline", "", large().to_string().as_bytes());
    slow.socket.fill_buf().unwrap();
    (server, slow)
}

/// A request whose response has 8 MB.
fn large() -> Value {
    json!({"requests": [execute("SELECT zeroblob(6000000)"), {"type": "close"}]})
}

#[test]
fn responses_together_are_bounded() {
    let (server, mut slow) = with_large_response(Options::default());
    let mut client = server.client();
    let reply = client.post("/v2/pipeline", &large());
    assert_eq!((reply.status, &reply.json()["code"]), (503, &json!("NOT_RUN")));
    client.execute("CREATE TABLE t (a)").unwrap();
    let insert = execute("INSERT INTO t VALUES (1) RETURNING zeroblob(6000000)");
    let reply = client.post("/v2/pipeline", &json!({"requests": [insert, {"type": "close"}]}));
    assert_eq!((reply.status, &reply.json()["code"]), (503, &json!("NOT_RUN")));
    let lines = client
        .post("/v3/cursor", &json!({"batch": batch(&[("SELECT zeroblob(6000000)", Value::Null)])}));
    assert!(lines.body.contains("NOT_RUN"), "{lines:?}");
    assert_eq!(client.column("SELECT count(*) FROM t"), ["0"]);
    assert_eq!(slow.receive().status, 200);
    while client.post("/v2/pipeline", &large()).status != 200 {}
}

#[test]
fn a_client_that_takes_nothing_is_given_up() {
    let mut options = Options::default();
    options.send_timeout = Duration::from_millis(50);
    let (server, _slow) = with_large_response(options);
    let mut client = server.client();
    let body = json!({"requests": [], "padding": " ".repeat(1_000_000)});
    // The memory is free again although the response was never taken.
    while client.post("/v2/pipeline", &body).status != 200 {}
}

/// A transaction that is being executed, so that others wait in the queue.
struct Held(mpsc::Sender<()>, Ticket<(), Infallible>);

impl Held {
    fn end(self) {
        drop(self.0);
        self.1.wait().unwrap();
    }
}

fn hold(server: &Server) -> Held {
    let (entered, has_entered) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let ticket = server.database.submit(move |_| {
        entered.send(()).unwrap();
        assert!(released.recv().is_err(), "the sender is dropped");
        Ok(())
    });
    has_entered.recv().unwrap();
    Held(release, ticket)
}

/// Lets this process open as many files as it may.
fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}
