//! MySQL and MariaDB in the lab: the engine's transactions as plain data, and their asynchronous
//! client.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use groupcommit::mysql::mysql_async::{
    Conn, Opts, OptsBuilder, Params, Row, prelude::Queryable as _,
};
use groupcommit::mysql::{Database, Error, Statement, Transaction};
use groupcommit::sqlite::Formation;

use crate::adapter::{Adapter, Counted};
use crate::client::Client;
use crate::error::Cause;
use crate::server::{self, Dialect, PlainServer, with_first_host};
use crate::workload::Batch;

/// A connection; it keeps its prepared statements itself.
pub(crate) struct MysqlClient(Conn);

impl Client for MysqlClient {
    async fn connect(url: &str) -> Result<Self, Cause> {
        let options = Opts::from_url(&with_first_host(url).replacen("mariadb:", "mysql:", 1))?;
        // Over TCP, as the URL says: the client would connect once more, by a socket, where it finds one.
        Ok(Self(Conn::new(OptsBuilder::from_opts(options).prefer_socket(false)).await?))
    }

    async fn run(
        &mut self,
        sql: &str,
        numbers: &[i64],
        text: Option<&str>,
    ) -> Result<Option<i64>, Cause> {
        if numbers.is_empty() && text.is_none() {
            // Not every such statement can be prepared.
            self.0.query_drop(sql).await?;
            return Ok(None);
        }
        let params = numbers.iter().map(|&number| number.into()).chain(text.map(Into::into));
        let params = Params::Positional(params.collect());
        let row: Option<Row> = self.0.exec_first(sql, params).await?;
        Ok(row.and_then(|row| row.get_opt(0)?.ok()))
    }
}

/// MySQL or MariaDB.
#[derive(Debug)]
pub(crate) enum Mysql {}

impl Dialect for Mysql {
    type Client = MysqlClient;
    const CREATE_TABLE: &'static str =
        "CREATE TABLE IF NOT EXISTS t (k BIGINT PRIMARY KEY, v TEXT NOT NULL)";
    const INSERT: &'static str = "INSERT INTO t (k, v) VALUES (?, ?)";
}

impl Adapter for Mysql {
    type Plain = PlainServer<Self>;
    type Database = Database;
    type Error = Error;

    fn open(path: &Path, formation: Formation, _: Duration) -> Result<Database, Cause> {
        server::create_table::<Self>(path)?;
        Ok(Database::options().formation(formation).open(server::url(path))?)
    }

    fn write(tx: &mut Transaction<'_>, batch: &Batch) -> Result<(), Error> {
        static INSERT: LazyLock<Arc<str>> = LazyLock::new(|| Mysql::INSERT.into());
        let insert =
            |(key, value): (i64, &str)| Statement::new(INSERT.clone(), [key.into(), value.into()]);
        tx.plan(&batch.rows().map(insert).collect()).map(drop)
    }

    fn count_rows(path: &Path) -> Result<Counted, Cause> {
        server::count_rows(path)
    }
}
