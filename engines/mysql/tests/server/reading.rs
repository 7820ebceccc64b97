//! Reads over a bounded number of connections.

use std::{
    future::pending,
    sync::{Mutex, mpsc},
    thread,
};

use groupcommit_mysql::{Database, Error, Failure, Rejected, Statement, mysql_async};
use tokio::task::JoinHandle;

use crate::server::{database, insert, open, shared};

fn numbers(to: i64) -> Statement {
    let sql = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < ?) \
               SELECT i FROM n";
    Statement::new(sql, [to.into()])
}

#[test]
fn a_read_writes_nothing_and_goes_on_after_its_connection_was_ended() {
    let url = database();
    let name = url.rsplit('/').next().unwrap();
    let db = Database::options().readers(1).open(&url).unwrap();
    db.submit_statements(vec![insert(1)]).wait().unwrap();
    match db.read(&insert(2)) {
        Err(Failure::Rejected(Rejected::Caller(Error::Server(mysql_async::Error::Server(
            said,
        ))))) => assert_eq!(said.code, 1792),
        other => panic!("{other:?}"),
    }
    let all = format!("SELECT id FROM information_schema.processlist WHERE db = '{name}'");
    let connections = shared().sql(&all).unwrap();
    assert_eq!(connections.lines().count(), 2);
    for id in connections.lines() {
        shared().sql(&format!("KILL {id}")).unwrap();
    }
    assert_eq!(db.read(&numbers(5)).unwrap().rows.len(), 5);
    db.submit_statements(vec![insert(3)]).wait().unwrap();
    assert_eq!(crate::server::ids(&db), [1, 3]);
}

#[test]
fn a_read_goes_on_after_all_connections_were_ended_at_once() {
    let url = database();
    let name = url.rsplit('/').next().unwrap();
    let db = Database::options().readers(3).open(&url).unwrap();
    groupcommit_core::block_on(async {
        let mut open = Vec::new();
        for _ in 0..3 {
            open.push(db.read_rows(&numbers(1)).await.unwrap());
        }
        // To their ends, behind which their connections are free.
        for mut rows in open {
            while rows.next().await.unwrap().is_some() {}
        }
    });
    let all = format!("SELECT id FROM information_schema.processlist WHERE db = '{name}'");
    let connections = shared().sql(&all).unwrap();
    for id in connections.lines() {
        shared().sql(&format!("KILL {id}")).unwrap();
    }
    assert_eq!(db.read(&numbers(5)).unwrap().rows.len(), 5);
}

#[test]
fn a_read_that_is_given_up_ends_on_the_server_and_the_next_has_its_place() {
    let url = database();
    let name = url.rsplit('/').next().unwrap();
    let db = Database::options().readers(1).open(&url).unwrap();
    let count = |what: &str| {
        let sql = format!(
            "SELECT count(*) FROM information_schema.processlist WHERE db = '{name}' AND {what}"
        );
        shared().sql(&sql).unwrap().trim().to_owned()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let give_up = |read: JoinHandle<()>| {
        while count("info LIKE 'SELECT SLEEP%'") == "0" {
            assert!(!read.is_finished());
        }
        read.abort();
        assert!(runtime.block_on(read).unwrap_err().is_cancelled());
        assert_eq!(db.read(&numbers(5)).unwrap().rows.len(), 5);
        // The server lists it until it has told the client.
        while count("info LIKE 'SELECT SLEEP%'") != "0" {}
    };
    // More than is read ahead.
    let many = "SELECT SLEEP(seq > 20000), REPEAT('x', 1000) FROM seq_1_to_30000";
    for sql in ["SELECT SLEEP(100)", many] {
        let statement = Statement::new(sql, []);
        let reading = db.clone();
        give_up(runtime.spawn(async move {
            let rows = reading.read_rows(&statement).await.unwrap();
            pending::<()>().await;
            drop(rows);
        }));
        // The one that writes, and the one that reads.
        while count("true") != "2" {}
    }
    // Which does not look whether its client is still there.
    let busy = Statement::new("SELECT SLEEP(0), BENCHMARK(1000000000000, 1 + 1)", []);
    let reading = db.clone();
    give_up(runtime.spawn(async move { drop(reading.read_async(&busy).await) }));
    while count("true") != "2" {}
    // While the server is asked about the text.
    let other = Database::open(&url).unwrap();
    let (locked, is_locked) = mpsc::channel();
    let (unlock, is_over) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let is_over = Mutex::new(is_over);
        scope.spawn(move || {
            other.exclusive(move |alone| {
                alone.batch("LOCK TABLES t WRITE")?;
                locked.send(()).unwrap();
                is_over.lock().unwrap().recv().unwrap_err();
                Ok::<_, Error>(())
            })
        });
        is_locked.recv().unwrap();
        let reading = db.clone();
        let read = Statement::new("SELECT SLEEP(0), t.* FROM t", []);
        give_up(runtime.spawn(async move { drop(reading.read_async(&read).await) }));
        drop(unlock);
    });
}

#[test]
fn a_thread_of_a_runtime_reads_however_often_and_however_much() {
    let db = open();
    for mut builder in
        [tokio::runtime::Builder::new_current_thread(), tokio::runtime::Builder::new_multi_thread()]
    {
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            for to in 1..200 {
                assert_eq!(db.read(&numbers(to)).unwrap().rows.len(), usize::try_from(to).unwrap());
            }
            let much = Statement::new("SELECT REPEAT('x', 1000) FROM seq_1_to_30000", []);
            assert_eq!(db.read(&much).unwrap().rows.len(), 30_000);
        });
    }
}

#[test]
fn rows_whose_runtime_ends_before_they_do_are_not_told_to_be_all() {
    let db = open();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let many = Statement::new("SELECT seq FROM seq_1_to_100000", []);
    let mut rows = runtime.block_on(db.read_rows(&many)).unwrap();
    runtime.shutdown_background();
    let end = groupcommit_core::block_on(async {
        loop {
            match rows.next().await {
                Ok(Some(_)) => {}
                end => break end,
            }
        }
    });
    assert!(matches!(end, Err(Error::Lost(_))), "{end:?}");
}
