//! Blocks of code that leave something behind for their neighbours: deferred constraints, a
//! connection on which nothing is prepared any more.

use groupcommit_postgres::{Database, Error, Statement, StatementResult, Ticket, Value};

use crate::{
    server::{ids, insert, open, shared},
    together::{code, in_one_group},
};

fn run(db: &Database, sql: &str) -> Ticket<Vec<StatementResult>, Error> {
    db.submit_statements(vec![Statement::new(sql, [])])
}

#[test]
fn what_a_block_defers_is_charged_to_it_and_is_deferred_for_nobody_else() {
    let then = |then: &str| format!("DO $$ BEGIN SET CONSTRAINTS ALL DEFERRED; {then} END $$");
    deferred_for_itself_alone("block", "SELECT 1", then);
}

#[test]
fn what_a_function_defers_is_charged_to_its_caller_and_is_deferred_for_nobody_else() {
    let function = "CREATE FUNCTION later(sql text) RETURNS void LANGUAGE plpgsql AS \
                    $$ BEGIN set  constraints ALL DEFERRED; EXECUTE sql; END $$";
    let then = |then: &str| format!("SELECT later($${then}$$)");
    deferred_for_itself_alone("function", function, then);
}

/// In a database of its own, where no constraint is checked at the commit only. `defers` says how to
/// defer all, and then to run something.
fn deferred_for_itself_alone(kind: &str, prepare: &str, defers: impl Fn(&str) -> String) {
    let name = format!("{kind}_{}", std::process::id());
    shared().sql(&format!("CREATE DATABASE {name}")).unwrap();
    let url = format!("postgres://postgres@127.0.0.1:{}/{name}", shared().port());
    let db = Database::open(&url).unwrap();
    db.exclusive(|alone| {
        alone.batch(
            "CREATE TABLE t (id bigint PRIMARY KEY, v text NOT NULL); \
             CREATE TABLE child (of bigint REFERENCES t DEFERRABLE)",
        )
    })
    .unwrap();
    run(&db, prepare).wait().unwrap();
    let before = db.stats();
    let (many, leaves, fails, repairs, whole) = in_one_group(&db, || {
        let many: Vec<_> = (100..200).map(|id| db.submit_statements(vec![insert(id)])).collect();
        (
            many,
            run(&db, &defers("INSERT INTO child VALUES (1);")),
            run(&db, "INSERT INTO child VALUES (1)"),
            db.submit_statements(vec![insert(1)]),
            run(&db, &defers("INSERT INTO child VALUES (2); INSERT INTO t VALUES (2, '');")),
        )
    });
    many.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
    assert_eq!(code(leaves.wait()), "23503");
    assert_eq!(code(fails.wait()), "23503");
    repairs.wait().unwrap();
    whole.wait().unwrap();
    // The next one too finds it as it is on a new connection.
    let [whole, fails] = in_one_group(&db, || {
        [run(&db, &defers("DELETE FROM t WHERE id = 0;")), run(&db, "INSERT INTO child VALUES (3)")]
    });
    whole.wait().unwrap();
    assert_eq!(code(fails.wait()), "23503");
    let after = db.stats();
    let groups = after.group_transactions.count - before.group_transactions.count;
    assert!(after.commits - before.commits <= groups, "{after:?}");
    assert_eq!(ids(&db), [1, 2].into_iter().chain(100..200).collect::<Vec<_>>());
    db.close().unwrap();
    shared().sql(&format!("DROP DATABASE {name} WITH (FORCE)")).unwrap();
}

#[test]
fn who_finds_nothing_prepared_any_more_runs_again_once_on_another_connection() {
    let db = open();
    db.exclusive(|alone| {
        alone.batch(
            "CREATE TYPE mood AS ENUM ('well'); CREATE TYPE state AS ENUM ('there'); \
             INSERT INTO t VALUES (0, '0')",
        )
    })
    .unwrap();
    let count = |ty: &str, label: &str| {
        let sql = format!(
            "UPDATE t SET v = (v::int + 1)::text WHERE id = 0 RETURNING v::int, '{label}'::{ty}"
        );
        vec![Statement::new(sql, [])]
    };
    let counted =
        |ticket: Ticket<Vec<StatementResult>, Error>| match ticket.wait().unwrap()[0].rows[0][0] {
            Value::Int(number) => number,
            ref other => panic!("{other:?}"),
        };
    // The client prepares for itself how to ask for a type.
    assert_eq!(counted(db.submit_statements(count("mood", "well"))), 1);
    run(&db, "DO $$ BEGIN DEALLOCATE ALL; END $$").wait().unwrap();
    // In front of, beside and behind what was prepared and is not any more.
    let tickets: Vec<_> = in_one_group(&db, || {
        (0..6)
            .map(|place| if place % 2 == 0 { ("state", "there") } else { ("mood", "well") })
            .map(|(ty, label)| db.submit_statements(count(ty, label)))
            .collect()
    });
    assert_eq!(tickets.into_iter().map(counted).collect::<Vec<_>>(), (2..8).collect::<Vec<_>>());
    // Between others, all of whom were prepared.
    let [first, block, last] = in_one_group(&db, || {
        [
            count("mood", "well"),
            vec![Statement::new(
                "DO $$ BEGIN DEALLOCATE ALL; UPDATE t SET v = (v::int + 1)::text; END $$",
                [],
            )],
            count("state", "there"),
        ]
        .map(|plan| db.submit_statements(plan))
    });
    assert_eq!(counted(first), 8);
    block.wait().unwrap();
    assert_eq!(counted(last), 10);
    assert_eq!(counted(db.submit_statements(count("mood", "well"))), 11);
    db.close().unwrap();
}
