//! A passive checkpoint never catches up with a writer that never rests.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use groupcommit_sqlite::{Database, rusqlite};
use groupcommit_testkit::SetOnPanic;

use crate::common::{Done, Scratch};

/// Frames beyond which commits wait for a checkpoint of a small database, and as much again for the
/// groups between two looks.
const FRAMES_MAX: u64 = 2 * 16_000;

/// Rows of 200,000 bytes, about fifty pages each.
const ROWS: i64 = 16;

fn fill(test: &Scratch) {
    let fill = "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
                INSERT INTO t SELECT i, zeroblob(200000) FROM n";
    test.db.transact(move |tx| tx.execute(fill, [ROWS])).unwrap();
}

/// Writes about `frames` frames without ever leaving the queue empty; the longest log on the way.
fn write(db: &Database, frames: i64) -> u64 {
    const FRAMES_EACH: i64 = 50;
    let mut in_flight = VecDeque::new();
    let mut longest = 0;
    for turn in 0..frames / FRAMES_EACH {
        // Another row each, or a group would write the same pages once for all its members.
        let id = turn % ROWS;
        in_flight.push_back(db.submit(move |tx| {
            tx.execute("UPDATE t SET v = randomblob(200000) WHERE id = ?1", [id])
        }));
        if in_flight.len() > 8 {
            in_flight.pop_front().unwrap().wait().unwrap();
        }
        longest = longest.max(db.wal().frames);
    }
    for ticket in in_flight {
        assert_eq!(ticket.wait().unwrap(), 1);
    }
    longest
}

#[test]
fn is_bounded_under_a_writer_that_never_rests() {
    let test = Scratch::with_table();
    fill(&test);
    let longest = write(&test.db, 60_000);
    assert!(longest < FRAMES_MAX, "{longest} frames");
    assert!(test.db.wal().bytes < FRAMES_MAX * 4_200, "{:?}", test.db.wal());
}

#[test]
fn is_bounded_again_after_a_reader_that_held_it() {
    let test = Scratch::with_table();
    fill(&test);
    let reader = test.plain();
    let length = || -> Done<i64> {
        reader.query_row("SELECT sum(length(v)) FROM t WHERE id = 1", (), |row| row.get(0))
    };
    reader.execute_batch("BEGIN").unwrap();
    length().unwrap();
    let longest = write(&test.db, 50_000);
    assert!(longest > 40_000, "the reader did not hold the log: {longest} frames");
    assert_eq!(length().unwrap(), 200_000);
    reader.execute_batch("ROLLBACK").unwrap();
    write(&test.db, 10_000);
    let frames = test.db.wal().frames;
    assert!(frames < FRAMES_MAX, "{frames} frames");
}

/// One read after the other on each of three threads, so that there is never a moment without one.
#[test]
fn is_bounded_under_reads_that_overlap_without_end() {
    let test = Scratch::with_table();
    fill(&test);
    let stop = AtomicBool::new(false);
    let longest = thread::scope(|scope| {
        let _ends = SetOnPanic(&stop);
        for reader in 0..3 {
            let (db, stop) = (&test.db, &stop);
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    db.read(|conn| -> Done {
                        conn.query_row("SELECT count(*) FROM t", (), |_| Ok(()))?;
                        // How long a read takes; nothing waits for it.
                        thread::sleep(Duration::from_millis(60 + 7 * reader));
                        Ok(())
                    })
                    .unwrap();
                }
            });
        }
        let longest = write(&test.db, 120_000);
        stop.store(true, Relaxed);
        longest
    });
    assert!(longest < 2 * FRAMES_MAX, "{longest} frames");
}

#[test]
fn is_bounded_under_exclusives() {
    let test = Scratch::with_table();
    fill(&test);
    let mut longest = 0;
    for turn in 0..600 {
        let id = turn % ROWS;
        test.db
            .exclusive(move |conn| {
                conn.execute("UPDATE t SET v = randomblob(200000) WHERE id = ?1", [id])
            })
            .unwrap();
        longest = longest.max(test.db.wal().frames);
    }
    assert!(longest < FRAMES_MAX, "{longest} frames");
    assert!(test.db.wal().bytes < FRAMES_MAX * 4_200, "{:?}", test.db.wal());
}

/// Each finds the log long enough for a checkpoint beside the commits, and makes its own.
#[test]
fn an_exclusive_can_checkpoint_behind_a_long_log() {
    let test = Scratch::with_table();
    for _ in 0..5 {
        test.db.transact(|tx| tx.execute("DELETE FROM t", ())).unwrap();
        let fill = "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99)
                    INSERT INTO t SELECT i, zeroblob(200000) FROM n";
        test.db.transact(move |tx| tx.execute(fill, ())).unwrap();
        assert!(test.db.wal().frames > 4_000);
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        let busy: i64 = test
            .db
            .exclusive(move |conn| conn.query_row(checkpoint, (), |row| row.get(0)))
            .unwrap();
        assert_eq!(busy, 0);
    }
}

/// Another database has a log of its own, whose length is nothing to this one.
#[test]
fn is_not_mistaken_for_that_of_an_attached_database() {
    let test = Scratch::with_table();
    fill(&test);
    let frames = test.db.wal().frames;
    let other = test.folder().join("other.db");
    let connection = rusqlite::Connection::open(&other).unwrap();
    connection.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE o (id)").unwrap();
    test.db
        .exclusive(move |conn| {
            conn.execute("ATTACH ?1 AS other", [other.to_str()])?;
            conn.execute("INSERT INTO o VALUES (1)", ())
        })
        .unwrap();
    assert_eq!(test.db.wal().frames, frames);
}
