//! PostgreSQL's clients: the blocking one, and the asynchronous one with a pool.

use std::sync::{Arc, Mutex, PoisonError};

use groupcommit::postgres::tokio_postgres;
use postgres::NoTls;
use tokio::sync::Semaphore;

use crate::condition::Condition;
use crate::error::Cause;
use crate::web::asynchronous::{Asynchronous, Groupcommit};
use crate::web::blocking::{Blocking, Bridged, Pool, answer};
use crate::web::drive::{Answers, drive_async, drive_blocking};
use crate::web::work::{Place, Range, Request};

/// By which the server knows what is measured.
const NAME: &str = "groupcommit-lab-web";

fn named(url: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}application_name={NAME}")
}

/// Asks the server how many connections there are of those that are measured.
pub(super) fn look(url: &str) -> Result<Box<dyn FnMut() -> u64 + Send>, Cause> {
    let mut client = postgres::Client::connect(url, NoTls)?;
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    let count = client.prepare(sql)?;
    Ok(Box::new(move || {
        let row = client.query_one(&count, &[&NAME]);
        row.and_then(|row| row.try_get::<_, i64>(0)).map_or(0, i64::cast_unsigned)
    }))
}

struct Client(Place);

/// A connection with its statements, each prepared when it is first used.
struct Lane {
    client: postgres::Client,
    place: Place,
    read: Option<postgres::Statement>,
    update: Option<postgres::Statement>,
}

impl Blocking for Client {
    type Connection = Lane;

    fn connect(&self) -> Result<Lane, Cause> {
        let client = postgres::Client::connect(&self.0.url, NoTls)?;
        Ok(Lane { client, place: self.0.clone(), read: None, update: None })
    }

    fn read(lane: &mut Lane, range: Range) -> Result<(), Cause> {
        if lane.read.is_none() {
            lane.read = Some(lane.client.prepare(&lane.place.read)?);
        }
        if let Some(read) = &lane.read {
            lane.client.query(read, &[&range.from, &range.to])?;
        }
        Ok(())
    }

    fn update(lane: &mut Lane, counter: i64) -> Result<(), Cause> {
        if lane.update.is_none() {
            lane.update = Some(lane.client.prepare(&lane.place.update)?);
        }
        if let Some(update) = &lane.update {
            lane.client.execute(update, &[&counter])?;
        }
        Ok(())
    }
}

/// The asynchronous client with a pool: each query borrows a connection.
struct AsyncPool {
    idle: Mutex<Vec<AsyncLane>>,
    room: Semaphore,
}

struct AsyncLane {
    client: tokio_postgres::Client,
    read: tokio_postgres::Statement,
    update: tokio_postgres::Statement,
}

impl AsyncPool {
    async fn connect(place: &Place) -> Result<Arc<Self>, Cause> {
        let mut idle = Vec::new();
        for _ in 0..place.connections {
            let (client, connection) = tokio_postgres::connect(&place.url, NoTls).await?;
            drop(tokio::spawn(connection));
            let read = client.prepare(&place.read).await?;
            let update = client.prepare(&place.update).await?;
            idle.push(AsyncLane { client, read, update });
        }
        Ok(Arc::new(Self { idle: Mutex::new(idle), room: Semaphore::new(place.connections) }))
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<AsyncLane>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asynchronous for AsyncPool {
    async fn read(&self, range: Range) -> Result<(), Cause> {
        let _room = self.room.acquire().await?;
        let lane = self.idle().pop().ok_or("the pool has lost a connection")?;
        let result = lane.client.query(&lane.read, &[&range.from, &range.to]).await;
        self.idle().push(lane);
        result?;
        Ok(())
    }

    async fn update(&self, counter: i64) -> Result<(), Cause> {
        let _room = self.room.acquire().await?;
        let lane = self.idle().pop().ok_or("the pool has lost a connection")?;
        let result = lane.client.execute(&lane.update, &[&counter]).await;
        self.idle().push(lane);
        result?;
        Ok(())
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
    let place = &Place { url: named(&place.url), ..place.clone() };
    let client = || Client(place.clone());
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match condition {
        Condition::Blocking => {
            let client = client();
            let one = |request: &Request, answered: &mut dyn FnMut()| {
                answer::<Client>(&mut client.connect()?, request, answered)
            };
            drive_blocking(one, requests, arrivals_ns)
        }
        Condition::BlockingPool => {
            let pool = Pool::new(client(), place.connections);
            let one =
                |request: &Request, answered: &mut dyn FnMut()| pool.answer(request, answered);
            drive_blocking(one, requests, arrivals_ns)
        }
        Condition::AsyncPool => {
            let runtime = runtime()?;
            let pool = runtime.block_on(AsyncPool::connect(place))?;
            drive_async(&runtime, &pool, requests, arrivals_ns)
        }
        Condition::Bridge => {
            let bridged = Bridged::new(client(), place.connections);
            drive_async(&runtime()?, &bridged, requests, arrivals_ns)
        }
        _ => {
            let ours = Groupcommit::connect(place)?;
            drive_async(&runtime()?, &ours, requests, arrivals_ns)
        }
    }
}
