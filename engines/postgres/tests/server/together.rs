//! Plans of one group: one failing, many failing, the order, results, deferred constraints.

use groupcommit_postgres::{Error, Failure, Rejected, Statement, Value};

pub(crate) use groupcommit_testkit::remote::in_one_group;

use crate::{
    conformance::Engine,
    server::{ids, insert, open},
};

pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, Failure<Error>>) -> String {
    groupcommit_testkit::remote::code::<Engine, T>(result)
}

#[test]
fn of_many_plans_that_fail_each_fails_alone_behind_savepoints() {
    let db = open();
    let before = db.stats();
    let tickets: Vec<_> = in_one_group(&db, || {
        (0..600)
            .map(|id| {
                let again = insert(if id % 3 == 2 { id - 1 } else { id });
                db.submit_statements(vec![
                    Statement::new("INSERT INTO t VALUES ($1, 'first')", [(10_000 + id).into()]),
                    again,
                ])
            })
            .collect()
    });
    for (id, ticket) in (0..).zip(tickets) {
        let result = ticket.wait();
        if id % 3 == 2 {
            assert_eq!(code(result), "23505");
        } else {
            assert_eq!(result.unwrap().len(), 2);
        }
    }
    let good = || (0..600).filter(|id| id % 3 != 2);
    assert_eq!(ids(&db), good().chain(good().map(|id| 10_000 + id)).collect::<Vec<_>>());
    let after = db.stats();
    let groups = after.group_transactions.count - before.group_transactions.count;
    let commits = after.commits - before.commits;
    // No group commits twice, and once many have failed none has more than 50 savepoints.
    assert!(commits <= groups && (8..200).contains(&commits), "{commits} commits");
}

#[test]
fn what_is_sent_behind_a_failure_runs_again_once_and_in_its_place() {
    let db = open();
    db.submit_statements(vec![Statement::new("INSERT INTO t VALUES (0, ',')", [])]).wait().unwrap();
    let append = |place: i64| {
        let sql = "UPDATE t SET v = v || $1 || ',' WHERE id = 0 RETURNING v";
        Statement::new(sql, [place.to_string().into()])
    };
    let fails = |place: i64| place % 7 == 3;
    let tickets: Vec<_> = in_one_group(&db, || {
        (0..300)
            .map(|place| match (fails(place), place % 5) {
                // What it did before it failed goes too.
                (true, 0) => db.submit(move |tx| tx.run(&[append(place), insert(0)])),
                (true, _) => db.submit_statements(vec![append(place), insert(0)]),
                (false, 0) => db.submit(move |tx| tx.run(&[append(place)])),
                (false, _) => db.submit_statements(vec![append(place)]),
            })
            .collect()
    });
    let mut expected = ",".to_owned();
    for (place, ticket) in (0..).zip(tickets) {
        let result = ticket.wait();
        if fails(place) {
            assert_eq!(code(result), "23505", "{place}");
        } else {
            expected.extend([place.to_string().as_str(), ","]);
            let rows = result.unwrap().into_iter().map(|result| result.rows).collect::<Vec<_>>();
            assert_eq!(rows, [[[expected.as_str().into()]]], "{place}");
        }
    }
    // The next, where nobody fails, take fewer and fewer commits again.
    for _ in 0..2 {
        let tickets: Vec<_> = in_one_group(&db, || {
            (0..300).map(|place| db.submit_statements(vec![append(place)])).collect()
        });
        tickets.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
    }
}

#[test]
fn plans_run_in_submission_order_and_get_their_own_results() {
    let db = open();
    db.submit_statements(vec![insert(0)]).wait().unwrap();
    let append = "UPDATE t SET v = v || $1 || ',' WHERE id = 0 RETURNING length(v), v, $2::bool, \
                  NULL, 1.5::float8, '\\x00ff'::bytea";
    let tickets: Vec<_> = in_one_group(&db, || {
        (0..500_i64)
            .map(|place| {
                let params = [place.to_string().into(), (place % 2 == 0).into()];
                db.submit_statements(vec![Statement::new(append, params)])
            })
            .collect()
    });
    let mut expected = "row 0".to_owned();
    for (place, ticket) in (0..).zip(tickets) {
        expected.extend([place.to_string().as_str(), ","]);
        let mut results = ticket.wait().unwrap();
        let row = results.remove(0).rows.remove(0);
        let length = i64::try_from(expected.len()).unwrap();
        let bytes = Value::Bytes(vec![0, 255]);
        let values: Vec<Value> = vec![
            length.into(),
            expected.as_str().into(),
            (place % 2 == 0).into(),
            Value::Null,
            1.5.into(),
            bytes,
        ];
        assert_eq!(row, values);
    }
}

