//! Where an ingest begins: at the first record, or behind the last one that is durable.

use groupcommit::sql::Engine;
use groupcommit::sqlite::Database;
use groupcommit::sqlite::rusqlite;
use groupcommit::{Failure, NotRun};

use crate::exit::{Problem, explain};
use crate::ingest::execute::Plan;
use crate::ingest::infer::{check_names, csv_columns, json_columns, looks_like_values};
use crate::ingest::job::{Column, Shape};
use crate::ingest::ledger::{self, Entry, PREFIX};
use crate::ingest::options::{Format, Layout, Options};
use crate::ingest::stream::Stream;
use crate::ingest::table::{self, Existing};

/// The target of SQL lines that name no table.
pub(crate) const SQL_TARGET: &str = "(sql)";

/// A decided beginning.
pub(crate) struct Beginning {
    /// The table, or (sql).
    pub(crate) target: String,
    /// How far the ingest came before.
    pub(crate) entry: Entry,
    /// Whether it continues an earlier run.
    pub(crate) resumed: bool,
    /// What a record has to look like.
    pub(crate) shape: Shape,
    /// Something worth telling before the first record.
    pub(crate) note: Option<String>,
}

/// Finds or creates the table and the ledger's entry.
///
/// # Errors
/// Options, input and database that do not go together, or a database that cannot be written.
pub(crate) fn decide(
    options: &Options,
    layout: Layout,
    stream: &mut Stream,
    database: &Database,
) -> Result<(Beginning, Plan), Problem> {
    let target = options.table.clone().unwrap_or_else(|| SQL_TARGET.to_owned());
    if layout.format != Format::Sql
        && (target.starts_with(PREFIX) || target.to_ascii_lowercase().starts_with("sqlite_"))
    {
        return Err(Problem::environment(format!(
            "the name {target} is reserved: choose another with --table"
        )));
    }
    let name = target.clone();
    let (entry, existing) = database
        .exclusive(move |connection| {
            let entry = ledger::find(connection, &name)?;
            Ok::<_, rusqlite::Error>((entry, table::describe(connection, &name)?))
        })
        .map_err(|failure| refused(options, "read", &failure))?;
    let reading = reading(options, layout);
    let before = previous(options, entry, &target, &reading)?;
    let (columns, creates) = if layout.format == Format::Sql {
        (Vec::new(), None)
    } else {
        columns(options, layout, stream, existing.as_ref(), Engine::Sqlite, &target)?
    };
    let note = note_on_header(before.is_none(), stream);
    let resumed = before.is_some();
    let entry = match before {
        Some(entry) => entry,
        None => database
            .transact({
                let (target, source, reading) = (target.clone(), stream.name.clone(), reading);
                move |transaction| {
                    if let Some(statement) = &creates {
                        transaction.execute_batch(statement)?;
                    }
                    ledger::begin(transaction, &target, &source, &reading)
                }
            })
            .map_err(|failure| refused(options, "begin the ingest in", &failure))?,
    };
    let insert = if layout.format == Format::Sql {
        String::new()
    } else {
        table::insert_statement(Engine::Sqlite, &target, &columns)
    };
    let guarded = existing.is_some_and(|existing| existing.fragile);
    let plan = Plan { id: entry.id, insert, guarded };
    let shape = Shape { format: layout.format, columns, nulls: options.nulls.clone() };
    Ok((Beginning { target, entry, resumed, shape, note }, plan))
}

/// Something worth telling of a header that may be none.
pub(crate) fn note_on_header(is_first: bool, stream: &Stream) -> Option<String> {
    (is_first && looks_like_values(&stream.header)).then(|| {
        format!("every name in the header of {} is a number; a CSV needs a header line that names the columns", stream.name)
    })
}

/// The database refused before the first record.
fn refused(options: &Options, doing: &str, failure: &Failure<rusqlite::Error>) -> Problem {
    let path = options.database.display();
    match failure {
        Failure::NotRun(NotRun::Busy(_)) => Problem::environment(format!(
            "cannot {doing} {path}: another process holds its write lock; end that transaction or raise --busy-timeout"
        )),
        Failure::Unknown(_) => {
            Problem::unknown(format!("cannot {doing} {path}: {}", explain(failure)))
        }
        _ => Problem::environment(format!("cannot {doing} {path}: {}", explain(failure))),
    }
}

