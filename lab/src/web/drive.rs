//! Requests as they arrive, each answered in its own time.
//!
//! Latencies count from the intended arrival, so a client that cannot keep up cannot hide it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use groupcommit::sql::Engine;
use tokio::runtime::{Builder, Runtime};

use crate::client::Blocking;
use crate::condition::Condition;
use crate::cpu_time::CpuMeter;
use crate::driver::{Completion, Driven};
use crate::error::Cause;
#[cfg(feature = "_remote")]
use crate::remote::{Client, Lane};
#[cfg(feature = "_remote")]
use crate::web::asynchronous::AsyncPool;
use crate::web::asynchronous::{self, Asynchronous, Groupcommit};
use crate::web::blocking::{Bridged, Pool, answer};
use crate::web::sqlite::SqliteClient;
use crate::web::work::{Place, Request};

/// Threads that answer requests of blocking clients: as a web server has them.
const THREADS: usize = 64;

/// What was noted.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) driven: Driven,
    /// How long each request waited for its important part.
    pub(super) first_ns: Vec<u64>,
}

/// Where answers are noted.
struct Notes {
    start: Instant,
    completions: Mutex<Vec<Completion>>,
    first_ns: Mutex<Vec<u64>>,
    failed: Mutex<Option<Cause>>,
}