#[test]
fn a_deferred_constraint_is_charged_to_the_one_who_left_it_and_no_neighbour_repairs_it() {
    let db = open();
    db.exclusive(|alone| {
        alone.batch(
            "CREATE TABLE child (id int, of bigint REFERENCES t DEFERRABLE INITIALLY DEFERRED)",
        )
    })
    .unwrap();
    let child = |of: i64| Statement::new("INSERT INTO child VALUES (1, $1)", [of.into()]);
    let [left, repairs, whole] = in_one_group(&db, || {
        [vec![child(1)], vec![insert(1)], vec![child(2), insert(2)]]
            .map(|plan| db.submit_statements(plan))
    });
    assert_eq!(code(left.wait()), "23503");
    repairs.wait().unwrap();
    whole.wait().unwrap();
    assert_eq!(ids(&db), [1, 2]);
}

#[test]
fn a_closure_that_makes_nothing_of_an_error_is_rejected_all_the_same() {
    let db = open();
    let [fails, follows] = in_one_group(&db, || {
        [1, 2].map(|id| {
            db.submit(move |tx| {
                tx.run(&[insert(id)])?;
                if id == 1 {
                    assert!(tx.run(&[insert(1)]).is_err());
                }
                Ok::<_, Error>(id)
            })
        })
    });
    let failed = fails.wait();
    assert!(matches!(failed, Err(Failure::Rejected(Rejected::Engine(_)))), "{failed:?}");
    assert_eq!(follows.wait().unwrap(), 2);
    assert_eq!(ids(&db), [2]);
}

#[test]
fn a_schema_that_changes_under_prepared_statements_is_followed() {
    let db = open();
    let all = || vec![Statement::new("SELECT * FROM t", [])];
    db.submit_statements(vec![insert(1)]).wait().unwrap();
    assert_eq!(db.submit_statements(all()).wait().unwrap()[0].columns.len(), 2);
    let add = Statement::new("ALTER TABLE t ADD COLUMN w int DEFAULT 7", []);
    db.submit_statements(vec![add]).wait().unwrap();
    let results = db.submit_statements(all()).wait().unwrap();
    assert_eq!(results[0].rows, [[Value::Int(1), "row 1".into(), Value::Int(7)]]);
}

#[test]
fn a_deferred_constraint_that_a_member_drops_is_charged_to_nobody() {
    let db = open();
    let run = |sql: &str| db.submit_statements(vec![Statement::new(sql, [])]);
    let create = "CREATE TABLE child (of bigint REFERENCES t DEFERRABLE INITIALLY DEFERRED)";
    let [made, left, dropped, inserted] = in_one_group(&db, || {
        [
            run(create),
            run("INSERT INTO child VALUES (7)"),
            run("DROP TABLE child"),
            db.submit_statements(vec![insert(1)]),
        ]
    });
    made.wait().unwrap();
    assert_eq!(code(left.wait()), "23503");
    dropped.wait().unwrap();
    inserted.wait().unwrap();
    assert_eq!(ids(&db), [1]);
}

#[test]
fn a_statement_to_prepare_behind_a_long_answer_waits_for_nobody() {
    let db = open();
    let series = "SELECT n::int8, repeat('x', 1000) FROM generate_series(1, 20000) AS n";
    db.submit_statements(vec![Statement::new(series, [])]).wait().unwrap();
    // The first is prepared by now and is not waited for; the second has to be prepared.
    let plan = vec![Statement::new(series, []), Statement::new("SELECT 1::int8", [])];
    let results = db.submit_statements(plan).wait().unwrap();
    assert_eq!((results[0].rows.len(), &results[1].rows[0][0]), (20_000, &Value::Int(1)));
}
