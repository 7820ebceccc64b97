//! The table that records go into: looking at the one that exists, or designing the one that does not.

use groupcommit::sql::Engine;
use groupcommit::sqlite::rusqlite::{Connection, OptionalExtension as _, Result};

use crate::ingest::job::Column;
use crate::ingest::summary::counted;
use crate::ingest::value::Kind;

/// A table as the database describes it.
#[derive(Clone, Debug)]
pub(crate) struct Existing {
    /// What it is: table, view, index, trigger.
    pub(crate) what: String,
    /// Its columns.
    pub(crate) columns: Vec<ExistingColumn>,
    /// Whether a failing INSERT may leave effects behind or end the transaction: the table has
    /// triggers, or constraints with a conflict clause of their own.
    pub(crate) fragile: bool,
}

/// One of its columns.
#[derive(Clone, Debug)]
pub(crate) struct ExistingColumn {
    /// Its name.
    pub(crate) name: String,
    /// What it keeps.
    pub(crate) kind: Kind,
    /// Whether a record must have a value for it.
    pub(crate) required: bool,
    /// Whether the database computes it.
    pub(crate) generated: bool,
}

/// Looks at `table`; `None` if there is no such thing.
pub(crate) fn describe(connection: &Connection, table: &str) -> Result<Option<Existing>> {
    let found = connection
        .query_row(
            "SELECT type, coalesce(sql, '') FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE ORDER BY type DESC",
            [table],
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
        )
        .optional()?;
    let Some((what, sql)) = found else {
        return Ok(None);
    };
    let is_strict = connection
        .query_row(
            "SELECT strict FROM pragma_table_list(?1) WHERE schema = 'main'",
            [table],
            |row| row.get(0),
        )
        .optional()?
        .unwrap_or(false);
    let triggers: bool = connection.query_row(
        "SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE",
        [table],
        |row| row.get(0),
    )?;
    let columns = connection
        .prepare("SELECT name, type, \"notnull\" AND dflt_value IS NULL AND NOT pk, hidden FROM pragma_table_xinfo(?1)")?
        .query_map([table], |row| {
            Ok(ExistingColumn {
                name: row.get(0)?,
                kind: Kind::of_declared(&row.get::<_, String>(1)?, is_strict),
                required: row.get(2)?,
                generated: row.get::<_, i64>(3)? != 0,
            })
        })?
        .collect::<Result<_>>()?;
    let fragile = triggers || sql.to_ascii_lowercase().contains("conflict");
    Ok(Some(Existing { what, columns, fragile }))
}

impl Existing {
    /// The names of its columns in order, for records of `count` fields and no header.
    ///
    /// # Errors
    /// A sentence, if it has another number of columns.
    pub(crate) fn names_for(&self, count: usize) -> std::result::Result<Vec<String>, String> {
        let given = self.columns.iter().filter(|column| !column.generated);
        let names: Vec<_> = given.map(|column| column.name.clone()).collect();
        if names.len() == count {
            return Ok(names);
        }
        Err(format!(
            "the first record has {}, and the table has {}: without a header they have to match",
            counted(count as u64, "field"),
            counted(names.len() as u64, "column"),
        ))
    }

    /// The columns for the input's `names`, which SQLite compares without case.
    ///
    /// # Errors
    /// A sentence that names the columns that do not match.
    pub(crate) fn columns_for(
        &self,
        table: &str,
        names: &[String],
    ) -> std::result::Result<Vec<Column>, String> {
        if self.what != "table" {
            return Err(format!(
                "{table} is a {}, not a table: give the name of a table",
                self.what
            ));
        }
        let find = |name: &str| {
            self.columns
                .iter()
                .find(|column| column.name.eq_ignore_ascii_case(name) && !column.generated)
        };
        let missing: Vec<_> =
            names.iter().filter(|name| find(name).is_none()).map(String::as_str).collect();
        if !missing.is_empty() {
            return Err(format!(
                "table {table} has no column {}, which the input has: add {} to the table or rename {} in the input",
                missing.join(", "),
                if missing.len() == 1 { "it" } else { "them" },
                if missing.len() == 1 { "it" } else { "them" },
            ));
        }
        let required: Vec<_> = self
            .columns
            .iter()
            .filter(|column| {
                column.required && !names.iter().any(|name| name.eq_ignore_ascii_case(&column.name))
            })
            .map(|column| column.name.as_str())
            .collect();
        if !required.is_empty() {
            return Err(format!(
                "table {table} needs a value for {}, which the input does not have: add a column to the input, \
                 or a default to the table",
                required.join(", ")
            ));
        }
        Ok(names
            .iter()
            .filter_map(|name| {
                find(name).map(|column| Column { name: name.clone(), kind: column.kind })
            })
            .collect())
    }
}

