//! Promise 11: visibility.

use std::thread;

use groupcommit_sqlite::rusqlite::ErrorCode;

use crate::common::{Done, Scratch, code, hold, neighbour};

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
