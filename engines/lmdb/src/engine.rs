//! Executing a group: one write transaction round all members, none of which may tell.
//!
//! Members run without nested transactions, because one costs a copy of every page that it touches.
//! That is safe as long as a member either completes or fails without having written. When anything
//! else happens, the engine isolates:
//!
//! ```text
//!   members:     m0  m1  m2  m3  m4 ...
//!                 ok  ok  odd
//!   abort ◄───────────────┘
//!   begin anew; m0 m1 m2 again and then m3 m4 ..., each in a nested transaction; commit
//! ```
//!
//! So any number of odd members cost one run more of those up to the first, and no commit and no
//! flush more. What the tickets say is what a serial run of the members came to.
//!
//! When LMDB runs out of room it breaks the transaction that asked for it. The map then grows and
//! the group runs again; only a member that breaks with room enough is to blame for it.
//!
//! Invariants:
//! 1. Between groups no transaction is open and no lock is held.
//! 2. A member's writes are committed only if its closure completed in the transaction that is
//!    committed, or in one nested in that.
//! 3. A write transaction begins and ends within one call, since it belongs to its thread.

use std::sync::Arc;

use groupcommit_core::{Cause, Engine, ExclusiveEnd, Executed, Group, NotRun, Ran};

use crate::{
    Error,
    environment::{Environment, Undone},
    exclusive::Exclusive,
    file::{DataFile, DataFlusher},
    transaction::Transaction,
};

/// The writing side of one database.
pub struct Writer {
    /// `None` once it is closed.
    pub(crate) exclusive: Option<Exclusive>,
    pub(crate) data: Arc<DataFile>,
    /// Kept for its memory.
    pub(crate) members: Vec<usize>,
}

/// Why a group could not be committed as it is.
enum Setback {
    /// LMDB gave up the transaction; with the member that ran then, where it was one.
    Broken(Option<usize>),
    /// The disk is full.
    Refused(heed::Error),
    /// Nothing can be said of what happened, or nothing more be done.
    Fatal(Cause),
}

impl From<Cause> for Setback {
    fn from(cause: Cause) -> Self {
        Self::Fatal(cause)
    }
}

impl Engine for Writer {
    type Transaction<'g> = Transaction<'g>;
    type Exclusive = Exclusive;
    type Flusher = DataFlusher;

    fn flusher(&self) -> DataFlusher {
        DataFlusher(self.data.clone())
    }

    fn commit_waits(&self) -> bool {
        true // for its pages; the flush is of the meta page
    }

    fn execute(&mut self, group: &mut Group<Self>) -> Result<Executed, Cause> {
        let mut members = std::mem::take(&mut self.members);
        members.clear();
        let mut execution = Execution { environment: &self.open()?.environment, commits: 0 };
        let executed = execution.execute_all(group, &mut members);
        let commits = execution.commits;
        self.members = members;
        executed.map(|()| Executed { commits })
    }

    fn exclusive(
        &mut self,
        run: &mut dyn FnMut(&mut Exclusive) -> Ran,
    ) -> Result<ExclusiveEnd, Cause> {
        let exclusive = self.exclusive.as_mut().ok_or_else(closed)?;
        run(exclusive);
        exclusive.doubt.take().map_or(Ok(ExclusiveEnd::Kept), Err)
    }

    fn close(&mut self) -> Result<(), Cause> {
        // Lets go of the environment now, and not when the last thread lets go of the pipeline: who
        // closed a database may open, move or delete it at once.
        drop(self.exclusive.take());
        self.data.check_in_place().map_err(|error| Arc::new(error) as Cause)
    }
}

impl Writer {
    fn open(&self) -> Result<&Exclusive, Cause> {
        self.exclusive.as_ref().ok_or_else(closed)
    }
}

fn closed() -> Cause {
    Arc::new(NotRun::Closed)
}

/// The execution of one group.
struct Execution<'e> {
    environment: &'e Environment,
    commits: u64,
}