impl Notes {
    fn begin(requests: usize) -> Self {
        Self {
            start: Instant::now(),
            completions: Mutex::new(Vec::with_capacity(requests)),
            first_ns: Mutex::new(Vec::with_capacity(requests)),
            failed: Mutex::new(None),
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn ended(&self, arrival_ns: u64, first_ns: u64, result: Result<(), Cause>) {
        let at_ns = self.now_ns();
        match result {
            Ok(()) => {
                let latency_ns = at_ns.saturating_sub(arrival_ns);
                lock(&self.completions).push(Completion { at_ns, latency_ns, rows: 1 });
                lock(&self.first_ns).push(first_ns.saturating_sub(arrival_ns));
            }
            Err(cause) => *lock(&self.failed) = Some(cause),
        }
    }

    fn answers(self, meter: &CpuMeter) -> Result<Answers, Cause> {
        let cpu = meter.stop();
        if let Some(cause) = self.failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(cause);
        }
        let mut completions = self.completions.into_inner().unwrap_or_else(PoisonError::into_inner);
        completions.sort_by_key(|completion| completion.at_ns);
        let elapsed_ns = completions.last().map_or(0, |completion| completion.at_ns);
        let first_ns = self.first_ns.into_inner().unwrap_or_else(PoisonError::into_inner);
        let driven = Driven { completions, reads_ns: Vec::new(), elapsed_ns, unserved: None, cpu };
        Ok(Answers { driven, first_ns })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `begin` with the number of each request when it is due.
fn arrive(start: Instant, arrivals_ns: &[u64], mut begin: impl FnMut(usize, u64)) {
    for (number, &arrival_ns) in arrivals_ns.iter().enumerate() {
        let due = start + Duration::from_nanos(arrival_ns);
        if let Some(wait) = due.checked_duration_since(Instant::now()) {
            thread::sleep(wait);
        }
        begin(number, arrival_ns);
    }
}

/// Has the client of a condition answer the requests.
pub(super) fn drive(
    condition: Condition,
    place: &Place,
    requests: &Arc<[Request]>,
    arrivals_ns: &[u64],
) -> Result<Answers, Cause> {
    match Engine::of_url(&place.url)? {
        #[cfg(feature = "mysql")]
        Engine::Mysql => {
            drive_server::<crate::mysql::MysqlClient>(condition, place, requests, arrivals_ns)
        }
        #[cfg(feature = "postgres")]
        Engine::Postgres => {
            drive_server::<crate::postgres::PostgresClient>(condition, place, requests, arrivals_ns)
        }
        _ => drive_with::<SqliteClient>(condition, place, requests, arrivals_ns),
    }
}

/// The same on a server, where there is an asynchronous client too.
#[cfg(feature = "_remote")]
fn drive_server<C: Client>(
    condition: Condition,
    place: &Place,
    requests: &Arc<[Request]>,
    arrivals_ns: &[u64],
) -> Result<Answers, Cause> {
    if condition != Condition::AsyncPool {
        return drive_with::<Lane<C>>(condition, place, requests, arrivals_ns);
    }
    let runtime = runtime()?;
    let pool = runtime.block_on(AsyncPool::<C>::connect(place))?;
    let answers = drive_async(&runtime, &pool, requests, arrivals_ns);
    // Its connections end on their runtime.
    runtime.block_on(async { drop(pool) });
    answers
}

fn drive_with<B: Blocking>(
    condition: Condition,
    place: &Place,
    requests: &Arc<[Request]>,
    arrivals_ns: &[u64],
) -> Result<Answers, Cause> {
    match condition {
        Condition::Blocking => {
            let one = |request: &Request, answered: &mut dyn FnMut()| {
                answer(&mut B::connect(&place.url)?, place, request, answered)
            };
            drive_blocking(one, requests, arrivals_ns)
        }
        Condition::BlockingPool => {
            let pool = Pool::<B>::new(place);
            let one =
                |request: &Request, answered: &mut dyn FnMut()| pool.answer(request, answered);
            drive_blocking(one, requests, arrivals_ns)
        }
        Condition::Bridge => {
            drive_async(&runtime()?, &Bridged::<B>::new(place), requests, arrivals_ns)
        }
        _ => drive_async(&runtime()?, &Groupcommit::connect(place)?, requests, arrivals_ns),
    }
}

/// A runtime with a thread a core.
fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}

/// Has an asynchronous client answer the requests.
fn drive_async<A: Asynchronous>(
    runtime: &Runtime,
    client: &Arc<A>,
    requests: &Arc<[Request]>,
    arrivals_ns: &[u64],
) -> Result<Answers, Cause> {
    let meter = CpuMeter::start();
    let notes = Arc::new(Notes::begin(requests.len()));
    let mut tasks = Vec::with_capacity(requests.len());
    arrive(notes.start, arrivals_ns, |number, arrival_ns| {
        let (client, requests, notes) = (client.clone(), requests.clone(), notes.clone());
        tasks.push(runtime.spawn(async move {
            let first_ns = AtomicU64::new(0);
            let answered = || first_ns.store(notes.now_ns(), Ordering::Relaxed);
            let result = asynchronous::answer(&*client, &requests[number], answered).await;
            notes.ended(arrival_ns, first_ns.load(Ordering::Relaxed), result);
        }));
    });
    for task in tasks {
        runtime.block_on(task)?;
    }
    client.close()?;
    Arc::try_unwrap(notes).map_err(|_| "a request is still being answered")?.answers(&meter)
}

/// Has a blocking client answer the requests, each on one of [`THREADS`].
fn drive_blocking(
    answer: impl Fn(&Request, &mut dyn FnMut()) -> Result<(), Cause> + Sync,
    requests: &[Request],
    arrivals_ns: &[u64],
) -> Result<Answers, Cause> {
    let meter = CpuMeter::start();
    let notes = Notes::begin(requests.len());
    let (due, waiting) = mpsc::channel::<(usize, u64)>();
    let waiting = Mutex::new(waiting);
    thread::scope(|scope| {
        for _ in 0..THREADS.min(requests.len()) {
            scope.spawn(|| {
                loop {
                    // The guard goes before the request is answered.
                    let next = lock(&waiting).recv();
                    let Ok((number, due_ns)) = next else { return };
                    let mut first_ns = 0;
                    let mut answered = || first_ns = notes.now_ns();
                    let result = answer(&requests[number], &mut answered);
                    notes.ended(due_ns, first_ns, result);
                }
            });
        }
        arrive(notes.start, arrivals_ns, |number, arrival_ns| {
            if due.send((number, arrival_ns)).is_err() {
                unreachable!("the threads are there until the channel ends");
            }
        });
        drop(due);
    });
    notes.answers(&meter)
}
