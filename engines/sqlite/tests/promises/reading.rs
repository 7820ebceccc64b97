//! Promise 11: visibility.

use std::{sync::mpsc, thread, time::Duration};

use groupcommit_core::block_on;
use groupcommit_sqlite::{
    Database, Failure, NotRun, Rejected, Statement,
    rusqlite::{self, ErrorCode},
};

use crate::common::{Done, Scratch, code, hold, insert, neighbour};

fn count(test: &Scratch) -> i64 {
    test.db.read(|conn| conn.query_row("SELECT count(*) FROM t", (), |row| row.get(0))).unwrap()
}

#[test]
fn a_read_sees_every_transaction_whose_ticket_resolved_before() {
    let test = Scratch::with_table();
    let workers: Vec<_> = (0..4)
        .map(|worker| {
            let db = test.db.clone();
            thread::spawn(move || {
                for turn in 0..100_i64 {
                    let id = worker * 1_000 + turn;
                    neighbour(&db, id).wait().unwrap();
                    let there: bool = db
                        .read(|conn| {
                            conn.query_row("SELECT count(*) FROM t WHERE id = ?1", [id], |row| {
                                row.get(0)
                            })
                        })
                        .unwrap();
                    assert!(there, "{id}");
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(count(&test), 400);
}

#[test]
fn a_read_of_a_statement_leaves_nothing_behind() {
    let test = Scratch::with_table();
    let numbers = |sql: &str| {
        let mut numbers = Vec::new();
        let each = |row: &rusqlite::Row<'_>| {
            numbers.push(row.get::<_, i64>(0)?);
            Ok(numbers.len() < 2)
        };
        test.db.read_statement(&Statement::new(sql, []), each).map(|()| numbers)
    };
    // A transaction that stays open would keep its snapshot.
    assert_eq!(numbers("BEGIN").unwrap(), []);
    assert_eq!(numbers("SELECT count(*) FROM t").unwrap(), [0]);
    neighbour(&test.db, 1).wait().unwrap();
    assert_eq!(numbers("SELECT count(*) FROM t").unwrap(), [1]);
    numbers("PRAGMA case_sensitive_like = 1").unwrap();
    assert_eq!(numbers("SELECT 'a' LIKE 'A'").unwrap(), [1]);
    assert_eq!(numbers("VALUES (1), (2), (3)").unwrap(), [1, 2], "no more than is wanted");
    let refused = numbers("DELETE FROM t").unwrap_err().into_caller().unwrap();
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::ReadOnly));
    test.db.close().unwrap();
    assert!(matches!(numbers("SELECT 1"), Err(Failure::NotRun(NotRun::Closed))));
}

#[test]
fn a_read_is_one_snapshot() {
    let test = Scratch::with_table();
    neighbour(&test.db, 1).wait().unwrap();
    let counts = test
        .db
        .read(|conn| {
            let count = || conn.query_row("SELECT count(*) FROM t", (), |row| row.get::<_, i64>(0));
            let before = count()?;
            neighbour(&test.db, 2).wait().unwrap();
            Done::Ok((before, count()?))
        })
        .unwrap();
    assert_eq!(counts, (1, 1));
    assert_eq!(count(&test), 2);
}

#[test]
fn a_read_cannot_write() {
    let test = Scratch::with_table();
    let written = test.db.read(|conn| conn.execute("INSERT INTO t VALUES (1, 1)", ()));
    assert_eq!(code(written), ErrorCode::ReadOnly);
}

#[test]
fn more_reads_than_connections_take_turns() {
    let test = Scratch::with_table();
    neighbour(&test.db, 1).wait().unwrap();
    let readers: Vec<_> = (0..32)
        .map(|_| {
            let db = test.db.clone();
            thread::spawn(move || {
                for _ in 0..20 {
                    db.read(|conn| {
                        conn.query_row("SELECT count(*) FROM t", (), |row| row.get::<_, i64>(0))
                    })
                    .unwrap();
                }
            })
        })
        .collect();
    for reader in readers {
        reader.join().unwrap();
    }
}

/// Deeper than there are connections on any machine.
const DEEP: u32 = 600;

fn read_inside_reads(db: &Database, depth: u32, innermost: &dyn Fn()) {
    db.read(|conn| {
        let two: i64 = conn.query_row("SELECT 2", (), |row| row.get(0))?;
        assert_eq!(two, 2);
        match depth {
            0 => innermost(),
            _ => read_inside_reads(db, depth - 1, innermost),
        }
        Done::Ok(())
    })
    .unwrap();
}

#[test]
fn reads_inside_reads_do_not_wait_for_themselves() {
    let test = Scratch::with_table();
    let (done, ends) = mpsc::channel();
    let (db, inner) = (test.db.clone(), test.db.clone());
    thread::spawn(move || {
        read_inside_reads(&db, DEEP, &|| {
            // Nor does a transaction that reads, and that a read waits for.
            let reads = inner.clone();
            let ticket = inner.submit(move |tx| {
                reads.read(|_| Done::Ok(())).unwrap();
                insert(tx, 1)
            });
            assert_eq!(ticket.wait().unwrap(), 1);
        });
        done.send(()).unwrap();
    });
    ends.recv_timeout(Duration::from_mins(2)).expect("reads wait for each other");
    assert_eq!(count(&test), 1);
    // Those beyond the bound are closed: as many again open no more files (SQLite itself keeps the
    // descriptors of closed connections while others hold locks, and uses them again).
    let before = descriptors(&test);
    read_inside_reads(&test.db, DEEP, &|| {});
    assert!(descriptors(&test) <= before, "{} after {before}", descriptors(&test));
}

/// Descriptors of the database file in this process.
fn descriptors(test: &Scratch) -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, |fds| {
        let links = fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        links.filter(|path| *path == test.path).count()
    })
}

