//! MySQL and MariaDB in the lab: the engine's transactions as plain data, and a client that commits
//! one a call. A database is a schema of its own, and its path is the schema's URL.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use groupcommit::Failure;
use groupcommit::mysql::mysql_async::{Conn, Opts, prelude::Queryable as _};
use groupcommit::mysql::{Database, Error, Statement, Transaction};
use groupcommit::sqlite::Formation;
use tokio::runtime::{Builder, Runtime};

use crate::database::Counted;
use crate::engine::{Adapter, Plain};
use crate::error::{Cause, LabError};
use crate::operations::Operations;
use crate::server::{failed, with_first_host};
use crate::setting::Setting;
use crate::workload::Workload;

const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS t (k BIGINT PRIMARY KEY, v TEXT NOT NULL)";

static INSERT: LazyLock<Arc<str>> = LazyLock::new(|| "INSERT INTO t (k, v) VALUES (?, ?)".into());

/// MySQL or MariaDB.
#[derive(Debug)]
pub(crate) enum Mysql {}

/// A connection for each thread, used directly.
pub(crate) struct PlainMysql {
    connections: Vec<Mutex<Lane>>,
}

/// A connection with a runtime of its own, so that its calls block.
struct Lane {
    runtime: Runtime,
    conn: Conn,
}

fn url(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

impl Lane {
    fn connect(path: &Path) -> Result<Self, LabError> {
        let connect = || {
            let one = with_first_host(url(path));
            let options = Opts::from_url(&one.replacen("mariadb:", "mysql:", 1))?;
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let conn = runtime.block_on(Conn::new(options))?;
            Ok::<_, Cause>(Self { runtime, conn })
        };
        connect().map_err(failed("connect to", url(path)))
    }

    fn run(&mut self, sql: &str) -> Result<(), Cause> {
        Ok(self.runtime.block_on(self.conn.query_drop(sql))?)
    }
}

fn not_measured() -> Cause {
    "the mixed task is not measured on a server: use `bench web`".into()
}

impl Plain for PlainMysql {
    fn open(path: &Path, setting: &Setting) -> Result<Self, LabError> {
        Lane::connect(path)?.run(CREATE_TABLE).map_err(failed("create the table on", url(path)))?;
        let connections = (0..setting.threads.max(1)).map(|_| Lane::connect(path).map(Mutex::new));
        Ok(Self { connections: connections.collect::<Result<_, LabError>>()? })
    }

    fn transact(
        &self,
        thread: usize,
        workload: &Workload,
        rows: Range<usize>,
    ) -> Result<(), Cause> {
        let lane = &self.connections[thread % self.connections.len()];
        let lane = &mut *lane.lock().unwrap_or_else(PoisonError::into_inner);
        let is_batch = rows.len() > 1;
        if is_batch {
            lane.run("BEGIN")?;
        }
        for row in rows {
            let params = (Workload::key(row), workload.value(row));
            // Prepared when it is first used.
            lane.runtime.block_on(lane.conn.exec_drop(&**INSERT, params))?;
        }
        if is_batch { lane.run("COMMIT") } else { Ok(()) }
    }

    fn operate(&self, _: &Operations, _: usize) -> Result<(), Cause> {
        Err(not_measured())
    }

    fn close(self, path: &Path) -> Result<(), LabError> {
        for lane in self.connections {
            let Lane { runtime, conn } = lane.into_inner().unwrap_or_else(PoisonError::into_inner);
            runtime
                .block_on(conn.disconnect())
                .map_err(|error| failed("close", url(path))(error.into()))?;
        }
        Ok(())
    }
}

impl Adapter for Mysql {
    type Plain = PlainMysql;
    type Database = Database;
    type Error = Error;

    fn open(path: &Path, formation: Formation, _: Duration) -> Result<Database, LabError> {
        Lane::connect(path)?.run(CREATE_TABLE).map_err(failed("create the table on", url(path)))?;
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
        let sql = "SELECT count(*), CAST(coalesce(sum(k), 0) AS SIGNED) FROM t";
        let Lane { runtime, mut conn } = Lane::connect(path)?;
        let found = runtime.block_on(conn.query_first::<(u64, i64), _>(sql));
        let found = found.map_err(|error| failed("count the rows on", url(path))(error.into()))?;
        let (rows, key_sum) = found.unwrap_or_default();
        Ok(Counted { rows, key_sum: key_sum.into() })
    }

    fn for_each_row(path: &Path, _: &mut dyn FnMut(i64, &str)) -> Result<(), LabError> {
        Err(failed("look at the rows of", url(path))(not_measured()))
    }
}
