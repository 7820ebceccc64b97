//! Executing a group: all members in one transaction, optimistically; and what follows when one
//! fails, the server asks for another attempt, or the connection is lost.
//!
//! ```text
//!   all together ──► one fails ──► all others together ──► another fails ──► the rest by parts of
//!        │ serialization failure or deadlock: again                          50, each member behind
//!        │ again and again ──────────────────────────────────────────────►   a savepoint; a part that
//!        │ connection lost: connect, again                                   cannot be committed: each
//!        └ lost at COMMIT: ask the server what became of it                  member alone
//! ```
//!
//! Savepoints are kept few: above 64 in one transaction they slow every session of the server down.
//!
//! Invariants:
//! 1. A member's result is what it came to in the transaction that was committed; plans have theirs
//!    delivered after the commit.
//! 2. A commit whose outcome is not known is settled before anything is run again.
//! 3. Between groups no transaction is open.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use groupcommit_core::{Cause, Engine, ExclusiveEnd, Executed, Flush, Group, NotRun, Ran};

use crate::{
    Error, StatementResult, Transaction,
    exclusive::Exclusive,
    execution::{Execution, Fault},
    flusher::Flusher,
    session::{Connector, Server, Session, pause},
    settle::{self, Settled},
    transaction::Part,
};

/// Members that share a transaction when each is behind a savepoint.
const SAVEPOINTS_MAX: usize = 50;

/// Failures in one group from which on its members are put behind savepoints.
const FAILURES_MAX: u32 = 2;

/// Attempts at a group that the server asks to be run again, before its members are run apart.
const TOGETHER_MAX: u32 = 3;

/// Attempts at a member alone that the server asks to be run again.
const ALONE_MAX: u32 = 30;

/// Connections lost in one group while no commit was sent, before its members are run apart, and
/// then at each of them: it may be one of them that brings the server down.
const LOST_MAX: u32 = 3;

/// The writing side of one database.
pub(crate) struct Writer {
    pub(crate) connector: Connector,
    /// `None` until it is needed, and after it was lost.
    pub(crate) session: Option<Session>,
    /// How long the server may be out of reach before transactions are not run.
    pub(crate) reconnect_max: Duration,
    /// How long the outcome of a lost commit is asked for.
    pub(crate) settle_max: Duration,
    pub(crate) flusher: Flusher,
}

/// A member that was taken from the group.
#[derive(Debug, Clone, Copy)]
struct Member {
    index: usize,
    has_run: bool,
}

/// Why a group, or a part of it, was not committed.
enum Setback {
    /// A member failed, and is decided; the others are to be run again.
    Member,
    Again(Error),
    Refused(Error),
    Lost(Option<tokio_postgres::Error>),
    Stale,
    /// Nothing can be said of what happened.
    Fatal(Cause),
}

/// How often what went wrong with a group.
#[derive(Debug, Default)]
struct Trials {
    failures: u32,
    again: u32,
    lost: u32,
    stale: u32,
}

impl Engine for Writer {
    const COMMIT_IS_DURABLE: bool = true;

    type Transaction<'g> = Transaction<'g>;
    type Exclusive = Exclusive;
    type Flusher = Flusher;

    fn flusher(&self) -> Flusher {
        self.flusher.clone()
    }

