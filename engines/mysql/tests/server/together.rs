//! Plans of one group: one failing, many failing, the order, results.

use std::{
    sync::{Mutex, mpsc},
    thread,
};

use groupcommit_mysql::{Database, Error, Failure, Statement, Value};

pub(crate) use groupcommit_testkit::remote::in_one_group;

use crate::{
    conformance::Engine,
    server::{database, ids, insert, open, shared},
};

pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, Failure<Error>>) -> u16 {
    groupcommit_testkit::remote::code::<Engine, T>(result).parse().unwrap()
}

/// "Duplicate entry".
pub(crate) const DUPLICATE: u16 = 1062;

#[test]
fn of_many_plans_that_fail_behind_their_first_statement_each_fails_alone() {
    let db = open();
    let before = db.stats();
    let tickets: Vec<_> = in_one_group(&db, || {
        (0..300)
            .map(|id| {
                let again = insert(if id % 3 == 2 { id - 1 } else { id });
                db.submit_statements(vec![
                    Statement::new("INSERT INTO t VALUES (?, 'first')", [(10_000 + id).into()]),
                    again,
                ])
            })
            .collect()
    });
    for (id, ticket) in (0..).zip(tickets) {
        let result = ticket.wait();
        if id % 3 == 2 {
            assert_eq!(code(result), DUPLICATE);
        } else {
            assert_eq!(result.unwrap().len(), 2);
        }
    }
    let good = || (0..300).filter(|id| id % 3 != 2);
    assert_eq!(ids(&db), good().chain(good().map(|id| 10_000 + id)).collect::<Vec<_>>());
    let after = db.stats();
    let groups = after.group_transactions.count - before.group_transactions.count;
    assert!(after.commits - before.commits <= groups, "{after:?}");
}

#[test]
fn plans_run_in_submission_order_and_get_their_own_results() {
    let db = open();
    db.submit_statements(vec![insert(0)]).wait().unwrap();
    let tickets: Vec<_> = in_one_group(&db, || {
        (0..500_i64)
            .map(|place| {
                let append = "UPDATE t SET v = CONCAT(v, ?, ',') WHERE id = 0";
                let look = "SELECT CHAR_LENGTH(v), v, ?, NULL, 1.5e0, x'00ff', 1.50 FROM t";
                db.submit_statements(vec![
                    Statement::new(append, [place.to_string().into()]),
                    Statement::new(look, [(place % 2 == 0).into()]),
                ])
            })
            .collect()
    });
    let mut expected = "row 0".to_owned();
    for (place, ticket) in (0..).zip(tickets) {
        expected.extend([place.to_string().as_str(), ","]);
        let mut results = ticket.wait().unwrap();
        assert_eq!(results[0].rows_affected, 1);
        let row = results.remove(1).rows.remove(0);
        let length = i64::try_from(expected.len()).unwrap();
        let values: Vec<Value> = vec![
            length.into(),
            expected.as_str().into(),
            Value::Int(i64::from(place % 2 == 0)),
            Value::Null,
            1.5.into(),
            Value::Bytes(vec![0, 255]),
            "1.50".into(),
        ];
        assert_eq!(row, values);
    }
}

#[test]
fn a_closure_may_go_on_behind_a_statement_that_failed_and_is_undone_when_it_gives_up() {
    let db = open();
    let [goes_on, gives_up] = in_one_group(&db, || {
        [(1, true), (10, false)].map(|(id, goes_on)| {
            db.submit(move |tx| {
                tx.run(&[insert(id)])?;
                let again = tx.run(&[insert(id + 1), insert(id), insert(id + 2)]);
                if goes_on { tx.run(&[insert(id + 3)]) } else { again }
            })
        })
    });
    goes_on.wait().unwrap();
    assert_eq!(code(gives_up.wait()), DUPLICATE);
    assert_eq!(ids(&db), [1, 2, 4]);
}

