//! Other writers of the same rows: what the server asks to be run again is.

use std::thread;

use groupcommit_mysql::{Database, Statement, Value};

use crate::server::{database, ids, insert};

fn add(id: i64) -> Statement {
    Statement::new("UPDATE t SET v = v + 1 WHERE id = ?", [id.into()])
}

/// Databases at the same time, one for each URL, each with so many transactions in flight that count
/// up, and return what they counted.
pub(crate) fn count_together(urls: [&str; 2], plans: &[Vec<i64>; 2], rounds: usize) -> Vec<i64> {
    let count = |url: &str, rows: &[i64]| {
        let db = Database::open(url).unwrap();
        let mut counted = Vec::new();
        let look = Statement::new("SELECT CAST(v AS SIGNED) FROM t WHERE id = 1", []);
        let plan: Vec<Statement> =
            rows.iter().map(|id| add(*id)).chain(std::iter::once(look)).collect();
        for _ in 0..rounds {
            let tickets: Vec<_> = (0..5).map(|_| db.submit_statements(plan.clone())).collect();
            for ticket in tickets {
                match ticket.wait().unwrap().pop().unwrap().rows[0][0] {
                    Value::Int(number) => counted.push(number),
                    ref other => panic!("{other:?}"),
                }
            }
        }
        counted
    };
    let mut counted = thread::scope(|scope| {
        let threads = [0, 1].map(|index| {
            let (url, rows) = (urls[index], &plans[index]);
            scope.spawn(move || count(url, rows))
        });
        threads.map(|thread| thread.join().unwrap()).concat()
    });
    counted.sort_unstable();
    counted
}

pub(crate) fn zeroes(url: &str) -> Database {
    let zero = |id: i64| Statement::new("INSERT INTO t VALUES (?, '0')", [id.into()]);
    let db = Database::open(url).unwrap();
    db.submit_statements(vec![zero(1), zero(2)]).wait().unwrap();
    db
}

#[test]
fn deadlocks_run_again_until_each_has_counted_once() {
    let url = database();
    let db = zeroes(&url);
    let counted = count_together([&url, &url], &[vec![1, 2], vec![2, 1]], 20);
    assert_eq!(counted.len(), 200);
    let rows = db.read(&Statement::new("SELECT v FROM t ORDER BY id", [])).unwrap().rows;
    assert_eq!(rows, [["200".into()], ["200".into()]] as [[Value; 1]; 2]);
}

#[test]
fn a_row_that_another_holds_is_waited_for() {
    let url = database();
    let (db, other) = (Database::open(&url).unwrap(), Database::open(&url).unwrap());
    db.submit_statements(vec![insert(1)]).wait().unwrap();
    let holds = other.submit(|tx| tx.run(&[insert(2)]));
    // The same key: decided by the other's commit, whichever comes first.
    let ticket = db.submit_statements(vec![insert(2)]);
    assert!(holds.wait().is_ok() ^ ticket.wait().is_ok());
    assert_eq!(ids(&db), [1, 2]);
}
