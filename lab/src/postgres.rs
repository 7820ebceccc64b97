//! PostgreSQL in the lab, and its asynchronous client.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use groupcommit::postgres::tokio_postgres::{self, NoTls, types::ToSql};

use crate::error::Cause;
use crate::remote::{Client, Dialect};

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
    type Protocol = groupcommit::postgres::Postgres;

    fn insert() -> &'static Arc<str> {
        static INSERT: LazyLock<Arc<str>> =
            LazyLock::new(|| "INSERT INTO t (k, v) VALUES ($1, $2)".into());
        &INSERT
    }
}
