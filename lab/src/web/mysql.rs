//! MySQL's and MariaDB's clients: one that blocks, and the asynchronous one with a pool.
//!
//! The client that blocks is the asynchronous one on a runtime of its own, as PostgreSQL's is.

use std::sync::{Arc, Mutex, PoisonError};

use groupcommit::mysql::mysql_async::{Conn, Opts, OptsBuilder, prelude::Queryable as _};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use crate::condition::Condition;
use crate::error::Cause;
use crate::server::with_first_host;
use crate::web::asynchronous::{Asynchronous, Groupcommit};
use crate::web::blocking::{Blocking, Bridged, Pool, answer};
use crate::web::drive::{Answers, drive_async, drive_blocking};
use crate::web::work::{Place, Range, Request};

/// Over TCP, as the URL says: the client would connect once more, by a socket, where it finds one.
fn options(url: &str) -> Result<Opts, Cause> {
    let options = Opts::from_url(&with_first_host(url).replacen("mariadb:", "mysql:", 1))?;
    Ok(OptsBuilder::from_opts(options).prefer_socket(false).into())
}

/// Asks the server how many connections there are to the schema that are younger than the one that
/// asks: those from before may take their time to end.
pub(super) fn look(url: &str) -> Result<Box<dyn FnMut() -> u64 + Send>, Cause> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut conn = runtime.block_on(Conn::new(options(url)?))?;
    let sql = "SELECT count(*) FROM information_schema.processlist \
               WHERE db = DATABASE() AND id > CONNECTION_ID()";
    Ok(Box::new(move || {
        runtime.block_on(conn.query_first::<u64, _>(sql)).ok().flatten().unwrap_or_default()
    }))
}

struct Client {
    options: Opts,
    place: Place,
}

/// A connection with a runtime of its own; its statements are prepared when they are first used.
struct Lane {
    runtime: Runtime,
    conn: Conn,
    place: Place,
}

impl Blocking for Client {
    type Connection = Lane;

    fn connect(&self) -> Result<Lane, Cause> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let conn = runtime.block_on(Conn::new(self.options.clone()))?;
        Ok(Lane { runtime, conn, place: self.place.clone() })
    }

    fn read(Lane { runtime, conn, place }: &mut Lane, range: Range) -> Result<(), Cause> {
        Ok(runtime.block_on(read(conn, &place.read, range))?)
    }

    fn update(Lane { runtime, conn, place }: &mut Lane, counter: i64) -> Result<(), Cause> {
        Ok(runtime.block_on(update(conn, &place.update, counter))?)
    }
}

type Sent = Result<(), groupcommit::mysql::mysql_async::Error>;

async fn read(conn: &mut Conn, sql: &str, range: Range) -> Sent {
    let _count: Option<i64> = conn.exec_first(sql, (range.from, range.to)).await?;
    Ok(())
}

async fn update(conn: &mut Conn, sql: &str, counter: i64) -> Sent {
    conn.exec_drop(sql, (counter,)).await
}

/// The asynchronous client with a pool: each query borrows a connection.
struct AsyncPool {
    idle: Mutex<Vec<Conn>>,
    room: Semaphore,
    place: Place,
}

impl AsyncPool {
    async fn connect(place: &Place) -> Result<Arc<Self>, Cause> {
        let options = options(&place.url)?;
        let mut idle = Vec::new();
        for _ in 0..place.connections {
            idle.push(Conn::new(options.clone()).await?);
        }
        Ok(Arc::new(Self {
            idle: Mutex::new(idle),
            room: Semaphore::new(place.connections),
            place: place.clone(),
        }))
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Conn>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asynchronous for AsyncPool {
    async fn read(&self, range: Range) -> Result<(), Cause> {
        let _room = self.room.acquire().await?;
        let mut conn = self.idle().pop().ok_or("the pool has lost a connection")?;
        let result = read(&mut conn, &self.place.read, range).await;
        self.idle().push(conn);
        Ok(result?)
    }

    async fn update(&self, counter: i64) -> Result<(), Cause> {
        let _room = self.room.acquire().await?;
        let mut conn = self.idle().pop().ok_or("the pool has lost a connection")?;
        let result = update(&mut conn, &self.place.update, counter).await;
        self.idle().push(conn);
        Ok(result?)
    }

    fn close(&self) -> Result<(), Cause> {
        self.idle().clear();
        Ok(())
    }
}

pub(super) fn drive(
    condition: Condition,
    place: &Place,
    requests: &Arc<[Request]>,
    arrivals_ns: &[u64],
) -> Result<Answers, Cause> {
    let client = || Ok::<_, Cause>(Client { options: options(&place.url)?, place: place.clone() });
    let runtime = || Builder::new_multi_thread().enable_all().build();
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
        Condition::AsyncPool => {
            let runtime = runtime()?;
            let pool = runtime.block_on(AsyncPool::connect(place))?;
            let answers = drive_async(&runtime, &pool, requests, arrivals_ns);
            // Its connections end on their runtime.
            runtime.block_on(async { drop(pool) });
            answers
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
