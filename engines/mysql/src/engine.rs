//! Executing a group: all members in one transaction, optimistically; and what follows when that
//! cannot be committed.
//!
//! ```text
//!   all together ──► a plan has to be undone: again, with savepoints
//!        │ conflict or deadlock: again with half of them; the others go back into the queue
//!        │ connection lost: connect, again
//!        └ commit failed, or lost: settle it from the record, and again if it was not
//! ```
//!
//! Invariants:
//! 1. A member's result is what it came to in the transaction that was committed; plans have theirs
//!    delivered after the commit.
//! 2. A commit whose outcome is not known is settled before anything is run again.
//! 3. One call of `execute` commits once at most, so that an outcome that stays open is that of all
//!    its members.
//! 4. Between groups no transaction is open.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use groupcommit_core::{Cause, Engine, ExclusiveEnd, Executed, Flush, Group, NotRun, Ran, Settled};
use groupcommit_remote::{Members, Next, Obstacle, Sizes, Trials, insist, pause};
use groupcommit_statement::StatementResult;

use crate::{
    Error, Transaction,
    error::Unsettled,
    exclusive::Exclusive,
    execution::{Execution, Fault},
    flusher::Flusher,
    record::{Key, Pipeline},
    session::{Connector, Failed, LOCK_WAIT, Server, Session, Use, code, is_lost, is_transient},
    settle,
    transaction::Part,
};

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
    pub(crate) record: Pipeline,
    /// The position of the last commit that was sent.
    pub(crate) position: u64,
    /// The positions of rows that are needed no more.
    pub(crate) previous: Vec<u64>,
    pub(crate) sizes: Sizes,
    /// An outcome stayed open, which the record is kept for.
    pub(crate) has_unsettled: bool,
    /// The connection that was lost, until it is known to have ended.
    pub(crate) lost: Option<Server>,
}

/// Rows of the record that are removed in one statement: with each group they would be one more to run
/// before its commit.
const ROWS_REMOVED: usize = 16;

