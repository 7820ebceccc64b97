//! `Idempotency-Key`: a request that is sent again writes once.

use groupcommit::sqlite::Database;
use groupcommit_serve::Options;
use serde_json::{Value, json};

use crate::client::{Client, Reply, Server, batch, execute, not, ok};

fn keyed(client: &mut Client, key: &str, requests: Value) -> Reply {
    let body = json!({"requests": requests}).to_string();
    client.send("POST", "/v2/pipeline", &format!("idempotency-key: {key}\r\n"), body.as_bytes());
    client.receive()
}

fn table(server: &Server) -> Client {
    let mut client = server.client();
    client.execute("CREATE TABLE t (a UNIQUE)").unwrap();
    client
}

#[test]
fn a_request_that_is_sent_again_gets_the_same_response_and_writes_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let requests = json!([
        execute("INSERT INTO t VALUES (1) RETURNING a"),
        execute("INSERT INTO t VALUES (1)"),
        {"type": "store_sql", "sql_id": 1, "sql": "SELECT random()"},
        {"type": "execute", "stmt": {"sql_id": 1}},
        {"type": "close"},
    ]);
    let mut server = Server::on(Database::open(&path).unwrap(), folder, Options::default());
    let mut client = table(&server);
    let first = keyed(&mut client, "\"a key\"", requests.clone());
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(first.json()["results"][0]["response"]["result"]["affected_row_count"], 1);
    assert_eq!(first.json()["results"][1]["error"]["extended_code"], "SQLITE_CONSTRAINT_UNIQUE");
    assert_eq!(first.header("idempotency-replayed"), None);
    let again = keyed(&mut client, "a key", requests.clone());
    assert_eq!(again.body, first.body);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(client.column("SELECT count(*) FROM t"), ["1"]);

    // The same after the server has started anew.
    server.stop();
    server.database.close().unwrap();
    let database = Database::open(&path).unwrap();
    let server = Server::on(database, tempfile::tempdir().unwrap(), Options::default());
    let mut client = server.client();
    assert_eq!(keyed(&mut client, "\"a key\"", requests).body, first.body);
    assert_eq!(client.column("SELECT count(*) FROM t"), ["1"]);
    let other = keyed(&mut client, "\"a key\"", json!([execute("DELETE FROM t")]));
    assert_eq!((other.status, &other.json()["code"]), (422, &json!("IDEMPOTENCY_KEY_REUSED")));
    assert_eq!(client.column("SELECT count(*) FROM t"), ["1"]);
}

#[test]
fn a_transaction_that_rolls_back_undoes_nothing_else() {
    let server = Server::start();
    let mut client = table(&server);
    let undone = batch(&[
        ("BEGIN", Value::Null),
        ("INSERT INTO t VALUES (2)", ok(0)),
        ("INSERT INTO t VALUES (1)", ok(1)),
        ("COMMIT", ok(2)),
        ("ROLLBACK", not(ok(3))),
    ]);
    let requests = json!([execute("INSERT INTO t VALUES (1)"), {"type": "batch", "batch": undone}]);
    let first = keyed(&mut client, "k", requests.clone());
    let errors = &first.json()["results"][1]["response"]["result"]["step_errors"];
    assert_eq!(errors[2]["extended_code"], "SQLITE_CONSTRAINT_UNIQUE");
    assert_eq!(client.column("SELECT a FROM t"), ["1"]);
    assert_eq!(keyed(&mut client, "k", requests).body, first.body);
}

#[test]
fn while_the_first_is_running_the_second_is_told_so() {
    let server = Server::start();
    let mut client = table(&server);
    let (entered, has_entered) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let held = server.database.submit(move |_| {
        entered.send(()).unwrap();
        assert!(released.recv().is_err(), "the sender is dropped");
        Ok::<(), std::convert::Infallible>(())
    });
    has_entered.recv().unwrap();
    let requests = json!([execute("INSERT INTO t VALUES (1)")]);
    let body = json!({"requests": requests}).to_string();
    let (sender, replies) = std::sync::mpsc::channel();
    for _ in 0..2 {
        let (mut client, sender, body) = (server.client(), sender.clone(), body.clone());
        std::thread::spawn(move || {
            client.send("POST", "/v2/pipeline", "idempotency-key: k\r\n", body.as_bytes());
            sender.send(client.receive()).unwrap();
        });
    }
    // One of the two waits; the other is refused at once.
    let refused = replies.recv().unwrap();
    assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("IDEMPOTENCY_KEY_IN_USE")));
    drop(release);
    held.wait().unwrap();
    assert_eq!(replies.recv().unwrap().status, 200);
    assert_eq!(client.column("SELECT count(*) FROM t"), ["1"]);
}

#[test]
fn what_cannot_be_kept_is_refused_and_has_no_effect() {
    let server = Server::start();
    let mut client = table(&server);
    let insert = execute("INSERT INTO t VALUES (1)");
    for requests in [
        json!([insert, execute("BEGIN")]),
        json!([insert, execute("VACUUM")]),
        json!([insert, {"type": "describe", "sql": "SELECT 1"}]),
        json!([insert, execute("SELECT zeroblob(100000)")]),
    ] {
        assert_eq!(keyed(&mut client, "k", requests.clone()).status, 400, "{requests}");
    }
    assert_eq!(keyed(&mut client, &"k".repeat(256), json!([insert])).status, 400);
    assert_eq!(client.column("SELECT count(*) FROM t"), ["0"]);
    client.send("POST", "/v1/execute", "idempotency-key: k\r\n", b"{}");
    assert_eq!(client.receive().status, 400);
}

#[test]
fn what_keeps_the_database_from_keeping_a_key_is_not_the_clients_fault() {
    let server = Server::start();
    let mut client = table(&server);
    client.execute("CREATE TABLE _groupcommit_tokens (another)").unwrap();
    let reply = keyed(&mut client, "k", json!([execute("INSERT INTO t VALUES (1)")]));
    assert_eq!((reply.status, &reply.json()["code"]), (503, &json!("NOT_RUN")));
    assert_eq!(client.column("SELECT count(*) FROM t"), ["0"]);
}
