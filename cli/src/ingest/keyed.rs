//! Records under keys: each under the value of one of its columns.
//!
//! 1. A record and its place are one transaction, which fails where the place is another: records take
//!    effect in order, each exactly once.
//! 2. A key-value engine has no constraints, so a record is rejected before it is submitted or not at
//!    all. A key that comes again replaces its value, in the order of the input.
//! 3. The ledger is two tables: an entry under its number, as JSON; a rejected record under the number
//!    of its entry and its own.

mod engine;
#[cfg(feature = "lmdb")]
mod lmdb;
mod record;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use groupcommit::{Failure, NotRun, Rejected, Stats, Submit as _, Terms, Ticket};

use crate::exit::{Exit, Problem, explain};
use crate::ingest::job::{Job, Shape};
use crate::ingest::ledger::{Entry, Place, Reject};
#[cfg(not(all(feature = "lmdb", feature = "rocksdb")))]
use crate::ingest::not_built_in;
use crate::ingest::opening::{self, Target};
use crate::ingest::options::{Encoding, Format, KeyedEngine, Options};
use crate::ingest::store::{CORRECT, Ledger, Store, Trouble};
use crate::ingest::stream::Stream;
use crate::ingest::table::Existing;
use engine::{Engine, Transaction};
use record::Pair;

/// The table that records go into unless one is named.
const TABLE: &str = "records";

/// The tables of the ledger.
const ENTRIES: &str = "_groupcommit_ingest";
const REJECTS: &str = "_groupcommit_rejects";

/// Ingests `stream` into the key-value database at `path`.
///
/// # Errors
/// A [`Problem`] with its exit code and sentence.
pub(crate) fn run(
    options: &Options,
    stream: &mut Stream,
    engine: KeyedEngine,
    path: &Path,
) -> Result<Exit, Problem> {
    match engine {
        #[cfg(feature = "lmdb")]
        KeyedEngine::Lmdb => ingest_into::<lmdb::Lmdb>(options, stream, path),
        #[cfg(feature = "rocksdb")]
        KeyedEngine::Rocksdb => ingest_into::<rocksdb::Rocksdb>(options, stream, path),
        #[cfg(not(all(feature = "lmdb", feature = "rocksdb")))]
        missing => Err(not_built_in(missing.title(), missing.name())),
    }
}

fn ingest_into<E: Engine>(
    options: &Options,
    stream: &mut Stream,
    path: &Path,
) -> Result<Exit, Problem> {
    let Some(key) = options.key.clone().filter(|_| stream.layout.format != Format::Sql) else {
        let engine = E::ENGINE.title();
        return Err(Problem::environment(if stream.layout.format == Format::Sql {
            format!("{engine} takes no SQL: give CSV or NDJSON")
        } else {
            format!("{engine} keeps records under a key: name its column with --key")
        }));
    };
    let mut words = String::new();
    if stream.layout.format == Format::Csv {
        // No table keeps the types of the columns: they have to be found again.
        words = format!(" --sample {}", options.sample);
        for (name, kind) in &options.types {
            words = format!("{words} --type {name}={}", kind.declared());
        }
    }
    words = format!("{words} --key {key:?} --value {}", options.value.name());
    let target = Target { engine: None, table: TABLE, reading: words };
    let table = options.table.clone().unwrap_or_else(|| TABLE.to_owned());
    let encoding = options.value;
    opening::ingest(options, stream, &target, || {
        let names = [table.as_str(), ENTRIES, REJECTS];
        let (database, tables) = E::open(path, names).map_err(|error| {
            Problem::environment(format!(
                "cannot open the database {}: {}",
                path.display(),
                explain(&*error)
            ))
        })?;
        let [records, entries, rejects] = tables;
        let tables = Tables { records, entries, rejects };
        Ok(Keyed::<E> {
            path: path.to_owned(),
            database,
            tables,
            key,
            encoding,
            pair: None,
            entry: None,
        })
    })
}

/// The tables of an ingest.
struct Tables<T> {
    records: T,
    entries: T,
    rejects: T,
}

/// A key-value database.
struct Keyed<E: Engine> {
    path: PathBuf,
    database: E::Database,
    tables: Tables<E::Table>,
    key: String,
    encoding: Encoding,
    pair: Option<Pair>,
    /// The entry as the last submitted record leaves it.
    entry: Option<Entry>,
}

/// Why a record's transaction must not be committed.
#[derive(Debug)]
pub(crate) enum Refusal<E> {
    /// The record before this one has not been decided.
    OutOfStep,
    /// The engine failed.
    Engine(E),
}

