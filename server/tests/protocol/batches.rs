//! Batches: whole transactions as members of a group, and what goes beyond one.

use serde_json::{Value, json};

use crate::client::{Server, not, ok};

fn table(server: &Server) -> crate::client::Client {
    let mut client = server.client();
    client.execute("CREATE TABLE t (a UNIQUE)").unwrap();
    client
}

/// The batch that clients make of a transaction.
fn transaction<'a>(statements: &[&'a str]) -> Vec<(&'a str, Value)> {
    let mut steps = vec![("BEGIN IMMEDIATE", Value::Null)];
    for (number, sql) in statements.iter().enumerate() {
        steps.push((sql, ok(number)));
    }
    let last = statements.len();
    steps.push(("COMMIT", ok(last)));
    steps.push(("ROLLBACK", not(ok(last + 1))));
    steps
}

#[test]
fn a_transaction_commits_as_one_member() {
    let server = Server::start();
    let mut client = table(&server);
    let before = server.database.stats();
    let result =
        client.batch(&transaction(&["INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"]));
    assert_eq!(result["step_errors"], json!([null, null, null, null, null]));
    assert_eq!(result["step_results"][2]["last_insert_rowid"], "2");
    assert_eq!(result["step_results"][4], Value::Null, "the rollback is skipped");
    let after = server.database.stats();
    assert_eq!(after.committed - before.committed, 1);
    assert_eq!(client.column("SELECT count(*) FROM t"), ["2"]);
}

