//! A blocking call on a database from inside one of its own transactions would wait for itself.

use groupcommit_sqlite::{Database, Failure, Limits, NotRun};

use crate::common::{Done, Scratch, insert, neighbour};

fn is_reentrant<T, E>(result: &Result<T, Failure<E>>) -> bool {
    matches!(result, Err(Failure::NotRun(NotRun::Reentrant)))
}

#[test]
fn is_refused() {
    let test = Scratch::with_table();
    let db = test.db.clone();
    let refused = test
        .db
        .transact(move |tx| {
            insert(tx, 1)?;
            Done::Ok([
                is_reentrant(&db.transact(|tx| insert(tx, 2))),
                is_reentrant(&db.exclusive(|conn| conn.execute("VACUUM", ()))),
                is_reentrant(&db.flush()),
                is_reentrant(&db.read_durable(|_| Done::Ok(()))),
                db.close().is_err(),
            ])
        })
        .unwrap();
    assert_eq!(refused, [true; 5]);
    neighbour(&test.db, 3).wait().unwrap();
    assert_eq!(test.ids(), [1, 3]);
}

#[test]
fn inside_an_exclusive_too() {
    let test = Scratch::with_table();
    let db = test.db.clone();
    let refused =
        test.db.exclusive(move |_| Done::Ok(is_reentrant(&db.transact(|tx| insert(tx, 2)))));
    assert!(refused.unwrap());
}

#[test]
fn submitting_from_inside_works_and_waits_for_no_room() {
    let test = Scratch::with_table();
    let db = Database::options().limits(Limits::new(1, 1 << 20)).open(&test.path).unwrap();
    let inside = db.clone();
    let ticket = db.transact(move |tx| {
        insert(tx, 1)?;
        Done::Ok(inside.submit(|tx| insert(tx, 2)))
    });
    assert!(is_reentrant(&ticket.unwrap().wait()));
    let roomy = test.db.clone();
    let ticket = test.db.transact(move |tx| {
        insert(tx, 3)?;
        Done::Ok(roomy.submit(|tx| insert(tx, 4)))
    });
    ticket.unwrap().wait().unwrap();
    assert_eq!(test.ids(), [1, 3, 4]);
}

#[test]
fn another_database_may_be_used_inside() {
    let (outer, inner) = (Scratch::with_table(), Scratch::with_table());
    let other = inner.db.clone();
    outer
        .db
        .transact(move |tx| {
            other.transact(|tx| insert(tx, 1)).unwrap();
            insert(tx, 1)
        })
        .unwrap();
    assert_eq!((outer.ids(), inner.ids()), (vec![1], vec![1]));
}
