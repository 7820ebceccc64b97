//! What a text of SQL is, as far as the server has to know before it runs it.
//!
//! SQLite itself finds the ends of statements and parses those that control transactions. What the
//! server concludes from a first word only chooses the cheaper way to run a statement: a guess that
//! is wrong is noticed by SQLite, and the statement takes the other way.

use std::{cell::RefCell, collections::HashMap, ffi::CString, sync::mpsc};

use groupcommit::sqlite::rusqlite::{
    Connection,
    hooks::{AuthAction, AuthContext, Authorization, TransactionOperation},
};

use crate::{
    error::{SqlError, many_statements},
    ffi,
};

/// How a statement is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It may be one that only reads.
    Read,
    /// Any other statement of a transaction.
    Write,
    Begin,
    Commit,
    Rollback,
    /// It needs the writing connection alone: savepoints, `VACUUM`, pragmas that write.
    Alone,
}

/// Pragmas that only read, with or without an argument.
const PRAGMAS_READ: [&str; 17] = [
    "collation_list",
    "compile_options",
    "data_version",
    "foreign_key_check",
    "foreign_key_list",
    "freelist_count",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "page_count",
    "pragma_list",
    "quick_check",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// Pragmas that a client may set; without a value they only read.
const PRAGMAS_SET: [&str; 6] = [
    "application_id",
    "defer_foreign_keys",
    "foreign_keys",
    "read_uncommitted",
    "recursive_triggers",
    "user_version",
];

/// Bytes that looking for the ends of statements may read; a text with very many semicolons inside
/// one statement is looked at again and again.
const LOOKED_AT_MAX: usize = 64 << 20;

/// The statements of a text, each without what separates it from the others.
pub(crate) fn split(text: &str) -> Result<Vec<&str>, SqlError> {
    if text.contains('\0') {
        return Err(SqlError::new("SQL_PARSE_ERROR", "the SQL text contains a NUL character"));
    }
    let mut statements = Vec::new();
    let mut rest = skip_blank(text);
    let mut looked_at = 0;
    while !rest.is_empty() {
        let mut end = rest.len();
        for (at, _) in rest.match_indices(';') {
            looked_at += at;
            if looked_at > LOOKED_AT_MAX {
                let message =
                    "too many semicolons inside statements; use parameters for long texts";
                return Err(SqlError::new("SQL_PARSE_ERROR", message));
            }
            if CString::new(&rest[..=at]).is_ok_and(|start| ffi::is_complete(&start)) {
                end = at;
                break;
            }
        }
        statements.push(&rest[..end]);
        rest = skip_blank(rest.get(end + 1..).unwrap_or_default());
    }
    Ok(statements)
}

/// The one statement of a text.
pub(crate) fn single(text: &str) -> Result<&str, SqlError> {
    match split(text)?.as_slice() {
        [] => Err(SqlError::new("SQL_NO_STATEMENT", "the SQL text holds no statement")),
        [statement] => Ok(statement),
        _ => Err(many_statements()),
    }
}

/// How to run `statement`, and what to run for it.
pub(crate) fn classify(statement: &str) -> Result<(Kind, &str), SqlError> {
    let word = first_word(statement);
    let is = |names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name));
    if is(&["SELECT", "VALUES", "WITH", "EXPLAIN"]) {
        return Ok((Kind::Read, statement));
    }
    if is(&["INSERT", "UPDATE", "DELETE", "REPLACE"]) {
        return Ok((Kind::Write, statement));
    }
    if is(&["BEGIN"]) && is_foreign_begin(statement) {
        return Ok((Kind::Begin, "BEGIN"));
    }
    if is(&["BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"]) {
        return Ok((control(statement)?, statement));
    }
    if is(&["PRAGMA"]) {
        return Ok((pragma(statement)?, statement));
    }
    if is(&["VACUUM"]) && !words(statement).any(|word| word.eq_ignore_ascii_case("INTO")) {
        return Ok((Kind::Alone, statement));
    }
    if is(&["ATTACH", "DETACH", "VACUUM"]) {
        return Err(blocked(&word.to_ascii_uppercase()));
    }
    Ok((Kind::Write, statement))
}

