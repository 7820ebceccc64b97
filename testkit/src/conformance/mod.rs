//! The promises as tests that every engine passes.
//!
//! An engine's crate says in [`Subject`] how to open its database and how to write a key, and
//! [`conformance!`](crate::conformance!) turns every case into a test of that crate:
//!
//! ```text
//! struct Sqlite;
//! impl Subject for Sqlite { ... }
//! groupcommit_testkit::conformance!(Sqlite);
//! ```
//!
//! 1. A case knows an engine by [`Subject`] and [`Submit`] alone.
//! 2. Where a case needs transactions to be one group, it holds the execute role until all of them
//!    wait ([`hold`]).
//! 3. What the database holds is looked at through reads, and again after it was opened anew.
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test that cannot go on has failed"
)]

use std::{
    fmt::Debug,
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver, Sender},
};

use groupcommit_core::{Submit, Ticket, TransactionOf};
use tempfile::TempDir;

pub mod callbacks;
pub mod ending;
pub mod isolation;
pub mod kill;
pub mod one_by_one;
pub mod order;
pub mod seeing;
pub mod tokens;

/// An engine under test: its database as one map from numbers to bytes.
pub trait Subject: 'static {
    /// The engine's database.
    type Database: Submit;
    /// What the engine's own calls fail with.
    type Error: Debug + Send + 'static;

    /// Opens the database at `path`, or creates it, with what [`put`](Self::put) needs to be there.
    fn open(path: &Path) -> Self::Database;

    /// Sets the value of `key`.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn put(tx: &mut Transaction<'_, Self>, key: u64, value: &[u8]) -> Result<(), Self::Error>;

    /// The value of `key`, as the transaction sees it.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn get(tx: &mut Transaction<'_, Self>, key: u64) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Removes `key`, and says whether it was there.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn delete(tx: &mut Transaction<'_, Self>, key: u64) -> Result<bool, Self::Error>;

    /// All keys and values in order, through the database's `read`.
    fn rows(db: &Self::Database) -> Vec<(u64, Vec<u8>)>;

    /// As [`rows`](Self::rows), through `read_durable`.
    fn rows_durable(db: &Self::Database) -> Vec<(u64, Vec<u8>)>;

    /// Calls `alone` and then sets the value of `key`, through the database's `exclusive`.
    fn put_exclusively(
        db: &Self::Database,
        key: u64,
        value: &[u8],
        alone: impl Fn() + Send + 'static,
    );
}

/// What a transaction's closure is given by the engine `S`.
pub type Transaction<'g, S> = TransactionOf<'g, <S as Subject>::Database>;

/// What a closure of the suite fails with.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop<E> {
    /// The suite's own error.
    Asked(u64),
    /// The engine's.
    Engine(E),
}

impl<E> From<E> for Stop<E> {
    fn from(error: E) -> Self {
        Self::Engine(error)
    }
}

/// What a closure of the suite returns.
pub type Done<S, T = ()> = Result<T, Stop<<S as Subject>::Error>>;

/// Reads the number under `key`; 0 when there is none.
///
/// # Errors
///
/// The engine's.
pub fn number<S: Subject>(tx: &mut Transaction<'_, S>, key: u64) -> Done<S, u64> {
    let value = S::get(tx, key)?;
    Ok(value.map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap())))
}

/// Puts a number under `key`.
///
/// # Errors
///
/// The engine's.
pub fn put_number<S: Subject>(tx: &mut Transaction<'_, S>, key: u64, number: u64) -> Done<S> {
    Ok(S::put(tx, key, &number.to_be_bytes())?)
}

/// The keys in the database.
pub fn keys<S: Subject>(db: &S::Database) -> Vec<u64> {
    S::rows(db).into_iter().map(|(key, _)| key).collect()
}

