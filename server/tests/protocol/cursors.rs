//! Cursors: batches whose rows are streamed.

use serde_json::{Value, json};

use crate::client::{Client, Server, batch, execute, ok};

/// The lines of a cursor's answer.
fn lines(client: &mut Client, baton: Option<&str>, steps: &[(&str, Value)]) -> Vec<Value> {
    let reply = client.post("/v3/cursor", &json!({"baton": baton, "batch": batch(steps)}));
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kinds(lines: &[Value]) -> Vec<&str> {
    lines[1..].iter().map(|line| line["type"].as_str().unwrap()).collect()
}

#[test]
fn entries_tell_of_each_step_that_ran() {
    let server = Server::start();
    let mut client = server.client();
    let lines = lines(
        &mut client,
        None,
        &[
            ("CREATE TABLE t (a)", Value::Null),
            ("INSERT INTO t VALUES (1), (2) RETURNING a", Value::Null),
            ("SELEC", Value::Null),
            ("SELECT 1", ok(2)),
        ],
    );
    assert!(lines[0]["baton"].is_string());
    assert_eq!(
        kinds(&lines),
        [
            "step_begin",
            "step_end",
            "step_begin",
            "row",
            "row",
            "step_end",
            "step_error",
            "replication_index"
        ]
    );
    assert_eq!(lines[3]["step"], 1);
    assert_eq!(
        lines[6],
        json!({"type": "step_end", "affected_row_count": 2, "last_insert_rowid": "2"})
    );
    assert_eq!(lines[7]["error"]["code"], "SQL_INPUT_ERROR");
}

#[test]
fn a_read_larger_than_any_response_streams() {
    let server = Server::start();
    let mut client = server.client();
    let many = "WITH RECURSIVE n (a) AS (VALUES (1) UNION ALL SELECT a + 1 FROM n WHERE a < 200000)
        SELECT a, 'some text that makes the rows longer than they would be without it' FROM n";
    let error = client.execute(many).unwrap_err();
    assert_eq!(error["code"], "RESPONSE_TOO_LARGE");
    let lines = lines(&mut client, None, &[(many, Value::Null), ("SELECT 1", ok(0))]);
    assert_eq!(lines.len(), 1 + 200_002 + 3 + 1);
    assert_eq!(lines[200_001]["row"][0]["value"], "200000");
}

#[test]
fn a_write_whose_rows_are_too_many_is_undone() {
    let server = Server::start();
    let mut client = server.client();
    client.execute("CREATE TABLE t (a)").unwrap();
    let many = "WITH RECURSIVE n (a) AS (VALUES (1) UNION ALL SELECT a + 1 FROM n WHERE a < 400000)
        INSERT INTO t SELECT a FROM n RETURNING a";
    assert_eq!(client.execute(many).unwrap_err()["code"], "RESPONSE_TOO_LARGE");
    assert_eq!(client.column("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn a_transaction_goes_from_cursor_to_cursor() {
    let server = Server::start();
    let mut client = server.client();
    client.execute("CREATE TABLE t (a)").unwrap();
    let begun = lines(&mut client, None, &[("BEGIN", Value::Null)]);
    let inserted = lines(
        &mut client,
        begun[0]["baton"].as_str(),
        &[
            ("INSERT INTO t VALUES (1)", Value::Null),
            ("SELECT 1", json!({"type": "is_autocommit"})),
        ],
    );
    assert_eq!(kinds(&inserted), ["step_begin", "step_end", "replication_index"]);
    let committed = client.pipeline(
        inserted[0]["baton"].as_str(),
        json!([{"type": "sequence", "sql": "COMMIT"}, {"type": "get_autocommit"}]),
    );
    assert_eq!(committed["results"][1]["response"]["is_autocommit"], true);
    assert_eq!(client.column("SELECT a FROM t"), ["1"]);
}

#[test]
fn a_stream_without_state_takes_any_request_after_a_cursor() {
    let server = Server::start();
    let mut client = server.client();
    let read = lines(&mut client, None, &[("SELECT 1", Value::Null)]);
    let next = client.pipeline(read[0]["baton"].as_str(), json!([execute("SELECT 2")]));
    assert_eq!(next["results"][0]["type"], "ok");
}
