//! The ledger in a database that speaks SQL, the same for SQLite and for servers.

use groupcommit::sql::{self, Engine, Statement, Value};
use groupcommit::sqlite::{self, rusqlite};

use crate::ingest::ledger::{Entry, Place, Reject};
use crate::ingest::store::{ENTRIES, Ledger, Trouble};

/// A database that runs statements as plain data.
#[derive(Debug)]
pub(crate) enum Database {
    Sqlite(sqlite::Database),
    Server(sql::Database),
}

impl Database {
    pub(crate) fn engine(&self) -> Engine {
        match self {
            Self::Sqlite(_) => Engine::Sqlite,
            Self::Server(database) => database.engine(),
        }
    }

    /// A statement whose placeholders are written `?` here.
    pub(crate) fn statement(
        &self,
        sql: &str,
        params: impl IntoIterator<Item = Value>,
    ) -> Statement {
        Statement::new(numbered(self.engine(), sql), params)
    }

    /// The rows of one statement.
    pub(crate) fn read(&self, statement: &Statement) -> Result<Vec<Vec<Value>>, Trouble> {
        match self {
            Self::Sqlite(database) => database
                .read(|connection| sqlite::run_statement(connection, statement))
                .map_err(|failure| Trouble::of(&failure)),
            Self::Server(database) => {
                database.read(statement).map_err(|failure| Trouble::of(&failure))
            }
        }
        .map(|result| result.rows)
    }

    /// Runs statements in one transaction.
    pub(crate) fn transact(&self, statements: Vec<Statement>) -> Result<(), Trouble> {
        match self {
            Self::Sqlite(database) => database
                .transact(move |tx| tx.run(&statements).map(drop))
                .map_err(|failure| Trouble::of::<rusqlite::Error>(&failure)),
            Self::Server(database) => {
                database.transact(statements).map(drop).map_err(|failure| Trouble::of(&failure))
            }
        }
    }

    /// Defines tables. MySQL commits each definition by itself.
    fn define(&self, statements: Vec<Statement>) -> Result<(), Trouble> {
        match self {
            Self::Server(database) if database.engine() == Engine::Mysql => {
                database.exclusive(statements).map(drop).map_err(|failure| Trouble::of(&failure))
            }
            _ => self.transact(statements),
        }
    }

    /// The statements that move the place of an entry, over every record that is decided.
    pub(crate) fn advance(&self, id: i64, place: Place, finished: bool) -> Vec<Statement> {
        let Place { position, line, checksum } = place;
        vec![
            self.statement(
                "DELETE FROM _groupcommit_decided WHERE ingest = ? AND record <= ?",
                [id.into(), integer(position)],
            ),
            self.statement(
                "UPDATE _groupcommit_ingest SET position = ?, line = ?, checksum = ?, finished = ? WHERE id = ?",
                [
                    integer(position),
                    integer(line),
                    checksum.into(),
                    i64::from(finished).into(),
                    id.into(),
                ],
            ),
        ]
    }
}

impl Ledger for Database {
    fn entries(&self) -> Result<Vec<Entry>, Trouble> {
        let rows = self.read(&self.statement(
            "SELECT id, target, source, head, reading, position, line, checksum, finished, \
             (SELECT count(*) FROM _groupcommit_rejects WHERE ingest = id), \
             (SELECT COALESCE(MAX(record), 0) FROM _groupcommit_decided WHERE ingest = id) \
             FROM _groupcommit_ingest ORDER BY id",
            [],
        ))?;
        let entry = |row: Vec<Value>| {
            let [id, target, source, head, reading, counts @ ..] = &row[..] else { return None };
            let [position, line, sum, finished, rejected, beyond] = counts else { return None };
            Some(Entry {
                id: number(id).cast_signed(),
                target: text(target),
                source: text(source),
                head: checksum(head),
                reading: text(reading),
                place: Place {
                    position: number(position),
                    line: number(line),
                    checksum: checksum(sum),
                },
                beyond: number(beyond),
                rejected: number(rejected),
                finished: number(finished) != 0,
            })
        };
        Ok(rows.into_iter().filter_map(entry).collect())
    }

    fn begin(
        &self,
        entry: &Entry,
        before: Option<i64>,
        creates: Option<String>,
    ) -> Result<(), Trouble> {
        let schema = schema(self.engine()).into_iter().chain(creates);
        self.define(schema.map(|sql| Statement::new(sql, [])).collect())?;
        let mut plan = Vec::new();
        if let Some(id) = before {
            for (table, key) in [("rejects", "ingest"), ("decided", "ingest"), ("ingest", "id")] {
                let sql = format!("DELETE FROM _groupcommit_{table} WHERE {key} = ?");
                plan.push(self.statement(&sql, [id.into()]));
            }
        }
        let Entry { id, target, source, head, reading, .. } = entry;
        plan.push(self.statement(
            "INSERT INTO _groupcommit_ingest \
             (id, target, source, head, reading, position, line, checksum, finished) \
             VALUES (?, ?, ?, ?, ?, 0, 0, 0, 0)",
            [
                (*id).into(),
                target.as_str().into(),
                source.as_str().into(),
                (*head).into(),
                reading.as_str().into(),
            ],
        ));
        self.transact(plan)
    }

