//! Reads over a bounded number of connections.
#![expect(missing_docs, reason = "the name of a case says what it tests")]

use std::{pin::pin, thread, time::Duration};

use groupcommit_remote::Database;
use groupcommit_statement::{Statement, Value};
use tokio::runtime::Builder;

use super::{DatabaseOf, Remote, open};

fn numbers<S: Remote>(to: i64) -> Statement {
    Statement::new(S::SQL.numbers, [to.into()])
}

pub fn rows_arrive_as_a_stream<S: Remote>() {
    let db = open::<S>();
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut rows = pin!(db.read_rows(&numbers::<S>(100_000))).await.unwrap();
        assert_eq!(rows.columns(), ["n"]);
        for expected in 1..=1_000 {
            assert_eq!(rows.next().await.unwrap().unwrap(), [Value::Int(expected)]);
        }
        drop(rows); // the connection serves on
        assert_eq!(db.read_async(&numbers::<S>(3)).await.unwrap().rows.len(), 3);
    });
}

pub fn many_readers_share_few_connections<S: Remote>() {
    let url = S::url_through(S::port());
    let db: DatabaseOf<S> = Database::options().readers(2).open(&url).unwrap();
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                for to in 1..20 {
                    let rows = db.read(&numbers::<S>(to)).unwrap().rows;
                    assert_eq!(rows.len(), usize::try_from(to).unwrap());
                }
            });
        }
    });
    assert_eq!(S::connections(&url), 3);
}

pub fn a_read_on_a_thread_of_a_runtime_is_served_by_that_runtime<S: Remote>() {
    let db = open::<S>();
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let read = |db: DatabaseOf<S>| async move { db.read(&numbers::<S>(3)).unwrap().rows.len() };
    let forever = Duration::from_mins(1);
    runtime.block_on(async {
        for _ in 0..2 {
            let read = tokio::time::timeout(forever, tokio::spawn(read(db.clone())));
            assert_eq!(read.await.expect("it is served").unwrap(), 3);
        }
    });
    // Its connections end with a runtime, and others take their places.
    runtime.shutdown_background();
    assert_eq!(db.read(&numbers::<S>(3)).unwrap().rows.len(), 3);
}
