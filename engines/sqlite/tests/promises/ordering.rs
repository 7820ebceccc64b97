//! Promise 2: execution and resolution in submission order.

use std::{sync::mpsc, thread};

use crate::common::{Done, Scratch, hold, insert, neighbour};

#[test]
fn a_resolved_ticket_implies_that_every_earlier_one_is() {
    let test = Scratch::with_table();
    for round in 0..20 {
        let tickets: Vec<_> = (0..100)
            .map(|member| {
                let id = if member % 7 == 3 { 0 } else { 1 + round * 100 + member };
                test.db.submit(move |tx| insert(tx, id))
            })
            .collect();
        // Looked at from the last to the first, while they resolve.
        while !tickets.last().unwrap().is_resolved() {
            let resolved: Vec<bool> =
                tickets.iter().rev().map(groupcommit_sqlite::Ticket::is_resolved).collect();
            let first = resolved.iter().position(|&resolved| resolved);
            if let Some(first) = first {
                assert!(resolved[first..].iter().all(|&resolved| resolved), "{resolved:?}");
            }
            thread::yield_now();
        }
        assert!(tickets.iter().all(groupcommit_sqlite::Ticket::is_resolved));
    }
}

#[test]
fn transactions_run_in_the_order_of_their_submission() {
    let test = Scratch::new("CREATE TABLE log (position INTEGER PRIMARY KEY, id)");
    let tickets: Vec<_> = (0..2_000_i64)
        .map(|id| test.db.submit(move |tx| tx.execute("INSERT INTO log (id) VALUES (?1)", [id])))
        .collect();
    for ticket in tickets {
        assert_eq!(ticket.wait().unwrap(), 1);
    }
    let out_of_order: i64 = test
        .plain()
        .query_row("SELECT count(*) FROM log WHERE position <> id + 1", (), |row| row.get(0))
        .unwrap();
    assert_eq!(out_of_order, 0);
}

#[test]
fn a_transaction_sees_those_submitted_before_it_in_its_group() {
    let test = Scratch::with_table();
    let held = hold(&test.db);
    let tickets: Vec<_> = (0..50)
        .map(|id| {
            test.db.submit(move |tx| {
                insert(tx, id)?;
                tx.query_row("SELECT count(*) FROM t", (), |row| row.get::<_, i64>(0))
            })
        })
        .collect();
    held.release().wait().unwrap();
    let counts: Vec<i64> = tickets.into_iter().map(|ticket| ticket.wait().unwrap()).collect();
    assert_eq!(counts, (1..=50).collect::<Vec<_>>());
}

#[test]
fn an_exclusive_keeps_its_place_too() {
    let test = Scratch::with_table();
    let held = hold(&test.db);
    let before = neighbour(&test.db, 1);
    let db = test.db.clone();
    let (queued, is_queued) = mpsc::channel();
    let alone = thread::spawn(move || {
        queued.send(()).unwrap();
        db.exclusive(|conn| {
            let count: i64 = conn.query_row("SELECT count(*) FROM t", (), |row| row.get(0))?;
            conn.execute_batch("VACUUM")?;
            Done::Ok(count)
        })
        .unwrap()
    });
    is_queued.recv().unwrap();
    while test.db.stats().queued < 2 {
        thread::yield_now();
    }
    let after = neighbour(&test.db, 2);
    held.release().wait().unwrap();
    before.wait().unwrap();
    assert_eq!(alone.join().unwrap(), 1);
    after.wait().unwrap();
    assert_eq!(test.ids(), [1, 2]);
}
