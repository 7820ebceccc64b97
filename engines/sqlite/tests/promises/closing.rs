//! Promise 9: nothing is left hanging.

use std::{
    sync::{Arc, Barrier, mpsc},
    thread,
};

use groupcommit_sqlite::{Failure, NotRun};

use crate::common::{Done, Scratch, hold, ids, neighbour};

#[test]
fn closing_under_load_resolves_every_ticket() {
    let test = Scratch::with_table();
    let together = Arc::new(Barrier::new(4));
    let workers: Vec<_> = (0..3)
        .map(|worker| {
            let (db, together) = (test.db.clone(), together.clone());
            thread::spawn(move || {
                let mut tickets = Vec::new();
                for turn in 0..2_000 {
                    if turn == 100 {
                        together.wait();
                    }
                    let id = worker * 2_000 + turn;
                    tickets.push((id, neighbour(&db, id)));
                }
                let mut committed = Vec::new();
                for (id, ticket) in tickets {
                    match ticket.wait() {
                        Ok(_) => committed.push(id),
                        Err(Failure::NotRun(NotRun::Closed)) => {}
                        other => panic!("{other:?}"),
                    }
                }
                committed
            })
        })
        .collect();
    together.wait();
    test.db.close().unwrap();
    let mut committed: Vec<i64> =
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
    committed.sort_unstable();
    assert!(committed.len() >= 300);
    assert_eq!(test.ids(), committed);
    assert_eq!(test.db.stats().in_flight, 0);
}

#[test]
fn after_it_everything_is_refused() {
    let test = Scratch::with_table();
    let clone = test.db.clone();
    test.db.close().unwrap();
    let closed = |failure| matches!(failure, Failure::NotRun(NotRun::Closed));
    assert!(closed(neighbour(&clone, 1).wait().unwrap_err()));
    assert!(closed(clone.transact(|tx| tx.execute("DELETE FROM t", ())).unwrap_err()));
    assert!(closed(clone.exclusive(|conn| conn.execute("VACUUM", ())).unwrap_err()));
    assert!(closed(clone.read(|_| Done::Ok(())).unwrap_err()));
    assert!(closed(clone.read_durable(|_| Done::Ok(())).unwrap_err()));
    clone.close().unwrap();
}

#[test]
fn it_gives_the_file_back() {
    let test = Scratch::with_table();
    neighbour(&test.db, 1).wait().unwrap();
    test.db.read(|_| Done::Ok(())).unwrap();
    assert!(test.wal_path().exists());
    test.db.close().unwrap();
    // The last connection to be closed takes the log away.
    assert!(!test.wal_path().exists());
    let copy = test.folder().join("copy.db");
    std::fs::rename(&test.path, &copy).unwrap();
    assert_eq!(ids(&groupcommit_sqlite::rusqlite::Connection::open(copy).unwrap()), [1]);
}

#[test]
fn dropping_every_clone_lets_what_was_admitted_finish() {
    let test = Scratch::with_table();
    let held = hold(&test.db);
    let tickets: Vec<_> = (0..100).map(|id| neighbour(&test.db, id)).collect();
    let (call, calls) = mpsc::channel();
    test.db.submit_then(|_| Done::Ok(()), move |result| call.send(result.is_ok()).unwrap());
    let path = test.path.clone();
    let Scratch { db, .. } = test.keep_folder();
    drop(db);
    held.release().wait().unwrap();
    for ticket in tickets {
        assert_eq!(ticket.wait().unwrap(), 1);
    }
    assert!(calls.recv().unwrap());
    let connection = groupcommit_sqlite::rusqlite::Connection::open(&path).unwrap();
    assert_eq!(ids(&connection).len(), 100);
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

#[test]
fn a_database_may_be_dropped_inside_its_own_transaction() {
    let test = Scratch::with_table();
    let mut inside = Some(test.db.clone());
    let ticket = test.db.submit(move |tx| {
        drop(inside.take());
        tx.execute("INSERT INTO t VALUES (1, 1)", ())
    });
    let path = test.path.clone();
    let Scratch { db, .. } = test.keep_folder();
    drop(db);
    ticket.wait().unwrap();
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}
