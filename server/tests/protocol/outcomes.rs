//! Outcomes told apart: rejected, not run, unknown.

use groupcommit::sqlite::{Database, Limits};
use groupcommit_serve::Options;
use serde_json::json;

use crate::client::{Server, execute};

#[test]
fn what_a_full_server_refuses_has_not_run_and_may_be_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits::new(1, 1 << 20);
    let database = Database::options().limits(limits).open(folder.path().join("app.db")).unwrap();
    let server = Server::on(database, folder, Options::default());
    let mut client = server.client();
    client.execute("CREATE TABLE t (a)").unwrap();
    let (entered, has_entered) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    // The one transaction that the database admits.
    let held = server.database.submit(move |tx| {
        entered.send(()).unwrap();
        assert!(released.recv().is_err(), "the sender is dropped");
        tx.execute("INSERT INTO t VALUES (0)", ())
    });
    has_entered.recv().unwrap();
    let body = json!({"requests": [execute("INSERT INTO t VALUES (1)"), {"type": "close"}]});
    let reply = client.post("/v2/pipeline", &body);
    assert_eq!((reply.status, &reply.json()["code"]), (503, &json!("NOT_RUN")));
    assert_eq!(reply.header("retry-after"), Some("1"));
    drop(release);
    held.wait().unwrap();
    assert_eq!(client.post("/v2/pipeline", &body).status, 200);
    assert_eq!(client.column("SELECT a FROM t"), ["0", "1"]);
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
