//! Where a program runs, and what its outcome means for the client.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use groupcommit::{
    Failure, Rejected, Terms, Ticket,
    sqlite::{Database, Transaction, rusqlite},
};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch},
};

use crate::{
    Options,
    error::{Failed, SqlError, explain},
    interrupt::{Interrupt, InterruptOnDrop},
    memory::Memory,
    program::Program,
    protocol::{CursorEntry, Description},
    run::{self, Alone, Room, Run, Stop},
    running::Keys,
    slot::{Hold, Patience, Reply, Slot},
    streams::Streams,
};

/// Bytes of rows in one response; a cursor that only reads has no such limit.
const RESPONSE_BYTES_MAX: usize = 10 << 20;

/// Entries of a cursor that are read ahead of the client.
const ENTRIES_AHEAD: usize = 256;

/// One database and what its clients share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) database: Database,
    pub(crate) options: Options,
    pub(crate) streams: Streams,
    /// As many reads as there are reading connections.
    reads: Arc<Semaphore>,
    /// One slot at a time; those who wait are served in order of arrival.
    slots: Arc<Semaphore>,
    /// Only programs of this machine can connect.
    pub(crate) is_local: bool,
    /// Turns true when the server shuts down.
    pub(crate) stop: watch::Sender<bool>,
    /// Idempotency keys whose requests are running.
    pub(crate) keys: Keys,
    /// Requests that are being answered.
    answering: AtomicUsize,
    /// What requests and responses may take together.
    pub(crate) memory: Memory,
}

/// Before this thread of the runtime blocks: another one takes over the sockets and timers. False where there
/// is no other.
///
/// [`tokio::task::block_in_place`] guarantees the same with a hand-over that costs half of what a commit
/// does. Here the second of two tasks, which do nothing, wakes a thread that finds no more to do and so waits for events.
fn leave_the_runtime_to_others() -> bool {
    let has_others = Handle::current().metrics().num_workers() > 1;
    if has_others {
        tokio::spawn(std::future::ready(()));
        tokio::spawn(std::future::ready(()));
    }
    has_others
}

/// One of the connections that a server serves at once.
#[derive(Debug, Clone)]
pub(crate) struct Place(
    #[expect(dead_code, reason = "held, not read")] pub(crate) Arc<OwnedSemaphorePermit>,
);

impl Server {
    pub(crate) fn new(database: Database, options: Options, is_local: bool) -> Self {
        Self {
            database,
            streams: Streams::default(),
            is_local,
            keys: Keys::default(),
            stop: watch::Sender::new(false),
            reads: Arc::new(Semaphore::new(options.readers)),
            slots: Arc::new(Semaphore::new(1)),
            answering: AtomicUsize::new(0),
            memory: Memory::of(options.memory_bytes_max),
            options,
        }
    }

    /// Ready once the server shuts down.
    pub(crate) fn stopping(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stop = self.stop.subscribe();
        async move {
            // An error says that the server is gone, which is no different.
            drop(stop.wait_for(|stop| *stop).await);
        }
    }