impl<E: Error> fmt::Display for Refusal<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfStep => f.write_str("the record before it has not been decided"),
            Self::Engine(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl<E: Error> Error for Refusal<E> {}

impl<E> From<E> for Refusal<E> {
    fn from(error: E) -> Self {
        Self::Engine(error)
    }
}

impl<E: Engine> Ledger for Keyed<E> {
    fn entries(&self) -> Result<Vec<Entry>, Trouble> {
        // Numbers are positive: the first byte of each is 0.
        let found = E::scan(&self.database, &self.tables.entries, &[0], &[0], usize::MAX);
        let entries = found.map_err(|error| failed(&error))?;
        Ok(entries.iter().filter_map(|(_, entry)| serde_json::from_slice(entry).ok()).collect())
    }

    fn begin(
        &self,
        entry: &Entry,
        before: Option<i64>,
        _creates: Option<String>,
    ) -> Result<(), Trouble> {
        let (entries, rejects) = (self.tables.entries.clone(), self.tables.rejects.clone());
        let (id, entry) = (entry.id, bytes_of(entry));
        let begun = self.database.transact(move |tx| {
            if let Some(before) = before {
                E::delete_prefix(tx, &rejects, &before.to_be_bytes())?;
                E::delete_prefix(tx, &entries, &before.to_be_bytes())?;
            }
            E::put(tx, &entries, &id.to_be_bytes(), &entry)
        });
        begun.map_err(|failure| Trouble::of::<E::Error>(&failure))
    }

    fn rejects(&self, id: i64, after: u64, count_max: u32) -> Result<Vec<Reject>, Trouble> {
        let (prefix, from) = (id.to_be_bytes(), reject_key(id, after + 1));
        let most = count_max as usize;
        let rows = E::scan(&self.database, &self.tables.rejects, &prefix, &from, most);
        let reject = |(key, value): (Vec<u8>, Vec<u8>)| {
            let mut parts = value.splitn(3, |byte| *byte == 0);
            let mut text = || String::from_utf8(parts.next()?.to_vec()).ok();
            let (line, reason) = (text()?.parse().ok()?, text()?);
            let record = u64::from_be_bytes(key.get(8..)?.try_into().ok()?);
            Some(Reject { record, line, reason, content: parts.next()?.to_vec() })
        };
        Ok(rows.map_err(|error| failed(&error))?.into_iter().filter_map(reject).collect())
    }
}

impl<E: Engine> Store for Keyed<E> {
    type Output = Option<Box<str>>;
    type Error = Refusal<E::Error>;

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn warnings(&self) -> Vec<String> {
        E::warnings(&self.database)
    }

    fn stats(&self) -> Stats {
        self.database.stats()
    }

    fn describe(&self, _table: &str) -> Result<Option<Existing>, Trouble> {
        Ok(None)
    }

    fn ledger(&self) -> &impl Ledger {
        self
    }

    fn has_ledger(&self) -> Result<bool, Trouble> {
        Ok(true)
    }

    fn prepare(
        &mut self,
        entry: &Entry,
        shape: &Shape,
        _existing: Option<&Existing>,
    ) -> Result<(), Trouble> {
        let pair = Pair::new(shape, &self.key, self.encoding, E::KEY_BYTES_MAX);
        self.pair = Some(pair.map_err(|what| Trouble::Failed(what, "name another with --key"))?);
        self.entry = Some(entry.clone());
        Ok(())
    }

    fn submit(&mut self, job: &Arc<Job>) -> Ticket<Self::Output, Self::Error> {
        let (Some(pair), Some(entry)) = (&self.pair, &mut self.entry) else {
            return Ticket::resolved(Err(NotRun::Closed.into()));
        };
        let before = bytes_of(entry);
        entry.place = job.place;
        let (table, key, value, rejection) = match pair.of(job) {
            Ok((key, value)) => (&self.tables.records, key, value, None),
            Err(reason) => {
                entry.rejected += 1;
                let line = job.place.line.to_string();
                let value = [line.as_bytes(), reason.as_bytes(), job.content()].join(&0);
                let key = reject_key(entry.id, job.place.position);
                (&self.tables.rejects, key, value, Some(Box::<str>::from(reason)))
            }
        };
        let (entries, table, id) =
            (self.tables.entries.clone(), table.clone(), entry.id.to_be_bytes());
        let after = bytes_of(entry);
        let terms = Terms::new().bytes(key.len() + value.len());
        self.database.with(terms).submit(move |tx| {
            move_on::<E>(tx, &entries, &id, &before, &after)?;
            E::put(tx, &table, &key, &value)?;
            Ok(rejection.clone())
        })
    }

    fn rejection(output: Self::Output) -> Option<Box<str>> {
        output
    }

    fn judge(&self, _job: &Job, failure: &Failure<Self::Error>) -> Trouble {
        match failure {
            Failure::Rejected(Rejected::Caller(Refusal::OutOfStep)) => Trouble::OutOfStep,
            failure => Trouble::of(failure),
        }
    }

    fn finish(&mut self, place: Place) -> Result<(), Trouble> {
        let Some(entry) = &mut self.entry else { return Ok(()) };
        let before = bytes_of(entry);
        (entry.place, entry.finished) = (place, true);
        let (id, after) = (entry.id.to_be_bytes(), bytes_of(entry));
        let entries = self.tables.entries.clone();
        self.database
            .transact(move |tx| move_on::<E>(tx, &entries, &id, &before, &after))
            .map_err(|failure| Trouble::of::<Refusal<E::Error>>(&failure))
    }

    fn close(&self) -> Result<(), String> {
        self.database.close_any().map_err(|error| explain(&*error))
    }
}

/// Moves the entry on from `before`; fails if it is another.
fn move_on<E: Engine>(
    tx: &mut Transaction<'_, E>,
    entries: &E::Table,
    id: &[u8],
    before: &[u8],
    after: &[u8],
) -> Result<(), Refusal<E::Error>> {
    if E::get(tx, entries, id)?.as_deref() != Some(before) {
        return Err(Refusal::OutOfStep);
    }
    Ok(E::put(tx, entries, id, after)?)
}

fn reject_key(id: i64, record: u64) -> Vec<u8> {
    [id.to_be_bytes(), record.to_be_bytes()].concat()
}

fn bytes_of(entry: &Entry) -> Vec<u8> {
    // Numbers and texts are always JSON.
    serde_json::to_vec(entry).unwrap_or_default()
}

fn failed(error: &(dyn Error + 'static)) -> Trouble {
    Trouble::Failed(explain(error), CORRECT)
}

impl Encoding {
    /// The word for it, as on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Msgpack => "msgpack",
        }
    }
}
