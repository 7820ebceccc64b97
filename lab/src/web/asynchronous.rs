//! Asynchronous clients: everything that does not depend on an answer is asked at once.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::{join, join_all};
use groupcommit::sql::{Database, Statement};

use crate::error::Cause;
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
        self.database.submit_async(vec![update]).await.await?;
        Ok(())
    }

    fn close(&self) -> Result<(), Cause> {
        Ok(self.database.close()?)
    }
}