    /// Counts a request until what is returned is dropped.
    pub(crate) fn answering(&self) -> Answering<'_> {
        self.answering.fetch_add(1, Relaxed);
        Answering(self)
    }

    /// Room for the rows of one response.
    pub(crate) fn room(&self) -> Room {
        Room::new(RESPONSE_BYTES_MAX, self.memory.none())
    }

    /// Runs a program in the stream's transaction, or wherever it is cheapest.
    pub(crate) async fn run(
        &self,
        program: Arc<Program>,
        hold: &mut Hold,
        room: &Room,
    ) -> Result<Run, Failed> {
        if let Hold::None = hold {
            if program.may_only_read()
                && let Some(run) = self.read(program.clone(), room.again()).await?
            {
                return Ok(run);
            }
            if !program.needs_slot()
                && let Some(run) = self.member(program.clone(), room.again()).await?
            {
                return Ok(run);
            }
        }
        self.alone(Alone::new(program, room.again()), hold).await
    }

    /// What SQLite says of a statement without running it.
    pub(crate) async fn describe(
        &self,
        sql: String,
        hold: &mut Hold,
    ) -> Result<Result<Description, SqlError>, Failed> {
        match hold {
            Hold::Lost(error) => Err(Failed::Request(error.clone())),
            Hold::Open(slot) => {
                let described = slot.describe(sql).await;
                described.inspect_err(|failed| *hold = Hold::after(failed))
            }
            Hold::None => {
                self.reading_soon(move |connection| run::describe(connection, &sql)).await
            }
        }
    }

    /// Reads on a reading connection; `None` if the program may write.
    async fn read(&self, program: Arc<Program>, room: Room) -> Result<Option<Run>, Failed> {
        let read = move |connection: &rusqlite::Connection| {
            let only_reads = run::only_reads(connection, &program);
            only_reads.then(|| run::read(connection, &program, room))
        };
        self.reading_soon(read).await?.transpose().or_else(Stop::settle)
    }

    /// Hands out the entries of a cursor as they are read; `None` if the program may write.
    pub(crate) async fn read_entries(
        self: &Arc<Self>,
        program: Arc<Program>,
    ) -> Option<mpsc::Receiver<(CursorEntry, Memory)>> {
        let (sender, entries) = mpsc::channel(ENTRIES_AHEAD);
        let (only_reads, it_does) = oneshot::channel();
        let server = self.clone();
        tokio::spawn(async move {
            let (entries, patience) = (sender.clone(), server.options.send_timeout);
            let memory = server.memory.none();
            let handed_out = Arc::new(AtomicBool::new(false));
            let hands_out = handed_out.clone();
            let runtime = tokio::runtime::Handle::current();
            let reading = server.reading(move |connection| {
                if !run::only_reads(connection, &program) || only_reads.send(()).is_err() {
                    return;
                }
                let send = &mut |entry, memory| {
                    hands_out.store(true, Relaxed);
                    let sent = tokio::time::timeout(patience, entries.send((entry, memory)));
                    runtime.block_on(sent).ok().and_then(Result::ok).ok_or(Stop::Abandoned)
                };
                let room = Room::new(RESPONSE_BYTES_MAX, memory.none());
                let read = run::read_entries(connection, &program, &room, send);
                if let Err(Err(failed)) = read.map_err(Stop::settle) {
                    let error = CursorEntry::Error { error: failed.into_error() };
                    // The client is gone, or too slow to be waited for.
                    drop(send(error, memory.none()));
                }
            });
            let read = server.streaming(reading, &handed_out, sender.closed()).await;
            if let Some(Err(failed)) = read {
                let error = CursorEntry::Error { error: failed.into_error() };
                drop(sender.send((error, server.memory.none())).await); // nobody may be there to take it
            }
        });
        it_does.await.ok().map(|()| entries)
    }

    /// Waits for a read that hands out what it finds; gives up one that hands out nothing for as long
    /// as a request may take. `None` when its client is gone.
    pub(crate) async fn streaming<T>(
        &self,
        reading: impl Future<Output = Result<T, Failed>>,
        handed_out: &AtomicBool,
        gone: impl Future<Output = ()>,
    ) -> Option<Result<T, Failed>> {
        let limit = self.options.request_timeout;
        let (mut reading, mut gone) = (std::pin::pin!(reading), std::pin::pin!(gone));
        loop {
            tokio::select! {
                read = &mut reading => return Some(read),
                () = &mut gone => return None,
                () = tokio::time::sleep(limit) => {
                    if !handed_out.swap(false, Relaxed) {
                        return Some(Err(Failed::Request(too_slow(limit))));
                    }
                }
            }
        }
    }

    /// As [`reading`](Self::reading), for no longer than a request may take.
    async fn reading_soon<T: Send + 'static>(
        &self,
        read: impl FnOnce(&rusqlite::Connection) -> T + Send + 'static,
    ) -> Result<T, Failed> {
        let limit = self.options.request_timeout;
        tokio::time::timeout(limit, self.reading(read))
            .await
            .unwrap_or_else(|_| Err(Failed::Request(too_slow(limit))))
    }

    /// Runs `read` with a reading connection, on a thread that may block. It is interrupted when
    /// nobody waits for it any more.
    pub(crate) async fn reading<T: Send + 'static>(
        &self,
        read: impl FnOnce(&rusqlite::Connection) -> T + Send + 'static,
    ) -> Result<T, Failed> {
        let closed = |_| Failed::NotRun("the server is shutting down".into());
        let permit = self.reads.clone().acquire_owned().await.map_err(closed)?;
        let database = self.database.clone();
        let interrupt = Interrupt::default();
        let interruptible = interrupt.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let value = database.read(|connection| {
                let value = interruptible.during(connection, || read(connection));
                Ok::<T, rusqlite::Error>(value)
            });
            drop(permit);
            value
        });
        let _interrupt = InterruptOnDrop(interrupt);
        match reading.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(failure)) => Err(Failed::NotRun(explain(&failure))),
            Err(panicked) => Err(Failed::Request(internal(&panicked.to_string()))),
        }
    }

    /// Runs as a member of a group; `None` if only a slot can run it.
    async fn member(&self, program: Arc<Program>, room: Room) -> Result<Option<Run>, Failed> {
        let terms = Terms::new().deadline(self.options.request_timeout).bytes(program.bytes());
        #[cfg(feature = "experiments")]
        let _alone =
            if self.options.one_commit_a_request { self.slots.acquire().await.ok() } else { None };
        let member = move |tx: &mut Transaction<'_>| run::member(tx, &program, room.again());
        match self.submit(terms, member)?.await {
            Ok(run) => Ok(Some(run)),
            Err(Failure::Rejected(Rejected::Caller(stop))) => stop.settle(),
            Err(Failure::Rejected(Rejected::Panicked(message))) => {
                Err(Failed::Request(internal(&message)))
            }
            // Alone, SQLite itself says what is wrong, and what of it stays.
            Err(Failure::Rejected(_)) => Ok(None),
            Err(Failure::NotRun(reason)) => Err(Failed::NotRun(explain(&reason))),
            Err(Failure::Unknown(unknown)) => Err(Failed::unknown(&unknown)),
        }
    }

    /// Submits a transaction to a group; or runs it on this thread, without handing it over and back,
    /// where no other request is being answered that it could share a flush with, or keep waiting.
    pub(crate) fn submit<T: Send + 'static, X: Send + 'static>(
        &self,
        terms: Terms,
        member: impl FnMut(&mut Transaction<'_>) -> Result<T, X> + Send + 'static,
    ) -> Result<Ticket<T, X>, Failed> {
        let database = self.database.with(terms);
        let led = if self.answering.load(Relaxed) == 1 && leave_the_runtime_to_others() {
            database.try_lead(member)
        } else {
            Err(member)
        };
        led.or_else(|member| database.try_submit(member))
            .map_err(|refused| Failed::NotRun(refused.reason.to_string()))
    }

    /// Runs in the stream's slot, or in one of its own; the slot stays with the stream while a
    /// transaction is open.
    async fn alone(&self, mut alone: Alone, hold: &mut Hold) -> Result<Run, Failed> {
        loop {
            let slot = match hold {
                Hold::Lost(error) => return Err(Failed::Request(error.clone())),
                Hold::Open(slot) => slot,
                Hold::None => {
                    *hold = Hold::Open(self.slot().await?);
                    continue;
                }
            };
            match slot.run(alone).await {
                Ok(Reply::Ended { run, is_open }) => {
                    if !is_open {
                        *hold = Hold::None;
                    }
                    return Ok(run);
                }
                Ok(Reply::Paused(rest)) => {
                    alone = rest;
                    *hold = Hold::None;
                }
                Err(failed) => {
                    *hold = Hold::after(&failed);
                    return Err(failed);
                }
            }
        }
    }

    async fn slot(&self) -> Result<Slot, Failed> {
        let busy = || {
            let message = "other transactions held the connection for too long; send it again";
            Failed::Request(SqlError::new("TRANSACTION_BUSY", message))
        };
        let permit = self.slots.clone().acquire_owned();
        let waited = tokio::time::timeout(self.options.request_timeout, permit).await;
        let permit = waited.ok().and_then(Result::ok).ok_or_else(busy)?;
        let patience = Patience {
            total: self.options.transaction_timeout,
            idle: self.options.transaction_idle_timeout,
        };
        Ok(Slot::open(self.database.clone(), patience, permit))
    }
}

