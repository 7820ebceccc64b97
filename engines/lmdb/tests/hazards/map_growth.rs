//! The map is full: it grows, and no transaction is lost.

use std::sync::mpsc;
use std::thread;

use groupcommit_lmdb::{Database, Error, Failure, Rejected, Transaction, heed};

use crate::Scratch;

const MIB: usize = 1 << 20;

fn put(tx: &mut Transaction<'_>, key: u64, bytes: usize) -> heed::Result<()> {
    tx.main_table().put(tx, &key.to_be_bytes(), &vec![b'x'; bytes])
}

#[test]
fn the_map_grows_under_many_small_transactions() {
    let test = Scratch::new(&Database::options().map_bytes(MIB));
    let tickets: Vec<_> =
        (0..2_000).map(|key| test.db.submit(move |tx| put(tx, key, 4_000))).collect();
    tickets.into_iter().for_each(|ticket| ticket.wait().unwrap());
    assert_eq!(test.rows(), 2_000);
    assert!(test.db.stats().reruns > 0, "the map never was full");
}

#[test]
fn one_transaction_larger_than_the_map_commits_once() {
    let test = Scratch::new(&Database::options().map_bytes(MIB));
    test.db.transact(|tx| (0..64).try_for_each(|key| put(tx, key, 256 << 10))).unwrap();
    assert_eq!(test.rows(), 64);
}

#[test]
fn a_closure_that_hides_the_error_is_not_committed_by_halves() {
    let test = Scratch::new(&Database::options().map_bytes(MIB));
    let ticket = test.db.submit(|tx| {
        let done = (0..64_u64).filter(|&key| put(tx, key, 64 << 10).is_ok()).count();
        Ok::<_, heed::Error>(done)
    });
    assert_eq!(ticket.wait().unwrap(), 64);
    assert_eq!(test.rows(), 64);
}

#[test]
fn at_the_limit_only_the_one_that_asks_for_too_much_is_rejected() {
    let options = Database::options().map_bytes(MIB).map_bytes_max(8 * MIB);
    let test = Scratch::new(&options);
    let (started, has_started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let mut holds = true;
    let held = test.db.submit(move |_| {
        // It runs again, when the map has to grow for those who joined its group.
        if std::mem::take(&mut holds) {
            started.send(()).unwrap();
            released.recv().unwrap();
        }
        Ok::<_, heed::Error>(())
    });
    has_started.recv().unwrap();
    let before: Vec<_> = (0..50).map(|key| test.db.submit(move |tx| put(tx, key, 100))).collect();
    let greedy = test.db.submit(|tx| (1_000..1_100).try_for_each(|key| put(tx, key, MIB)));
    let after: Vec<_> = (50..100).map(|key| test.db.submit(move |tx| put(tx, key, 100))).collect();
    release.send(()).unwrap();
    held.wait().unwrap();
    before.into_iter().chain(after).for_each(|ticket| ticket.wait().unwrap());
    match greedy.wait() {
        Err(Failure::Rejected(Rejected::Engine(cause))) => {
            let error: &Error = cause.downcast_ref().unwrap();
            assert!(matches!(error, Error::MapFull { .. }), "{error:?}");
        }
        other => panic!("expected a full map, got {other:?}"),
    }
    assert_eq!(test.rows(), 100);
    test.db.transact(|tx| put(tx, 200, 100)).unwrap();
}

#[test]
fn the_map_does_not_grow_under_a_live_read() {
    let test = Scratch::new(&Database::options().map_bytes(MIB));
    test.db.transact(|tx| put(tx, 0, 100)).unwrap();
    let (reading, is_reading) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    thread::scope(|scope| {
        // Dropped here, should an assertion fail: then the reader ends too.
        let (db, release) = (&test.db, release);
        let reader = scope.spawn(move || {
            db.read(|tx| {
                let value = db.main_table().get(tx, &0_u64.to_be_bytes())?.unwrap();
                reading.send(()).unwrap();
                released.recv().unwrap();
                // Would be unmapped by now.
                Ok::<_, heed::Error>(value.iter().all(|&byte| byte == b'x'))
            })
        });
        is_reading.recv().unwrap();
        let mut large = db.submit(|tx| (1..64).try_for_each(|key| put(tx, key, 64 << 10)));
        // Whatever waits for the read is not resolved before it ends.
        let early = large.wait_timeout(std::time::Duration::ZERO);
        release.send(()).unwrap();
        assert!(reader.join().unwrap().unwrap());
        assert!(early.is_none(), "{early:?}");
        large.wait().unwrap();
    });
    assert_eq!(test.rows(), 64);
}

/// The growth waits for the outer read, so the inner ones must not wait for the growth.
#[test]
fn reads_inside_a_read_pass_a_map_that_is_about_to_grow() {
    let test = Scratch::new(&Database::options().map_bytes(MIB));
    let db = &test.db;
    let (full, is_full) = mpsc::channel();
    let rows = db.read(|_| {
        let large = db.submit(move |tx| {
            let put = (1..64).try_for_each(|key| put(tx, key, 64 << 10));
            put.inspect_err(|_| full.send(()).unwrap())
        });
        is_full.recv().unwrap();
        for _ in 0..1_000 {
            thread::yield_now();
            db.read(|tx| db.main_table().len(tx))?;
        }
        assert!(!large.is_resolved());
        db.read(|tx| db.main_table().len(tx))
    });
    assert_eq!(rows.unwrap(), 0);
    db.flush().unwrap();
    assert_eq!(test.rows(), 63);
}