    fn execute(&mut self, group: &mut Group<Self>) -> Result<Executed, Cause> {
        let (mut members, mut commits, mut trials) = (Vec::new(), 0, Trials::default());
        loop {
            let setback = match self.attempt(group, &mut members, true, false) {
                Ok(committed) => {
                    return Ok(Executed { commits: commits + u64::from(committed) });
                }
                Err(setback) => setback,
            };
            match setback {
                Setback::Member => trials.failures += 1,
                Setback::Again(_) => {
                    thread::sleep(pause(trials.again));
                    trials.again += 1;
                }
                Setback::Stale => trials.stale += 1,
                Setback::Lost(error) => {
                    tracing::debug!(?error, "the connection was lost; the group runs again");
                    trials.lost += 1;
                }
                Setback::Refused(_) => trials.again = TOGETHER_MAX,
                Setback::Fatal(cause) => return Err(cause),
            }
            if trials.failures >= FAILURES_MAX
                || trials.again >= TOGETHER_MAX
                || trials.lost >= LOST_MAX
                || trials.stale >= LOST_MAX
            {
                while let Some(index) = group.next_member() {
                    members.push(Member { index, has_run: false });
                }
                for part in members.chunks(SAVEPOINTS_MAX) {
                    commits += self.run_part(group, part)?;
                }
                return Ok(Executed { commits });
            }
        }
    }

    fn exclusive(
        &mut self,
        run: &mut dyn FnMut(&mut Exclusive) -> Ran,
    ) -> Result<ExclusiveEnd, Cause> {
        let session = match self.take_session() {
            Ok(session) => session,
            Err(error) => return Ok(ExclusiveEnd::Refused(NotRun::Unavailable(Arc::new(error)))),
        };
        // The connection goes with it, and with that whatever it set or left open.
        let mut exclusive = Exclusive { session };
        run(&mut exclusive);
        match exclusive.has_open_transaction() {
            Ok(false) => Ok(ExclusiveEnd::Kept),
            Ok(true) => Ok(ExclusiveEnd::Rejected(Arc::new(Error::Aborted))),
            Err(error) => Err(Arc::new(Error::Lost(Some(error)))),
        }
    }

    fn close(&mut self) -> Result<(), Cause> {
        drop(self.session.take());
        self.flusher.close();
        Ok(())
    }
}

impl Writer {
    /// The connection; a new one where it was lost.
    fn take_session(&mut self) -> Result<Session, Error> {
        match self.session.take() {
            Some(session) if !session.client.is_closed() => return Ok(session),
            _ => {}
        }
        reconnect(&self.connector, self.reconnect_max)
    }

    /// Runs a part of a group, each member behind a savepoint, and where that does not do, each
    /// alone. Returns the number of commits.
    fn run_part(&mut self, group: &mut Group<Self>, part: &[Member]) -> Result<u64, Cause> {
        let mut members = part.to_vec();
        let mut trials = Trials::default();
        loop {
            let is_alone = part.len() == 1;
            let setback = match self.attempt(group, &mut members, false, !is_alone) {
                Ok(committed) => return Ok(u64::from(committed)),
                Err(setback) => setback,
            };
            let last = |setback| match setback {
                Setback::Again(error) | Setback::Refused(error) => error,
                Setback::Lost(error) => Error::Lost(error),
                Setback::Member | Setback::Stale | Setback::Fatal(_) => Error::Aborted,
            };
            let is_over = match &setback {
                Setback::Fatal(cause) => return Err(cause.clone()),
                Setback::Member => is_alone, // it is decided
                Setback::Refused(_) => true,
                Setback::Again(_) => {
                    thread::sleep(pause(trials.again));
                    trials.again += 1;
                    trials.again >= if is_alone { ALONE_MAX } else { TOGETHER_MAX }
                }
                Setback::Stale => {
                    trials.stale += 1;
                    trials.stale >= LOST_MAX
                }
                Setback::Lost(_) => {
                    trials.lost += 1;
                    trials.lost >= LOST_MAX
                }
            };
            if !is_over {
                continue;
            }
            if !is_alone {
                return members.iter().try_fold(0, |commits, member| {
                    Ok(commits + self.run_part(group, std::slice::from_ref(member))?)
                });
            }
            if let Some(member) = members.first() {
                match setback {
                    Setback::Lost(_) => {
                        let reason = NotRun::Unavailable(Arc::new(last(setback)));
                        group.refuse(member.index, reason);
                    }
                    setback => reject(group, member.index, last(setback)),
                }
            }
            return Ok(0);
        }
    }