#[test]
fn a_failing_statement_rolls_the_transaction_back_and_is_answered() {
    let server = Server::start();
    let mut client = table(&server);
    let statements =
        ["INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"];
    let result = client.batch(&transaction(&statements));
    assert_eq!(result["step_errors"][2]["extended_code"], "SQLITE_CONSTRAINT_UNIQUE");
    assert_eq!(result["step_results"][3], Value::Null);
    assert!(!result["step_results"][5].is_null(), "the rollback ran: {result}");
    assert_eq!(client.column("SELECT count(*) FROM t"), ["0"]);
    // `ROLLBACK` undoes what came after `BEGIN` whoever asks for it.
    let steps = ["BEGIN", "INSERT INTO t VALUES (5)", "ROLLBACK"].map(|sql| (sql, Value::Null));
    assert_eq!(client.batch(&steps)["step_errors"], json!([null, null, null]));
    assert_eq!(client.column("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn without_a_transaction_what_succeeded_stays() {
    let server = Server::start();
    let mut client = table(&server);
    let result = client.batch(&[
        ("INSERT INTO t VALUES (1)", Value::Null),
        ("INSERT INTO t VALUES (1)", Value::Null),
        ("INSERT INTO t VALUES (2)", json!({"type": "error", "step": 1})),
        ("INSERT INTO t VALUES (3)", ok(1)),
        ("INSERT INTO t VALUES (4)", json!({"type": "error", "step": 3})),
        ("INSERT INTO t VALUES (5)", json!({"type": "and", "conds": [ok(0), ok(2)]})),
        ("INSERT INTO t VALUES (6)", json!({"type": "or", "conds": [ok(1), ok(3)]})),
        ("INSERT INTO t VALUES (7)", json!({"type": "is_autocommit"})),
    ]);
    assert_eq!(result["step_results"].as_array().unwrap().len(), 8);
    assert_eq!(client.column("SELECT a FROM t ORDER BY a"), ["1", "2", "4", "5", "7"]);
}

#[test]
fn conditions_see_whether_a_transaction_is_open() {
    let server = Server::start();
    let mut client = table(&server);
    client.batch(&[
        ("BEGIN", Value::Null),
        ("INSERT INTO t VALUES (1)", not(json!({"type": "is_autocommit"}))),
        ("INSERT INTO t VALUES (2)", json!({"type": "is_autocommit"})),
        ("COMMIT", Value::Null),
        ("SELECT 1", json!({"type": "is_autocommit"})),
    ]);
    assert_eq!(client.column("SELECT a FROM t"), ["1"]);
}

#[test]
fn what_no_member_can_do_runs_alone_with_the_same_answers() {
    let server = Server::start();
    let mut client = table(&server);
    let run = |client: &mut crate::client::Client, steps: &[&str]| {
        let steps: Vec<_> = steps.iter().map(|sql| (*sql, Value::Null)).collect();
        client.batch(&steps)["step_errors"].clone()
    };
    // Two transactions, the first of which is durable when the second begins.
    let two = [
        "BEGIN",
        "INSERT INTO t VALUES (1)",
        "COMMIT",
        "BEGIN",
        "INSERT INTO t VALUES (2)",
        "COMMIT",
    ];
    assert_eq!(run(&mut client, &two), json!([null, null, null, null, null, null]));
    // A transaction after a write of its own, and one that is undone before another write.
    let after = [
        "INSERT INTO t VALUES (3)",
        "BEGIN",
        "INSERT INTO t VALUES (4)",
        "ROLLBACK",
        "INSERT INTO t VALUES (5)",
    ];
    assert_eq!(run(&mut client, &after), json!([null, null, null, null, null]));
    let savepoint = [
        "BEGIN",
        "INSERT INTO t VALUES (6)",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (7)",
        "ROLLBACK TO s",
        "COMMIT",
    ];
    assert_eq!(run(&mut client, &savepoint), json!([null, null, null, null, null, null]));
    // A conflict that SQLite answers by rolling everything back: what was there before `BEGIN` stays.
    let conflict = [
        "INSERT INTO t VALUES (8)",
        "BEGIN",
        "INSERT INTO t VALUES (9)",
        "INSERT OR ROLLBACK INTO t VALUES (1)",
        "COMMIT",
    ];
    let errors = run(&mut client, &conflict);
    assert_eq!(errors[3]["extended_code"], "SQLITE_CONSTRAINT_UNIQUE");
    assert!(!errors[4].is_null());
    assert_eq!(client.column("SELECT a FROM t ORDER BY a"), ["1", "2", "3", "5", "6", "8"]);
    // The migration of a client, which switches foreign keys off and on again.
    let migration = [
        "PRAGMA foreign_keys=off",
        "BEGIN DEFERRED",
        "ALTER TABLE t ADD COLUMN b",
        "COMMIT",
        "PRAGMA foreign_keys=on",
    ];
    assert_eq!(run(&mut client, &migration), json!([null, null, null, null, null]));
}

#[test]
fn a_sequence_with_a_transaction_is_one_member() {
    let server = Server::start();
    let mut client = table(&server);
    let before = server.database.stats().committed;
    let sql = "BEGIN; INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); COMMIT;";
    assert_eq!(client.one(json!({"type": "sequence", "sql": sql}))["type"], "ok");
    assert_eq!(server.database.stats().committed - before, 1);
    assert_eq!(client.column("SELECT count(*) FROM t"), ["2"]);
}

#[test]
fn one_failing_among_a_thousand_fails_alone() {
    let server = Server::start();
    table(&server);
    let workers: Vec<_> = (0..8)
        .map(|worker| {
            let mut client = server.client();
            std::thread::spawn(move || {
                (0..125)
                    .filter(|number| {
                        let key =
                            if (worker, *number) == (3, 60) { -1 } else { worker * 125 + number };
                        let check = if key < 0 { "RAISE" } else { "" };
                        let sql = format!("INSERT INTO t VALUES ({key}){check}");
                        client.execute(&sql).is_ok()
                    })
                    .count()
            })
        })
        .collect();
    let committed: usize = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
    assert_eq!(committed, 999);
    assert_eq!(server.client().column("SELECT count(*) FROM t"), ["999"]);
}

#[test]
fn a_batch_that_only_reads_sees_one_snapshot() {
    let server = Server::start();
    let mut client = table(&server);
    let before = server.database.stats().committed;
    let result = client.batch(&[
        ("BEGIN TRANSACTION READONLY", Value::Null),
        ("SELECT count(*) FROM t", ok(0)),
        ("COMMIT", ok(1)),
        ("ROLLBACK", not(ok(2))),
    ]);
    assert_eq!(result["step_errors"], json!([null, null, null, null]));
    assert_eq!(server.database.stats().committed, before);
}