/// Why a group was not committed.
enum Setback {
    /// Something has to be undone for which there was no savepoint.
    Undone,
    Again(Error),
    Refused(Error),
    Lost(Option<mysql_async::Error>),
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
        let (mut savepoints, mut size) = (false, self.sizes.now());
        loop {
            members.begin(group, size);
            let setback = match self.attempt(group, &mut members, savepoints) {
                Ok(commits) => {
                    self.sizes.committed(members.len());
                    return Ok(Executed { commits });
                }
                Err(Setback::Fatal(cause)) => return Err(cause),
                Err(setback) => setback,
            };
            let obstacle = match &setback {
                Setback::Again(error) if is_lock_wait(error) => Obstacle::LockWait,
                Setback::Again(_) => Obstacle::Conflict,
                Setback::Refused(_) => Obstacle::Refused,
                Setback::Lost(error) => {
                    tracing::debug!(?error, "the connection was lost; the group runs again");
                    Obstacle::Lost
                }
                Setback::Undone | Setback::Fatal(_) => {
                    savepoints = true;
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
        let session = match reconnect(&self.connector, Use::Alone, self.reconnect_max) {
            Ok(session) => session,
            Err(error) => return Ok(ExclusiveEnd::Refused(NotRun::Unavailable(Arc::new(error)))),
        };
        // The connection goes with it, and with that whatever it set or left open.
        let mut exclusive = Exclusive::new(session, self.connector.clone());
        run(&mut exclusive);
        match exclusive.end() {
            Ok(false) => Ok(ExclusiveEnd::Kept),
            Ok(true) => Ok(ExclusiveEnd::Rejected(Arc::new(Error::Ended))),
            Err(error) => Err(Arc::new(Error::Lost(Some(error)))),
        }
    }

    fn close(&mut self) -> Result<(), Cause> {
        let session = self.session.take();
        if session.as_ref().is_none_or(|session| session.server.has_record)
            && !self.has_unsettled
            && let Err(error) = self.remove_record(session)
        {
            tracing::debug!(%error, "the record was left behind");
        }
        self.flusher.close();
        Ok(())
    }
}

/// A member that could not be committed alone either.
fn give_up(group: &mut Group<Writer>, member: usize, last: Setback) {
    match last {
        Setback::Again(error) | Setback::Refused(error) => group.reject(member, Arc::new(error)),
        Setback::Lost(error) => {
            group.refuse(member, NotRun::Unavailable(Arc::new(Error::Lost(error))));
        }
        Setback::Undone => group.reject(member, Arc::new(Error::Ended)),
        Setback::Fatal(cause) => group.reject(member, cause),
    }
}

fn is_lock_wait(error: &Error) -> bool {
    matches!(error, Error::Server(error) if code(error) == Some(LOCK_WAIT))
}

impl Writer {
    /// The connection; a new one where it was lost.
    fn take_session(&mut self) -> Result<Session, Error> {
        if let Some(session) = self.session.take() {
            return Ok(session);
        }
        let mut session = reconnect(&self.connector, Use::Write, self.reconnect_max)?;
        if let Some(lost) = self.lost.take() {
            session.end(&lost);
        }
        if session.server.has_record {
            // The table may have been made anew. No outcome is open here, or nothing would run.
            session.begin_record(self.record).map_err(|error| Error::Connect {
                server: self.connector.shown(),
                source: Arc::new(error),
            })?;
        }
        Ok(session)
    }

    /// Removes the pipeline's rows, over another connection where this one was lost.
    fn remove_record(&self, session: Option<Session>) -> Result<(), Error> {
        let text = self.record.close();
        if let Some(mut session) = session {
            match session.run_now(text.as_bytes(), |_, _| {}) {
                Ok(()) => return Ok(()),
                Err(Failed { error, .. }) if is_lost(&error) => {}
                Err(Failed { error, .. }) => return Err(Error::Server(error)),
            }
        }
        let mut session = self.connector.connect(Use::Ask)?;
        let removed = session.run_now(text.as_bytes(), |_, _| {});
        removed.map_err(|Failed { error, .. }| Error::Server(error))
    }

    /// Runs `members`, and more of the group, in one transaction. Says how many commits that took.
    fn attempt(
        &mut self,
        group: &mut Group<Self>,
        members: &mut Members,
        savepoints: bool,
    ) -> Result<u64, Setback> {
        let session = match self.take_session() {
            Ok(session) => session,
            Err(error) => {
                members.refuse_all(group, &(Arc::new(error) as Cause));
                return Ok(0);
            }
        };
        let mut execution = Execution::new(session, self.connector.clone(), savepoints);
        run_members(&mut execution, group, members);
        let fault = if execution.has_fault() {
            execution.take_fault()
        } else if execution.has_begun() {
            match self.commit(&mut execution) {
                Ok(()) => {
                    deliver(group, &mut execution);
                    self.session = Some(execution.session);
                    return Ok(1);
                }
                Err(fault) => fault,
            }
        } else {
            // Nobody sent anything; plans without statements have their results all the same.
            deliver(group, &mut execution);
            self.session = Some(execution.session);
            return Ok(0);
        };
        self.overcome(execution, group, fault)
    }

    fn commit(&mut self, execution: &mut Execution) -> Result<(), Fault> {
        if !execution.session.server.has_record {
            return execution.commit(None);
        }
        self.position += 1;
        let key = Key { pipeline: self.record, position: self.position };
        let is_due = self.previous.len() >= ROWS_REMOVED;
        execution.commit(Some((key, if is_due { &self.previous } else { &[] })))?;
        if is_due {
            self.previous.clear();
        }
        self.previous.push(self.position);
        Ok(())
    }

    /// Ends an attempt that met with a fault.
    fn overcome(
        &mut self,
        mut execution: Execution,
        group: &mut Group<Self>,
        fault: Fault,
    ) -> Result<u64, Setback> {
        let is_over = match &fault {
            Fault::Lost(_) => true,
            Fault::Doubt(error) if is_lost(error) => true,
            _ => !execution.roll_back(),
        };
        let has_record = execution.session.server.has_record;
        if is_over {
            self.lost = Some(execution.session.server.clone());
        }
        match fault {
            Fault::Doubt(error) => {
                tracing::debug!(%error, "a commit failed, or its answer did not come");
                if !has_record && !is_over && is_transient(&error) {
                    // Nothing but the server's word says so.
                    self.session = Some(execution.session);
                    return Err(Setback::Again(Error::Server(error)));
                }
                if !has_record {
                    self.has_unsettled = true;
                    let why = format!("there is no table `{}`", crate::record::TABLE);
                    return Err(fatal(Unsettled { key: None, why }));
                }
                let key = Key { pipeline: self.record, position: self.position };
                let session = (!is_over).then_some(&mut execution.session);
                match settle::settle(&self.connector, session, key, self.settle_max) {
                    Ok(settled) => {
                        // The row is there either way.
                        self.previous.push(self.position);
                        if settled == Settled::Committed {
                            deliver(group, &mut execution);
                        }
                        if !is_over {
                            self.session = Some(execution.session);
                        }
                        if settled == Settled::Committed {
                            return Ok(1);
                        }
                        Err(if is_transient(&error) {
                            Setback::Again(Error::Server(error))
                        } else if is_over {
                            Setback::Lost(Some(error))
                        } else {
                            Setback::Refused(Error::Server(error))
                        })
                    }
                    Err(unsettled) => {
                        self.has_unsettled = true;
                        Err(fatal(unsettled))
                    }
                }
            }
            Fault::Unrecorded if is_over => Err(Setback::Lost(None)),
            Fault::Unrecorded => {
                tracing::debug!("a commit was acknowledged, and is not there");
                self.session = Some(execution.session);
                Err(Setback::Again(Error::Ended))
            }
            Fault::Ended => Err(Setback::Fatal(Arc::new(Error::Ended))),
            Fault::Lost(error) => Err(Setback::Lost(error)),
            Fault::Undone | Fault::Again(_) | Fault::Refused(_) if is_over => {
                Err(Setback::Lost(None))
            }
            fault => {
                self.session = Some(execution.session);
                Err(match fault {
                    Fault::Again(error) => Setback::Again(Error::Server(error)),
                    // The table of outcomes may be gone, which a new connection finds out.
                    Fault::Refused(error) => {
                        self.session = None;
                        Setback::Refused(Error::Server(error))
                    }
                    _ => Setback::Undone,
                })
            }
        }
    }
}

fn fatal(unsettled: Unsettled) -> Setback {
    Setback::Fatal(Arc::new(Error::Unsettled(unsettled)))
}

/// Connects, again and again, but no longer than `within`.
pub(crate) fn reconnect(
    connector: &Connector,
    used: Use,
    within: Duration,
) -> Result<Session, Error> {
    let connected = insist(within, |_| match connector.connect(used) {
        Err(error @ Error::Connect { .. }) => {
            tracing::debug!(%error, "no server can be reached");
            ControlFlow::Continue(error)
        }
        other => ControlFlow::Break(other),
    });
    connected.unwrap_or_else(Err)
}

/// Runs the members in turn, up to the answer to the last of them or to a fault.
fn run_members(execution: &mut Execution, group: &mut Group<Writer>, members: &mut Members) {
    while !execution.has_fault()
        && let Some(member) = members.next(group)
    {
        execution.begin_member(member.index);
        let mut tx = Transaction { part: Part::Live(execution) };
        let ran = if member.has_run {
            group.rerun(member.index, &mut tx)
        } else {
            group.run(member.index, &mut tx)
        };
        if ran != Ran::Completed && execution.is_touched() && !execution.has_fault() {
            execution.undo_member();
        }
    }
    execution.send_all();
}

/// Tells the plans what they came to.
fn deliver(group: &mut Group<Writer>, execution: &mut Execution) {
    let plans: Vec<(usize, Result<Vec<StatementResult>, Error>)> = execution.take_plans().collect();
    for (member, result) in plans {
        let mut tx = Transaction { part: Part::Deliver(Some(result)) };
        group.run(member, &mut tx);
    }
}

impl Flush for Flusher {
    fn flush(&self) -> Result<(), Cause> {
        self.barrier().map_err(|error| Arc::new(error) as Cause)
    }
}
