//! Reads, without blocking and over a bounded number of connections.

use groupcommit::sql::{Database, Statement, Value};

use crate::places::{Place, on_every_engine};

on_every_engine!(
    rows_arrive_as_they_are_taken,
    a_thousand_reads_at_once_use_few_connections,
    a_read_sees_what_was_acknowledged,
    closing_does_not_wait_for_rows_that_nobody_takes,
);

/// The numbers from 1 to 100,000.
fn numbers(place: &Place) -> Statement {
    let recursive = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) \
                     SELECT i FROM n";
    // MariaDB stops at a thousand unless told otherwise.
    let sequence = "SELECT seq FROM seq_1_to_100000";
    Statement::new(if place.engine.name() == "mysql" { sequence } else { recursive }, [])
}

fn rows_arrive_as_they_are_taken(place: &Place) {
    let db = Database::options().readers(1).connect(&place.url).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut rows = db.read_rows(&numbers(place)).await.unwrap();
        assert_eq!(rows.columns().len(), 1);
        for expected in 1..=1_000_i64 {
            assert_eq!(rows.next().await.unwrap().unwrap(), [Value::Int(expected)]);
        }
        drop(rows); // the connection serves on
        let all = db.read_async(&numbers(place)).await.unwrap();
        assert_eq!(all.rows.len(), 100_000);
        let none = Statement::new("SELECT 1 AS one WHERE 1 = 0", []);
        let none = db.read_async(&none).await.unwrap();
        assert_eq!((none.columns, none.rows), (vec!["one".to_owned()], Vec::new()));
    });
    let three = Statement::new("SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3", []);
    let blocking = db.read(&three).unwrap();
    assert_eq!(runtime.block_on(db.read_async(&three)).unwrap(), blocking);
    db.close().unwrap();
}

fn a_thousand_reads_at_once_use_few_connections(place: &Place) {
    place.table();
    place.db.transact(vec![place.insert(1)]).unwrap();
    let url = match place.engine.name() {
        "postgres" => format!("{}&application_name=a_thousand_reads", place.url),
        _ => place.url.clone(),
    };
    let db = Database::options().readers(3).connect(&url).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let reads: Vec<_> = (0..1_000)
            .map(|_| {
                let db = db.clone();
                tokio::spawn(
                    async move { db.read_async(&Statement::new("SELECT id FROM t", [])).await },
                )
            })
            .collect();
        for read in reads {
            assert_eq!(read.await.unwrap().unwrap().rows, [[Value::Int(1)]]);
        }
    });
    #[cfg(feature = "postgres")]
    if place.engine.name() == "postgres" {
        let sql =
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'a_thousand_reads'";
        let servers = crate::places::servers::shared().unwrap();
        // Three read, and one writes.
        assert_eq!(servers.sql(sql).unwrap().trim(), "4");
    }
    db.close().unwrap();
}

fn closing_does_not_wait_for_rows_that_nobody_takes(place: &Place) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let rows = runtime.block_on(place.db.read_rows(&numbers(place))).unwrap();
    place.db.close().unwrap();
    drop(rows);
}

fn a_read_sees_what_was_acknowledged(place: &Place) {
    place.table();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let count = Statement::new("SELECT count(*) FROM t", []);
    for id in 1..=50 {
        place.db.submit(vec![place.insert(id)]).wait().unwrap();
        let expected = [[Value::Int(id)]];
        assert_eq!(place.db.read(&count).unwrap().rows, expected);
        assert_eq!(runtime.block_on(place.db.read_async(&count)).unwrap().rows, expected);
        assert_eq!(place.db.read_durable(&count).unwrap().rows, expected);
    }
}

/// As many at once as there are connections, and more than a core would have by itself.
#[cfg(feature = "sqlite")]
#[test]
fn rows_that_are_kept_open_leave_a_connection_for_a_read() {
    let place = crate::places::sqlite();
    let cores = std::thread::available_parallelism().unwrap().get();
    let open = 2 * cores + 4;
    let db = Database::options().readers(open + 1).connect(&place.url).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut kept = Vec::new();
        for _ in 0..open {
            kept.push(db.read_rows(&numbers(&place)).await.unwrap());
        }
        let one = db.read_async(&Statement::new("SELECT 1", [])).await.unwrap();
        assert_eq!(one.rows, [[Value::Int(1)]]);
    });
    db.close().unwrap();
}

#[cfg(feature = "sqlite")]
#[test]
fn a_read_that_nobody_waits_for_any_more_frees_its_connection() {
    let place = crate::places::sqlite();
    let db = Database::options().readers(1).connect(&place.url).unwrap();
    // A row now and then, so that one which is not stopped does not fill the memory.
    let endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
                   SELECT i FROM n WHERE i % 1000 = 0";
    let endless = Statement::new(endless, []);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        // Dropped before it has begun and, of so many, also afterwards.
        for turn in 0..100 {
            let mut read = std::pin::pin!(db.read_async(&endless));
            let waker = std::task::Waker::noop();
            let mut cx = std::task::Context::from_waker(waker);
            assert!(read.as_mut().poll(&mut cx).is_pending());
            (0..turn * 20).for_each(|_| std::thread::yield_now());
        }
        let one = db.read_async(&Statement::new("SELECT 1", [])).await.unwrap();
        assert_eq!(one.rows, [[Value::Int(1)]]);
    });
    db.close().unwrap();
}
