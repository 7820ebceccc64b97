//! Transactions that span several requests.

use std::time::Duration;

use groupcommit_serve::Options;
use serde_json::{Value, json};

use crate::client::{Client, Server, batch, execute};

fn baton(answer: &Value) -> Option<&str> {
    answer["baton"].as_str()
}

fn table(server: &Server) -> Client {
    let mut client = server.client();
    client.execute("CREATE TABLE t (a)").unwrap();
    client
}

#[test]
fn a_transaction_over_several_requests_commits_durably() {
    let server = Server::start();
    let mut client = table(&server);
    let begun = client.pipeline(None, json!([execute("BEGIN"), {"type": "get_autocommit"}]));
    assert_eq!(begun["results"][1]["response"]["is_autocommit"], false);
    let inserted = client.pipeline(
        baton(&begun),
        json!([execute("INSERT INTO t VALUES (1)"), execute("SELECT count(*) FROM t")]),
    );
    assert_eq!(inserted["results"][1]["response"]["result"]["rows"][0][0]["value"], "1");
    assert_eq!(server.client().column("SELECT count(*) FROM t"), ["0"], "nobody else sees it");
    let describe = json!([{"type": "describe", "sql": "SELECT a FROM t"}]);
    let described = client.pipeline(baton(&inserted), describe);
    let flushes = server.database.stats().flushes;
    let committed = client.pipeline(
        baton(&described),
        json!([execute("COMMIT"), {"type": "get_autocommit"}, {"type": "close"}]),
    );
    assert_eq!(committed["results"][1]["response"]["is_autocommit"], true);
    assert!(server.database.stats().flushes > flushes);
    assert_eq!(server.client().column("SELECT count(*) FROM t"), ["1"]);
}

#[test]
fn rollback_and_close_undo_it() {
    let server = Server::start();
    let mut client = table(&server);
    for end in [json!([execute("ROLLBACK"), {"type": "close"}]), json!([{"type": "close"}])] {
        let steps = json!({"type": "batch", "batch": batch(&[
            ("BEGIN IMMEDIATE", Value::Null), ("INSERT INTO t VALUES (1)", Value::Null)])});
        let begun = client.pipeline(None, json!([steps]));
        let ended = client.pipeline(baton(&begun), end);
        assert_eq!(ended["results"][0]["type"], "ok", "{ended}");
        assert_eq!(client.column("SELECT count(*) FROM t"), ["0"]);
    }
}

#[test]
fn others_wait_their_turn_while_it_is_open_and_reads_go_on() {
    let server = Server::start();
    let mut client = table(&server);
    let begun =
        client.pipeline(None, json!([execute("BEGIN"), execute("INSERT INTO t VALUES (1)")]));
    // A write and another transaction are sent now, and answered after this one has ended.
    let mut writer = server.client();
    let close = json!({"type": "close"});
    let write = json!({"requests": [execute("INSERT INTO t VALUES (2)"), close]});
    writer.send("POST", "/v3/pipeline", "", write.to_string().as_bytes());
    let mut other = server.client();
    let whole = json!({"requests": [
        execute("BEGIN"), execute("INSERT INTO t VALUES (3)"), execute("COMMIT"), close]});
    other.send("POST", "/v3/pipeline", "", whole.to_string().as_bytes());
    assert_eq!(server.client().column("SELECT count(*) FROM t"), ["0"]);
    let committed = client.pipeline(baton(&begun), json!([execute("COMMIT"), close]));
    assert_eq!(committed["results"][0]["type"], "ok");
    assert_eq!(writer.receive().json()["results"][0]["type"], "ok");
    assert_eq!(other.receive().json()["results"][2]["type"], "ok");
    assert_eq!(client.column("SELECT a FROM t ORDER BY a"), ["1", "2", "3"]);
}

fn short(total: u64, idle: u64) -> Options {
    let mut options = Options::default();
    options.transaction_timeout = Duration::from_millis(total);
    options.transaction_idle_timeout = Duration::from_millis(idle);
    options
}

/// Asks until the transaction has timed out.
fn until_lost(client: &mut Client, begun: &Value) -> Value {
    let mut answer = begun.clone();
    loop {
        let asked = json!([execute("INSERT INTO t VALUES (2)")]);
        answer = client.pipeline(baton(&answer), asked);
        if answer["results"][0]["type"] == "error" {
            return answer;
        }
    }
}

#[test]
fn after_its_time_nothing_of_it_commits_and_its_client_is_told_ever_after() {
    for options in [short(200, 10_000), short(10_000, 50)] {
        let server = Server::with(options);
        let mut client = table(&server);
        let begun =
            client.pipeline(None, json!([execute("BEGIN"), execute("INSERT INTO t VALUES (1)")]));
        // Waits until the transaction has lost its place.
        server.client().execute("CREATE TABLE after (a)").unwrap();
        let lost = until_lost(&mut client, &begun);
        let code = |answer: &Value| answer["results"][0]["error"]["code"].clone();
        assert_eq!(code(&lost), "TRANSACTION_TIMEOUT");
        let committed = client.pipeline(baton(&lost), json!([execute("COMMIT")]));
        assert_eq!(code(&committed), "TRANSACTION_TIMEOUT");
        let again = client.pipeline(
            baton(&committed),
            json!([execute("INSERT INTO t VALUES (3)"), {"type": "get_autocommit"}]),
        );
        assert_eq!(code(&again), "TRANSACTION_TIMEOUT");
        assert_eq!(again["results"][1]["type"], "error");
        assert_eq!(client.column("SELECT count(*) FROM t"), ["0"]);
    }
}

#[test]
fn a_statement_that_outlasts_its_transaction_is_interrupted() {
    let server = Server::with(short(200, 10_000));
    let mut client = table(&server);
    let endless = "INSERT INTO t WITH RECURSIVE n (a) AS (VALUES (1) UNION ALL SELECT a + 1 FROM n) SELECT a FROM n";
    let answer = client.pipeline(None, json!([execute("BEGIN"), execute(endless)]));
    assert_eq!(answer["results"][1]["error"]["code"], "TRANSACTION_TIMEOUT", "{answer}");
    let next = client.pipeline(baton(&answer), json!([execute("SELECT 1")]));
    assert_eq!(next["results"][0]["error"]["code"], "TRANSACTION_TIMEOUT");
    assert_eq!(client.column("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn what_was_committed_before_a_transaction_stays_open_is_durable_first() {
    let server = Server::start();
    let mut client = table(&server);
    let steps = ["INSERT INTO t VALUES (1)", "BEGIN", "INSERT INTO t VALUES (2)"];
    let steps: Vec<_> = steps.iter().map(|sql| (*sql, Value::Null)).collect();
    let begun = client.pipeline(None, json!([{"type": "batch", "batch": batch(&steps)}]));
    assert_eq!(begun["results"][0]["response"]["result"]["step_errors"], json!([null, null, null]));
    let ended = client.pipeline(baton(&begun), json!([execute("ROLLBACK"), {"type": "close"}]));
    assert_eq!(ended["results"][0]["type"], "ok");
    assert_eq!(client.column("SELECT a FROM t"), ["1"]);
}

#[test]
fn stopping_the_server_rolls_an_open_transaction_back() {
    let mut server = Server::start();
    let mut client = table(&server);
    client.pipeline(None, json!([execute("BEGIN"), execute("INSERT INTO t VALUES (1)")]));
    server.stop();
    let count: i64 = server
        .database
        .read(|tx| tx.query_row("SELECT count(*) FROM t", (), |row| row.get(0)))
        .unwrap();
    assert_eq!(count, 0);
    server.database.close().unwrap();
}
