//! SQLite's clients. There is no asynchronous one: what calls itself so is a bridge.

use std::sync::Arc;
use std::time::Duration;

use groupcommit::sql::sqlite_path;
use rusqlite::Connection;

use crate::condition::Condition;
use crate::error::Cause;
use crate::web::asynchronous::Groupcommit;
use crate::web::blocking::{Blocking, Bridged, Pool, answer};
use crate::web::drive::{Answers, drive_async, drive_blocking};
use crate::web::work::{Place, Range, Request};

/// Nobody is to fail for want of patience.
const BUSY_TIMEOUT: Duration = Duration::from_mins(10);

struct Client {
    path: std::path::PathBuf,
    place: Place,
}

/// A connection with its statements.
struct Lane {
    connection: Connection,
    read: Arc<str>,
    update: Arc<str>,
}

impl Blocking for Client {
    type Connection = Lane;

    fn connect(&self) -> Result<Lane, Cause> {
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(Lane { connection, read: self.place.read.clone(), update: self.place.update.clone() })
    }

    fn read(lane: &mut Lane, range: Range) -> Result<(), Cause> {
        let mut read = lane.connection.prepare_cached(&lane.read)?;
        let _count: i64 = read.query_row([range.from, range.to], |row| row.get(0))?;
        Ok(())
    }

    fn update(lane: &mut Lane, counter: i64) -> Result<(), Cause> {
        lane.connection.prepare_cached(&lane.update)?.execute([counter])?;
        Ok(())
    }
}

pub(super) fn drive(
    condition: Condition,
    place: &Place,
    requests: &Arc<[Request]>,
    arrivals_ns: &[u64],
) -> Result<Answers, Cause> {
    let client = || {
        let path = sqlite_path(&place.url)?;
        Ok::<_, Cause>(Client { path, place: place.clone() })
    };
    let runtime = || tokio::runtime::Builder::new_multi_thread().build();
    match condition {
        Condition::Blocking => {
            let client = client()?;
            let one = |request: &Request, answered: &mut dyn FnMut()| {
                answer::<Client>(&mut client.connect()?, request, answered)
            };
            drive_blocking(one, requests, arrivals_ns)
        }
        Condition::BlockingPool => {
            let pool = Pool::new(client()?, place.connections);
            let one =
                |request: &Request, answered: &mut dyn FnMut()| pool.answer(request, answered);
            drive_blocking(one, requests, arrivals_ns)
        }
        Condition::Bridge => {
            let bridged = Bridged::new(client()?, place.connections);
            drive_async(&runtime()?, &bridged, requests, arrivals_ns)
        }
        _ => {
            let ours = Groupcommit::connect(place)?;
            drive_async(&runtime()?, &ours, requests, arrivals_ns)
        }
    }
}
