//! What a server remembers about an ingest: how far it came, what is decided beyond that, and what
//! it rejected.

use std::collections::HashMap;

use groupcommit::sql::{Database, Engine, Statement, StatementsFailure, Value};

use crate::ingest::job::Job;
use crate::ingest::ledger::{Entry, Reject};

/// The tables, with the types of the engine for names of targets and for text of any length.
fn schema(engine: Engine) -> [String; 3] {
    // MySQL's own TEXT ends at 64 KiB, keeps what the database's character set has, and takes `a` and
    // `A` for the same.
    let (name, text) = match engine {
        Engine::Mysql => (
            "VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        ),
        _ => ("VARCHAR(200)", "TEXT"),
    };
    [
        // One row per target: the records up to the position are decided.
        format!(
            "CREATE TABLE IF NOT EXISTS _groupcommit_ingest (id BIGINT PRIMARY KEY, \
             target {name} NOT NULL UNIQUE, source {text} NOT NULL, reading {text} NOT NULL, \
             position BIGINT NOT NULL, line BIGINT NOT NULL, checksum BIGINT NOT NULL, \
             finished BIGINT NOT NULL)"
        ),
        // A row for each record behind the position that is decided.
        "CREATE TABLE IF NOT EXISTS _groupcommit_decided (ingest BIGINT NOT NULL, \
         record BIGINT NOT NULL, line BIGINT NOT NULL, checksum BIGINT NOT NULL, \
         PRIMARY KEY (ingest, record))"
            .to_owned(),
        format!(
            "CREATE TABLE IF NOT EXISTS _groupcommit_rejects (ingest BIGINT NOT NULL, \
             record BIGINT NOT NULL, line BIGINT NOT NULL, reason {text} NOT NULL, \
             content {text} NOT NULL, PRIMARY KEY (ingest, record))"
        ),
    ]
}

/// The statements of one ingest.
#[derive(Debug)]
pub(super) struct Ledger {
    engine: Engine,
    target: String,
    decide: std::sync::Arc<str>,
    reject: std::sync::Arc<str>,
}

/// How far an ingest came, and what is decided beyond that: by record, its line and checksum.
pub(super) type Found = (Entry, HashMap<u64, Place>);

/// A place in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) position: u64,
    pub(super) line: u64,
    pub(super) checksum: u32,
}

fn number(value: &Value) -> u64 {
    match value {
        Value::Int(number) => number.cast_unsigned(),
        _ => 0,
    }
}

fn checksum(value: &Value) -> u32 {
    u32::try_from(number(value)).unwrap_or_default()
}

fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        _ => String::new(),
    }
}

fn integer(number: u64) -> Value {
    Value::Int(number.cast_signed())
}

impl Ledger {
    /// Creates the tables where they are missing.
    pub(super) fn open(database: &Database, target: &str) -> Result<Self, StatementsFailure> {
        let engine = database.engine();
        let schema = schema(engine).map(|sql| Statement::new(sql, []));
        database.exclusive(schema.to_vec())?;
        let ledger = |sql: &str| numbered(engine, sql).into();
        Ok(Self {
            engine,
            target: target.to_owned(),
            decide: ledger(
                "INSERT INTO _groupcommit_decided (ingest, record, line, checksum) VALUES (?, ?, ?, ?)",
            ),
            reject: ledger(
                "INSERT INTO _groupcommit_rejects (ingest, record, line, reason, content) \
                 VALUES (?, ?, ?, ?, ?)",
            ),
        })
    }

    fn statement<const N: usize>(&self, sql: &str, params: [Value; N]) -> Statement {
        Statement::new(numbered(self.engine, sql), params)
    }

    /// The entry for the target, if an ingest was ever begun.
    pub(super) fn find(&self, database: &Database) -> Result<Option<Found>, StatementsFailure> {
        let found = database.read(&self.statement(
            "SELECT id, source, reading, position, line, checksum, finished, \
             (SELECT count(*) FROM _groupcommit_rejects WHERE ingest = id) \
             FROM _groupcommit_ingest WHERE target = ?",
            [self.target.as_str().into()],
        ))?;
        let Some(row) = found.rows.into_iter().next() else { return Ok(None) };
        let [id, source, reading, position, line, sum, finished, rejected] = &row[..] else {
            return Ok(None);
        };
        let entry = Entry {
            id: number(id).cast_signed(),
            source: text(source),
            reading: text(reading),
            position: number(position),
            line: number(line),
            checksum: checksum(sum),
            rejected: number(rejected),
            finished: number(finished) != 0,
        };
        let decided = database.read(&self.statement(
            "SELECT record, line, checksum FROM _groupcommit_decided WHERE ingest = ?",
            [entry.id.into()],
        ))?;
        let place = |row: Vec<Value>| {
            let position = number(row.first()?);
            let place =
                Place { position, line: number(row.get(1)?), checksum: checksum(row.get(2)?) };
            Some((position, place))
        };
        Ok(Some((entry, decided.rows.into_iter().filter_map(place).collect())))
    }

