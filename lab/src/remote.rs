//! What the lab does with any server: connections that are used directly, and transactions of
//! groupcommit as plain data.

use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use groupcommit::sql::{Statement, Value};
use groupcommit_remote::{Database, Error, Protocol, Transaction};
use tokio::runtime::{Builder, Runtime};

use crate::adapter::{Adapter, Counted, Plain, Tuning};
use crate::client::Blocking;
use crate::condition::Condition;
use crate::error::Cause;
use crate::server::integer;
use crate::setting::Setting;
use crate::workload::Batch;

const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS t (k BIGINT PRIMARY KEY, v TEXT NOT NULL)";

/// In which words a server writes rows, and with which client.
pub(crate) trait Dialect: Send + Sync + 'static {
    type Client: Client;
    type Protocol: Protocol;

    /// Inserts a row, of a key and a value.
    fn insert() -> &'static Arc<str>;
}

/// The URL that stands for a path.
fn url(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// Creates the table of the experiments.
fn create_table<D: Dialect>(path: &Path) -> Result<(), Cause> {
    Lane::<D::Client>::connect(url(path))?.run(CREATE_TABLE, &[], None).map(drop)
}

/// A connection for each thread, used directly.
pub(crate) struct PlainServer<D: Dialect> {
    connections: Vec<Mutex<Lane<D::Client>>>,
}

impl<D: Dialect> Plain for PlainServer<D> {
    fn open(path: &Path, setting: &Setting) -> Result<Self, Cause> {
        create_table::<D>(path)?;
        let connect = |_| {
            let mut lane = Lane::<D::Client>::connect(url(path))?;
            if setting.condition == Condition::AsyncCommit {
                lane.run("SET synchronous_commit = off", &[], None)?;
            }
            Ok::<_, Cause>(Mutex::new(lane))
        };
        Ok(Self { connections: (0..setting.threads).map(connect).collect::<Result<_, _>>()? })
    }

    fn write(&self, thread: usize, batch: &Batch) -> Result<(), Cause> {
        let lane = &self.connections[thread % self.connections.len()];
        let lane = &mut *lane.lock().unwrap_or_else(PoisonError::into_inner);
        let is_alone = batch.len() == 1;
        if !is_alone {
            lane.run("BEGIN", &[], None)?;
        }
        for (key, value) in batch.rows() {
            lane.run(D::insert(), &[key], Some(value))?;
        }
        if !is_alone {
            lane.run("COMMIT", &[], None)?;
        }
        Ok(())
    }
}

impl<D: Dialect> Adapter for D {
    type Plain = PlainServer<D>;
    type Database = Database<D::Protocol>;
    type Error = Error<D::Protocol>;

    fn open(path: &Path, tuning: Tuning) -> Result<Self::Database, Cause> {
        create_table::<D>(path)?;
        Ok(tuning.apply(Database::options()).open(url(path))?)
    }

    fn write(
        tx: &mut Transaction<'_, D::Protocol>,
        batch: &Batch,
    ) -> Result<(), Error<D::Protocol>> {
        let insert = |(key, value): (i64, &str)| {
            Statement::new(D::insert().clone(), [key.into(), value.into()])
        };
        tx.plan(&batch.rows().map(insert).collect()).map(drop)
    }

    fn count_rows(path: &Path) -> Result<Counted, Cause> {
        let database = groupcommit::sql::Database::connect(url(path))?;
        let count = |sql: String| match database
            .read(&Statement::new(sql, []))?
            .rows
            .first()
            .map(|row| &row[0])
        {
            Some(&Value::Int(count)) => Ok(count),
            other => Err(Cause::from(format!("the server answered {other:?}"))),
        };
        let rows = count("SELECT count(*) FROM t".to_owned())?.cast_unsigned();
        // The sum of integers is not one.
        let key_sum =
            count(format!("SELECT CAST(coalesce(sum(k), 0) AS {}) FROM t", integer(&database)))?;
        database.close()?;
        Ok(Counted { rows, key_sum: key_sum.into() })
    }
}

/// A connection of an asynchronous client, which does what [`Blocking`] does.
pub(crate) trait Client: Send + Sized + 'static {
    fn connect(url: &str) -> impl Future<Output = Result<Self, Cause>> + Send;

    fn run(
        &mut self,
        sql: &str,
        numbers: &[i64],
        text: Option<&str>,
    ) -> impl Future<Output = Result<Option<i64>, Cause>> + Send;
}

/// An asynchronous client on a runtime of its own, which is how the blocking clients of PostgreSQL
/// and MySQL are made.
pub(crate) struct Lane<C> {
    client: C,
    runtime: Runtime,
}

impl<C: Client> Blocking for Lane<C> {
    fn connect(url: &str) -> Result<Self, Cause> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(C::connect(url))?;
        Ok(Self { client, runtime })
    }

    fn run(
        &mut self,
        sql: &str,
        numbers: &[i64],
        text: Option<&str>,
    ) -> Result<Option<i64>, Cause> {
        self.runtime.block_on(self.client.run(sql, numbers, text))
    }
}
