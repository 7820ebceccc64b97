//! Transactions as plain data come to the same on every engine.

use std::sync::mpsc;

use groupcommit::{
    Failure, NotRun, Terms,
    sql::{Statement, Value},
};

use crate::places::{Place, on_every_engine};

on_every_engine!(
    statements_commit_together,
    values_come_back_as_they_went,
    one_of_a_thousand_fails_alone,
    every_way_of_submitting_does,
    what_runs_alone_commits_by_itself,
    a_closed_database_runs_nothing,
);

fn statements_commit_together(place: &Place) {
    place.table();
    let results = place
        .db
        .submit(vec![
            place.insert(1),
            place.insert(2),
            Statement::new("UPDATE t SET v = 'same'", []),
            Statement::new("SELECT id, v FROM t ORDER BY id DESC", []),
        ])
        .wait()
        .unwrap();
    let affected: Vec<u64> = results.iter().take(3).map(|result| result.rows_affected).collect();
    assert_eq!(affected, [1, 1, 2]);
    assert_eq!(results[3].columns, ["id", "v"]);
    assert_eq!(results[3].rows, [[2.into(), "same".into()], [1.into(), Value::from("same")]]);
    // All or none.
    place.db.submit(vec![place.insert(3), place.insert(1)]).wait().unwrap_err();
    assert_eq!(place.ids(), [1, 2]);
}

fn values_come_back_as_they_went(place: &Place) {
    let bytes = match place.engine.name() {
        "postgres" => "BYTEA",
        _ => "BLOB",
    };
    place.run(&format!(
        "CREATE TABLE v (i BIGINT, f DOUBLE PRECISION, t TEXT, b {bytes}, n TEXT, yes BOOLEAN)"
    ));
    let row = [
        i64::MIN.into(),
        0.1.into(),
        "caf\u{e9} 'quoted' \\ \u{1f600}".into(),
        vec![0_u8, 255, b'\'', b'\\'].into(),
        Value::Null,
        true.into(),
    ];
    let insert =
        place.statement("INSERT INTO v VALUES ({1}, {2}, {3}, {4}, {5}, {6})", row.clone());
    place.db.transact(vec![insert]).unwrap();
    let mut found = place.db.read(&Statement::new("SELECT i, f, t, b, n, yes FROM v", [])).unwrap();
    let mut found = found.rows.pop().unwrap();
    // An engine without the type keeps 1.
    let yes = found.pop().unwrap();
    assert!(matches!(yes, Value::Bool(true) | Value::Int(1)), "{yes:?}");
    assert_eq!(found, row[..5]);
}

fn one_of_a_thousand_fails_alone(place: &Place) {
    place.table();
    place.db.transact(vec![place.insert(500)]).unwrap();
    let tickets: Vec<_> = (1..=1_000).map(|id| place.db.submit(vec![place.insert(id)])).collect();
    for (id, ticket) in (1..).zip(tickets) {
        assert_eq!(ticket.wait().is_err(), id == 500, "{id}");
    }
    assert_eq!(place.ids(), (1..=1_000).collect::<Vec<_>>());
    assert!(place.db.stats().commits < 1_000, "nothing was merged");
}

fn every_way_of_submitting_does(place: &Place) {
    place.table();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let ticket = place.db.submit_async(vec![place.insert(1)]).await;
        ticket.await.unwrap();
    });
    place.db.try_submit(vec![place.insert(2)]).unwrap().wait().unwrap();
    let (tell, told) = mpsc::channel();
    place.db.submit_then(vec![place.insert(3)], move |result| {
        tell.send(result.map(|results| results[0].rows_affected)).unwrap();
    });
    assert_eq!(told.recv().unwrap().unwrap(), 1);
    let late = Terms::new().deadline(std::time::Duration::ZERO);
    let late = place.db.with(late).submit(vec![place.insert(4)]).wait();
    assert!(matches!(late, Err(Failure::NotRun(NotRun::DeadlinePassed))), "{late:?}");
    place.db.flush().unwrap();
    assert_eq!(place.ids(), [1, 2, 3]);
}

fn what_runs_alone_commits_by_itself(place: &Place) {
    place.table();
    let results = place.db.exclusive(vec![
        place.insert(1),
        Statement::new("SELECT v FROM t", []),
        Statement::new(
            if place.engine.name() == "mysql" { "OPTIMIZE TABLE t" } else { "VACUUM" },
            [],
        ),
    ]);
    let results = results.unwrap();
    assert_eq!(results[0].rows_affected, 1);
    assert_eq!(results[1].rows, [[Value::from("row 1")]]);
    place.db.exclusive(vec![place.insert(2), place.insert(1)]).unwrap_err();
    assert_eq!(place.ids(), [1, 2]);
}

fn a_closed_database_runs_nothing(place: &Place) {
    place.table();
    let ticket = place.db.submit(vec![place.insert(1)]);
    place.db.close().unwrap();
    ticket.wait().unwrap();
    let refused = place.db.submit(vec![place.insert(2)]).wait();
    assert!(matches!(refused, Err(Failure::NotRun(NotRun::Closed))), "{refused:?}");
    let refused = place.db.read(&Statement::new("SELECT 1", []));
    assert!(matches!(refused, Err(Failure::NotRun(NotRun::Closed))), "{refused:?}");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let refused = runtime.block_on(place.db.read_async(&Statement::new("SELECT 1", [])));
    assert!(matches!(refused, Err(Failure::NotRun(NotRun::Closed))), "{refused:?}");
}
