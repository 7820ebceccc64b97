//! What a statement may be in a transaction that others share.

use crate::Error;

/// Statements that end or split the transaction they run in, or leave something behind in the
/// session, which transactions of others share.
const FORBIDDEN: [&str; 21] = [
    "ABORT",
    "BEGIN",
    "CLOSE",
    "COMMIT",
    "COPY",
    "DEALLOCATE",
    "DECLARE",
    "DISCARD",
    "END",
    "EXECUTE",
    "FETCH",
    "LISTEN",
    "LOAD",
    "MOVE",
    "PREPARE",
    "RELEASE",
    "RESET",
    "ROLLBACK",
    "SAVEPOINT",
    "SET",
    "START",
];

/// Refuses what may not run in a transaction that shares its commit.
pub(crate) fn check(sql: &str) -> Result<(), Error> {
    // The client would refuse to send it, which looks like a lost connection.
    if sql.contains('\0') {
        return Err(Error::Nul);
    }
    let word = first_word(sql).to_ascii_uppercase();
    match FORBIDDEN.iter().find(|forbidden| **forbidden == word) {
        Some(forbidden) => Err(Error::Forbidden((*forbidden).to_owned())),
        None => Ok(()),
    }
}

/// Whether the statement may change what the database checks at a commit.
pub(crate) fn is_definition(sql: &str) -> bool {
    let word = first_word(sql).to_ascii_uppercase();
    // A block of code can do anything.
    ["CREATE", "ALTER", "DROP", "DO", "CALL"].contains(&word.as_str())
}

/// Whether the statement may change settings, which others would find changed.
pub(crate) fn may_set(sql: &str) -> bool {
    let word = first_word(sql).to_ascii_uppercase();
    ["DO", "CALL"].contains(&word.as_str()) || mentions(sql, "set_config")
}

fn mentions(sql: &str, name: &str) -> bool {
    sql.as_bytes().windows(name.len()).any(|part| part.eq_ignore_ascii_case(name.as_bytes()))
}

/// The first word, behind white space, comments and what stands for no statement.
fn first_word(sql: &str) -> &str {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == ';');
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.find(['\n', '\r']).map_or("", |end| &comment[end..]);
        } else if rest.starts_with("/*") {
            rest = after_comment(rest);
        } else {
            let end = rest.find(|letter: char| !letter.is_ascii_alphabetic());
            return &rest[..end.unwrap_or(rest.len())];
        }
    }
}

/// What follows the comment that `sql` begins with; comments nest.
fn after_comment(sql: &str) -> &str {
    let (mut depth, mut at) = (0_u32, 0);
    while at < sql.len() {
        let two = sql.as_bytes().get(at..at + 2);
        if two == Some(b"/*") {
            depth += 1;
            at += 2;
        } else if two == Some(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return &sql[at..];
            }
        } else {
            at += 1;
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_the_transaction_of_others_is_refused_however_it_is_written() {
        for sql in [
            "COMMIT",
            " \n commit and chain",
            "-- a comment\r\nRollback",
            "/* one /* nested */ */ SAVEPOINT a",
            ";; end;",
            "set synchronous_commit = off",
            "/**/--\n/* */\tABORT;",
        ] {
            assert!(matches!(check(sql), Err(Error::Forbidden(_))), "{sql}");
        }
        for (sql, sets) in [
            ("SELECT pg_catalog.SET_CONFIG('role', 'a', true)", true),
            ("do $$ begin end $$", true),
            ("UPDATE config SET a = 1", false),
            ("", false),
        ] {
            assert_eq!(may_set(sql), sets, "{sql}");
        }
        for sql in ["SELECT 1 -- COMMIT", "INSERT INTO commits VALUES (1)", "commits", "", "/* x"] {
            assert!(check(sql).is_ok(), "{sql}");
        }
    }
}
