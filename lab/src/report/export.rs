//! The records as CSV, one file an experiment and one for the series that experiment 1 prints.

use serde_json::Value;

use crate::error::LabError;
use crate::measurement::Measurement;

/// The files' names with their contents, in the order measured. Columns of a measurement are the
/// fields of its record; nested ones are joined by `_`. A field that no record of the experiment
/// has is left out.
pub(super) fn files(measurements: &[Measurement]) -> Result<Vec<(String, String)>, LabError> {
    let mut names: Vec<&str> = Vec::new();
    for measurement in measurements {
        if !names.contains(&measurement.experiment.as_str()) {
            names.push(&measurement.experiment);
        }
    }
    let mut files = Vec::new();
    for name in names {
        let own: Vec<_> = measurements.iter().filter(|m| m.experiment == name).collect();
        files.push((format!("{name}.csv"), records(&own)?));
        if own.iter().any(|m| !m.progress.is_empty()) {
            files.push((format!("{name}-progress.csv"), progress(&own)?));
        }
        if own.iter().any(|m| !m.latency_percentiles_ms.is_empty()) {
            files.push((format!("{name}-latency-percentiles.csv"), percentiles(&own)?));
        }
    }
    Ok(files)
}

fn failed(source: impl std::fmt::Display) -> LabError {
    LabError::Options(format!("could not write the records as CSV: {source}"))
}

/// One line a measurement.
fn records(measurements: &[&Measurement]) -> Result<String, LabError> {
    let rows = measurements.iter().map(|m| flat(m)).collect::<Result<Vec<_>, _>>()?;
    let mut columns: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flatten() {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    let value = |row: &[(String, String)], column: &str| {
        row.iter().find(|(name, _)| name == column).map_or_else(String::new, |(_, v)| v.clone())
    };
    let lines = rows.iter().map(|row| columns.iter().map(|column| value(row, column)).collect());
    csv_of(&columns, lines)
}

/// The single values of a record; the series have files of their own.
fn flat(measurement: &Measurement) -> Result<Vec<(String, String)>, LabError> {
    let mut fields = Vec::new();
    if let Value::Object(record) = serde_json::to_value(measurement).map_err(failed)? {
        for (name, value) in record {
            match value {
                Value::Array(_) => {}
                Value::Object(inner) => {
                    let joined =
                        |(part, value): (String, Value)| (format!("{name}_{part}"), plain(&value));
                    fields.extend(inner.into_iter().map(joined));
                }
                value => fields.push((name, plain(&value))),
            }
        }
    }
    Ok(fields)
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What a series belongs to.
const IDENTITY: [&str; 6] =
    ["condition", "batch", "in_flight", "threads", "flush_delay_ms", "repeat"];

fn identity(m: &Measurement) -> Vec<String> {
    vec![
        m.condition.to_string(),
        m.batch.to_string(),
        m.in_flight.to_string(),
        m.threads.to_string(),
        m.flush_delay_ms.unwrap_or_default().to_string(),
        m.repeat.to_string(),
    ]
}

/// The columns that experiment 1 prints every 10,000 rows. Its `commit latency` is the time between
/// completions.
fn progress(measurements: &[&Measurement]) -> Result<String, LabError> {
    let mut columns = IDENTITY.to_vec();
    columns.extend(["rows", "seconds", "rows_per_second", "call_latency_ms", "commit_latency_ms"]);
    let lines = measurements.iter().flat_map(|m| {
        m.progress.iter().map(|point| {
            let mut line = identity(m);
            line.push(point.rows.to_string());
            let figures = [
                point.seconds,
                point.rows_per_second,
                point.latency_ms,
                point.completion_interval_ms,
            ];
            line.extend(figures.map(|figure| figure.to_string()));
            line
        })
    });
    csv_of(&columns, lines)
}

fn percentiles(measurements: &[&Measurement]) -> Result<String, LabError> {
    let mut columns = IDENTITY.to_vec();
    columns.extend(["setting", "arrivals", "offered_per_second", "quantile", "latency_ms"]);
    let lines = measurements.iter().flat_map(|m| {
        m.latency_percentiles_ms.iter().map(|(quantile, ms)| {
            let mut line = identity(m);
            line.push(m.setting.clone().unwrap_or_default());
            line.push(m.arrivals.clone().unwrap_or_default());
            line.push(m.offered_per_second.map_or_else(String::new, |rate| rate.to_string()));
            line.extend([quantile, ms].map(ToString::to_string));
            line
        })
    });
    csv_of(&columns, lines)
}

fn csv_of(
    columns: &[&str],
    lines: impl IntoIterator<Item = Vec<String>>,
) -> Result<String, LabError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(columns).map_err(failed)?;
    for line in lines {
        writer.write_record(line).map_err(failed)?;
    }
    String::from_utf8(writer.into_inner().map_err(failed)?).map_err(failed)
}
