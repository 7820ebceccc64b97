//! Executing a group: attempts at it, in one transaction each, until one is committed.
//!
//! ```text
//!   attempt ──► committed
//!      │ a member failed that could not be undone alone: again, with savepoints
//!      │ conflict or deadlock: again with half of the members
//!      │ commit refused: again with half of the members, in the end the one to blame alone
//!      │ connection lost: connect, again
//!      └ outcome of the commit not known: nothing runs any more
//!
//!   members of the group that are not in the transaction go back into the queue
//! ```
//!
//! Invariants:
//! 1. A member's result, error or not, is the one that it had in the transaction that was committed,
//!    or would have had first in it, or that it was stopped for the time it took. Plans get theirs
//!    after the commit.
//! 2. An unknown outcome of a commit is settled before anything is run again.
//! 3. One call of `execute` commits once at most. So an outcome that stays unknown is that of all its
//!    members.
//! 4. Between groups no transaction is open.

use std::{fmt, sync::Arc, time::Duration};

use groupcommit_core::{Cause, Engine, ExclusiveEnd, Executed, Group, NotRun, Ran};
use groupcommit_statement::StatementResult;

use crate::{
    Alone as _, Error, Exclusive, Member, Members, Next, Obstacle, Protocol, Purpose, Sizes,
    Transaction, Trials, flusher::Flusher, insist::reconnect, pause,
};

/// The writing side of one database.
pub struct Writer<P: Protocol> {
    /// How to reach the server.
    pub protocol: P,
    /// `None` until it is needed, and after it was lost.
    pub session: Option<P::Session>,
    /// What the protocol remembers from one group to the next.
    pub memory: P::Memory,
    /// How long the server may be out of reach before transactions are not run.
    pub reconnect_timeout: Duration,
    /// How long the outcome of a lost commit is asked for.
    pub settle_timeout: Duration,
    pub(crate) flusher: Flusher<P>,
    /// By the conflicts with others' transactions.
    pub(crate) sizes: Sizes,
}

impl<P: Protocol> fmt::Debug for Writer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

/// One attempt at a group.
pub struct Attempt<'a, P: Protocol> {
    /// Of the database.
    pub writer: &'a mut Writer<P>,
    /// The connection, in no transaction.
    pub session: P::Session,
    /// What more members are taken from.
    pub group: &'a mut Group<Writer<P>>,
    /// The members to begin with.
    pub members: &'a mut Members,
    /// How often a [`Setback::Member`] came before.
    pub failures: usize,
}

/// Why an attempt was not committed.
#[derive(Debug)]
pub enum Setback<P: Protocol> {
    /// A member failed and could not be undone alone, so everything was rolled back.
    Member,
    /// Something was in the way of all.
    Obstacle(Obstacle, Error<P>),
    /// It is not known what happened.
    Fatal(Cause),
}

impl<P: Protocol> Engine for Writer<P> {
    const COMMIT_IS_DURABLE: bool = true;

    type Transaction<'g> = Transaction<'g, P>;
    type Exclusive = Exclusive<P>;
    type Flusher = Flusher<P>;

    fn flusher(&self) -> Flusher<P> {
        self.flusher.clone()
    }

    fn execute(&mut self, group: &mut Group<Self>) -> Result<Executed, Cause> {
        let (mut members, mut trials) = (Members::default(), Trials::default());
        let (mut size, mut failures) = (self.sizes.now(), 0);
        loop {
            members.begin(group, size.min(P::members_max(&self.memory)));
            let session = match self.take_session() {
                Ok(session) => session,
                Err(error) => {
                    members.refuse_all(group, &(Arc::new(error) as Cause));
                    return Ok(Executed::default());
                }
            };
            let attempt = Attempt { writer: self, session, group, members: &mut members, failures };
            let (obstacle, error) = match P::attempt(attempt) {
                Ok(commits) => {
                    self.sizes.committed(members.len());
                    return Ok(Executed { commits });
                }
                Err(Setback::Fatal(cause)) => return Err(cause),
                Err(Setback::Member) => {
                    failures += 1;
                    continue;
                }
                Err(Setback::Obstacle(obstacle, error)) => (obstacle, error),
            };
            if obstacle == Obstacle::Lost {
                tracing::debug!(?error, "the connection was lost; the group runs again");
            }
            match trials.after(obstacle, members.len(), size, &mut self.sizes) {
                Next::Attempt(next) => size = next,
                Next::Pause(attempts) => pause(attempts),
                Next::GiveUp => {
                    match (members.first(), error) {
                        (None, _) => {}
                        (Some(member), error @ Error::Lost(_)) => {
                            group.refuse(member.index, NotRun::Unavailable(Arc::new(error)));
                        }
                        (Some(member), error) => reject(group, member.index, error),
                    }
                    return Ok(Executed::default());
                }
            }
        }
    }

    fn exclusive(
        &mut self,
        run: &mut dyn FnMut(&mut Exclusive<P>) -> Ran,
    ) -> Result<ExclusiveEnd, Cause> {
        // The connection is closed afterwards, with whatever was set on it or left open.
        let mut exclusive = match P::alone(self) {
            Ok(alone) => Exclusive(alone),
            Err(error) => return Ok(ExclusiveEnd::Refused(NotRun::Unavailable(Arc::new(error)))),
        };
        run(&mut exclusive);
        match exclusive.0.end() {
            Ok(false) => Ok(ExclusiveEnd::Kept),
            Ok(true) => Ok(ExclusiveEnd::Rejected(Arc::new(Error::<P>::LeftOpen))),
            Err(error) => Err(Arc::new(Error::<P>::Lost(Some(error)))),
        }
    }

    fn close(&mut self) -> Result<(), Cause> {
        self.protocol.end_writing(&self.memory, self.session.take());
        self.flusher.close();
        Ok(())
    }
}

impl<P: Protocol> Writer<P> {
    /// Takes the connection; connects where it was lost.
    ///
    /// # Errors
    ///
    /// Why no server can be reached that takes writes.
    pub fn take_session(&mut self) -> Result<P::Session, Error<P>> {
        if let Some(session) = self.session.take().filter(P::is_usable) {
            return Ok(session);
        }
        let mut session = reconnect(&self.protocol, Purpose::Write, self.reconnect_timeout)?;
        self.protocol.begin_writing(&mut self.memory, &mut session)?;
        Ok(session)
    }
}

impl<P: Protocol> Writer<P> {
    /// Connects for something other than the groups.
    ///
    /// # Errors
    ///
    /// Why no server can be reached that takes writes.
    pub fn connect_beside(&self, purpose: Purpose) -> Result<P::Session, Error<P>> {
        reconnect(&self.protocol, purpose, self.reconnect_timeout)
    }
}

/// Runs one member, as far as it can be without waiting for the answers.
pub fn run_member<P: Protocol>(
    execution: &mut P::Execution,
    group: &mut Group<Writer<P>>,
    member: Member,
) -> Ran {
    let mut tx = Transaction::live(execution);
    if member.has_run {
        group.rerun(member.index, &mut tx)
    } else {
        group.run(member.index, &mut tx)
    }
}

/// Gives a plan its results.
pub fn deliver<P: Protocol>(
    group: &mut Group<Writer<P>>,
    member: usize,
    result: Result<Vec<StatementResult>, Error<P>>,
) {
    group.run(member, &mut Transaction::deliver(result));
}

/// Rejects a member of which nothing is in the database.
pub fn reject<P: Protocol>(group: &mut Group<Writer<P>>, member: usize, error: Error<P>) {
    group.reject(member, Arc::new(error));
}
