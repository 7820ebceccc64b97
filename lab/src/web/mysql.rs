//! MySQL's and MariaDB's clients: one that blocks, and the asynchronous one with a pool.
//!
//! The client that blocks is the asynchronous one on a runtime of its own, as PostgreSQL's is.

use std::sync::{Arc, Mutex, PoisonError};

use groupcommit::mysql::mysql_async::{Conn, Opts, prelude::Queryable as _};
use groupcommit::sql::Engine;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use crate::condition::Condition;
use crate::error::Cause;
use crate::web::asynchronous::{Asynchronous, Groupcommit};
use crate::web::blocking::{Blocking, Bridged, Pool, answer};
use crate::web::drive::{Answers, drive_async, drive_blocking};
use crate::web::work::{READ, Range, Request, UPDATE, written};

fn options(url: &str) -> Result<Opts, Cause> {
    Ok(Opts::from_url(&url.replacen("mariadb:", "mysql:", 1))?)
}

/// Asks the server how many connections there are to the schema, this one left out.
pub(super) fn look(url: &str) -> Result<Box<dyn FnMut() -> u64 + Send>, Cause> {
    let client = Client { options: options(url)? };
    let mut lane = client.connect()?;
    let sql = "SELECT count(*) - 1 FROM information_schema.processlist WHERE db = DATABASE()";
    Ok(Box::new(move || {
        let Lane { runtime, conn } = &mut lane;
        runtime.block_on(conn.query_first::<u64, _>(sql)).ok().flatten().unwrap_or_default()
    }))
}

struct Client {
    options: Opts,
}

/// A connection with a runtime of its own; its statements are prepared when they are first used.
struct Lane {
    runtime: Runtime,
    conn: Conn,
}

impl Blocking for Client {
    type Connection = Lane;

    fn connect(&self) -> Result<Lane, Cause> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let conn = runtime.block_on(Conn::new(self.options.clone()))?;
        Ok(Lane { runtime, conn })
    }

    fn read(Lane { runtime, conn }: &mut Lane, range: Range) -> Result<(), Cause> {
        Ok(runtime.block_on(read(conn, range))?)
    }

    fn update(Lane { runtime, conn }: &mut Lane, counter: i64) -> Result<(), Cause> {
        Ok(runtime.block_on(update(conn, counter))?)
    }
}

type Sent = Result<(), groupcommit::mysql::mysql_async::Error>;

async fn read(conn: &mut Conn, range: Range) -> Sent {
    let sql = written(Engine::Mysql, READ);
    let _count: Option<i64> = conn.exec_first(sql, (range.from, range.to)).await?;
    Ok(())
}

async fn update(conn: &mut Conn, counter: i64) -> Sent {
    conn.exec_drop(written(Engine::Mysql, UPDATE), (counter,)).await
}

/// The asynchronous client with a pool: each query borrows a connection.
struct AsyncPool {
    idle: Mutex<Vec<Conn>>,
    room: Semaphore,
}

impl AsyncPool {
    async fn connect(options: Opts, connections: usize) -> Result<Arc<Self>, Cause> {
        let mut idle = Vec::new();
        for _ in 0..connections {
            idle.push(Conn::new(options.clone()).await?);
        }
        Ok(Arc::new(Self { idle: Mutex::new(idle), room: Semaphore::new(connections) }))
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Conn>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asynchronous for AsyncPool {
    async fn read(&self, range: Range) -> Result<(), Cause> {
        let _room = self.room.acquire().await?;
        let mut conn = self.idle().pop().ok_or("the pool has lost a connection")?;
        let result = read(&mut conn, range).await;
        self.idle().push(conn);
        Ok(result?)
    }

    async fn update(&self, counter: i64) -> Result<(), Cause> {
        let _room = self.room.acquire().await?;
        let mut conn = self.idle().pop().ok_or("the pool has lost a connection")?;
        let result = update(&mut conn, counter).await;
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
    url: &str,
    connections: usize,
    requests: &Arc<[Request]>,
    arrivals_ns: &[u64],
) -> Result<Answers, Cause> {
    let client = || Ok::<_, Cause>(Client { options: options(url)? });
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
            let pool = Pool::new(client()?, connections);
            let one =
                |request: &Request, answered: &mut dyn FnMut()| pool.answer(request, answered);
            drive_blocking(one, requests, arrivals_ns)
        }
        Condition::AsyncPool => {
            let runtime = runtime()?;
            let pool = runtime.block_on(AsyncPool::connect(options(url)?, connections))?;
            let answers = drive_async(&runtime, &pool, requests, arrivals_ns);
            // Its connections end on their runtime.
            runtime.block_on(async { drop(pool) });
            answers
        }
        Condition::Bridge => {
            let bridged = Bridged::new(client()?, connections);
            drive_async(&runtime()?, &bridged, requests, arrivals_ns)
        }
        _ => {
            let ours = Groupcommit::connect(url, connections)?;
            drive_async(&runtime()?, &ours, requests, arrivals_ns)
        }
    }
}