/// The statement that creates `table`.
pub(crate) fn create_statement(engine: Engine, table: &str, columns: &[Column]) -> String {
    let declared = |kind: Kind| {
        if !engine.is_server() {
            return kind.declared();
        }
        match kind {
            Kind::Integer => "BIGINT",
            Kind::Real => "DOUBLE PRECISION",
            Kind::Boolean => "BOOLEAN",
            Kind::Numeric => "NUMERIC",
            // Its TEXT ends at 64 KiB, and the database's character set may lack what a record has.
            Kind::Text | Kind::Untyped if engine == Engine::Mysql => {
                "LONGTEXT CHARACTER SET utf8mb4"
            }
            Kind::Text | Kind::Untyped => "TEXT",
        }
    };
    let list: Vec<_> = columns
        .iter()
        .map(|column| format!("{} {}", engine.quoted(&column.name), declared(column.kind)))
        .collect();
    format!("CREATE TABLE {} ({})", engine.quoted(table), list.join(", "))
}

/// The statement that inserts one record.
pub(crate) fn insert_statement(engine: Engine, table: &str, columns: &[Column]) -> String {
    let names: Vec<_> = columns.iter().map(|column| engine.quoted(&column.name)).collect();
    let parameters: Vec<_> = (1..=columns.len()).map(|index| engine.placeholder(index)).collect();
    format!(
        "INSERT INTO {} ({}) VALUES ({})",
        engine.quoted(table),
        names.join(", "),
        parameters.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    fn described(sql: &str) -> Existing {
        let connection = Connection::open_in_memory().expect("opens");
        connection.execute_batch(sql).expect("runs");
        describe(&connection, "t").expect("describes").expect("exists")
    }

    #[test]
    fn statements_quote_every_name() {
        let columns = [
            Column { name: "select".into(), kind: Kind::Integer },
            Column { name: "a \"b\"".into(), kind: Kind::Text },
        ];
        let connection = Connection::open_in_memory().expect("opens");
        connection
            .execute_batch(&create_statement(Engine::Sqlite, "my \"table\"", &columns))
            .expect("creates");
        let insert = insert_statement(Engine::Sqlite, "my \"table\"", &columns);
        assert_eq!(connection.execute(&insert, (1, "x")).expect("inserts"), 1);
    }

    #[test]
    fn columns_match_by_name_in_any_order_and_case() {
        let table = described(
            "CREATE TABLE t (a INTEGER, b TEXT NOT NULL DEFAULT 'x', C REAL, d AS (a + 1))",
        );
        let columns = table.columns_for("t", &names(&["c", "A"])).expect("match");
        assert_eq!(
            columns.iter().map(|column| column.kind).collect::<Vec<_>>(),
            [Kind::Real, Kind::Integer]
        );
        let missing =
            table.columns_for("t", &names(&["a", "x", "d"])).expect_err("no x, and d is computed");
        assert!(missing.contains("no column x, d,"), "{missing}");
        assert!(!table.fragile);
    }

    #[test]
    fn a_required_column_must_be_in_the_input() {
        let table =
            described("CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, a TEXT NOT NULL, b)");
        let problem = table.columns_for("t", &names(&["b"])).expect_err("a is required");
        assert!(problem.contains("needs a value for a,"), "{problem}");
    }

    #[test]
    fn views_are_refused_and_triggers_and_conflict_clauses_are_noticed() {
        let view = described("CREATE VIEW t AS SELECT 1 AS a");
        assert!(view.columns_for("t", &names(&["a"])).expect_err("a view").contains("is a view"));
        assert!(described("CREATE TABLE t (a UNIQUE ON CONFLICT ROLLBACK)").fragile);
        assert!(
            described("CREATE TABLE t (a); CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END")
                .fragile
        );
    }
}
