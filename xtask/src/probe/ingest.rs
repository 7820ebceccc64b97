//! The full data set: `groupcommit ingest`, every record its own durable transaction, against a
//! loop that commits one record at a time with a prepared statement.

use std::{
    fs::{self, File},
    io::Read,
    path::Path,
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use groupcommit::sqlite::rusqlite::{Connection, params_from_iter, types::Value};

use crate::measured::{Ingest, Spread3};

const NULL: &str = "NA";

pub(crate) fn measure(folder: &Path, program: &Path, input: &Path, repeat: u64) -> Result<Ingest> {
    let text = unpacked(input)?;
    let records: Vec<csv::StringRecord> =
        csv::Reader::from_reader(&*text).records().collect::<Result<_, _>>()?;
    let (grouped, single) = (folder.join("ingest.db"), folder.join("one-by-one.db"));
    let (mut rates, mut rates_single, mut equal) = (Vec::new(), Vec::new(), true);
    for _ in 0..repeat {
        rates.push(ingest(program, input, &grouped)?);
        rates_single.push(one_by_one(&grouped, &single, &records)?);
        equal &= is_equal(&grouped, &single)?;
        for path in [&grouped, &single] {
            fs::remove_file(path)?;
        }
    }
    Ok(Ingest {
        records: records.len() as u64,
        equal_to_input: equal,
        records_per_second: Spread3::of(rates)?,
        one_by_one_records_per_second: Spread3::of(rates_single)?,
    })
}

fn unpacked(input: &Path) -> Result<Vec<u8>> {
    let open = || File::open(input).with_context(|| format!("cannot read {}", input.display()));
    let mut text = Vec::new();
    if flate2::read::MultiGzDecoder::new(open()?).read_to_end(&mut text).is_err() {
        text.clear();
        open()?.read_to_end(&mut text)?;
    }
    Ok(text)
}

/// Records a second of `groupcommit ingest`, its start and end included.
fn ingest(program: &Path, input: &Path, database: &Path) -> Result<f64> {
    let began = Instant::now();
    let output = Command::new(program)
        .arg("ingest")
        .arg(database)
        .args(["--table", "flights", "--null", NULL, "--quiet", "--json"])
        .arg(input)
        .output()
        .context("cannot start groupcommit")?;
    let seconds = began.elapsed().as_secs_f64();
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let committed = summary["committed"].as_f64().context("the summary counts no records")?;
    Ok(committed / seconds)
}

/// Records a second of plain SQLite: write-ahead log, FULL, one commit a record, one statement
/// prepared for all; into a table as `ingest` has created it.
fn one_by_one(like: &Path, database: &Path, records: &[csv::StringRecord]) -> Result<f64> {
    let create: String = Connection::open(like)?.query_row(
        "SELECT sql FROM sqlite_schema WHERE name = 'flights'",
        (),
        |row| row.get(0),
    )?;
    let connection = Connection::open(database)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch(&create)?;
    let columns = records.first().map_or(0, csv::StringRecord::len);
    let places = vec!["?"; columns].join(", ");
    let mut insert = connection.prepare(&format!("INSERT INTO flights VALUES ({places})"))?;
    let began = Instant::now();
    for record in records {
        let values = record.iter().map(|field| match field {
            NULL => Value::Null,
            text => Value::Text(text.to_owned()),
        });
        insert.execute(params_from_iter(values))?;
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok(records.len() as f64 / seconds)
}

/// Whether both hold the same records in the same order.
fn is_equal(one: &Path, other: &Path) -> Result<bool> {
    let connection = Connection::open(one)?;
    let other = other.to_str().context("the path is no text")?;
    connection.execute("ATTACH ?1 AS other", [other])?;
    let differing: i64 = connection.query_row(
        "SELECT (SELECT count(*) FROM (SELECT rowid, * FROM main.flights
                                       EXCEPT SELECT rowid, * FROM other.flights))
              + (SELECT count(*) FROM (SELECT rowid, * FROM other.flights
                                       EXCEPT SELECT rowid, * FROM main.flights))",
        (),
        |row| row.get(0),
    )?;
    Ok(differing == 0)
}
