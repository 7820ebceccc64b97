//! Values as they are written into a statement's text.
//!
//! Each is written so that the server reads back what was given, and takes it for what a parameter
//! of that type would be:
//!
//! | value | literal |
//! |---|---|
//! | whole number | its digits; a negative one in parentheses |
//! | floating point | the shortest digits that give the same number, with an exponent, which makes it a `DOUBLE` |
//! | text | in single quotation marks, in parentheses, so that it does not join a string beside it |
//! | bytes | hexadecimal |
//!
//! In text a quotation mark is written twice, and so is a backslash where it has a meaning. Nothing
//! else has one, since the connection's character set is UTF-8.

use std::io::Write as _;

use groupcommit_statement::Value;

use crate::Error;

/// How the server reads quotations; from its `sql_mode`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Mode {
    /// A backslash in a string stands for itself.
    pub(crate) no_backslash_escapes: bool,
    /// Double quotation marks are for names.
    pub(crate) ansi_quotes: bool,
}

impl Mode {
    pub(crate) fn of(sql_mode: &str) -> Self {
        let has = |name: &str| sql_mode.split(',').any(|mode| mode == name);
        Self { no_backslash_escapes: has("NO_BACKSLASH_ESCAPES"), ansi_quotes: has("ANSI_QUOTES") }
    }
}

/// Appends the literal for `value`.
pub(crate) fn write(value: &Value, mode: Mode, text: &mut Vec<u8>) -> Result<(), Error> {
    match value {
        Value::Null => text.extend_from_slice(b"NULL"),
        Value::Bool(true) => text.extend_from_slice(b"TRUE"),
        Value::Bool(false) => text.extend_from_slice(b"FALSE"),
        Value::Int(number) if *number < 0 => put(text, format_args!("({number})")),
        Value::Int(number) => put(text, format_args!("{number}")),
        Value::Float(number) if !number.is_finite() => {
            return Err(Error::Value(format!(
                "the parameter {number} is not finite; MySQL cannot store NaN or infinity"
            )));
        }
        Value::Float(number) if number.is_sign_negative() => {
            put(text, format_args!("({number:e})"));
        }
        Value::Float(number) => put(text, format_args!("{number:e}")),
        Value::Text(value) => {
            text.extend_from_slice(b"('");
            for byte in value.bytes() {
                if byte == b'\'' || (byte == b'\\' && !mode.no_backslash_escapes) {
                    text.push(byte);
                }
                text.push(byte);
            }
            text.extend_from_slice(b"')");
        }
        Value::Bytes(bytes) => hexadecimal(bytes, text),
        other => return Err(Error::Value(format!("MySQL cannot store {other:?}"))),
    }
    Ok(())
}

/// Appends bytes as a literal.
pub(crate) fn hexadecimal(bytes: &[u8], text: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.extend_from_slice(b"x'");
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)]);
        text.push(DIGITS[usize::from(byte & 15)]);
    }
    text.push(b'\'');
}

fn put(text: &mut Vec<u8>, what: std::fmt::Arguments<'_>) {
    // Memory takes whatever is written.
    drop(text.write_fmt(what));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_written_twice_and_backslashes_where_they_have_a_meaning() {
        let literal = |value: Value, no_backslash_escapes| {
            let mode = Mode { no_backslash_escapes, ansi_quotes: false };
            let mut text = Vec::new();
            write(&value, mode, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(literal(r"a'b\".into(), false), r"('a''b\\')");
        assert_eq!(literal(r"a'b\".into(), true), r"('a''b\')");
        assert_eq!(literal(i64::MIN.into(), false), "(-9223372036854775808)");
        assert_eq!(literal(0.1.into(), false), "1e-1");
        assert_eq!(literal((-0.0).into(), false), "(-0e0)");
        assert_eq!(literal(vec![0_u8, 255].into(), false), "x'00ff'");
        let mut text = Vec::new();
        let refused = write(&f64::NAN.into(), Mode::default(), &mut text);
        assert!(matches!(refused, Err(Error::Value(_))));
    }
}
