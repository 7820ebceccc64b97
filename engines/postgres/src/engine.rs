//! Executing a group: its members in one transaction, optimistically; and what follows when one
//! fails, the server asks for another attempt, or the connection is lost.
//!
//! ```text
//!   all together ──► one fails ──► again, that one behind a savepoint ──► committed without it
//!        │                └──► others fail, one after the other: again with half of the members;
//!        │                     with 50 and fewer, every one behind a savepoint
//!        │ conflict or deadlock: again with half of the members
//!        │ commit refused: again with half of the members, in the end the one to blame alone
//!        │ connection lost: connect, again
//!        └ lost at COMMIT: ask the server what became of it, and again if it was not
//!
//!   whoever is in the group and not in the transaction goes back into the queue
//! ```
//!
//! Savepoints are kept few: above 64 in one transaction they slow every session of the server down.
//! How many members go without is remembered from one transaction to the next: where many fail, the
//! next begins with savepoints.
//!
//! Invariants:
//! 1. A member's result, an error too, is what it came to in the transaction that was committed, or
//!    before everybody else, or that it was stopped for the time it took; plans have theirs delivered
//!    after the commit.
//! 2. A commit whose outcome is not known is settled before anything is run again.
//! 3. One call of `execute` commits once at most, so that an outcome that stays open is that of all
//!    its members, and the number that goes with it is that of their transaction.
//! 4. Between groups no transaction is open.

use std::{collections::HashMap, ops::ControlFlow, sync::Arc, time::Duration};

use groupcommit_core::{Cause, Engine, ExclusiveEnd, Executed, Flush, Group, NotRun, Ran, Settled};
use groupcommit_remote::{Member, Members, Next, Obstacle, Sizes, Trials, insist, pause};

use crate::{
    Error, StatementResult, Transaction,
    exclusive::Exclusive,
    execution::{Execution, Fault, is_of_time},
    flusher::Flusher,
    session::{Connector, Session},
    settle,
    transaction::Part,
};

/// Members that share a transaction when each is behind a savepoint.
pub(crate) const SAVEPOINTS_MAX: usize = 50;

/// How many members are sent behind one that failed, among others that may, before the answers are
/// waited for. It doubles each time that all is well.
const BEHIND_FAILURE: usize = 4;

/// The writing side of one database.
pub struct Writer {
    pub(crate) connector: Connector,
    /// `None` until it is needed, and after it was lost.
    pub(crate) session: Option<Session>,
    /// How long the server may be out of reach before transactions are not run.
    pub(crate) reconnect_max: Duration,
    /// How long the outcome of a lost commit is asked for.
    pub(crate) settle_max: Duration,
    pub(crate) flusher: Flusher,
    /// By the conflicts with others' transactions.
    pub(crate) sizes: Sizes,
    /// By the members that fail: how many go into a transaction without savepoints. At the least
    /// there is, everyone gets one.
    pub(crate) unguarded: Sizes,
}

