//! A slot: the writing connection alone, for an interactive transaction or for what no member of a
//! group can do.
//!
//! ```text
//!   stream ──command──► closure of `Database::exclusive`, on a thread that may block
//!          ◄──reply────   in a transaction: at once
//!          ◄──reply────   outside one: after the slot has ended and its flush has returned
//! ```
//!
//! Invariants:
//! 1. One slot at a time, in order of arrival.
//! 2. No reply says that something is committed before it is durable.
//! 3. A transaction that outlives its time is rolled back, and its stream is told so ever after.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
};

use groupcommit::{
    Failure,
    sqlite::{Database, rusqlite::Connection},
};
use tokio::{
    sync::{OwnedSemaphorePermit, oneshot},
    time::Instant,
};

use crate::{
    error::{Failed, SqlError},
    interrupt::Interrupt,
    protocol::Description,
    run::{self, Alone, Progress, Run},
};

/// How long a transaction may last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// In all.
    pub(crate) total: Duration,
    /// Between two requests.
    pub(crate) idle: Duration,
}

/// What a stream asks of its slot.
enum Command {
    Run(Alone, oneshot::Sender<Reply>),
    Describe(String, oneshot::Sender<Result<Description, SqlError>>),
}

/// How far a program came.
pub(crate) enum Reply {
    Ended {
        run: Run,
        /// A transaction is open, and the slot with it.
        is_open: bool,
    },
    /// The slot has ended; the program goes on in another.
    Paused(Alone),
}

/// The reply that waits for the flush of its slot.
type Last = Arc<Mutex<Option<(oneshot::Sender<Reply>, Reply)>>>;

/// The stream's end of a slot. Dropping it rolls an open transaction back.
#[derive(Debug)]
pub(crate) struct Slot {
    commands: mpsc::Sender<Command>,
    ended: Arc<OnceLock<Failed>>,
}

impl Slot {
    /// Asks for the writing connection. Commands wait until it is there; `permit` keeps others from
    /// asking.
    pub(crate) fn open(
        database: Database,
        patience: Patience,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let (commands, receiver) = mpsc::channel();
        let ended = Arc::new(OnceLock::new());
        let end = ended.clone();
        tokio::task::spawn_blocking(move || {
            serve(&database, patience, Arc::new(Mutex::new(receiver)), &end);
            drop(permit);
        });
        Self { commands, ended }
    }

    pub(crate) async fn run(&self, alone: Alone) -> Result<Reply, Failed> {
        self.ask(|reply| Command::Run(alone, reply)).await
    }

    pub(crate) async fn describe(
        &self,
        sql: String,
    ) -> Result<Result<Description, SqlError>, Failed> {
        self.ask(|reply| Command::Describe(sql, reply)).await
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Failed> {
        let (sender, reply) = oneshot::channel();
        // Where nobody takes the command any more, nobody answers it either.
        drop(self.commands.send(command(sender)));
        reply.await.map_err(|_| {
            let unknown = || Failed::Unknown("the transaction's thread ended".into());
            self.ended.get().cloned().unwrap_or_else(unknown)
        })
    }
}

/// Holds the slot until its transaction, or its program, has ended.
fn serve(
    database: &Database,
    patience: Patience,
    commands: Arc<Mutex<mpsc::Receiver<Command>>>,
    ended: &Arc<OnceLock<Failed>>,
) {
    let last = Last::default();
    let served = {
        let (commands, ended, last) = (commands.clone(), ended.clone(), last.clone());
        let runtime = tokio::runtime::Handle::current();
        database.exclusive(move |connection: &Connection| {
            let commands = commands.lock().unwrap_or_else(PoisonError::into_inner);
            let interrupt = Interrupt::default();
            let watch = Watch::over(interrupt.clone(), patience.total, &runtime);
            let reply = interrupt
                .during(connection, || serve_commands(connection, &commands, patience, &ended));
            drop(watch);
            run::roll_back(connection);
            *last.lock().unwrap_or_else(PoisonError::into_inner) = reply;
            Ok::<(), Infallible>(())
        })
    };
    match served {
        Ok(()) => {
            let reply = last.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some((sender, reply)) = reply {
                drop(sender.send(reply)); // the client may be gone
            }
        }
        Err(failure) => drop(ended.set(failed(failure))), // unless it has timed out before
    }
    drop(commands);
}

/// What is said of a slot that failed as a whole. Its rejections are those of a panic.
fn failed(failure: Failure<Infallible>) -> Failed {
    match failure {
        Failure::NotRun(reason) => Failed::NotRun(reason.to_string()),
        other => Failed::Unknown(other.to_string()),
    }
}

/// Serves until no transaction is open; returns the reply that must wait for the flush.
fn serve_commands(
    connection: &Connection,
    commands: &mpsc::Receiver<Command>,
    patience: Patience,
    ended: &OnceLock<Failed>,
) -> Option<(oneshot::Sender<Reply>, Reply)> {
    let until = Instant::now() + patience.total;
    let timed_out = |which: &str, limit: Duration| {
        let message =
            format!("Transaction timed out: it was {which} for {limit:?} and was rolled back");
        drop(ended.set(Failed::Request(SqlError::new("TRANSACTION_TIMEOUT", message))));
        None
    };
    let mut committed = false;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match commands.recv_timeout(left.min(patience.idle)) {
            Ok(Command::Run(alone, sender)) => match alone.go_on(connection, &mut committed) {
                Progress::Paused(alone) => return Some((sender, Reply::Paused(alone))),
                Progress::Interrupted => return timed_out("open", patience.total),
                Progress::Ended(run) if connection.is_autocommit() => {
                    return Some((sender, Reply::Ended { run, is_open: false }));
                }
                Progress::Ended(run) => {
                    // The client may be gone; then nothing more comes.
                    drop(sender.send(Reply::Ended { run, is_open: true }));
                }
            },
            Ok(Command::Describe(sql, sender)) => {
                drop(sender.send(run::describe(connection, &sql)));
            }
            Err(RecvTimeoutError::Timeout) if left <= patience.idle => {
                return timed_out("open", patience.total);
            }
            Err(RecvTimeoutError::Timeout) => return timed_out("idle", patience.idle),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// Interrupts what runs in a slot when its time is over.
struct Watch(tokio::task::JoinHandle<()>);

impl Watch {
    fn over(interrupt: Interrupt, total: Duration, runtime: &tokio::runtime::Handle) -> Self {
        Self(runtime.spawn(async move {
            tokio::time::sleep(total).await;
            interrupt.interrupt();
        }))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The transaction of a stream.
#[derive(Debug, Default)]
pub(crate) enum Hold {
    /// None is open.
    #[default]
    None,
    Open(Slot),
    /// It ended without its client: nothing runs on the stream any more.
    Lost(SqlError),
}

impl Hold {
    /// What is left of a stream whose slot failed as a whole.
    pub(crate) fn after(failed: &Failed) -> Self {
        match failed {
            Failed::NotRun(_) => Self::None,
            Failed::Request(_) | Failed::Unknown(_) => Self::Lost(failed.clone().into_error()),
        }
    }
}
