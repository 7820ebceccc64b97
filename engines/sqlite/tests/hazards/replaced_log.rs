//! The write-ahead log is deleted and replaced while it is open: a flush would sync a dead file.

use std::{error::Error as _, fs};

use groupcommit_sqlite::{Error, Failure, NotRun, rusqlite};

use crate::common::{Scratch, hold, neighbour};

fn is_log_replaced(result: Result<usize, Failure<rusqlite::Error>>) -> bool {
    let failure = result.unwrap_err();
    failure
        .source()
        .unwrap()
        .downcast_ref::<Error>()
        .is_some_and(|error| matches!(error, Error::LogReplaced(_)))
}

#[test]
fn is_noticed_by_the_next_flush_and_final_until_the_database_is_opened_again() {
    for replace in [true, false] {
        let test = Scratch::with_table();
        neighbour(&test.db, 1).wait().unwrap();
        fs::remove_file(test.wal_path()).unwrap();
        if replace {
            fs::write(test.wal_path(), []).unwrap();
        }
        let unknown = neighbour(&test.db, 2).wait();
        assert!(matches!(unknown, Err(Failure::Unknown(_))), "{unknown:?}");
        assert!(is_log_replaced(unknown));
        for _ in 0..2 {
            let refused = neighbour(&test.db, 3).wait();
            assert!(matches!(refused, Err(Failure::NotRun(NotRun::Failed(_)))), "{refused:?}");
        }
        assert!(test.db.flush().is_err());
        assert!(test.db.read_durable(|_| Ok::<_, ()>(())).is_err());
        assert!(test.db.close().is_err());
        let test = test.reopen();
        neighbour(&test.db, 4).wait().unwrap();
        let ids = test.ids();
        assert!(ids.starts_with(&[1]) && ids.ends_with(&[4]) && !ids.contains(&3), "{ids:?}");
    }
}

#[test]
fn resolves_what_is_queued_in_order() {
    let test = Scratch::with_table();
    neighbour(&test.db, 1).wait().unwrap();
    let held = hold(&test.db);
    let tickets: Vec<_> = (10..20).map(|id| neighbour(&test.db, id)).collect();
    fs::remove_file(test.wal_path()).unwrap();
    held.release().wait().ok();
    for ticket in tickets {
        let result = ticket.wait();
        assert!(matches!(result, Err(Failure::Unknown(_) | Failure::NotRun(_))), "{result:?}");
    }
}