    /// Runs `members`, and with `pull` the rest of the group, in one transaction. Says whether there
    /// was anything to commit.
    fn attempt(
        &mut self,
        group: &mut Group<Self>,
        members: &mut Vec<Member>,
        pull: bool,
        savepoints: bool,
    ) -> Result<bool, Setback> {
        let session = match self.take_session() {
            Ok(session) => session,
            Err(error) => {
                refuse_all(group, members, pull, error);
                return Ok(false);
            }
        };
        let mut execution = Execution::new(session);
        let ran = run_members(&mut execution, group, members, pull, savepoints);
        let outcome = match ran {
            Ok(()) if !execution.has_begun() => Ok(false),
            Ok(()) => execution.commit().map(|()| true),
            Err(fault) => Err(fault),
        };
        let fault = match outcome {
            Ok(committed) => {
                deliver_plans(&mut execution, group);
                self.session = Some(execution.session);
                return Ok(committed);
            }
            Err(fault) => fault,
        };
        self.overcome(execution, group, members, fault)
    }

    /// Keeps the connection of an attempt that was rolled back, unless what it knows of the schema
    /// was.
    fn keep_undone(&mut self, execution: Execution) {
        if !execution.has_defined {
            self.session = Some(execution.session);
        }
    }

    /// Ends an attempt that met with a fault.
    fn overcome(
        &mut self,
        mut execution: Execution,
        group: &mut Group<Self>,
        members: &mut Vec<Member>,
        fault: Fault,
    ) -> Result<bool, Setback> {
        match fault {
            Fault::Doubt { xid, error } => {
                tracing::warn!(%xid, %error, "the connection was lost at a commit");
                let server = execution.session.server.clone();
                let plans = execution.take_plans();
                drop(execution);
                match settle::settle(&self.connector, &server, &xid, self.settle_max) {
                    Ok(Settled::Committed) => {
                        deliver(group, plans);
                        Ok(true)
                    }
                    Ok(Settled::RolledBack) => Err(Setback::Lost(Some(error))),
                    Err(unsettled) => Err(Setback::Fatal(Arc::new(Error::Unsettled(unsettled)))),
                }
            }
            Fault::Lost(error) => {
                let server: Server = execution.session.server.clone();
                drop(execution);
                settle::end_process(&self.connector, &server);
                Err(Setback::Lost(error))
            }
            Fault::Member { member, error } => {
                let is_plan = execution.drop_plan(member);
                if execution.roll_back() {
                    self.keep_undone(execution);
                }
                if let Some(error) = error {
                    tell(group, member, is_plan, error);
                }
                members.retain(|other| other.index != member);
                Err(Setback::Member)
            }
            Fault::Again(error) | Fault::Refused(error) if !execution.roll_back() => {
                Err(Setback::Lost(Some(error)))
            }
            Fault::Again(error) => {
                self.keep_undone(execution);
                Err(Setback::Again(Error::Server(error)))
            }
            Fault::Refused(error) => {
                self.keep_undone(execution);
                Err(Setback::Refused(Error::Server(error)))
            }
            Fault::Stale => {
                if execution.roll_back() {
                    self.keep_undone(execution);
                }
                Err(Setback::Stale)
            }
        }
    }
}

/// Connects, again and again, but no longer than `within`.
pub(crate) fn reconnect(connector: &Connector, within: Duration) -> Result<Session, Error> {
    let until = Instant::now() + within;
    let mut attempts = 0;
    loop {
        match connector.connect() {
            Err(error @ Error::Connect { .. }) if Instant::now() < until => {
                tracing::debug!(%error, attempts, "the server cannot be reached");
                thread::sleep(pause(attempts));
                attempts += 1;
            }
            other => return other,
        }
    }
}

