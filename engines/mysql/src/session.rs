//! One connection, and the texts that travel over it.

use std::sync::Arc;

use groupcommit_core::block_on;
use groupcommit_remote::runtime::{self, Driver};
use groupcommit_statement::{StatementResult, Value};
use mysql_async::{
    Column, Conn, DriverError, Error as ServerError, Row, Value as Raw, prelude::Queryable as _,
};
use tokio::sync::{mpsc, oneshot};

use crate::{literal::Mode, record, value};

/// What was found out about the server on connecting.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) mode: Mode,
    /// The largest text that it takes, in bytes.
    pub(crate) bytes_max: usize,
    /// It certifies its transactions with other servers.
    pub(crate) is_clustered: bool,
    pub(crate) has_doublewrite: bool,
    /// The table of [`record`] is there.
    pub(crate) has_record: bool,
    /// Which connection this is, of which start of which server.
    pub(crate) id: u32,
    pub(crate) process: String,
    pub(crate) started_s: i64,
}

/// How often what others were in the way of is tried on connecting.
pub(crate) const ATTEMPTS_MAX: u32 = 10;

/// An open connection.
pub struct Session {
    conn: Option<Conn>,
    pub(crate) server: Server,
    /// Of those that whoever waits for them serves; the others have a runtime that does.
    pub(crate) driver: Option<Arc<Driver>>,
}

pub(crate) type Answer<T> = Result<T, ServerError>;

/// A text of several statements failed at one of them.
#[derive(Debug)]
pub(crate) struct Failed {
    /// How many had been run before it.
    pub(crate) done: usize,
    pub(crate) error: ServerError,
}

impl Session {
    pub(crate) fn new(conn: Conn, server: Server) -> Self {
        Self { conn: Some(conn), server, driver: None }
    }

    fn conn(&mut self) -> Answer<&mut Conn> {
        let closed = || DriverError::ConnectionClosed;
        self.conn.as_mut().ok_or_else(|| closed().into())
    }

    /// Runs a text of any number of statements, up to the first that fails, and hands out what each
    /// came to.
    pub(crate) async fn run(
        &mut self,
        text: &[u8],
        mut each: impl FnMut(usize, StatementResult),
    ) -> Result<(), Failed> {
        let mut done = 0;
        let failed = |done, error| Failed { done, error };
        let conn = self.conn().map_err(|error| failed(0, error))?;
        let mut results = conn.query_iter(text).await.map_err(|error| failed(0, error))?;
        loop {
            // Before its rows are taken: then it speaks of the next.
            let last_insert_id = results.last_insert_id().filter(|id| *id != 0);
            let rows_affected = results.affected_rows();
            let Some(columns) = results.columns() else {
                // The end, or the failure of a statement behind the first.
                let rest: Answer<Vec<Row>> = results.collect().await;
                return rest.map(drop).map_err(|error| failed(done, error));
            };
            let rows: Vec<Row> = results.collect().await.map_err(|error| failed(done, error))?;
            let mut result = StatementResult::default();
            if columns.is_empty() {
                result.rows_affected = rows_affected;
                result.last_insert_id = last_insert_id.and_then(|id| i64::try_from(id).ok());
            } else {
                result.rows_affected = rows.len() as u64;
                result.columns =
                    columns.iter().map(|column| column.name_str().into_owned()).collect();
                result.rows = rows.into_iter().map(|row| decode(row, &columns)).collect();
            }
            each(done, result);
            done += 1;
        }
    }

