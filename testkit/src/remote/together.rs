//! Transactions of one group.
#![expect(missing_docs, reason = "the name of a case says what it tests")]

use groupcommit_core::{Failure, Rejected};
use groupcommit_remote::Error;
use groupcommit_statement::Value;

use super::{DatabaseOf, Remote, code, ids, in_one_group, insert, open};

pub fn one_plan_failing_among_a_thousand_fails_alone_and_the_others_take_one_commit<S: Remote>() {
    let db = open::<S>();
    let before = db.stats();
    one_failing_among_a_thousand::<S>(&db);
    let after = db.stats();
    assert_eq!(after.committed - before.committed, 1_000); // one of which held the others up
    // Sending takes time, and a group has no more than so much.
    let groups = after.group_transactions.count - before.group_transactions.count;
    assert!(after.commits - before.commits <= groups, "{after:?}");
    assert_eq!(after.flushes, before.flushes);
}

/// Of a thousand plans one fails, and the others do not.
pub fn one_failing_among_a_thousand<S: Remote>(db: &DatabaseOf<S>) {
    let tickets: Vec<_> = in_one_group(db, || {
        (0..1_000)
            .map(|id| db.submit_statements(vec![insert::<S>(if id == 500 { 499 } else { id })]))
            .collect()
    });
    for (id, ticket) in (0_i64..).zip(tickets) {
        let result = ticket.wait();
        if id == 500 {
            assert_eq!(code::<S, _>(result), S::SQL.duplicate);
        } else {
            let results = result.unwrap();
            assert_eq!((results.len(), results[0].rows_affected), (1, 1));
        }
    }
    assert_eq!(ids(db), (0..1_000).filter(|&id| id != 500).collect::<Vec<_>>());
}

pub fn plans_and_closures_share_a_group<S: Remote>() {
    let db = open::<S>();
    let count = || db.submit(|tx| tx.query("SELECT count(*) FROM t", []));
    let (plan, closure, bad, last) = in_one_group(&db, || {
        (
            db.submit_statements(vec![insert::<S>(1)]),
            count(),
            db.submit_statements(vec![insert::<S>(1)]),
            count(),
        )
    });
    assert_eq!(plan.wait().unwrap()[0].rows_affected, 1);
    assert_eq!(closure.wait().unwrap(), [[Value::Int(1)]]);
    assert_eq!(code::<S, _>(bad.wait()), S::SQL.duplicate);
    assert_eq!(last.wait().unwrap(), [[Value::Int(1)]]);
}

pub fn an_exclusive_that_leaves_a_transaction_open_is_rejected_and_undone<S: Remote>() {
    let db = open::<S>();
    let left = db.exclusive(|alone| {
        alone.batch("START TRANSACTION")?;
        alone.run(&insert::<S>(1))
    });
    match left {
        Err(Failure::Rejected(Rejected::Engine(cause))) => {
            assert!(matches!(cause.downcast_ref::<Error<S::Protocol>>(), Some(Error::LeftOpen)));
        }
        other => panic!("{other:?}"),
    }
    db.submit_statements(vec![insert::<S>(1)]).wait().unwrap();
    assert_eq!(ids(&db), [1]);
}