/// Submits a transaction without terms of its own.
pub fn submit<S, T, F>(db: &S::Database, transaction: F) -> Ticket<T, Stop<S::Error>>
where
    S: Subject,
    T: Send + 'static,
    F: FnMut(&mut Transaction<'_, S>) -> Done<S, T> + Send + 'static,
{
    db.submit(transaction)
}

/// A database in a folder of its own, which goes with it.
#[derive(Debug)]
pub struct Scratch<S: Subject> {
    /// The database.
    pub db: S::Database,
    path: PathBuf,
    folder: TempDir,
}

impl<S: Subject> Scratch<S> {
    /// An empty database.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.db");
        Self { db: S::open(&path), path, folder }
    }

    /// Closes the database and opens it again.
    #[must_use]
    pub fn reopen(self) -> Self {
        let Self { db, path, folder } = self;
        db.close_any().unwrap();
        drop(db);
        Self { db: S::open(&path), path, folder }
    }
}

impl<S: Subject> Default for Scratch<S> {
    fn default() -> Self {
        Self::new()
    }
}

/// A transaction that is being executed until it is released: what is submitted meanwhile waits,
/// and then goes into one group, with it or without.
#[derive(Debug)]
#[must_use = "the database waits until it is released"]
pub struct Held<E> {
    release: Sender<()>,
    ticket: Ticket<(), Stop<E>>,
}

/// Begins to hold the execute role of `db`.
pub fn hold<S: Subject>(db: &S::Database) -> Held<S::Error> {
    let (started, has_started) = mpsc::channel();
    let (release, released): (_, Receiver<()>) = mpsc::channel();
    let mut holds = true;
    let ticket = submit::<S, _, _>(db, move |_| {
        // It may run again, when one that joined its group fails.
        if std::mem::take(&mut holds) {
            started.send(()).unwrap();
            released.recv().unwrap();
        }
        Ok(())
    });
    has_started.recv().unwrap();
    Held { release, ticket }
}

impl<E: Debug + Send + 'static> Held<E> {
    /// Lets the database go on, and waits until what held it is durable.
    pub fn release(self) {
        self.release.send(()).unwrap();
        self.ticket.wait().unwrap();
    }
}

/// Turns every case of the suite into a test of the engine that is given as a [`Subject`].
#[macro_export]
macro_rules! conformance {
    (tokens $subject:ty) => {
        $crate::conformance!(@cases $subject;
            tokens::submitted_again_it_gets_the_same_result_and_does_not_run,
            tokens::one_that_is_rejected_leaves_no_token,
            tokens::tokens_are_bounded,
            tokens::where_none_are_kept_a_transaction_with_one_is_rejected,
        );
    };
    ($subject:ty) => {
        $crate::conformance!(@cases $subject;
            order::acknowledged_is_there_after_reopening,
            order::tickets_resolve_in_submission_order,
            order::each_runs_after_those_before_it,
            order::blocking_callers_share_the_database,
            isolation::one_failing_among_a_thousand_fails_alone,
            isolation::one_panicking_among_a_thousand_fails_alone,
            isolation::each_of_many_that_fail_fails_alone,
            isolation::nothing_of_one_that_fails_is_seen_by_its_neighbours,
            one_by_one::a_group_equals_its_transactions_one_by_one,
            seeing::a_transaction_sees_its_own_writes,
            seeing::a_read_after_the_ticket_sees_the_transaction,
            seeing::a_durable_read_sees_the_transaction,
            seeing::an_exclusive_is_alone_between_groups,
            seeing::a_transaction_that_blocks_on_its_own_database_is_refused,
            ending::a_cancelled_transaction_has_no_effect,
            ending::a_transaction_past_its_deadline_has_no_effect,
            ending::a_dropped_ticket_does_not_cancel,
            ending::closing_drains_and_then_refuses,
            ending::an_async_submission_commits,
            callbacks::each_is_called_once_in_order_whatever_the_outcome,
        );

        #[test]
        fn a_killed_process_loses_nothing_acknowledged() {
            $crate::conformance::kill::a_killed_process_loses_nothing_acknowledged::<$subject>(
                concat!(module_path!(), "::a_killed_process_loses_nothing_acknowledged"),
            );
        }
    };
    (@cases $subject:ty; $($module:ident::$case:ident),+ $(,)?) => {
        $(
            #[test]
            fn $case() {
                $crate::conformance::$module::$case::<$subject>();
            }
        )+
    };
}
