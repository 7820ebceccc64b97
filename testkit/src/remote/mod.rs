//! The suite that every engine for a remote database passes, against a throw-away server.
//!
//! An engine's tests say in [`Remote`] how its server is started and how its SQL is written, and
//! [`remote!`](crate::remote!) turns every case into a test of that crate.
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test that cannot go on has failed"
)]

use std::sync::mpsc;

use groupcommit_core::{Failure, Rejected, Ticket};
use groupcommit_remote::{Database, Error, Protocol};
use groupcommit_statement::{Statement, Value};

use crate::servers::proxy::Proxy;

pub mod contention;
pub mod cuts;
pub mod map;
pub mod reading;
pub mod together;

/// An engine under test, with a server that its tests share.
pub trait Remote: 'static {
    /// The engine's protocol.
    type Protocol: Protocol;

    /// How SQL is written for this server.
    const SQL: Sql;

    /// The port of the shared server on the loopback.
    fn port() -> u16;

    /// Creates a database or schema on the shared server, with the table `t` of an `id` and a text
    /// `v`; returns its URL, for a client that connects to `port`.
    fn url_through(port: u16) -> String;

    /// A proxy before the server at `port` that knows this engine's groups.
    fn proxy(port: u16) -> Proxy;

    /// The connections of the database at `url`.
    fn connections(url: &str) -> usize;

    /// The server's code for an error.
    fn code(error: &<Self::Protocol as Protocol>::ServerError) -> String;

    /// Looks at a database behind many cuts.
    fn after_cuts(_url: &str) {}
}

/// Statements in the server's own dialect. Parameters are in the order of their mention.
#[derive(Debug, Clone, Copy)]
pub struct Sql {
    /// Inserts a row: its `id`, its `v`.
    pub insert: &'static str,
    /// Adds one to the number in `v` of a row: its `id`.
    pub add: &'static str,
    /// The numbers from 1: how many.
    pub numbers: &'static str,
    /// Creates the table `kv` of a key and bytes.
    pub create_map: &'static str,
    /// Sets the value of a key: the key, the value.
    pub put: &'static str,
    /// The value of a key.
    pub get: &'static str,
    /// Removes a key.
    pub delete: &'static str,
    /// All keys, as text, and values, in order.
    pub all: &'static str,
    /// The code of a duplicate key.
    pub duplicate: &'static str,
}

/// The database of an engine under test.
pub type DatabaseOf<S> = Database<<S as Remote>::Protocol>;

/// The error of an engine under test.
pub type ErrorOf<S> = Error<<S as Remote>::Protocol>;

/// Opens a new database on the shared server.
#[must_use]
pub fn open<S: Remote>() -> DatabaseOf<S> {
    Database::open(&S::url_through(S::port())).unwrap()
}

/// Inserts a row.
#[must_use]
pub fn insert<S: Remote>(id: i64) -> Statement {
    Statement::new(S::SQL.insert, [id.into(), format!("row {id}").into()])
}

/// The ids of the table, in order.
#[must_use]
pub fn ids<P: Protocol>(db: &Database<P>) -> Vec<i64> {
    let all = Statement::new("SELECT id FROM t ORDER BY id", []);
    let rows = db.read(&all).unwrap().rows;
    rows.into_iter()
        .map(|row| match row[0] {
            Value::Int(id) => id,
            ref other => panic!("{other:?} is no id"),
        })
        .collect()
}

/// Submits while the database is held up, so that all go into one group.
pub fn in_one_group<P: Protocol, T>(db: &Database<P>, submit: impl FnOnce() -> T) -> T {
    let (started, has_started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let held: Ticket<(), Error<P>> = db.submit(move |_| {
        started.send(()).unwrap();
        released.recv().unwrap_err(); // until the other end is dropped
        Ok(())
    });
    has_started.recv().unwrap();
    let submitted = submit();
    drop(release);
    held.wait().unwrap();
    submitted
}

/// The server's code for what went wrong.
pub fn code<S: Remote, T: std::fmt::Debug>(result: Result<T, Failure<ErrorOf<S>>>) -> String {
    match result {
        Err(Failure::Rejected(Rejected::Caller(Error::Server(error)))) => S::code(&error),
        other => panic!("{other:?}"),
    }
}

/// Turns every case of the suite into a test of the engine that is given as a [`Remote`].
#[macro_export]
macro_rules! remote {
    ($remote:ty) => {
        $crate::remote!(@cases $remote;
            contention::deadlocks_run_again_until_each_has_counted_once,
            contention::a_row_that_another_holds_is_waited_for,
            cuts::a_connection_lost_while_a_group_is_sent_costs_another_attempt,
            cuts::a_connection_lost_before_the_commit_costs_another_attempt,
            cuts::a_connection_lost_during_the_commit_is_settled,
            cuts::a_connection_lost_after_the_commit_is_settled,
            cuts::an_outcome_that_stays_unknown_before_the_commit_is_resolved_later,
            cuts::an_outcome_that_stays_unknown_during_the_commit_is_resolved_later,
            cuts::an_outcome_that_stays_unknown_after_the_commit_is_resolved_later,
            cuts::a_server_out_of_reach_leaves_transactions_not_run_and_serves_on_when_it_is_back,
            reading::rows_arrive_as_a_stream,
            reading::many_readers_share_few_connections,
            reading::a_read_on_a_thread_of_a_runtime_is_served_by_that_runtime,
            together::one_plan_failing_among_a_thousand_fails_alone_and_the_others_take_one_commit,
            together::plans_and_closures_share_a_group,
            together::an_exclusive_that_leaves_a_transaction_open_is_rejected_and_undone,
        );
    };
    (@cases $remote:ty; $($module:ident::$case:ident),+ $(,)?) => {
        $(
            #[test]
            fn $case() {
                $crate::remote::$module::$case::<$remote>();
            }
        )+
    };
}
