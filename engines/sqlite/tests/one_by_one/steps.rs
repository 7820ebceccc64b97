//! A random transaction, and running it in whatever offers statements and savepoints.

use groupcommit_sqlite::{
    Error, Statement, StatementResult, Transaction, Value,
    rusqlite::{self, Connection, config::DbConfig},
};

/// One statement with its parameters.
#[derive(Debug, Clone)]
pub(crate) struct Sql {
    pub(crate) text: String,
    pub(crate) params: Vec<Option<i64>>,
}

impl Sql {
    pub(crate) fn to_statement(&self) -> Statement {
        let values = self.params.iter().map(|param| param.map_or(Value::Null, Value::Int));
        Statement::new(self.text.as_str(), values)
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// A statement; whether its error ends the transaction.
    Run {
        sql: Sql,
        swallow: bool,
    },
    /// The same, through the transaction's own methods instead of the connection's.
    Own {
        sql: Sql,
        swallow: bool,
    },
    /// Steps in a savepoint, which then fails or not; whether that ends the transaction.
    Savepoint {
        steps: Vec<Step>,
        fail: bool,
        swallow: bool,
    },
    /// A statement that no member may run; by which of the ways to run one.
    Forbidden {
        sql: &'static str,
        way: u8,
        swallow: bool,
    },
    /// A cursor that stays open until the member's end.
    LeakCursor(&'static str),
    /// An interrupt of whatever runs on the connection.
    Interrupt,
    /// A write through a blob handle into a row of `huge`, at `at`.
    BlobHandle {
        row: i64,
        at: usize,
    },
    /// Turns a switch of the connection round.
    Switch(DbConfig),
    /// Takes two milliseconds, so that more members queue meanwhile; nothing waits for it.
    Sleep,
    Fail,
    Panic,
}

#[derive(Debug, Clone)]
pub(crate) enum Member {
    Closure(Vec<Step>),
    Data(Vec<Sql>),
    /// Steps, and then a statement that ends only at a deadline.
    Endless(Vec<Step>, &'static str),
    /// Cancelled as soon as it is submitted.
    Cancelled(Vec<Step>),
    /// Its ticket is dropped.
    Dropped(Vec<Step>),
    /// Alone on the connection, outside any transaction.
    Exclusive(&'static str),
}

/// What a step came to: its result, or the code of the error that was swallowed.
pub(crate) type Record = Result<Done, String>;

/// What a statement came to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Done {
    rows_changed: u64,
    last_insert_rowid: i64,
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
}

impl Done {
    /// Without the row count of a schema change, behind which SQLite leaves what the virtual table that
    /// wrote last counted.
    pub(crate) fn of_sql(mut self, sql: &Sql) -> Self {
        if ["CREATE", "DROP", "ALTER"].iter().any(|verb| sql.text.starts_with(verb)) {
            self.rows_changed = 0;
        }
        self
    }

    pub(crate) fn of(result: StatementResult) -> Self {
        Self {
            rows_changed: result.rows_affected,
            last_insert_rowid: result.last_insert_id.unwrap_or_default(),
            columns: result.columns,
            rows: result.rows,
        }
    }
}

/// The error of a transaction, by SQLite's extended code.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stop(pub(crate) String);

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self(code(&error))
    }
}

pub(crate) fn code(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::ToSqlConversionFailure(cause)
            if matches!(cause.downcast_ref(), Some(Error::RolledBack)) =>
        {
            "rolled back".to_owned()
        }
        // The same error, from a statement that was prepared for the first time.
        rusqlite::Error::SqlInputError { error, .. } => error.extended_code.to_string(),
        error => match error.sqlite_error() {
            Some(error) => error.extended_code.to_string(),
            None => error.to_string(),
        },
    }
}

/// Where steps run: a transaction of the engine's, or the reference's.
pub(crate) trait Scope {
    fn connection(&self) -> &Connection;

    /// Runs a statement without the use of the connection itself.
    fn run_own(&self, sql: &Sql) -> rusqlite::Result<Done>;

    /// Runs what no member may run.
    fn forbidden(&self, sql: &str, way: u8) -> rusqlite::Result<()>;

    /// What becomes of a cursor and of a pause: real in the engine only.
    const IS_HOSTILE: bool;

    fn savepoint(&self, inner: &mut dyn FnMut(&Self) -> Result<(), Stop>) -> Result<(), Stop>;
}

