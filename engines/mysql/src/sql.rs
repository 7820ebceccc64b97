//! The text of a statement, taken apart once: what it is, and where its parameters go.
//!
//! Many statements travel as one text, so each has to end where it seems to end. What leaves that in
//! doubt is refused: an open quotation or comment, a second statement, and comments that some
//! servers execute. The server takes each text apart as well, by preparing it, and both have to find
//! the same number of parameters.
//!
//! Invariants:
//! 1. A text that is accepted, with a line end after it, leaves no quotation or comment open.
//! 2. Only a statement that cannot end its transaction is [shared](Template::is_shared).

use std::{ops::Range, sync::Arc};

use groupcommit_statement::Value;

use crate::{
    Error,
    literal::{self, Mode},
};

/// A statement's text, ready for its parameters.
#[derive(Debug)]
pub(crate) struct Template {
    sql: Arc<str>,
    mode: Mode,
    /// What is between the parameters.
    pieces: Vec<Range<usize>>,
    first_word: Range<usize>,
}

/// Statements that neither end their transaction nor leave something behind in the session, by their
/// first word. All others are refused where transactions share a commit: those that are known to
/// commit by themselves are many, and each server adds to them.
const SHARED: [&str; 13] = [
    "DELETE", "DESC", "DESCRIBE", "DO", "EXPLAIN", "INSERT", "REPLACE", "SELECT", "SHOW", "TABLE",
    "UPDATE", "VALUES", "WITH",
];

impl Template {
    /// Takes `sql` apart.
    pub(crate) fn new(sql: &Arc<str>, mode: Mode) -> Result<Self, Error> {
        let mut pieces = Vec::new();
        let mut lexer = Lexer { text: sql.as_bytes(), at: 0, mode };
        let (mut begin, mut first_word, mut end) = (0, None, None);
        while lexer.at < lexer.text.len() {
            let at = lexer.at;
            let part = lexer.next()?;
            if part == Part::Space {
                continue;
            }
            if part == Part::End {
                end.get_or_insert(at);
            } else if end.is_some() {
                return Err(Error::Several);
            }
            match part {
                Part::Parameter => {
                    pieces.push(begin..at);
                    begin = lexer.at;
                }
                Part::Word => {
                    first_word.get_or_insert(at..lexer.at);
                }
                Part::Other if sql.as_bytes()[at] != b'(' => {
                    first_word.get_or_insert(at..at);
                }
                _ => {}
            }
        }
        pieces.push(begin..end.unwrap_or(sql.len()));
        let first_word = first_word.unwrap_or_default();
        Ok(Self { sql: sql.clone(), mode, pieces, first_word })
    }

    /// How many parameters it takes.
    pub(crate) fn params(&self) -> usize {
        self.pieces.len() - 1
    }

    /// The word that says which kind of statement it is.
    pub(crate) fn first_word(&self) -> &str {
        &self.sql[self.first_word.clone()]
    }

    /// Refuses what may not run in a transaction that shares its commit.
    pub(crate) fn is_shared(&self) -> Result<(), Error> {
        let word = self.first_word();
        if SHARED.iter().any(|shared| word.eq_ignore_ascii_case(shared)) {
            return Ok(());
        }
        Err(Error::Forbidden(word.to_ascii_uppercase()))
    }

    /// Appends the statement with its parameters in place, and what separates it from the next.
    pub(crate) fn render(&self, params: &[Value], text: &mut Vec<u8>) -> Result<(), Error> {
        if params.len() != self.params() {
            return Err(Error::Parameters { expected: self.params(), given: params.len() });
        }
        for (index, piece) in self.pieces.iter().enumerate() {
            text.extend_from_slice(&self.sql.as_bytes()[piece.clone()]);
            if let Some(value) = params.get(index) {
                text.push(b' ');
                literal::write(value, self.mode, text)?;
                text.push(b' ');
            }
        }
        // The line end closes a comment that the text may end with.
        text.extend_from_slice(b"\n;");
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// White space or a comment.
    Space,
    Parameter,
    /// What separates statements.
    End,
    /// A keyword or a bare name.
    Word,
    /// Anything else.
    Other,
}

struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
    mode: Mode,
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

impl Lexer<'_> {
    /// Goes past the next part.
    fn next(&mut self) -> Result<Part, Error> {
        let rest = &self.text[self.at..];
        let (part, length) = match rest {
            [b'\'', ..] => (Part::Other, self.quoted(b'\'', !self.mode.no_backslash_escapes)?),
            [b'"', ..] => {
                let escapes = !self.mode.no_backslash_escapes && !self.mode.ansi_quotes;
                (Part::Other, self.quoted(b'"', escapes)?)
            }
            [b'`', ..] => (Part::Other, self.quoted(b'`', false)?),
            [b'/', b'*', b'!', ..] | [b'/', b'*', b'M', b'!', ..] => {
                return Err(Error::Forbidden("/*!".to_owned()));
            }
            [b'/', b'*', inside @ ..] => match inside.windows(2).position(|two| two == b"*/") {
                Some(length) => (Part::Space, length + 4),
                None => return Err(Error::Unfinished("/*")),
            },
            [b'#', ..] => (Part::Space, line(rest)),
            [b'-', b'-'] => (Part::Space, 2),
            [b'-', b'-', next, ..] if is_space(*next) || next.is_ascii_control() => {
                (Part::Space, line(rest))
            }
            // Some servers take this for a quotation mark.
            [b'$', b'$', ..] => return Err(Error::Forbidden("$$".to_owned())),
            [b'?', ..] => (Part::Parameter, 1),
            [b';', ..] => (Part::End, 1),
            [0, ..] => return Err(Error::Forbidden("\\0".to_owned())),
            [byte, ..] if is_space(*byte) => (Part::Space, 1),
            [byte, ..] if is_word(*byte) => {
                let length = rest.iter().take_while(|byte| is_word(**byte)).count();
                if rest[..length].windows(2).any(|two| two == b"$$") {
                    return Err(Error::Forbidden("$$".to_owned()));
                }
                (Part::Word, length)
            }
            _ => (Part::Other, 1),
        };
        self.at += length;
        Ok(part)
    }

