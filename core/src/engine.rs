//! What an engine implements to be driven by the pipeline.

use crate::{
    cell::Ran,
    group::Group,
    outcome::{Cause, NotRun},
};

/// The adapter to one database: executes groups.
///
/// The pipeline calls it from one thread at a time, though not always the same one.
pub trait Engine: Send + Sized + 'static {
    /// Whether a commit is durable once it has returned, as on a server that flushes while it
    /// commits. The pipeline then calls [`Flush::flush`] only where a caller asks for what others
    /// wrote, and after an exclusive.
    const COMMIT_IS_DURABLE: bool = false;

    /// What a transaction's closure is given; `'g` is the execution of its group.
    type Transaction<'g>;

    /// What the closure of an exclusive is given.
    type Exclusive;

    /// Flushes what this engine committed.
    type Flusher: Flush;

    /// The flusher of this engine; asked for once.
    fn flusher(&self) -> Self::Flusher;

    /// Whether a commit waits for the disk by itself, before the flush does. Commits are dear then,
    /// and a group takes in what arrives while it is executed, up to its caps. Asked for once.
    fn commit_waits(&self) -> bool {
        false
    }

    /// Runs the members of `group` in order, isolated from each other, and commits them, in as few
    /// commits as may be, without waiting for the disk.
    ///
    /// REQUIRES of the engine, when it returns `Ok`:
    /// 1. Every member pulled from the group that was neither rejected nor refused, and whose
    ///    closure completed in its latest run, is committed, exactly once, in the group's order.
    /// 2. Of all others nothing is in the database.
    /// 3. No transaction is open and no lock is held.
    ///
    /// # Errors
    ///
    /// When it cannot tell whether a commit happened, or cannot go on. Members that completed are
    /// then *unknown*, and the pipeline refuses everything after.
    fn execute(&mut self, group: &mut Group<Self>) -> Result<Executed, Cause>;

    /// Calls `run` alone, between groups, outside any transaction of the engine's.
    ///
    /// # Errors
    ///
    /// As [`Engine::execute`].
    fn exclusive(
        &mut self,
        run: &mut dyn FnMut(&mut Self::Exclusive) -> Ran,
    ) -> Result<ExclusiveEnd, Cause>;

    /// Ends the work with the database; nothing is called after it.
    ///
    /// # Errors
    ///
    /// What kept the engine from ending cleanly.
    fn close(&mut self) -> Result<(), Cause>;
}

/// What [`Engine::execute`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Executed {
    /// Commits that changed the database. With none, no flush is needed.
    pub commits: u64,
}

/// What became of an exclusive.
#[derive(Debug, Clone)]
pub enum ExclusiveEnd {
    /// It ran; its own result stands.
    Kept,
    /// It ran, but the engine had to undo what it left behind.
    Rejected(Cause),
    /// It could not be run.
    Refused(NotRun),
}

/// Makes committed groups durable. Called by one thread at a time, beside [`Engine::execute`].
pub trait Flush: Send + Sync + 'static {
    /// Returns once everything whose commit returned before this call is durable.
    ///
    /// # Errors
    ///
    /// Any error is final: the pipeline never tries a second time, since an operating system may
    /// report the loss of written data only once.
    fn flush(&self) -> Result<(), Cause>;
}