/// `BEGIN READONLY` of libSQL and `BEGIN CONCURRENT` of Turso, which SQLite does not know.
fn is_foreign_begin(statement: &str) -> bool {
    let mut words = words(statement).skip(1).filter(|word| !word.is_empty());
    let kind = words.next().unwrap_or_default();
    (kind.eq_ignore_ascii_case("READONLY") || kind.eq_ignore_ascii_case("CONCURRENT"))
        && words.all(|word| word.eq_ignore_ascii_case("TRANSACTION"))
}

fn words(statement: &str) -> impl Iterator<Item = &str> {
    statement.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
}

fn blocked(what: &str) -> SqlError {
    SqlError::new("BLOCKED", format!("{what} is not available over the network"))
}

/// The text from its first statement on: without blanks, comments and semicolons before it.
fn skip_blank(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0c', ';', '\u{feff}']);
        rest = if let Some(comment) = rest.strip_prefix("--") {
            comment.split_once('\n').map_or("", |(_, after)| after)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").map_or("", |(_, after)| after)
        } else {
            return rest;
        };
    }
}

fn first_word(statement: &str) -> &str {
    let statement = skip_blank(statement);
    let end = statement.find(|letter: char| !letter.is_ascii_alphabetic());
    &statement[..end.unwrap_or(statement.len())]
}

/// What SQLite's parser finds in a statement that needs no schema.
enum Seen {
    Control(Kind),
    Pragma { name: String, has_value: bool },
}

thread_local! {
    /// An empty database: what is prepared on it never runs.
    static PARSER: RefCell<Option<Connection>> = const { RefCell::new(None) };
}

fn parse(statement: &str) -> Result<Option<Seen>, SqlError> {
    PARSER.with_borrow_mut(|parser| {
        let connection = match parser {
            Some(connection) => connection,
            None => parser.insert(Connection::open_in_memory()?),
        };
        let (sender, seen) = mpsc::channel();
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            if let Some(seen) = see(&context) {
                drop(sender.send(seen)); // the receiver outlives the statement
            }
            match context.action {
                // Some pragmas take effect when they are prepared.
                AuthAction::Pragma { .. } => Authorization::Deny,
                _ => Authorization::Allow,
            }
        }))?;
        let prepared = connection.prepare(statement).map(drop);
        match (prepared, seen.try_recv()) {
            (_, Ok(pragma @ Seen::Pragma { .. })) => Ok(Some(pragma)),
            (Err(error), _) => Err(error.into()),
            (Ok(()), seen) => Ok(seen.ok()),
        }
    })
}

fn see(context: &AuthContext<'_>) -> Option<Seen> {
    match context.action {
        AuthAction::Transaction { operation } => Some(Seen::Control(match operation {
            TransactionOperation::Begin => Kind::Begin,
            TransactionOperation::Rollback => Kind::Rollback,
            _ => Kind::Commit,
        })),
        AuthAction::Savepoint { .. } => Some(Seen::Control(Kind::Alone)),
        AuthAction::Pragma { pragma_name, pragma_value } => Some(Seen::Pragma {
            name: pragma_name.to_ascii_lowercase(),
            has_value: pragma_value.is_some(),
        }),
        _ => None,
    }
}

fn control(statement: &str) -> Result<Kind, SqlError> {
    thread_local! {
        static KNOWN: RefCell<HashMap<String, Kind>> = RefCell::default();
    }
    if let Some(kind) = KNOWN.with_borrow(|known| known.get(statement).copied()) {
        return Ok(kind);
    }
    let kind = match parse(statement)? {
        Some(Seen::Control(kind)) => kind,
        _ => Kind::Alone,
    };
    if statement.len() <= KNOWN_BYTES_MAX {
        KNOWN.with_borrow_mut(|known| {
            if known.len() == KNOWN_MAX {
                known.clear();
            }
            known.insert(statement.to_owned(), kind);
        });
    }
    Ok(kind)
}