    /// Writes the row of `record` that stays.
    pub(crate) fn begin_record(&mut self, record: record::Pipeline) -> Answer<()> {
        let mut attempts = 1;
        loop {
            match self.run_now(record.open().as_bytes(), |_, _| {}) {
                Ok(()) => return Ok(()),
                Err(Failed { error, .. }) if is_transient(&error) && attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                }
                Err(Failed { error, .. }) => return Err(error),
            }
        }
    }

    /// As [`Self::run`], blocking.
    pub(crate) fn run_now(
        &mut self,
        text: &[u8],
        each: impl FnMut(usize, StatementResult) + Send,
    ) -> Result<(), Failed> {
        wait(self.driver.clone().as_deref(), self.run(text, each))
    }

    /// Hands on the columns of a statement and then its rows, as they come.
    pub(crate) async fn stream(
        &mut self,
        text: &[u8],
        columns: &mut Option<oneshot::Sender<Answer<Vec<String>>>>,
        rows: &mpsc::Sender<Vec<Value>>,
    ) -> Answer<()> {
        let mut results = self.conn()?.query_iter(text).await?;
        let found = results.columns().unwrap_or_default();
        if let Some(columns) = columns.take() {
            let names = found.iter().map(|column| column.name_str().into_owned()).collect();
            // Whoever asked may have gone.
            drop(columns.send(Ok(names)));
        }
        while let Some(row) = results.next().await? {
            // Where nobody takes them any more the server is told to end, and these are the rest.
            drop(rows.send(decode(row, &found)).await);
        }
        Ok(())
    }

    /// Finds out how texts are read behind statements that may have changed it, and has them read as
    /// what they are: UTF-8.
    pub(crate) fn look_again(&mut self) -> Answer<()> {
        let text = b"SET SESSION character_set_client = utf8mb4, character_set_results = utf8mb4; \
                     SELECT @@SESSION.sql_mode";
        let mut mode = None;
        let looked = self.run_now(text, |_, mut result| {
            if let Some(Value::Text(found)) = result.rows.pop().and_then(|mut row| row.pop()) {
                mode = Some(Mode::of(&found));
            }
        });
        looked.map_err(|failed| failed.error)?;
        self.server.mode = mode.unwrap_or(self.server.mode);
        Ok(())
    }

    /// How many parameters the server finds in `sql`, which must be one statement.
    pub(crate) async fn count_params(&mut self, sql: &str) -> Answer<usize> {
        let conn = self.conn()?;
        let prepared = conn.prep(sql).await?;
        let params = usize::from(prepared.num_params());
        conn.close(prepared).await?;
        Ok(params)
    }

    /// Whether the server has a transaction open, as its last answer said.
    pub(crate) fn is_in_transaction(&self) -> bool {
        use mysql_async::consts::StatusFlags;
        let last = self.conn.as_ref().and_then(Conn::last_ok_packet);
        last.is_some_and(|ok| ok.status_flags().contains(StatusFlags::SERVER_STATUS_IN_TRANS))
    }

    /// Ends the connection of `old`, so that it keeps no locks, if it was one to this server. Where
    /// that cannot be done it ends by itself once the server notices.
    pub(crate) async fn end_of(&mut self, old: &Server) {
        let new = &self.server;
        let is_same_start = (new.started_s - old.started_s).abs() <= 1;
        if new.process != old.process || !is_same_start || new.id == old.id {
            return;
        }
        let kill = format!("KILL {}", old.id);
        if let Err(Failed { error, .. }) = self.run(kill.as_bytes(), |_, _| {}).await {
            tracing::debug!(%error, "a lost connection was left alone");
        }
    }

    /// As [`Self::end_of`], blocking.
    pub(crate) fn end(&mut self, old: &Server) {
        wait(self.driver.clone().as_deref(), self.end_of(old));
    }
}

/// Blocks until what was asked over a connection is answered.
pub(crate) fn wait<F>(driver: Option<&Driver>, answer: F) -> F::Output
where
    F: Future + Send,
    F::Output: Send,
{
    match driver {
        Some(driver) => driver.block_on(answer),
        None => block_on(answer),
    }
}

fn decode(row: Row, columns: &[Column]) -> Vec<Value> {
    let values = row.unwrap_raw().into_iter().map(|raw| raw.unwrap_or(Raw::NULL));
    values.zip(columns).map(|(raw, column)| value::decode(column, raw)).collect()
}

impl Drop for Session {
    /// Says good-bye.
    fn drop(&mut self) {
        let conn = self.conn.take();
        if let Some(driver) = &self.driver {
            driver.drop_in(conn);
        } else {
            let runtime = runtime::handle();
            let _entered = runtime.as_ref().map(|handle| handle.enter());
            drop(conn);
        }
    }
}

/// "This command is not supported in the prepared statement protocol yet".
pub(crate) const UNPREPARED: u16 = 1295;

/// The server prepares no more statements, of whomever they are.
pub(crate) const TOO_MANY_PREPARED: u16 = 1461;

/// The server's number for what went wrong.
pub(crate) fn code(error: &ServerError) -> Option<u16> {
    match error {
        ServerError::Server(said) => Some(said.code),
        _ => None,
    }
}

/// Whether the connection, or the use of its server, went with it: it is shutting down, left its
/// cluster, became read-only, or ended the connection.
pub(crate) fn is_lost(error: &ServerError) -> bool {
    const LOST: [u16; 7] = [1047, 1053, 1077, 1079, 1927, 3169, 4031];
    match error {
        ServerError::Server(said) if said.code == PREVENTED => is_prevented(error),
        ServerError::Server(said) => LOST.contains(&said.code),
        _ => true,
    }
}

/// An option of the server does not allow the statement.
const PREVENTED: u16 = 1290;

/// Whether the server takes no writes: what would have been written was not.
pub(crate) fn is_prevented(error: &ServerError) -> bool {
    // Options other than this one keep a single statement from being run.
    matches!(error, ServerError::Server(said)
        if said.code == PREVENTED && said.message.contains("read-only"))
}

/// Whether the whole transaction is rolled back because of others, and may be run again.
pub(crate) fn is_transient(error: &ServerError) -> bool {
    // Changed since it was read; waited too long; too many locks; deadlock or certification; was
    // interrupted; deadlock of a prepared transaction; write conflict in TiDB.
    const TRANSIENT: [u16; 8] = [1020, LOCK_WAIT, 1206, 1213, STOPPED, 1614, 8002, 9007];
    code(error).is_some_and(|code| TRANSIENT.contains(&code))
}

/// A lock was waited for in vain, for as long as the server is set to.
pub(crate) const LOCK_WAIT: u16 = 1205;

/// The statement was stopped before its end.
pub(crate) const STOPPED: u16 = 1317;

/// There is no such savepoint: so this is not the transaction that it was set in.
pub(crate) const NO_SAVEPOINT: u16 = 1305;

/// There is no such table.
pub(crate) const NO_TABLE: u16 = 1146;