#[test]
fn a_schema_that_changes_is_followed() {
    let db = open();
    let all = || vec![Statement::new("SELECT * FROM t", [])];
    db.submit_statements(vec![insert(1)]).wait().unwrap();
    assert_eq!(db.submit_statements(all()).wait().unwrap()[0].columns, ["id", "v"]);
    db.exclusive(|alone| alone.batch("ALTER TABLE t ADD COLUMN w INT DEFAULT 7")).unwrap();
    let results = db.submit_statements(all()).wait().unwrap();
    assert_eq!(results[0].rows, [[Value::Int(1), "row 1".into(), Value::Int(7)]]);
    // And the engine's own table, when it is dropped under it.
    db.exclusive(|alone| alone.batch("DROP TABLE groupcommit_outcome")).unwrap();
    let lost = db.submit_statements(vec![Statement::new("INSERT INTO t VALUES (2, 'a', 1)", [])]);
    lost.wait().unwrap();
    assert_eq!(ids(&db), [1, 2]);
}

#[test]
fn the_record_is_a_few_rows_and_is_removed_whatever_became_of_the_connection() {
    let url = database();
    let name = url.rsplit('/').next().unwrap();
    let db = Database::open(&url).unwrap();
    let rows = || {
        let sql = format!("SELECT count(*) FROM {name}.groupcommit_outcome");
        shared().sql(&sql).unwrap().trim().parse::<u32>().unwrap()
    };
    let mut most = 0;
    for id in 0..60 {
        db.submit_statements(vec![insert(id)]).wait().unwrap();
        most = most.max(rows());
    }
    assert!((2..=20).contains(&most), "{most}");
    let all = format!("SELECT id FROM information_schema.processlist WHERE db = '{name}'");
    for id in shared().sql(&all).unwrap().lines() {
        shared().sql(&format!("KILL {id}")).unwrap();
    }
    db.close().unwrap();
    assert_eq!(rows(), 0);
}

#[test]
fn the_record_of_one_database_is_not_in_the_way_of_another() {
    let url = database();
    let name = url.rsplit('/').next().unwrap();
    let other = Database::open(&url).unwrap();
    let of_other =
        shared().sql(&format!("SELECT hex(pipeline) FROM {name}.groupcommit_outcome")).unwrap();
    let db = Database::open(&url).unwrap();
    let (locked, is_locked) = mpsc::channel();
    let (unlock, is_over) = mpsc::channel::<()>();
    let is_over = Mutex::new(is_over);
    let lock = format!(
        "START TRANSACTION; SELECT * FROM groupcommit_outcome WHERE pipeline = x'{}' \
         AND position = 0 FOR UPDATE",
        of_other.trim()
    );
    thread::scope(|scope| {
        let locking = scope.spawn(move || {
            other.exclusive(move |alone| {
                alone.batch(&lock)?;
                locked.send(()).unwrap();
                is_over.lock().unwrap().recv().unwrap_err();
                alone.batch("ROLLBACK")
            })
        });
        is_locked.recv().unwrap();
        for id in 0..40 {
            db.submit_statements(vec![insert(id)]).wait().unwrap();
        }
        drop(unlock);
        locking.join().unwrap().unwrap();
    });
}

#[test]
fn numbers_that_the_server_gave_out_are_told() {
    let db = open();
    db.exclusive(|alone| alone.batch("CREATE TABLE n (id INT AUTO_INCREMENT PRIMARY KEY, v INT)"))
        .unwrap();
    let add = |v: i64| Statement::new("INSERT INTO n (v) VALUES (?)", [v.into()]);
    let tickets =
        in_one_group(&db, || [1, 2, 3].map(|v| db.submit_statements(vec![add(v), add(v)])));
    let given: Vec<Option<i64>> = tickets
        .into_iter()
        .flat_map(|ticket| ticket.wait().unwrap())
        .map(|result| result.last_insert_id)
        .collect();
    assert_eq!(given, [1, 2, 3, 4, 5, 6].map(Some));
}