/// Why a group was not committed.
enum Setback {
    /// A member failed that had no savepoint, and everything was rolled back.
    Member,
    Again(Error),
    Refused(Error),
    Lost(Option<tokio_postgres::Error>),
    Stale,
    /// Nothing can be said of what happened.
    Fatal(Cause),
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
        let (mut members, mut trials) = (Members::default(), Trials::default());
        let (mut size, mut failures) = (self.sizes.now(), 0);
        loop {
            members.begin(group, size.min(self.unguarded.now()));
            let setback = match self.attempt(group, &mut members) {
                Ok(commits) => {
                    self.sizes.committed(members.len());
                    return Ok(Executed { commits });
                }
                Err(Setback::Fatal(cause)) => return Err(cause),
                Err(setback) => setback,
            };
            let obstacle = match &setback {
                Setback::Again(_) => Obstacle::Conflict,
                Setback::Refused(_) => Obstacle::Refused,
                Setback::Lost(error) => {
                    tracing::debug!(?error, "the connection was lost; the group runs again");
                    Obstacle::Lost
                }
                Setback::Stale => Obstacle::Lost,
                Setback::Member | Setback::Fatal(_) => {
                    failures += 1;
                    if failures > 1 {
                        self.unguarded.conflict(members.len());
                    }
                    continue;
                }
            };
            match trials.after(obstacle, members.len(), size, &mut self.sizes) {
                Next::Attempt(next) => size = next,
                Next::Pause(attempts) => pause(attempts),
                Next::GiveUp => {
                    if let Some(member) = members.first() {
                        give_up(group, member.index, setback);
                    }
                    return Ok(Executed::default());
                }
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

/// A member that could not be committed alone either.
fn give_up(group: &mut Group<Writer>, member: usize, last: Setback) {
    match last {
        Setback::Again(error) | Setback::Refused(error) => reject(group, member, error),
        Setback::Lost(error) => {
            group.refuse(member, NotRun::Unavailable(Arc::new(Error::Lost(error))));
        }
        Setback::Stale | Setback::Member => reject(group, member, Error::Aborted),
        Setback::Fatal(cause) => group.reject(member, cause),
    }
}

impl Writer {
    /// The connection; a new one where it was lost.
    fn take_session(&mut self) -> Result<Session, Error> {
        match self.session.take() {
            Some(session) if session.is_there() => return Ok(session),
            _ => {}
        }
        reconnect(&self.connector, self.reconnect_max)
    }

    /// Runs `members`, and more of the group, in one transaction. Says how many commits that took.
    fn attempt(&mut self, group: &mut Group<Self>, members: &mut Members) -> Result<u64, Setback> {
        let session = match self.take_session() {
            Ok(session) => session,
            Err(error) => {
                members.refuse_all(group, &(Arc::new(error) as Cause));
                return Ok(0);
            }
        };
        let all_guarded = self.unguarded.now() <= SAVEPOINTS_MAX;
        let mut execution = Execution::new(session);
        let ran = run_members(&mut execution, group, members, all_guarded);
        let outcome = match ran {
            Ok(()) if !execution.has_begun() => Ok(0),
            Ok(()) => execution.commit().map(|()| 1),
            Err(fault) => Err(fault),
        };
        let fault = match outcome {
            Ok(commits) => {
                if !execution.has_undone {
                    self.unguarded.committed(self.unguarded.now());
                }
                deliver(group, execution.take_plans());
                self.session = Some(execution.session);
                return Ok(commits);
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
        members: &mut Members,
        fault: Fault,
    ) -> Result<u64, Setback> {
        match fault {
            Fault::Doubt { xid, error } => {
                tracing::warn!(%xid, %error, "the connection was lost at a commit");
                let server = execution.session.server.clone();
                let plans = execution.take_plans();
                drop(execution);
                match settle::settle(&self.connector, &server, &xid, self.settle_max) {
                    Ok(Settled::Committed) => {
                        deliver(group, plans);
                        Ok(1)
                    }
                    Ok(Settled::RolledBack) => Err(Setback::Lost(Some(error))),
                    Err(unsettled) => Err(Setback::Fatal(Arc::new(Error::Unsettled(unsettled)))),
                }
            }
            Fault::Lost(error) => {
                let server = execution.session.server.clone();
                drop(execution);
                self.session = settle::end_process(&self.connector, &server);
                Err(Setback::Lost(error))
            }
            Fault::Member { member, error } => {
                let is_plan = execution.drop_plan(member);
                if execution.roll_back() {
                    self.keep_undone(execution);
                }
                let is_first = members.first().is_some_and(|first| first.index == member);
                if is_first || error.as_ref().is_some_and(is_of_time) {
                    // Nobody was before it, so this is what it comes to; or it would hold everybody
                    // up once more.
                    tell(group, member, is_plan, error);
                    members.remove(member);
                } else {
                    members.mark_failed(member);
                }
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
            // With the connection goes what the client has prepared for itself, which may be gone
            // from the server as well.
            Fault::Stale => {
                execution.roll_back();
                Err(Setback::Stale)
            }
        }
    }
}

/// Connects, again and again, but no longer than `within`.
pub(crate) fn reconnect(connector: &Connector, within: Duration) -> Result<Session, Error> {
    let connected = insist(within, |_| match connector.connect() {
        // A replica may be about to be promoted.
        Err(error @ (Error::Connect { .. } | Error::Replica(_))) => {
            tracing::debug!(%error, "no server can be reached that takes writes");
            ControlFlow::Continue(error)
        }
        other => ControlFlow::Break(other),
    });
    connected.unwrap_or_else(Err)
}

/// Runs the members in turn, up to the answer to the last of them. Those that fail behind a savepoint
/// are undone on the way.
fn run_members(
    execution: &mut Execution,
    group: &mut Group<Writer>,
    members: &mut Members,
    all_guarded: bool,
) -> Result<(), Fault> {
    let (mut unanswered, mut unanswered_max) = (0, usize::MAX);
    loop {
        let next = members.next(group);
        let mut waits = next.is_none();
        if let Some(member) = next {
            run_member(execution, group, member, all_guarded || member.has_failed);
            unanswered += 1;
            // What failed before is likely to do it again, and then all behind it is sent in vain.
            waits |= member.has_failed || unanswered >= unanswered_max;
        }
        if waits && execution.wait_all() {
            if next.is_none() {
                return Ok(());
            }
            (unanswered, unanswered_max) = (0, unanswered_max.saturating_mul(2));
        }
        match execution.take_fault() {
            None => {}
            Some(Fault::Member { member, error }) if execution.is_guarded(member) => {
                let is_plan = execution.drop_plan(member);
                if !execution.undo(member) {
                    return Err(execution.take_fault().unwrap_or(Fault::Lost(None)));
                }
                tell(group, member, is_plan, error);
                members.go_back_behind(member);
                if all_guarded {
                    (unanswered, unanswered_max) = (0, BEHIND_FAILURE);
                }
            }
            Some(fault) => return Err(fault),
        }
    }
}

/// Runs one member, as far as it can be without waiting for the answers.
fn run_member(
    execution: &mut Execution,
    group: &mut Group<Writer>,
    member: Member,
    is_guarded: bool,
) {
    execution.begin_member(member.index, is_guarded);
    let mut tx = Transaction { part: Part::Live(execution) };
    let ran = if member.has_run {
        group.rerun(member.index, &mut tx)
    } else {
        group.run(member.index, &mut tx)
    };
    if ran == Ran::Completed {
        if execution.is_touched() {
            execution.send_fence();
            execution.reset_settings();
        }
        execution.release_current();
        if let Some(Fault::Member { member: blamed, error: None }) = execution.fault()
            && *blamed == member.index
        {
            // Its closure made nothing of the error, but the server does.
            reject(group, member.index, Error::Aborted);
        }
    } else if execution.is_touched() {
        execution.blame_current();
    }
}

/// Tells a member that it was rolled back, unless its closure was given the `error`.
fn tell(group: &mut Group<Writer>, member: usize, is_plan: bool, error: Option<Error>) {
    let Some(error) = error else { return };
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

/// Tells the plans what they came to.
fn deliver(group: &mut Group<Writer>, plans: HashMap<usize, Vec<StatementResult>>) {
    for (member, results) in plans {
        let mut tx = Transaction { part: Part::Deliver(Some(Ok(results))) };
        group.run(member, &mut tx);
    }
}

impl Flush for Flusher {
    fn flush(&self) -> Result<(), Cause> {
        self.barrier().map_err(|error| Arc::new(error) as Cause)
    }
}
