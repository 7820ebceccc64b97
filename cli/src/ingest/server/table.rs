//! Looking at the table of a server that records go into.

use groupcommit::sql::{Database, Engine, Statement, StatementsFailure, Value};

use crate::ingest::table::{Existing, ExistingColumn};
use crate::ingest::value::Kind;

/// Looks at `table` of the database's first schema; `None` if there is no such thing.
pub(super) fn describe(
    database: &Database,
    table: &str,
) -> Result<Option<Existing>, StatementsFailure> {
    let engine = database.engine();
    let schema = match engine {
        Engine::Postgres => "current_schema()",
        _ => "DATABASE()",
    };
    let text = match engine {
        Engine::Postgres => "text",
        _ => "CHAR",
    };
    let (name, params) = (engine.placeholder(1), || [Value::from(table)]);
    let what = Statement::new(
        format!(
            "SELECT CAST(table_type AS {text}) FROM information_schema.tables \
             WHERE table_schema = {schema} AND table_name = {name}"
        ),
        params(),
    );
    let Some(what) = database.read(&what)?.rows.into_iter().next().and_then(first_text) else {
        return Ok(None);
    };
    let computed = match engine {
        Engine::Postgres => "is_generated <> 'NEVER' OR identity_generation = 'ALWAYS'",
        _ => "extra LIKE '%GENERATED%' AND extra NOT LIKE '%DEFAULT_GENERATED%'",
    };
    let filled = match engine {
        Engine::Postgres => "column_default IS NOT NULL OR is_identity = 'YES'",
        _ => "column_default IS NOT NULL OR extra LIKE '%auto_increment%'",
    };
    let columns = Statement::new(
        format!(
            "SELECT CAST(column_name AS {text}), CAST(data_type AS {text}), \
             CASE WHEN is_nullable = 'NO' AND NOT ({filled}) THEN 'yes' ELSE 'no' END, \
             CASE WHEN {computed} THEN 'yes' ELSE 'no' END \
             FROM information_schema.columns \
             WHERE table_schema = {schema} AND table_name = {name} ORDER BY ordinal_position"
        ),
        params(),
    );
    let columns = database.read(&columns)?.rows.into_iter().filter_map(column).collect();
    let what = if what == "BASE TABLE" { "table".to_owned() } else { what.to_ascii_lowercase() };
    Ok(Some(Existing { what, columns, fragile: false }))
}

fn first_text(row: Vec<Value>) -> Option<String> {
    match row.into_iter().next()? {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn column(row: Vec<Value>) -> Option<ExistingColumn> {
    let [name, declared, required, generated]: [Value; 4] = row.try_into().ok()?;
    let (Value::Text(name), Value::Text(declared)) = (name, declared) else { return None };
    let is_yes = |value: &Value| *value == Value::from("yes");
    let (required, generated) = (is_yes(&required), is_yes(&generated));
    let required = required && !generated;
    Some(ExistingColumn { name, kind: kind_of(&declared), required, generated })
}

/// What a column keeps, by the standard's name of its type. Of a type that is none of these
/// (`real`, which is shorter than what a record may have; a date, a number of any precision) the
/// server reads the text as it would a quoted literal, and refuses what it cannot read.
fn kind_of(data_type: &str) -> Kind {
    match data_type {
        "smallint" | "integer" | "bigint" | "int" | "tinyint" | "mediumint" => Kind::Integer,
        "double precision" | "double" => Kind::Real,
        "boolean" => Kind::Boolean,
        _ => Kind::Text,
    }
}