impl<'e> Execution<'e> {
    fn execute_all(
        &mut self,
        group: &mut Group<Writer>,
        members: &mut Vec<usize>,
    ) -> Result<(), Cause> {
        let mut open: Option<Transaction<'e>> = None;
        while let Some(member) = group.next_member() {
            let tx = match &mut open {
                Some(tx) => tx,
                None => match self.environment.begin() {
                    Ok(tx) => open.insert(tx),
                    Err(error) => {
                        group.refuse(member, NotRun::Unavailable(Arc::new(error)));
                        continue;
                    }
                },
            };
            members.push(member);
            let ran = group.run(member, tx);
            let has_written = self.end_member(tx)?;
            refuse_late(group, member, ran);
            if matches!(ran, Ran::Failed | Ran::Panicked) && has_written {
                drop(open.take());
                return self.isolate(group, members, None);
            }
        }
        let Some(tx) = open else { return Ok(()) };
        match self.commit(tx) {
            Ok(()) => Ok(()),
            Err(Setback::Fatal(cause)) => Err(cause),
            Err(setback) => self.isolate(group, members, Some(setback)),
        }
    }

    /// Says whether the member that has just run may have written.
    fn end_member(&self, tx: &mut Transaction<'_>) -> Result<bool, Cause> {
        if tx.is_own() {
            Ok(tx.end_member())
        } else {
            Err(Arc::new(Error::Exchanged(self.environment.path.clone())))
        }
    }

    fn commit(&mut self, tx: Transaction<'_>) -> Result<(), Setback> {
        if !tx.may_have_changed() {
            return Ok(()); // ends by being dropped
        }
        match self.environment.commit(tx.into_txn())? {
            Ok(()) => {
                self.commits += 1;
                Ok(())
            }
            Err(Undone::Broken) => Err(Setback::Broken(None)),
            Err(Undone::Refused(error)) => Err(Setback::Refused(error)),
        }
    }

    /// Runs `members` again, and then the rest of the group, each in a nested transaction; first
    /// overcomes `setback`.
    fn isolate(
        &mut self,
        group: &mut Group<Writer>,
        members: &mut Vec<usize>,
        mut setback: Option<Setback>,
    ) -> Result<(), Cause> {
        loop {
            match setback.take() {
                None => {}
                Some(Setback::Fatal(cause)) => return Err(cause),
                Some(Setback::Refused(error)) => {
                    tracing::debug!(%error, members = members.len(), "a group's commit was refused");
                    return self.run_each_alone(group, members);
                }
                Some(Setback::Broken(member)) => match (self.environment.grow(), member) {
                    (Ok(true), _) => {}
                    (grown, Some(member)) => {
                        // It asks for more than can be had, alone or not.
                        blame(group, member, grown);
                        members.retain(|&other| other != member);
                    }
                    (_, None) => return self.run_each_alone(group, members),
                },
            }
            match self.run_nested(group, members) {
                Ok(()) => return Ok(()),
                Err(again) => setback = Some(again),
            }
        }
    }

    fn run_nested(
        &mut self,
        group: &mut Group<Writer>,
        members: &mut Vec<usize>,
    ) -> Result<(), Setback> {
        let mut tx = match self.environment.begin() {
            Ok(tx) => tx,
            Err(error) => {
                let reason = NotRun::Unavailable(Arc::new(error));
                members.iter().for_each(|&member| group.refuse(member, reason.clone()));
                return Ok(());
            }
        };
        for &member in members.iter() {
            self.run_in(&mut tx, group, member, true)?;
        }
        while let Some(member) = group.next_member() {
            members.push(member);
            self.run_in(&mut tx, group, member, false)?;
        }
        self.commit(tx)
    }

    /// Runs a member in a transaction nested in `parent`.
    fn run_in(
        &mut self,
        parent: &mut Transaction<'_>,
        group: &mut Group<Writer>,
        member: usize,
        again: bool,
    ) -> Result<(), Setback> {
        let mut tx = match self.environment.begin_nested(parent) {
            Ok(tx) => tx,
            Err(Undone::Broken) => return Err(Setback::Broken(None)),
            Err(Undone::Refused(error)) => return Err(Setback::Refused(error)),
        };
        let ran = if again { group.rerun(member, &mut tx) } else { group.run(member, &mut tx) };
        let has_written = self.end_member(&mut tx)?;
        refuse_late(group, member, ran);
        if ran == Ran::Completed {
            if has_written {
                match self.environment.commit(tx.into_txn())? {
                    Ok(()) => parent.note_change(),
                    Err(Undone::Broken) => return Err(Setback::Broken(Some(member))),
                    Err(Undone::Refused(error)) => return Err(Setback::Refused(error)),
                }
            }
        } else if has_written && tx.is_broken() {
            // It may have failed only for want of room.
            return Err(Setback::Broken(Some(member)));
        }
        Ok(())
    }