#[test]
fn a_durable_read_flushes_also_what_another_process_wrote() {
    let test = Scratch::with_table();
    let other = test.plain();
    other.execute_batch("PRAGMA synchronous = NORMAL; INSERT INTO t VALUES (1, 1)").unwrap();
    let before = test.db.stats().flushes;
    let count: i64 = test
        .db
        .read_durable(|conn| conn.query_row("SELECT count(*) FROM t", (), |row| row.get(0)))
        .unwrap();
    assert_eq!(count, 1);
    assert_eq!(test.db.stats().flushes, before + 1);
}

#[test]
fn a_flush_covers_everything_submitted_before_it() {
    let test = Scratch::with_table();
    let held = hold(&test.db);
    let tickets: Vec<_> = (0..20).map(|id| neighbour(&test.db, id)).collect();
    let held = held.release();
    test.db.flush().unwrap();
    assert!(held.is_resolved());
    assert!(tickets.iter().all(groupcommit_sqlite::Ticket::is_resolved));
}

#[test]
fn a_read_leaves_nothing_behind_for_the_next() {
    let scratch = Scratch::with_table();
    for sql in ["CREATE TEMP TABLE x (y)", "ATTACH ':memory:' AS other"] {
        scratch.db.read(|conn| conn.execute_batch(sql)).unwrap_err();
    }
    scratch.db.read(|conn| conn.busy_timeout(std::time::Duration::ZERO)).unwrap();
    let timeout: i64 = scratch
        .db
        .read(|conn| conn.query_row("PRAGMA busy_timeout", (), |row| row.get(0)))
        .unwrap();
    assert_eq!(timeout, 5_000);
}

#[test]
fn one_that_fails_says_what_failed_and_nothing_of_a_transaction() {
    let test = Scratch::with_table();
    let missing = test.db.read(|conn| conn.query_row("SELECT * FROM missing", (), |_| Ok(())));
    let said = missing.unwrap_err().to_string();
    assert!(said.contains("missing") && !said.contains("transaction"), "{said}");
}

#[test]
fn a_read_that_does_not_block() {
    let test = Scratch::with_table();
    test.db.transact(|tx| insert(tx, 1)).unwrap();
    let here = std::thread::current().id();
    let read = test.db.read_async(move |conn| {
        assert_ne!(std::thread::current().id(), here);
        conn.query_row("SELECT count(*) FROM t", (), |row| row.get::<_, i64>(0))
    });
    assert_eq!(block_on(read).unwrap(), 1);
    let panics = block_on(test.db.read_async(|_| -> rusqlite::Result<()> { panic!("no") }));
    assert!(matches!(panics, Err(Failure::Rejected(Rejected::Panicked(_)))), "{panics:?}");
    test.db.close().unwrap();
    let refused = block_on(test.db.read_async(|_| Ok::<_, rusqlite::Error>(())));
    assert!(matches!(refused, Err(Failure::NotRun(NotRun::Closed))), "{refused:?}");
}
