//! Other writers of the same rows: what the server asks to be run again is.

use std::thread;

use groupcommit_postgres::{Database, Statement, Value};

use crate::server::schema;

fn add(id: i64) -> Statement {
    let sql = "UPDATE t SET v = (v::int + 1)::text WHERE id = $1 RETURNING v::int";
    Statement::new(sql, [id.into()])
}

/// Two databases at once, each with so many transactions in flight; returns what they counted.
fn count_together(url: &str, plans: &[Vec<Statement>; 2], rounds: usize) -> Vec<i64> {
    let count = |plan: &Vec<Statement>| {
        let db = Database::open(url).unwrap();
        let mut counted = Vec::new();
        for _ in 0..rounds {
            let tickets: Vec<_> = (0..5).map(|_| db.submit_statements(plan.clone())).collect();
            for ticket in tickets {
                match ticket.wait().unwrap()[0].rows[0][0] {
                    Value::Int(number) => counted.push(number),
                    ref other => panic!("{other:?}"),
                }
            }
        }
        counted
    };
    let mut counted = thread::scope(|scope| {
        let threads = plans.each_ref().map(|plan| scope.spawn(move || count(plan)));
        threads.map(|thread| thread.join().unwrap()).concat()
    });
    counted.sort_unstable();
    counted
}

fn zeroes(url: &str) {
    let zero = |id: i64| Statement::new("INSERT INTO t VALUES ($1, '0')", [id.into()]);
    let db = Database::open(url).unwrap();
    db.submit_statements(vec![zero(1), zero(2)]).wait().unwrap();
}

#[test]
fn serialization_failures_run_again_until_each_has_counted_once() {
    let url = format!("{}%20-c%20default_transaction_isolation%3Dserializable", schema());
    zeroes(&url);
    let counted = count_together(&url, &[vec![add(1)], vec![add(1)]], 20);
    assert_eq!(counted, (1..=200).collect::<Vec<_>>());
}
