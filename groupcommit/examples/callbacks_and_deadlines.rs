//! Callbacks in place of tickets, deadlines, cancelling, and what each outcome looks like.
//!
//! ```text
//! cargo run --example callbacks_and_deadlines -- DATABASE
//! ```

use std::{sync::mpsc, time::Duration};

use groupcommit::{
    Failure, NotRun, Terms,
    sqlite::{Database, rusqlite},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("give the path of a database, for example app.db")?;
    let db = Database::open(path)?;
    db.transact(|tx| tx.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)", ()))?;

    // A callback is called once, whatever comes of the transaction.
    let (told, outcomes) = mpsc::channel();
    for id in [1, 2, 2] {
        let told = told.clone();
        db.submit_then(
            move |tx| tx.execute("INSERT INTO orders VALUES (?1, 'book')", [id]),
            move |outcome| drop(told.send((id, outcome))),
        );
    }
    drop(told);
    for (id, outcome) in outcomes {
        match outcome {
            Ok(rows) => println!("order {id}: {rows} row on disk"),
            Err(Failure::Rejected(_)) => println!("order {id}: rejected, rolled back"),
            Err(Failure::NotRun(reason)) => println!("order {id}: not run ({reason})"),
            Err(Failure::Unknown(_)) => println!("order {id}: unknown, open the database again"),
        }
    }

    // A deadline counts from submission. This one has passed before the transaction's turn.
    let late = db
        .with(Terms::new().deadline(Duration::ZERO))
        .transact(|tx| tx.execute("INSERT INTO orders VALUES (3, 'late')", ()));
    assert!(matches!(late, Err(Failure::NotRun(NotRun::DeadlinePassed))));
    println!("order 3: past its deadline, not run");

    // What is still queued can be cancelled; here it waits behind a transaction that holds it up.
    let (let_go, held) = mpsc::channel::<()>();
    let ahead = db.submit(move |_| {
        let _until_let_go = held.recv();
        Ok::<_, rusqlite::Error>(())
    });
    let queued = db.submit(|tx| tx.execute("INSERT INTO orders VALUES (4, 'cancelled')", ()));
    let cancelled = queued.cancel();
    let_go.send(())?;
    ahead.wait()?;
    assert!(matches!(queued.wait(), Err(Failure::NotRun(NotRun::Cancelled))));
    println!("order 4: cancelled: {cancelled}");

    let orders: i64 =
        db.read(|conn| conn.query_row("SELECT count(*) FROM orders", (), |row| row.get(0)))?;
    println!("{orders} orders on disk");
    db.close()?;
    Ok(())
}