    fn run_each_alone(
        &mut self,
        group: &mut Group<Writer>,
        members: &[usize],
    ) -> Result<(), Cause> {
        members.iter().try_for_each(|&member| self.run_alone(group, member))
    }

    /// Runs a member in a transaction of its own: whatever comes of it is what would have come of
    /// it without a group.
    fn run_alone(&mut self, group: &mut Group<Writer>, member: usize) -> Result<(), Cause> {
        loop {
            if group.passed_deadline(member) {
                group.refuse(member, NotRun::DeadlinePassed);
                return Ok(());
            }
            let mut tx = match self.environment.begin() {
                Ok(tx) => tx,
                Err(error) => {
                    group.refuse(member, NotRun::Unavailable(Arc::new(error)));
                    return Ok(());
                }
            };
            let ran = group.rerun(member, &mut tx);
            let has_written = self.end_member(&mut tx)?;
            refuse_late(group, member, ran);
            let is_broken = if ran == Ran::Completed {
                match self.commit(tx) {
                    Ok(()) => false,
                    Err(Setback::Broken(_)) => true,
                    Err(Setback::Refused(source)) => {
                        let refused = self.environment.error("commit a transaction of", source);
                        group.reject(member, Arc::new(refused));
                        false
                    }
                    Err(Setback::Fatal(cause)) => return Err(cause),
                }
            } else {
                has_written && tx.is_broken()
            };
            if !is_broken {
                return Ok(());
            }
            match self.environment.grow() {
                Ok(true) => {}
                grown => {
                    blame(group, member, grown);
                    return Ok(());
                }
            }
        }
    }
}

/// What ran late and did not complete was stopped by its deadline, as far as its caller goes.
fn refuse_late(group: &mut Group<Writer>, member: usize, ran: Ran) {
    if ran != Ran::Completed && group.passed_deadline(member) {
        group.refuse(member, NotRun::DeadlinePassed);
    }
}

/// Rejects a member that broke its transaction and cannot be given more room.
fn blame(group: &mut Group<Writer>, member: usize, grown: Result<bool, Error>) {
    group.reject(member, Arc::new(grown.err().unwrap_or(Error::Broken)));
}

#[cfg(test)]
mod tests {
    use groupcommit_core::{Failure, NotRun};
    use heed::types::Bytes;

    use crate::{Database, Error};

    #[test]
    fn a_failed_flush_is_final_until_the_database_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test");
        let db = Database::open(&path).unwrap();
        let table = db.table::<Bytes, Bytes>("t").unwrap();
        db.transact(move |tx| table.put(tx, b"before", b"")).unwrap();
        let file = db.data_file();
        file.flushes_until_failure.store(0, std::sync::atomic::Ordering::Relaxed);
        let failed = db.transact(move |tx| table.put(tx, b"unknown", b""));
        assert!(matches!(failed, Err(Failure::Unknown(_))), "{failed:?}");
        let after = db.transact(move |tx| table.put(tx, b"after", b""));
        assert!(matches!(after, Err(Failure::NotRun(NotRun::Failed(_)))), "{after:?}");
        let beside = Database::open(&path).unwrap_err();
        assert!(matches!(beside, Error::AlreadyOpen(_)), "{beside}");
        db.close().unwrap_err();
        let db = Database::open(&path).unwrap();
        let table = db.table::<Bytes, Bytes>("t").unwrap();
        let found = db.read(|tx| {
            Ok::<_, heed::Error>((
                table.get(tx, b"before")?.is_some(),
                table.get(tx, b"after")?.is_some(),
            ))
        });
        assert_eq!(found.unwrap(), (true, false));
        db.transact(move |tx| table.put(tx, b"after", b"")).unwrap();
    }
}
