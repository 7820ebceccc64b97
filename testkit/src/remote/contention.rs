//! Other writers of the same rows.
#![expect(missing_docs, reason = "the name of a case says what it tests")]

use std::thread;

use groupcommit_remote::Database;
use groupcommit_statement::Statement;

use super::{DatabaseOf, Remote, ids, insert};

pub fn deadlocks_run_again_until_each_has_counted_once<S: Remote>() {
    let url = S::url_through(S::port());
    let db: DatabaseOf<S> = Database::open(&url).unwrap();
    let zero = |id: i64| Statement::new(S::SQL.insert, [id.into(), "0".into()]);
    db.submit_statements(vec![zero(1), zero(2)]).wait().unwrap();
    let add = |id: i64| Statement::new(S::SQL.add, [id.into()]);
    let count = |plan: [Statement; 2]| {
        let db: DatabaseOf<S> = Database::open(&url).unwrap();
        for _ in 0..20 {
            let tickets: Vec<_> = (0..5).map(|_| db.submit_statements(plan.to_vec())).collect();
            tickets.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
        }
    };
    thread::scope(|scope| {
        for plan in [[add(1), add(2)], [add(2), add(1)]] {
            let count = &count;
            scope.spawn(move || count(plan));
        }
    });
    // Each row was counted up by both, in whatever order they reached it.
    let rows = db.read(&Statement::new("SELECT v FROM t ORDER BY id", [])).unwrap().rows;
    assert_eq!(rows, [["200".into()], ["200".into()]] as [[groupcommit_statement::Value; 1]; 2]);
}

pub fn a_row_that_another_holds_is_waited_for<S: Remote>() {
    let url = S::url_through(S::port());
    let [db, other]: [DatabaseOf<S>; 2] = [(); 2].map(|()| Database::open(&url).unwrap());
    db.submit_statements(vec![insert::<S>(1)]).wait().unwrap();
    let holds = other.submit(|tx| tx.run(&[insert::<S>(2)]));
    // The same key: decided by the other's commit, whichever comes first.
    let ticket = db.submit_statements(vec![insert::<S>(2)]);
    assert!(holds.wait().is_ok() ^ ticket.wait().is_ok());
    assert_eq!(ids(&db), [1, 2]);
}
