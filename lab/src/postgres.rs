//! PostgreSQL in the lab: the engine's transactions as plain data, and its asynchronous client.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use groupcommit::postgres::tokio_postgres::{self, NoTls, types::ToSql};
use groupcommit::postgres::{Database, Error, Statement, Transaction};
use groupcommit::sqlite::Formation;

use crate::adapter::{Adapter, Counted};
use crate::client::Client;
use crate::error::Cause;
use crate::server::{self, Dialect, PlainServer};
use crate::workload::Batch;

/// A connection and its prepared statements.
pub(crate) struct PostgresClient {
    client: tokio_postgres::Client,
    prepared: HashMap<String, tokio_postgres::Statement>,
}

impl Client for PostgresClient {
    async fn connect(url: &str) -> Result<Self, Cause> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        // It ends when the client is dropped.
        drop(tokio::spawn(connection));
        Ok(Self { client, prepared: HashMap::new() })
    }

    async fn run(
        &mut self,
        sql: &str,
        numbers: &[i64],
        text: Option<&str>,
    ) -> Result<Option<i64>, Cause> {
        if !self.prepared.contains_key(sql) {
            self.prepared.insert(sql.to_owned(), self.client.prepare(sql).await?);
        }
        let mut params: Vec<&(dyn ToSql + Sync)> = Vec::with_capacity(numbers.len() + 1);
        params.extend(numbers.iter().map(|number| number as &(dyn ToSql + Sync)));
        params.extend(text.as_ref().map(|text| text as &(dyn ToSql + Sync)));
        let rows = self.client.query(&self.prepared[sql], &params).await?;
        Ok(rows.first().and_then(|row| row.try_get(0).ok()))
    }
}

/// PostgreSQL.
#[derive(Debug)]
pub(crate) enum Postgres {}

impl Dialect for Postgres {
    type Client = PostgresClient;
    const CREATE_TABLE: &'static str =
        "CREATE TABLE IF NOT EXISTS t (k bigint PRIMARY KEY, v text NOT NULL)";
    const INSERT: &'static str = "INSERT INTO t (k, v) VALUES ($1, $2)";
}

impl Adapter for Postgres {
    type Plain = PlainServer<Self>;
    type Database = Database;
    type Error = Error;

    fn open(path: &Path, formation: Formation, _: Duration) -> Result<Database, Cause> {
        server::create_table::<Self>(path)?;
        Ok(Database::options().formation(formation).open(server::url(path))?)
    }

    fn write(tx: &mut Transaction<'_>, batch: &Batch) -> Result<(), Error> {
        static INSERT: LazyLock<Arc<str>> = LazyLock::new(|| Postgres::INSERT.into());
        let insert =
            |(key, value): (i64, &str)| Statement::new(INSERT.clone(), [key.into(), value.into()]);
        tx.plan(&batch.rows().map(insert).collect()).map(drop)
    }

    fn count_rows(path: &Path) -> Result<Counted, Cause> {
        server::count_rows(path)
    }
}