/// Runs the members in turn, up to the answer to the last of them.
fn run_members(
    execution: &mut Execution,
    group: &mut Group<Writer>,
    members: &mut Vec<Member>,
    pull: bool,
    savepoints: bool,
) -> Result<(), Fault> {
    let mut at = 0;
    loop {
        if at == members.len() {
            match pull.then(|| group.next_member()).flatten() {
                Some(index) => members.push(Member { index, has_run: false }),
                None => break,
            }
        }
        let member = members[at];
        if member.has_run && group.passed_deadline(member.index) {
            group.refuse(member.index, NotRun::DeadlinePassed);
            members.remove(at);
            continue;
        }
        members[at].has_run = true;
        at += 1;
        execution.begin_member(member.index);
        if savepoints && execution.send_savepoint().is_err() {
            return Err(execution.take_fault().unwrap_or(Fault::Lost(None)));
        }
        let mut tx = Transaction { part: Part::Live(execution) };
        let ran = if member.has_run {
            group.rerun(member.index, &mut tx)
        } else {
            group.run(member.index, &mut tx)
        };
        end_member(execution, group, member.index, ran, savepoints)?;
    }
    if execution.wait_all() { Ok(()) } else { Err(fault_in(execution)) }
}

fn fault_in(execution: &mut Execution) -> Fault {
    execution.take_fault().unwrap_or(Fault::Lost(None))
}

/// Draws the conclusion from what a member's closure did.
fn end_member(
    execution: &mut Execution,
    group: &mut Group<Writer>,
    member: usize,
    ran: Ran,
    savepoints: bool,
) -> Result<(), Fault> {
    if ran == Ran::Completed && execution.is_touched() {
        execution.send_fence();
    }
    if savepoints {
        execution.wait_all();
    }
    let mut fault = execution.take_fault();
    if let Some(Fault::Member { member: blamed, error: None }) = &fault
        && *blamed == member
        && ran == Ran::Completed
    {
        // Its closure made nothing of the error, but the server does.
        group.reject(member, Arc::new(Error::Aborted));
    }
    if fault.is_none() && ran != Ran::Completed && execution.is_touched() {
        fault = Some(Fault::Member { member, error: None });
    }
    match fault {
        None => {
            if savepoints {
                execution.send_release();
            }
            Ok(())
        }
        Some(Fault::Member { member: blamed, error }) if savepoints && blamed == member => {
            let is_plan = execution.drop_plan(member);
            if !execution.undo_member() {
                return Err(fault_in(execution));
            }
            if let Some(error) = error {
                tell(group, member, is_plan, error);
            }
            Ok(())
        }
        Some(fault) => Err(fault),
    }
}

/// Tells a member, which ran to its end, that it is rolled back.
fn tell(group: &mut Group<Writer>, member: usize, is_plan: bool, error: Error) {
    if is_plan {
        let mut tx = Transaction { part: Part::Deliver(Some(Err(error))) };
        group.run(member, &mut tx);
    } else {
        reject(group, member, error);
    }
}

fn reject(group: &mut Group<Writer>, member: usize, error: Error) {
    group.reject(member, Arc::new(error));
}

fn deliver_plans(execution: &mut Execution, group: &mut Group<Writer>) {
    deliver(group, execution.take_plans());
}

fn deliver(
    group: &mut Group<Writer>,
    plans: std::collections::HashMap<usize, Vec<StatementResult>>,
) {
    for (member, results) in plans {
        let mut tx = Transaction { part: Part::Deliver(Some(Ok(results))) };
        group.run(member, &mut tx);
    }
}

/// The server is out of reach: nothing of these was sent.
fn refuse_all(group: &mut Group<Writer>, members: &[Member], pull: bool, error: Error) {
    let cause: Cause = Arc::new(error);
    for member in members {
        group.refuse(member.index, NotRun::Unavailable(cause.clone()));
    }
    if pull {
        while let Some(index) = group.next_member() {
            group.refuse(index, NotRun::Unavailable(cause.clone()));
        }
    }
}

impl Flush for Flusher {
    fn flush(&self) -> Result<(), Cause> {
        self.barrier().map_err(|error| Arc::new(error) as Cause)
    }
}