/// Statements that control transactions of which a thread knows the kind, and their longest.
const KNOWN_MAX: usize = 64;
const KNOWN_BYTES_MAX: usize = 64;

fn pragma(statement: &str) -> Result<Kind, SqlError> {
    let Some(Seen::Pragma { name, has_value }) = parse(statement)? else {
        return Ok(Kind::Write); // SQLite ignores pragmas that it does not know
    };
    let is = |names: &[&str]| names.contains(&name.as_str());
    if is(&PRAGMAS_READ) || (is(&PRAGMAS_SET) && !has_value) {
        return Ok(Kind::Read);
    }
    if is(&PRAGMAS_SET) {
        return Ok(Kind::Alone);
    }
    Err(blocked(&format!("PRAGMA {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_where_sqlite_says() {
        let trigger = "CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM u; SELECT 1; END";
        let text =
            format!(" ;; SELECT ';'; {trigger} ; -- a; b\n /* ; */ SELECT \"x;y\" -- end;\n");
        assert_eq!(
            split(&text).unwrap(),
            ["SELECT ';'", &format!("{trigger} "), "SELECT \"x;y\" -- end;\n"]
        );
        assert_eq!(split(" -- nothing").unwrap(), [""; 0]);
        assert_eq!(split("/* open").unwrap(), [""; 0]);
        assert_eq!(single("SELECT 1; -- and no more").unwrap(), "SELECT 1");
        assert_eq!(single("SELECT 1; SELECT 2").unwrap_err().code, "SQL_MANY_STATEMENTS");
        assert_eq!(single("; ;").unwrap_err().code, "SQL_NO_STATEMENT");
        assert_eq!(single("SELECT 1\0").unwrap_err().code, "SQL_PARSE_ERROR");
    }

    #[test]
    fn a_text_of_semicolons_costs_a_bounded_time() {
        assert_eq!(split(&";".repeat(10 << 20)).unwrap(), [""; 0]);
        let literal = format!("SELECT '{}'", ";".repeat(1 << 20));
        assert_eq!(split(&literal).unwrap_err().code, "SQL_PARSE_ERROR");
        assert_eq!(split(&"SELECT 1;".repeat(100_000)).unwrap().len(), 100_000);
    }

    #[test]
    fn kinds() {
        for (sql, kind) in [
            ("select 1", Kind::Read),
            ("/* x */ WITH a AS (SELECT 1) SELECT * FROM a", Kind::Read),
            ("INSERT INTO t VALUES (1)", Kind::Write),
            ("CREATE TABLE t (a)", Kind::Write),
            ("nonsense", Kind::Write),
            ("BEGIN", Kind::Begin),
            ("begin immediate", Kind::Begin),
            ("BEGIN TRANSACTION READONLY", Kind::Begin),
            ("BEGIN READONLY", Kind::Begin),
            ("BEGIN CONCURRENT TRANSACTION", Kind::Begin),
            ("COMMIT", Kind::Commit),
            ("END TRANSACTION", Kind::Commit),
            ("ROLLBACK", Kind::Rollback),
            ("ROLLBACK TO a", Kind::Alone),
            ("SAVEPOINT a", Kind::Alone),
            ("RELEASE a", Kind::Alone),
            ("PRAGMA table_info(t)", Kind::Read),
            ("PRAGMA main.user_version", Kind::Read),
            ("PRAGMA user_version = 3", Kind::Alone),
            ("PRAGMA foreign_keys=off", Kind::Alone),
            ("VACUUM", Kind::Alone),
        ] {
            assert_eq!(classify(sql).map(|(kind, _)| kind), Ok(kind), "{sql}");
        }
        for (sql, code) in [
            ("BEGIN x y z", "SQL_INPUT_ERROR"),
            ("ATTACH 'x' AS y", "BLOCKED"),
            ("VACUUM INTO 'x'", "BLOCKED"),
            ("PRAGMA journal_mode=DELETE", "BLOCKED"),
            ("PRAGMA wal_checkpoint", "BLOCKED"),
        ] {
            assert_eq!(classify(sql).map_err(|error| error.code), Err(code), "{sql}");
        }
    }
}
