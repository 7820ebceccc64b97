//! PostgreSQL in the lab: the engine's transactions as plain data, and a blocking client that
//! commits one a call. A database is a schema of its own, and its path is the schema's URL.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use groupcommit::Failure;
use groupcommit::postgres::{Database, Error, Statement, Transaction};
use groupcommit::sqlite::Formation;
use postgres::{Client, NoTls};

use crate::database::Counted;
use crate::engine::{Adapter, Plain};
use crate::error::{Cause, LabError};
use crate::operations::Operations;
use crate::server::failed;
use crate::setting::Setting;
use crate::workload::Workload;

const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS t (k bigint PRIMARY KEY, v text NOT NULL)";

static INSERT: LazyLock<Arc<str>> = LazyLock::new(|| "INSERT INTO t (k, v) VALUES ($1, $2)".into());

/// PostgreSQL.
#[derive(Debug)]
pub(crate) enum Postgres {}

/// A connection for each thread, used directly.
pub(crate) struct PlainPostgres {
    connections: Vec<Mutex<Lane>>,
}

struct Lane {
    client: Client,
    insert: postgres::Statement,
}

fn url(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

fn connect(path: &Path) -> Result<Client, LabError> {
    Client::connect(url(path), NoTls).map_err(|error| failed("connect to", url(path))(error.into()))
}

fn not_measured() -> Cause {
    "the mixed task is not measured on a server: use `bench web`".into()
}

impl Plain for PlainPostgres {
    fn open(path: &Path, setting: &Setting) -> Result<Self, LabError> {
        let lane = |_| {
            let mut client = connect(path)?;
            let prepared =
                client.batch_execute(CREATE_TABLE).and_then(|()| client.prepare(&INSERT));
            let insert =
                prepared.map_err(|error| failed("create the table on", url(path))(error.into()))?;
            Ok(Mutex::new(Lane { client, insert }))
        };
        let connections = (0..setting.threads.max(1)).map(lane);
        Ok(Self { connections: connections.collect::<Result<_, LabError>>()? })
    }

    fn transact(
        &self,
        thread: usize,
        workload: &Workload,
        rows: Range<usize>,
    ) -> Result<(), Cause> {
        let lane = &self.connections[thread % self.connections.len()];
        let Lane { client, insert } = &mut *lane.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.len() == 1 {
            client.execute(&*insert, &[&Workload::key(rows.start), &workload.value(rows.start)])?;
            return Ok(());
        }
        let mut transaction = client.transaction()?;
        for row in rows {
            transaction.execute(&*insert, &[&Workload::key(row), &workload.value(row)])?;
        }
        Ok(transaction.commit()?)
    }

    fn operate(&self, _: &Operations, _: usize) -> Result<(), Cause> {
        Err(not_measured())
    }

    fn close(self, path: &Path) -> Result<(), LabError> {
        for lane in self.connections {
            let client = lane.into_inner().unwrap_or_else(PoisonError::into_inner).client;
            client.close().map_err(|error| failed("close", url(path))(error.into()))?;
        }
        Ok(())
    }
}

impl Adapter for Postgres {
    type Plain = PlainPostgres;
    type Database = Database;
    type Error = Error;

    fn open(path: &Path, formation: Formation, _: Duration) -> Result<Database, LabError> {
        connect(path)?
            .batch_execute(CREATE_TABLE)
            .map_err(|error| failed("create the table on", url(path))(error.into()))?;
        let opened = Database::options().formation(formation).open(url(path));
        opened.map_err(|error| failed("open the database at", url(path))(error.into()))
    }

    fn insert(
        tx: &mut Transaction<'_>,
        workload: &Workload,
        rows: Range<usize>,
    ) -> Result<(), Error> {
        let insert = |row| {
            let params = [Workload::key(row).into(), workload.value(row).into()];
            Statement::new(INSERT.clone(), params)
        };
        tx.plan(&rows.map(insert).collect()).map(drop)
    }

    fn write(_: &mut Transaction<'_>, _: &Operations, _: usize) -> Result<(), Error> {
        Err(Error::Runtime(not_measured().to_string()))
    }

    fn read(_: &Database, _: &Operations, _: usize) -> Result<(), Failure<Error>> {
        let error = Error::Runtime(not_measured().to_string());
        Err(Failure::Rejected(groupcommit::Rejected::Caller(error)))
    }

    fn preload(path: &Path, _: &Workload) -> Result<(), LabError> {
        Err(failed("fill", url(path))(not_measured()))
    }

    fn count_rows(path: &Path) -> Result<Counted, LabError> {
        let sql = "SELECT count(*), coalesce(sum(k), 0)::bigint FROM t";
        let count = connect(path)?.query_one(sql, &[]).and_then(|row| {
            let rows: i64 = row.try_get(0)?;
            let key_sum: i64 = row.try_get(1)?;
            Ok(Counted { rows: rows.unsigned_abs(), key_sum: key_sum.into() })
        });
        count.map_err(|error| failed("count the rows on", url(path))(error.into()))
    }

    fn for_each_row(path: &Path, _: &mut dyn FnMut(i64, &str)) -> Result<(), LabError> {
        Err(failed("look at the rows of", url(path))(not_measured()))
    }
}