    /// Begins an ingest, forgetting the one before; `creates` makes its table.
    pub(super) fn begin(
        &self,
        database: &Database,
        before: Option<i64>,
        source: &str,
        reading: &str,
        creates: Option<String>,
    ) -> Result<Entry, StatementsFailure> {
        let mut plan: Vec<Statement> =
            creates.into_iter().map(|sql| Statement::new(sql, [])).collect();
        if self.engine == Engine::Mysql && !plan.is_empty() {
            // It commits whatever was open before it defines anything.
            database.exclusive(std::mem::take(&mut plan))?;
        }
        if let Some(id) = before {
            for table in ["rejects", "decided"] {
                let sql = format!("DELETE FROM _groupcommit_{table} WHERE ingest = ?");
                plan.push(self.statement(&sql, [id.into()]));
            }
            plan.push(self.statement("DELETE FROM _groupcommit_ingest WHERE id = ?", [id.into()]));
        }
        plan.push(self.statement(
            "INSERT INTO _groupcommit_ingest \
             (id, target, source, reading, position, line, checksum, finished) \
             SELECT COALESCE(MAX(id), 0) + 1, ?, ?, ?, 0, 0, 0, 0 FROM _groupcommit_ingest",
            [self.target.as_str().into(), source.into(), reading.into()],
        ));
        database.transact(plan)?;
        let found = self.find(database)?;
        found.map(|(entry, _)| entry).ok_or_else(|| groupcommit::NotRun::Closed.into())
    }

    /// Notes that the record is decided: fails where it has been.
    pub(super) fn decide(&self, id: i64, job: &Job) -> Statement {
        let params =
            [id.into(), integer(job.record), integer(job.line), Value::Int(job.checksum.into())];
        Statement::new(self.decide.clone(), params)
    }

    /// Keeps the verdict that the record is rejected.
    pub(super) fn reject(&self, id: i64, reject: &Reject) -> Statement {
        let params = [
            id.into(),
            integer(reject.record),
            integer(reject.line),
            reject.reason.as_str().into(),
            reject.content.as_str().into(),
        ];
        Statement::new(self.reject.clone(), params)
    }

    /// Moves the position to where all before is decided.
    pub(super) fn advance(&self, id: i64, place: Place, finished: bool) -> Vec<Statement> {
        let Place { position, line, checksum } = place;
        vec![
            self.statement(
                "DELETE FROM _groupcommit_decided WHERE ingest = ? AND record <= ?",
                [id.into(), integer(position)],
            ),
            self.statement(
                "UPDATE _groupcommit_ingest SET position = ?, line = ?, checksum = ?, finished = ? \
                 WHERE id = ?",
                [
                    integer(position),
                    integer(line),
                    Value::Int(checksum.into()),
                    i64::from(finished).into(),
                    id.into(),
                ],
            ),
        ]
    }

    /// At most `count_max` verdicts behind record `after`, in order.
    pub(super) fn rejects(
        &self,
        database: &Database,
        id: i64,
        after: u64,
        count_max: u32,
    ) -> Result<Vec<Reject>, StatementsFailure> {
        let sql = format!(
            "SELECT record, line, reason, content FROM _groupcommit_rejects \
             WHERE ingest = ? AND record > ? ORDER BY record LIMIT {count_max}"
        );
        let found = database.read(&self.statement(&sql, [id.into(), integer(after)]))?;
        let reject = |row: Vec<Value>| {
            Some(Reject {
                record: number(row.first()?),
                line: number(row.get(1)?),
                reason: text(row.get(2)?),
                content: text(row.get(3)?),
            })
        };
        Ok(found.rows.into_iter().filter_map(reject).collect())
    }
}

/// SQL whose placeholders are written `?`, as the engine writes them.
fn numbered(engine: Engine, sql: &str) -> String {
    let mut parts = sql.split('?');
    let mut written = parts.next().unwrap_or_default().to_owned();
    for (index, part) in parts.enumerate() {
        written.push_str(&engine.placeholder(index + 1));
        written.push_str(part);
    }
    written
}