/// A request that is being answered.
pub(crate) struct Answering<'a>(&'a Server);

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.0.answering.fetch_sub(1, Relaxed);
    }
}

fn too_slow(limit: Duration) -> SqlError {
    SqlError::new("SQLITE_INTERRUPT", format!("the read found nothing for {limit:?}"))
}

fn internal(message: &str) -> SqlError {
    SqlError::new("INTERNAL", format!("the server failed to run it: {message}"))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, Read as _, Write as _},
        net::TcpStream,
    };

    use super::*;

    /// Reads one response: its status line and its body.
    fn response(from: &TcpStream) -> (String, String) {
        let mut from = BufReader::new(from);
        let mut lines = vec![String::new()];
        while from.read_line(lines.last_mut().unwrap()).unwrap() > 2 {
            lines.push(String::new());
        }
        let length = lines.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.trim().parse().unwrap()];
        from.read_exact(&mut body).unwrap();
        (lines.swap_remove(0), String::from_utf8(body).unwrap())
    }

    #[test]
    fn a_commit_that_blocks_a_thread_of_the_runtime_keeps_no_other_request_waiting() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.db");
        let database = Database::open(&path).unwrap();
        database.transact(|tx| tx.execute("CREATE TABLE t (a)", ())).unwrap();
        let serving = runtime.block_on(crate::bind(database, "127.0.0.1:0", Options::default()));
        let address = serving.as_ref().unwrap().address().unwrap();
        runtime.spawn(serving.unwrap().run(std::future::pending()));
        let other = rusqlite::Connection::open(&path).unwrap();
        let [mut writer, mut client] = [(); 2].map(|()| TcpStream::connect(address).unwrap());
        let health = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";
        let sql = r#"{"requests":[{"type":"execute","stmt":{"sql":"INSERT INTO t VALUES (1)"}}]}"#;
        let length = sql.len();
        let insert = format!(
            "POST /v2/pipeline HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{sql}"
        );
        // Often enough that each thread of the runtime has been the one that waits for events.
        for _ in 0..20 {
            other.execute_batch("BEGIN IMMEDIATE").unwrap();
            writer.write_all(insert.as_bytes()).unwrap();
            client.write_all(health).unwrap();
            assert!(response(&client).0.contains("200"));
            other.execute_batch("ROLLBACK").unwrap();
            // Had the other request waited for this one, the lock would have been held for too long.
            let (status, body) = response(&writer);
            assert!(status.contains("200") && body.contains(r#""affected_row_count":1"#), "{body}");
        }
    }
}
