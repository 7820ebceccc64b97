//! Reading with few slots, and under writes.

use std::thread;

use groupcommit_lmdb::{Database, Failure, NotRun, Rejected, heed};

use crate::Scratch;

#[test]
fn more_readers_than_slots_wait_and_do_not_fail() {
    let test = Scratch::new(&Database::options().readers_max(2));
    test.db.transact(|tx| tx.main_table().put(tx, b"1", b"")).unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..50).for_each(|_| assert_eq!(test.rows(), 1)));
        }
    });
}

#[test]
fn a_read_is_one_snapshot_whatever_is_written_meanwhile() {
    let test = Scratch::new(&Database::options());
    let table = test.db.main_table();
    test.db.transact(|tx| tx.main_table().put(tx, b"1", b"")).unwrap();
    let seen = test.db.read(|snapshot| {
        let before = table.len(snapshot)?;
        let write = || test.db.transact(|tx| tx.main_table().put(tx, b"2", b""));
        thread::scope(|scope| scope.spawn(write).join().unwrap()).unwrap();
        Ok::<_, heed::Error>((before, table.len(snapshot)?))
    });
    assert_eq!(seen.unwrap(), (1, 1));
    assert_eq!(test.rows(), 2);
}

/// There is room in the map, so it would go well this time.
#[test]
fn a_read_that_waits_for_a_transaction_is_told_so() {
    let test = Scratch::new(&Database::options());
    let refused = test.db.read(|_| test.db.transact(|tx| tx.main_table().put(tx, b"1", b"")));
    let Err(Failure::Rejected(Rejected::Caller(inner))) = refused else { panic!("{refused:?}") };
    assert!(matches!(inner, Failure::NotRun(NotRun::Reentrant)), "{inner:?}");
    test.db.transact(|tx| tx.main_table().put(tx, b"1", b"")).unwrap();
}

#[test]
fn a_read_after_closing_is_refused() {
    let test = Scratch::new(&Database::options());
    test.db.close().unwrap();
    let table = test.db.main_table();
    let refused = test.db.read(|tx| table.len(tx));
    assert!(matches!(refused, Err(Failure::NotRun(NotRun::Closed))), "{refused:?}");
}
