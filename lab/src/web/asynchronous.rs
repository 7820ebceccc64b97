//! Asynchronous clients: everything that does not depend on an answer is asked at once.

use std::future::Future;
use std::sync::Arc;
#[cfg(feature = "_remote")]
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::{join, join_all};
use groupcommit::sql::{Database, Statement};
#[cfg(feature = "_remote")]
use tokio::sync::Semaphore;

use crate::error::Cause;
#[cfg(feature = "_remote")]
use crate::remote::Client;
use crate::web::work::{Place, Range, Request};

/// An asynchronous client of a database.
pub(super) trait Asynchronous: Send + Sync + 'static {
    fn read(&self, range: Range) -> impl Future<Output = Result<(), Cause>> + Send;

    fn update(&self, counter: i64) -> impl Future<Output = Result<(), Cause>> + Send;

    fn close(&self) -> Result<(), Cause>;
}

/// Answers a request.
pub(super) async fn answer<A: Asynchronous>(
    client: &A,
    request: &Request,
    answered: impl FnOnce() + Send,
) -> Result<(), Cause> {
    let important = async {
        client.read(request.important).await?;
        answered();
        client.update(request.counter).await
    };
    // Polled in turn, so the important query is sent first.
    let less = join_all(request.less.iter().map(|&range| client.read(range)));
    let (important, less) = join(important, less).await;
    important?;
    less.into_iter().collect()
}

/// groupcommit: reads pipelined over a few connections, writes merged.
pub(super) struct Groupcommit {
    database: Database,
    read: Arc<str>,
    update: Arc<str>,
}

/// Connections that are not for reads: one writes, and one more is there for what stands alone.
const NOT_FOR_READS: usize = 2;

impl Groupcommit {
    pub(super) fn connect(place: &Place) -> Result<Arc<Self>, Cause> {
        let readers = place.connections - NOT_FOR_READS;
        let database = Database::options().readers(readers).connect(&place.url)?;
        let (read, update) = (place.read.clone(), place.update.clone());
        Ok(Arc::new(Self { database, read, update }))
    }
}

impl Asynchronous for Groupcommit {
    async fn read(&self, range: Range) -> Result<(), Cause> {
        let read = Statement::new(self.read.clone(), [range.from.into(), range.to.into()]);
        self.database.read_async(&read).await?;
        Ok(())
    }

    async fn update(&self, counter: i64) -> Result<(), Cause> {
        let update = Statement::new(self.update.clone(), [counter.into()]);
        self.database.transact_async(vec![update]).await?;
        Ok(())
    }

    fn close(&self) -> Result<(), Cause> {
        Ok(self.database.close()?)
    }
}

/// An asynchronous client with a pool of connections: each query borrows one.
#[cfg(feature = "_remote")]
pub(super) struct AsyncPool<C> {
    idle: Mutex<Vec<C>>,
    room: Semaphore,
    place: Place,
}

#[cfg(feature = "_remote")]
impl<C: Client> AsyncPool<C> {
    pub(super) async fn connect(place: &Place) -> Result<Arc<Self>, Cause> {
        let mut idle = Vec::new();
        for _ in 0..place.connections {
            idle.push(C::connect(&place.url).await?);
        }
        let (idle, room) = (Mutex::new(idle), Semaphore::new(place.connections));
        Ok(Arc::new(Self { idle, room, place: place.clone() }))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<C>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self, sql: &str, numbers: &[i64]) -> Result<(), Cause> {
        let _room = self.room.acquire().await?;
        let mut client = self.idle().pop().ok_or("the pool has lost a connection")?;
        let result = client.run(sql, numbers, None).await;
        self.idle().push(client);
        result.map(drop)
    }
}

#[cfg(feature = "_remote")]
impl<C: Client> Asynchronous for AsyncPool<C> {
    async fn read(&self, range: Range) -> Result<(), Cause> {
        self.run(&self.place.read, &[range.from, range.to]).await
    }

    async fn update(&self, counter: i64) -> Result<(), Cause> {
        self.run(&self.place.update, &[counter]).await
    }

    fn close(&self) -> Result<(), Cause> {
        self.idle().clear();
        Ok(())
    }
}