    fn rejects(&self, id: i64, after: u64, count_max: u32) -> Result<Vec<Reject>, Trouble> {
        let sql = format!(
            "SELECT record, line, reason, content, bytes FROM _groupcommit_rejects \
             WHERE ingest = ? AND record > ? ORDER BY record LIMIT {count_max}"
        );
        let rows = self.read(&self.statement(&sql, [id.into(), integer(after)]))?;
        let reject = |row: Vec<Value>| {
            let [record, line, reason, content, bytes] = &row[..] else { return None };
            Some(Reject {
                record: number(record),
                line: number(line),
                reason: text(reason),
                content: match bytes {
                    Value::Bytes(bytes) => bytes.clone(),
                    _ => text(content).into_bytes(),
                },
            })
        };
        Ok(rows.into_iter().filter_map(reject).collect())
    }
}

/// The statement that keeps a rejected record, with `?` for its parameters.
pub(crate) const REJECT: &str = "INSERT INTO _groupcommit_rejects \
     (ingest, record, line, reason, content, bytes) VALUES (?, ?, ?, ?, ?, ?)";

/// The parameters of [`REJECT`]. Bytes that are no text are kept beside a text that shows them.
pub(crate) fn reject_params(id: i64, reject: &Reject) -> [Value; 6] {
    let shown = String::from_utf8_lossy(&reject.content).replace('\0', "\u{fffd}");
    let bytes = (shown.as_bytes() != reject.content).then(|| reject.content.clone());
    [
        id.into(),
        integer(reject.record),
        integer(reject.line),
        reject.reason.replace('\0', "\u{fffd}").into(),
        shown.into(),
        bytes.into(),
    ]
}

/// The tables. One row for each input and table: its records up to the position are decided. On a
/// server, one row for each record behind the position that is decided.
fn schema(engine: Engine) -> [String; 3] {
    // MySQL's TEXT ends at 64 KiB, has the database's character set, and ignores case.
    let (id, text, bytes) = match engine {
        Engine::Sqlite => ("INTEGER", "TEXT", "BLOB"),
        Engine::Mysql => {
            ("BIGINT", "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "LONGBLOB")
        }
        _ => ("BIGINT", "TEXT", "BYTEA"),
    };
    [
        format!(
            "CREATE TABLE IF NOT EXISTS {ENTRIES} (id {id} PRIMARY KEY, target {text} NOT NULL, \
             source {text} NOT NULL, head BIGINT NOT NULL, reading {text} NOT NULL, \
             position BIGINT NOT NULL, line BIGINT NOT NULL, checksum BIGINT NOT NULL, \
             finished BIGINT NOT NULL)"
        ),
        "CREATE TABLE IF NOT EXISTS _groupcommit_decided (ingest BIGINT NOT NULL, \
         record BIGINT NOT NULL, line BIGINT NOT NULL, checksum BIGINT NOT NULL, \
         PRIMARY KEY (ingest, record))"
            .to_owned(),
        format!(
            "CREATE TABLE IF NOT EXISTS _groupcommit_rejects (ingest BIGINT NOT NULL, \
             record BIGINT NOT NULL, line BIGINT NOT NULL, reason {text} NOT NULL, \
             content {text} NOT NULL, bytes {bytes}, PRIMARY KEY (ingest, record))"
        ),
    ]
}

/// SQL whose placeholders are written `?`, as the engine writes them.
pub(crate) fn numbered(engine: Engine, sql: &str) -> String {
    let mut parts = sql.split('?');
    let mut written = parts.next().unwrap_or_default().to_owned();
    for (index, part) in parts.enumerate() {
        written.push_str(&engine.placeholder(index + 1));
        written.push_str(part);
    }
    written
}

/// A count as a value: no count here comes near the largest signed integer.
pub(crate) fn integer(number: u64) -> Value {
    Value::Int(number.cast_signed())
}

pub(crate) fn number(value: &Value) -> u64 {
    if let Value::Int(number) = value { number.cast_unsigned() } else { 0 }
}

pub(crate) fn checksum(value: &Value) -> u32 {
    u32::try_from(number(value)).unwrap_or_default()
}

fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}
