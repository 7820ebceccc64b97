//! Reads over a bounded number of connections.

use std::{pin::pin, thread};

use groupcommit_postgres::{Database, Error, Failure, Rejected, Statement, Value};

use crate::server::{insert, open, schema, shared};

fn numbers(to: i64) -> Statement {
    Statement::new("SELECT n::int8 FROM generate_series(1, $1::int8) AS n", [to.into()])
}

#[test]
fn rows_arrive_as_a_stream() {
    let db = open();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut rows = pin!(db.read_rows(&numbers(100_000))).await.unwrap();
        assert_eq!(rows.columns(), ["n"]);
        for expected in 1..=1_000 {
            assert_eq!(rows.next().await.unwrap().unwrap(), [Value::Int(expected)]);
        }
        drop(rows); // the connection serves on
        assert_eq!(db.read_async(&numbers(3)).await.unwrap().rows.len(), 3);
    });
}

#[test]
fn many_readers_share_few_connections() {
    let url = format!("{}&application_name=many_readers", schema());
    let db = Database::options().readers(2).open(&url).unwrap();
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                for to in 1..20 {
                    let rows = db.read(&numbers(to)).unwrap().rows;
                    assert_eq!(rows.len(), usize::try_from(to).unwrap());
                }
            });
        }
    });
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'many_readers'";
    assert_eq!(shared().sql(sql).unwrap().trim(), "3");
}

#[test]
fn a_read_writes_nothing_and_goes_on_after_its_connection_was_ended() {
    let url = format!("{}&application_name=ended_readers", schema());
    let db = Database::options().readers(1).open(&url).unwrap();
    db.submit_statements(vec![insert(1)]).wait().unwrap();
    let refused = db.read(&insert(2));
    match refused {
        Err(Failure::Rejected(Rejected::Caller(Error::Server(error)))) => {
            assert_eq!(error.code().unwrap().code(), "25006");
        }
        other => panic!("{other:?}"),
    }
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE application_name = 'ended_readers'";
    assert_eq!(shared().sql(end).unwrap().trim(), "2");
    assert_eq!(db.read(&numbers(5)).unwrap().rows.len(), 5);
    db.submit_statements(vec![insert(3)]).wait().unwrap();
    assert_eq!(crate::server::ids(&db), [1, 3]);
}