    /// The length of the quotation that begins here. A mark that is written twice stands for
    /// itself: that is two quotations side by side.
    fn quoted(&self, mark: u8, escapes: bool) -> Result<usize, Error> {
        let inside = &self.text[self.at + 1..];
        let mut at = 0;
        while let Some(&byte) = inside.get(at) {
            if byte == mark {
                return Ok(at + 2);
            }
            at += if byte == b'\\' && escapes { 2 } else { 1 };
        }
        Err(Error::Unfinished(match mark {
            b'\'' => "'",
            b'"' => "\"",
            _ => "`",
        }))
    }
}

/// The length of what is left of the line.
fn line(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(sql: &str) -> Result<Template, Error> {
        Template::new(&sql.into(), Mode::default())
    }

    fn rendered(sql: &str, params: &[Value]) -> String {
        let mut text = Vec::new();
        template(sql).unwrap().render(params, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn parameters_are_found_outside_of_quotations_and_comments_alone() {
        let sql = "SELECT ?, '?''?\\'?', \"?\\\"?\", `?`, 1-- ?\n, /* ? */ ?, 2--1 # ?\n, ?-- ?";
        assert_eq!(template(sql).unwrap().params(), 3);
        assert_eq!(rendered("SELECT?AS a;", &[7.into()]), "SELECT 7 AS a\n;");
        let mode = Mode { no_backslash_escapes: true, ansi_quotes: true };
        let sql: Arc<str> = r#"SELECT '\', ?, "\", ?"#.into();
        assert_eq!(Template::new(&sql, mode).unwrap().params(), 2);
    }

    #[test]
    fn what_does_not_end_where_it_seems_to_is_refused() {
        for sql in ["SELECT 'a", "SELECT \"a\\\"", "SELECT `a", "SELECT 1 /* a", "SELECT '\\'"] {
            assert!(matches!(template(sql), Err(Error::Unfinished(_))), "{sql}");
        }
        for sql in ["SELECT 1; COMMIT", "SELECT 1;;SELECT 2", "SELECT 1 -- a\n; DO 1"] {
            assert!(matches!(template(sql), Err(Error::Several)), "{sql}");
        }
        for sql in ["/*! COMMIT */", "SELECT 1 /*M!100100 + 1 */", "SELECT $$a$$", "SELECT a$$b$$"]
        {
            assert!(matches!(template(sql), Err(Error::Forbidden(_))), "{sql}");
        }
        for sql in ["SELECT 1;", "SELECT 1; -- the end", "SELECT 1 ; /* the end */ ;\n"] {
            assert!(template(sql).is_ok(), "{sql}");
        }
    }

    #[test]
    fn what_would_end_the_transaction_of_others_is_refused_however_it_is_written() {
        for sql in [
            "COMMIT",
            " \n commit and chain",
            "-- a comment\r\nRollback",
            "/* one */ SAVEPOINT a",
            "set autocommit = 1",
            "#\nCREATE TABLE a (b int)",
            "call a()",
            "BEGIN NOT ATOMIC COMMIT",
            "(COMMIT)",
            "'SELECT'",
            "`SELECT`",
            "",
        ] {
            let refused = template(sql).and_then(|template| template.is_shared());
            assert!(matches!(refused, Err(Error::Forbidden(_))), "{sql}");
        }
        for sql in ["SELECT 1 -- COMMIT", "(select 1)", "/* x */insert into commits values (1)"] {
            assert!(template(sql).unwrap().is_shared().is_ok(), "{sql}");
        }
    }
}
