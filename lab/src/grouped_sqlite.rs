//! The conditions with groupcommit: the same rows and statements, as transactions of a pipeline.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use groupcommit::sqlite::{Database, Formation, Transaction};
use groupcommit::{Failure, Ticket};

use crate::database::{CREATE_TABLE, insert_rows};
use crate::error::LabError;
use crate::operations::Operations;
use crate::setting::{Grouping, Setting, Task};
use crate::workload::Workload;

/// How an engine grouped and flushed while the clock ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GroupCounts {
    /// Transactions a commit, on average.
    pub(crate) transactions_mean: f64,
    /// Flushes, where somebody counts them.
    pub(crate) flushes: Option<u64>,
}

impl GroupCounts {
    /// Where each call commits for itself; SQLite does not count its flushes.
    pub(crate) const ONE_COMMIT_A_CALL: Self = Self { transactions_mean: 1.0, flushes: None };
}

/// Counters of the pipeline at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counters {
    commits: u64,
    flushes: u64,
}

impl Counters {
    /// What `transactions` transactions came to since `before`.
    pub(crate) fn since(self, before: Self, transactions: usize) -> GroupCounts {
        let commits = self.commits.saturating_sub(before.commits);
        let flushes = self.flushes.saturating_sub(before.flushes);
        let transactions_mean =
            if commits == 0 { 0.0 } else { transactions as f64 / commits as f64 };
        GroupCounts { transactions_mean, flushes: Some(flushes) }
    }
}

/// A database of groupcommit, opened as it comes but for what the setting says, and the rows to be
/// written to it.
#[derive(Debug)]
pub(crate) struct GroupedSqlite {
    database: Database,
    workload: Arc<Workload>,
}

impl GroupedSqlite {
    /// Opens the database at `path`, or creates it, with its table.
    pub(crate) fn open(
        path: &Path,
        workload: &Arc<Workload>,
        setting: &Setting,
    ) -> Result<Self, LabError> {
        let database = Database::options()
            .convert_to_wal(true)
            .formation(formation(setting))
            .flush_delay(setting.flush_delay)
            .open(path)
            .map_err(LabError::groupcommit("open the database", path))?;
        database
            .exclusive(|connection| connection.execute_batch(CREATE_TABLE))
            .map_err(LabError::groupcommit("create the table in", path))?;
        Ok(Self { database, workload: Arc::clone(workload) })
    }

    fn insert(
        &self,
        rows: Range<usize>,
    ) -> impl FnMut(&mut Transaction) -> rusqlite::Result<()> + Send + 'static {
        let workload = Arc::clone(&self.workload);
        move |transaction| insert_rows(transaction, &workload, rows.clone())
    }

    /// Submits the rows as one transaction and returns its ticket.
    pub(crate) fn submit(&self, rows: Range<usize>) -> Ticket<(), rusqlite::Error> {
        self.database.submit(self.insert(rows))
    }

    /// Writes the rows as one transaction and returns when it is durable.
    pub(crate) fn transact(&self, rows: Range<usize>) -> Result<(), Failure<rusqlite::Error>> {
        self.database.transact(self.insert(rows))
    }

    /// Carries out a mixed operation: a read is answered at once, from a snapshot; of a write there
    /// is a ticket.
    pub(crate) fn submit_operation(
        &self,
        operations: &Arc<Operations>,
        number: usize,
    ) -> Result<Option<Ticket<(), rusqlite::Error>>, Failure<rusqlite::Error>> {
        if !Operations::is_write(number) {
            self.database.read(|connection| operations.read(connection, number))?;
            return Ok(None);
        }
        let operations = Arc::clone(operations);
        let write = move |tx: &mut Transaction| operations.write(tx, number);
        Ok(Some(self.database.submit(write)))
    }

    /// As [`Self::submit_operation`], with a caller that waits until its write is durable.
    pub(crate) fn transact_operation(
        &self,
        operations: &Arc<Operations>,
        number: usize,
    ) -> Result<(), Failure<rusqlite::Error>> {
        if !Operations::is_write(number) {
            return self.database.read(|connection| operations.read(connection, number)).map(drop);
        }
        let operations = Arc::clone(operations);
        self.database.transact(move |tx: &mut Transaction| operations.write(tx, number))
    }

    /// The counters of groups executed and flushes done so far.
    pub(crate) fn counters(&self) -> Counters {
        let stats = self.database.stats();
        Counters { commits: stats.commits, flushes: stats.flushes }
    }

    /// Drains and closes the database.
    pub(crate) fn close(self, path: &Path) -> Result<(), LabError> {
        self.database.close().map_err(LabError::groupcommit("close", path))
    }
}

/// A fixed group of a size goes after [`Grouping::PATIENCE`] even if it is not full; one that waits
/// for a time takes whatever has come by then.
fn formation(setting: &Setting) -> Formation {
    match setting.task {
        Task::Write | Task::Mixed | Task::Threads => Formation::Adaptive,
        Task::Load { grouping, .. } => match grouping {
            Grouping::Adaptive => Formation::Adaptive,
            Grouping::Size(transactions) => {
                Formation::Fixed { transactions, delay: Grouping::PATIENCE }
            }
            Grouping::Delay(delay) => Formation::Fixed { transactions: usize::MAX, delay },
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::condition::Condition;

    const SETTING: Setting = Setting {
        task: Task::Write,
        condition: Condition::GroupcommitAsync,
        batch: 1,
        in_flight: 1,
        threads: 1,
        flush_delay: Duration::ZERO,
    };

    #[test]
    fn counts_are_of_the_time_between_two_readings() {
        let before = Counters { commits: 3, flushes: 5 };
        let after = Counters { commits: 7, flushes: 8 };
        let counts = after.since(before, 1_000);
        assert_eq!(counts, GroupCounts { transactions_mean: 250.0, flushes: Some(3) });
        assert_eq!(
            before.since(before, 0),
            GroupCounts { transactions_mean: 0.0, flushes: Some(0) }
        );
    }

    #[test]
    fn a_transaction_that_fails_keeps_sqlites_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.db");
        let workload = Arc::new(Workload::generate(2, 1));
        let grouped = GroupedSqlite::open(&path, &workload, &SETTING).expect("creates");
        grouped.transact(0..2).expect("inserts");
        let failure = grouped.submit(1..2).wait().expect_err("a row twice");
        let cause = failure.into_caller().expect("the closure's own error");
        assert_eq!(cause.sqlite_error_code(), Some(rusqlite::ErrorCode::ConstraintViolation));
        grouped.close(&path).expect("closes");
    }
}
