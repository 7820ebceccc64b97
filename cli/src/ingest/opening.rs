//! The opening: the same steps for every database, up to the first record.
//!
//! ```text
//! input ──► database ──► table ──► ledger ──► columns ──► begin or continue ──► rejects file
//! ```
//!
//! Nothing is created before the input was read far enough to know its columns.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use groupcommit::sql::Engine;

use crate::exit::{Exit, Problem};
use crate::ingest::course::{self, Beginning};
use crate::ingest::flight::Flight;
use crate::ingest::infer::{self, Found};
use crate::ingest::interrupt;
use crate::ingest::job::{Column, Shape};
use crate::ingest::ledger::{Before, Entry, PREFIX, Place, choose};
use crate::ingest::options::{Format, Options};
use crate::ingest::progress::say;
use crate::ingest::record::{Next, Record};
use crate::ingest::rejects::RejectsFile;
use crate::ingest::store::{Ledger as _, Store};
use crate::ingest::stream::Stream;
use crate::ingest::summary::counted;
use crate::ingest::table::Existing;

/// The target of SQL statements, which name their own tables.
const SQL_TARGET: &str = "(sql)";

/// How a kind of database takes records.
pub(crate) struct Target {
    /// The engine, where records become rows; `None` where they are kept under a key.
    pub(crate) engine: Option<Engine>,
    /// The table, unless --table names one.
    pub(crate) table: &'static str,
    /// The other options that decide what a record becomes.
    pub(crate) reading: String,
}

impl Target {
    /// A database whose records become rows.
    pub(crate) fn of_rows(engine: Engine) -> Self {
        Self { engine: Some(engine), table: SQL_TARGET, reading: String::new() }
    }
}

/// Ingests `stream` into the database that `open` opens.
///
/// # Errors
/// A [`Problem`] with its exit code and sentence.
pub(crate) fn ingest<S: Store>(
    options: &Options,
    stream: &mut Stream,
    target: &Target,
    open: impl FnOnce() -> Result<S, Problem> + Send,
) -> Result<Exit, Problem> {
    let table = options.table.clone().unwrap_or_else(|| target.table.to_owned());
    let lower = table.to_ascii_lowercase();
    if lower.starts_with(PREFIX)
        || (target.engine == Some(Engine::Sqlite) && lower.starts_with("sqlite_"))
    {
        return Err(Problem::environment(format!(
            "the name {table} is reserved: choose another with --table"
        )));
    }
    RejectsFile::check(options, stream)?;
    let head = stream.head()?;
    let reading = format!("{}{}", reading(options, stream), target.reading);
    let fresh = Entry {
        id: 0,
        target: table.clone(),
        source: stream.name.clone(),
        head,
        reading,
        place: Place::default(),
        beyond: 0,
        rejected: 0,
        finished: false,
    };
    let mut store = patiently(&options.shown(), open)?;
    let name = store.name();
    let cannot =
        |trouble: crate::ingest::store::Trouble, doing: &str| trouble.problem(doing, &name, None);
    let existing = match (stream.layout.format, target.engine) {
        (Format::Sql, _) | (_, None) => None,
        _ => store.describe(&table).map_err(|trouble| cannot(trouble, "read"))?,
    };
    let entries = match store.has_ledger() {
        Ok(true) => store.ledger().entries(),
        other => other.map(|_| Vec::new()),
    };
    let entries = entries.map_err(|trouble| cannot(trouble, "read"))?;
    let id = entries.iter().map(|entry| entry.id).max().unwrap_or_default() + 1;
    let of_table: Vec<_> =
        entries.into_iter().filter(|entry| store.is_same_table(&entry.target, &table)).collect();
    let before = choose(options, &of_table, &fresh)?;
    let (shape, mut notes) = shape(options, stream, target, &table, existing.as_ref())?;
    let is_known = matches!(before, Before::Continue(_));
    if !is_known {
        notes.extend(infer::note_on_header(stream));
    }
    let entry = match before {
        Before::Continue(entry) => entry,
        before => {
            let replaced = if let Before::Forget(entry) = before { Some(entry.id) } else { None };
            let entry = Entry { id, ..fresh };
            let creates = if existing.is_none() { store.creates(&table, &shape) } else { None };
            let store = &store;
            patiently(&name, || store.ledger().begin(&entry, replaced, creates))
                .map_err(|trouble| cannot(trouble, "begin the ingest in"))?;
            entry
        }
    };
    store
        .prepare(&entry, &shape, existing.as_ref())
        .map_err(|trouble| cannot(trouble, "ingest into"))?;
    skip(stream, &entry)?;
    let rejects = RejectsFile::restore(options, |after, count_max| {
        let batch = store.ledger().rejects(entry.id, after, count_max);
        batch.map_err(|trouble| cannot(trouble, "read the rejected records in"))
    })?;
    let flight = Flight::new(store, &entry, options.in_flight, rejects);
    course::run(options, stream, flight, Beginning { entry, resumed: is_known, shape, notes })
}