/// The entry to continue, or `None` to begin at the first record.
pub(crate) fn previous(
    options: &Options,
    entry: Option<Entry>,
    target: &str,
    reading: &str,
) -> Result<Option<Entry>, Problem> {
    let Some(entry) = entry else { return Ok(None) };
    if options.resume {
        if entry.reading != reading {
            return Err(Problem::environment(format!(
                "the ingest into {target} was begun with other options ({}, now {reading}): use the same with --resume",
                entry.reading
            )));
        }
        return Ok(Some(entry));
    }
    if entry.finished || entry.position == 0 || options.restart {
        return Ok(None);
    }
    Err(Problem::environment(format!(
        "an ingest of {} into {target} was interrupted behind record {}: continue it with --resume, or forget it with \
         --restart, which begins at the first record and leaves the rows that are in the table",
        entry.source, entry.position
    )))
}

/// The options that decide how the input is read; a resumed ingest must have the same.
pub(crate) fn reading(options: &Options, layout: Layout) -> String {
    let mut words = vec![format!("--format {}", layout.format.name())];
    if layout.format == Format::Csv {
        words.push(format!("--delimiter {:?}", char::from(layout.delimiter)));
    }
    if layout.format == Format::Ndjson {
        words.push(format!("--sample {}", options.sample));
    }
    words.extend(options.nulls.iter().map(|null| format!("--null {null:?}")));
    words.join(" ")
}

/// The columns of a CSV that goes into no table, typed by its first records and by `--type`.
///
/// # Errors
/// Names that cannot be columns, or a `--type` for one that is not there.
#[cfg(feature = "keyed")]
pub(crate) fn csv_columns_of(
    options: &Options,
    stream: &mut Stream,
) -> Result<Vec<Column>, Problem> {
    let (source, header) = (stream.name.clone(), stream.header.clone());
    let mut columns = csv_columns(&header, &options.nulls, stream.sample(options.sample)?);
    check_names(columns.iter().map(|column| column.name.as_str())).map_err(|problem| {
        Problem::environment(format!(
            "cannot make columns of {source}: {problem}; rename it in the input"
        ))
    })?;
    set_types(options, &mut columns, &source)?;
    Ok(columns)
}

/// Applies `--type`.
fn set_types(options: &Options, columns: &mut [Column], source: &str) -> Result<(), Problem> {
    for (name, kind) in &options.types {
        let Some(column) = columns.iter_mut().find(|column| column.name.eq_ignore_ascii_case(name))
        else {
            return Err(Problem::environment(format!(
                "--type names a column {name} that {source} does not have"
            )));
        };
        column.kind = *kind;
    }
    Ok(())
}

/// The columns to insert into, and the statement that creates the table if it is missing.
pub(crate) fn columns(
    options: &Options,
    layout: Layout,
    stream: &mut Stream,
    existing: Option<&Existing>,
    engine: Engine,
    target: &str,
) -> Result<(Vec<Column>, Option<String>), Problem> {
    let source = stream.name.clone();
    let header = stream.header.clone();
    let mut columns = if layout.format == Format::Ndjson {
        json_columns(&options.nulls, stream.sample(options.sample)?)
    } else if existing.is_some() {
        csv_columns(&header, &[], std::iter::empty())
    } else {
        csv_columns(&header, &options.nulls, stream.sample(options.sample)?)
    };
    check_names(columns.iter().map(|column| column.name.as_str())).map_err(|problem| {
        Problem::environment(format!(
            "cannot make columns of {source}: {problem}; rename it in the input"
        ))
    })?;
    if let Some(existing) = existing {
        if !options.types.is_empty() {
            return Err(Problem::environment(format!(
                "table {target} exists and has its column types: leave --type out"
            )));
        }
        let names: Vec<_> = columns.into_iter().map(|column| column.name).collect();
        return Ok((existing.columns_for(target, &names).map_err(Problem::environment)?, None));
    }
    if columns.is_empty() {
        return Err(Problem::environment(format!(
            "cannot create table {target}: no JSON object among the first {} records of {source}; check the format",
            options.sample
        )));
    }
    set_types(options, &mut columns, &source)?;
    let statement = table::create_statement(engine, target, &columns);
    Ok((columns, Some(statement)))
}