impl Scope for Transaction<'_> {
    const IS_HOSTILE: bool = true;

    fn connection(&self) -> &Connection {
        self
    }

    fn run_own(&self, sql: &Sql) -> rusqlite::Result<Done> {
        let results = self.run(&[sql.to_statement()])?;
        Ok(Done::of(results.into_iter().next().unwrap()))
    }

    fn forbidden(&self, sql: &str, way: u8) -> rusqlite::Result<()> {
        match way % 4 {
            0 => self.execute(sql, ()).map(drop),
            1 => self.execute_batch(&format!("SELECT 1; {sql};")),
            2 => self.prepare_cached(sql)?.execute(()).map(drop),
            _ => self.run(&[Statement::new(sql, [])]).map(drop),
        }
    }

    fn savepoint(&self, inner: &mut dyn FnMut(&Self) -> Result<(), Stop>) -> Result<(), Stop> {
        Transaction::savepoint(self, |tx| inner(tx))
    }
}

pub(crate) fn run_sql(connection: &Connection, sql: &Sql) -> rusqlite::Result<Done> {
    // Not kept: a stale one would make full-text tables write before it is prepared again.
    let mut statement = connection.prepare(&sql.text)?;
    let params = rusqlite::params_from_iter(&sql.params);
    let changes_before = connection.total_changes();
    let mut rows = Vec::new();
    let mut columns = Vec::new();
    if statement.column_count() == 0 {
        statement.execute(params)?;
    } else {
        let mut cursor = statement.query(params)?;
        while let Some(row) = cursor.next()? {
            let values = (0..row.as_ref().column_count()).map(|column| row.get(column).map(own));
            rows.push(values.collect::<rusqlite::Result<Vec<Value>>>()?);
        }
        drop(cursor);
        columns = statement.column_names().map(str::to_owned).collect();
    }
    let changed = connection.total_changes() != changes_before;
    Ok(Done {
        rows_changed: if changed { connection.changes() } else { 0 },
        last_insert_rowid: connection.last_insert_rowid(),
        columns,
        rows,
    })
}

/// A value as rusqlite reads it, in the project's own type.
fn own(value: rusqlite::types::Value) -> Value {
    use rusqlite::types::Value as Read;
    match value {
        Read::Null => Value::Null,
        Read::Integer(value) => Value::Int(value),
        Read::Real(value) => Value::Float(value),
        Read::Text(value) => Value::Text(value),
        Read::Blob(value) => Value::Bytes(value),
    }
}

pub(crate) fn run_steps<S: Scope>(
    scope: &S,
    steps: &[Step],
    records: &mut Vec<Record>,
) -> Result<(), Stop> {
    for (index, step) in steps.iter().enumerate() {
        match step {
            Step::Run { sql, swallow } => match run_sql(scope.connection(), sql) {
                Ok(done) => records.push(Ok(done.of_sql(sql))),
                Err(error) if *swallow => records.push(Err(code(&error))),
                Err(error) => return Err(error.into()),
            },
            Step::Own { sql, swallow } => match scope.run_own(sql) {
                Ok(done) => records.push(Ok(done.of_sql(sql))),
                Err(error) if *swallow => records.push(Err(code(&error))),
                Err(error) => return Err(error.into()),
            },
            Step::Savepoint { steps, fail, swallow } => {
                let ended = scope.savepoint(&mut |scope| {
                    run_steps(scope, steps, records)?;
                    if *fail { Err(Stop("given up".to_owned())) } else { Ok(()) }
                });
                match ended {
                    Ok(()) => {}
                    Err(Stop(code)) if *swallow => records.push(Err(code)),
                    Err(stop) => return Err(stop),
                }
            }
            Step::Forbidden { sql, way, swallow } => match scope.forbidden(sql, *way) {
                Ok(()) => panic!("`{sql}` was let pass"),
                Err(error) if *swallow => records.push(Err(code(&error))),
                Err(error) => return Err(error.into()),
            },
            Step::LeakCursor(sql) => {
                let mut statement = scope.connection().prepare(sql)?;
                let mut rows = statement.query(())?;
                if let Err(error) = rows.next() {
                    records.push(Err(code(&error)));
                }
                let ended = run_steps(scope, &steps[index + 1..], records);
                if S::IS_HOSTILE {
                    std::mem::forget(rows);
                    std::mem::forget(statement);
                }
                return ended;
            }
            Step::Interrupt => scope.connection().get_interrupt_handle().interrupt(),
            Step::BlobHandle { row, at } => {
                let blob = scope.connection().blob_open("main", "huge", "b", *row, false);
                match blob.and_then(|mut blob| blob.write_at(b"written", *at)) {
                    Ok(()) => {}
                    Err(error) => records.push(Err(code(&error))),
                }
            }
            Step::Switch(switch) => {
                let value = scope.connection().db_config(*switch)?;
                scope.connection().set_db_config(*switch, !value)?;
            }
            Step::Sleep if S::IS_HOSTILE => std::thread::sleep(std::time::Duration::from_millis(2)),
            Step::Sleep => {}
            Step::Fail => return Err(Stop("given up".to_owned())),
            Step::Panic => panic!("on purpose"),
        }
    }
    Ok(())
}