/// Runs `call`, which may wait for another process: tells so after a second, and lets Ctrl-C end the
/// program meanwhile.
fn patiently<T: Send>(name: &str, call: impl FnOnce() -> T + Send) -> T {
    let begun = Instant::now();
    let (done, result) = sync_channel(1);
    thread::scope(|scope| {
        scope.spawn(move || drop(done.send(call())));
        let mut is_told = false;
        loop {
            match result.recv_timeout(Duration::from_millis(50)) {
                Ok(value) => return value,
                Err(RecvTimeoutError::Disconnected) => unreachable!("the call panicked"),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if interrupt::requested() {
                interrupt::leave(&format!(
                    "interrupted while waiting for {name}: nothing was ingested"
                ));
            }
            if !is_told && begun.elapsed() >= Duration::from_secs(1) {
                is_told = true;
                say(&format!(
                    "waiting for {name}: another process may hold its write lock; Ctrl-C stops"
                ));
            }
        }
    })
}

/// The options that decide how the input is read; a resumed ingest must have the same.
fn reading(options: &Options, stream: &Stream) -> String {
    let layout = &stream.layout;
    let mut words = vec![format!("--format {}", layout.format.name())];
    if layout.format == Format::Csv {
        words.push(format!("--delimiter {:?}", char::from(layout.delimiter)));
        words.extend(options.no_header.then(|| "--no-header".to_owned()));
        words.extend(options.ragged.then(|| "--ragged".to_owned()));
    }
    if layout.format == Format::Ndjson {
        words.push(format!("--sample {}", options.sample));
    }
    words.extend(options.encoding.map(|encoding| format!("--encoding {}", encoding.name())));
    words.extend(options.nulls.iter().map(|null| format!("--null {null:?}")));
    words.join(" ")
}

/// What records have to look like, and what is worth telling of it.
fn shape(
    options: &Options,
    stream: &mut Stream,
    target: &Target,
    table: &str,
    existing: Option<&Existing>,
) -> Result<(Shape, Vec<String>), Problem> {
    let format = stream.layout.format;
    let verbatim = format == Format::Sql || (format == Format::Ndjson && target.engine.is_none());
    let mut shape = Shape {
        format,
        columns: Vec::new(),
        nulls: options.nulls.clone(),
        ragged: options.ragged,
        encoding: stream.encoding,
        verbatim,
    };
    if verbatim {
        return Ok((shape, Vec::new()));
    }
    let found = find(options, stream, existing)?;
    let ignores_case = !matches!(target.engine, None | Some(Engine::Postgres));
    infer::check_names(found.iter().map(|found| found.name.as_str()), ignores_case).map_err(
        |problem| {
            Problem::environment(format!("cannot make columns of {}: {problem}", stream.name))
        },
    )?;
    if found.is_empty() && existing.is_none() {
        return Err(Problem::environment(format!(
            "cannot create table {table}: no JSON object among the first {} of {}; check --format",
            counted(options.sample, "record"),
            stream.name
        )));
    }
    let mut notes = Vec::new();
    if let Some(existing) = existing {
        let names: Vec<_> = found.into_iter().map(|found| found.name).collect();
        shape.columns = existing.columns_for(table, &names).map_err(Problem::environment)?;
    } else {
        let is_typed = |found: &Found| {
            options.types.iter().any(|(name, _)| name.eq_ignore_ascii_case(&found.name))
        };
        if target.engine.is_some() {
            notes =
                found.iter().filter(|found| !is_typed(found)).filter_map(Found::why_text).collect();
        }
        shape.columns = found
            .into_iter()
            .map(|found| Column { kind: found.kind(), name: found.name })
            .collect();
    }
    for (name, kind) in &options.types {
        let column = shape.columns.iter_mut().find(|column| column.name.eq_ignore_ascii_case(name));
        let Some(column) = column else {
            return Err(Problem::environment(format!(
                "--type names a column {name} that {} does not have",
                stream.name
            )));
        };
        if existing.is_some() && column.kind != *kind {
            return Err(Problem::environment(format!(
                "table {table} exists, and its column {name} is {}, not {}: leave --type out",
                column.kind.declared(),
                kind.declared()
            )));
        }
        column.kind = *kind;
    }
    Ok((shape, notes))
}

/// The names of the columns, with what the first records have in them.
fn find(
    options: &Options,
    stream: &mut Stream,
    existing: Option<&Existing>,
) -> Result<Vec<Found>, Problem> {
    if stream.layout.format == Format::Ndjson {
        return Ok(infer::json_columns(&options.nulls, stream.sample(options.sample)?));
    }
    let mut header = stream.header.clone();
    if let Some(existing) = existing {
        if options.no_header {
            header = existing.names_for(header.len()).map_err(Problem::environment)?;
        }
        return Ok(infer::csv_columns(&header, &[], false, std::iter::empty()));
    }
    let sample = stream.sample(options.sample)?;
    Ok(infer::csv_columns(&header, &options.nulls, options.ragged, sample))
}

/// Passes over the records that earlier runs decided, and proves that they are the same.
fn skip(stream: &mut Stream, entry: &Entry) -> Result<(), Problem> {
    let Place { position, checksum, .. } = entry.place;
    let other = |name: &str, what: String| {
        Problem::environment(format!(
            "cannot continue the ingest of {} into {} with {name}: {what}; give the same input, or --restart to insert \
             all of this one",
            entry.source, entry.target
        ))
    };
    let mut record = Record::default();
    while stream.number < position {
        if interrupt::requested() {
            return Err(Problem::interrupted(
                "interrupted while finding the place to continue: nothing has changed",
            ));
        }
        match stream.next(&mut record) {
            Ok(Next::Record | Next::Idle) => {}
            Ok(Next::End) => {
                let (has, wanted) = (counted(stream.number, "record"), counted(position, "record"));
                let verb = if position == 1 { "is" } else { "are" };
                return Err(other(
                    &stream.name,
                    format!("it has only {has}, and {wanted} {verb} durable"),
                ));
            }
            Err(error) => {
                return Err(Problem::environment(format!(
                    "cannot read {} ({error}): check that the file is whole, then use --resume",
                    stream.name
                )));
            }
        }
    }
    if position == 0 || stream.checksum() == checksum {
        return Ok(());
    }
    Err(other(
        &stream.name,
        if position == 1 {
            "its first record is not the same".to_owned()
        } else {
            format!("its first {} are not the same", counted(position, "record"))
        },
    ))
}
