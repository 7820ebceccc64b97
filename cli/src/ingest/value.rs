//! From text to what a column stores, without ever altering a value silently.
//!
//! SQLite converts a value to its column's affinity as it stores it: `007` in an INTEGER column
//! becomes 7. Everything here exists so that this never happens unseen:
//!
//! 1. A cell is bound with the very storage class that its column keeps, so SQLite converts nothing.
//! 2. A text becomes an integer only if that integer prints as the same text.
//! 3. A text becomes a real only if the real, printed to as many digits, is the same number.
//! 4. What fits neither way is an error that names the column and the value.

use std::fmt::Write as _;

/// What a column keeps, from its declared type by SQLite's affinity rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Integer affinity: integers only.
    Integer,
    /// Real affinity: numbers only, kept as floating point.
    Real,
    /// A type that says BOOL: as numeric, and takes JSON's true and false as 1 and 0.
    Boolean,
    /// Numeric affinity (DECIMAL, DATE, ...): numbers as such, other text as text.
    Numeric,
    /// Text affinity: any text.
    Text,
    /// No affinity: text as it is.
    Untyped,
}

impl Kind {
    /// The kind of a declared column type (section 3.1 of SQLite's data type rules, plus BOOL).
    /// In a STRICT table ANY keeps every value as it is; elsewhere it has numeric affinity.
    pub(crate) fn of_declared(declared: &str, is_strict: bool) -> Self {
        let upper = declared.to_ascii_uppercase();
        let has = |part: &str| upper.contains(part);
        if is_strict && upper == "ANY" {
            Kind::Untyped
        } else if has("INT") {
            Kind::Integer
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            Kind::Text
        } else if has("BLOB") || upper.trim().is_empty() {
            Kind::Untyped
        } else if has("REAL") || has("FLOA") || has("DOUB") {
            Kind::Real
        } else if has("BOOL") {
            Kind::Boolean
        } else {
            Kind::Numeric
        }
    }

    /// The type that a created column declares.
    pub(crate) fn declared(self) -> &'static str {
        match self {
            Kind::Integer => "INTEGER",
            Kind::Real => "REAL",
            Kind::Boolean => "BOOLEAN",
            Kind::Numeric => "NUMERIC",
            Kind::Text => "TEXT",
            Kind::Untyped => "BLOB",
        }
    }
}

/// What is bound to one parameter. Text is a range of its record's own buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell {
    /// No value.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    /// A finite number.
    Real(f64),
    /// Bytes from..to of the record's buffer.
    Text(u32, u32),
}

/// How a text is to be stored in a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stored {
    /// As this integer.
    Integer(i64),
    /// As this real.
    Real(f64),
    /// As the text itself.
    Text,
}

/// How a column of `kind` keeps `text` unaltered; `None` if it cannot.
pub(crate) fn store(kind: Kind, text: &str) -> Option<Stored> {
    match kind {
        Kind::Text | Kind::Untyped => Some(Stored::Text),
        Kind::Integer => canonical_integer(text).map(Stored::Integer),
        Kind::Real => faithful_real(text).map(Stored::Real),
        Kind::Numeric | Kind::Boolean => {
            store_number(text).or_else(|| (!looks_numeric(text)).then_some(Stored::Text))
        }
    }
}

/// The number that `text` writes, as an integer where it is one.
pub(crate) fn store_number(text: &str) -> Option<Stored> {
    canonical_integer(text).map(Stored::Integer).or_else(|| faithful_real(text).map(Stored::Real))
}

/// The reason for a record whose value its column would alter; `shown` is the value as it stands in
/// the input.
pub(crate) fn misfit(column: &str, kind: Kind, shown: &str) -> String {
    format!(
        "column \"{column}\" is {} and cannot keep {} as it is",
        kind.declared(),
        shortened(shown)
    )
}

/// A value of the input as a message shows it.
pub(crate) fn shortened(shown: &str) -> String {
    let mut characters = shown.chars();
    let mut text: String = characters.by_ref().take(60).collect();
    if characters.next().is_some() {
        text.push_str("...");
    }
    text
}

/// The integer that prints exactly as `text`, if there is one.
pub(crate) fn canonical_integer(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let canonical = match digits {
        [b'0'] => digits.len() == bytes.len(), // "0", not "-0"
        [b'1'..=b'9', rest @ ..] => rest.len() < 19 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !canonical {
        return None;
    }
    text.parse().ok() // refuses what 64 bits do not hold
}

/// The finite real that is the same number as `text`, if there is one.
///
/// `text` is an optional minus, digits without leading zeros, and optionally a fraction and an
/// exponent. Equal means: printed to as many significant digits, the real gives these digits.
pub(crate) fn faithful_real(text: &str) -> Option<f64> {
    let decimal = Decimal::parse(text)?;
    let real: f64 = text.parse().ok()?;
    if !real.is_finite() {
        return None;
    }
    if decimal.digits_count == 0 {
        return Some(real);
    }
    // Every decimal of 15 digits survives the way through a double that is not subnormal.
    if decimal.digits_count <= 15 && real.abs() >= f64::MIN_POSITIVE {
        return Some(real);
    }
    let mut printed = String::with_capacity(decimal.digits_count + 16);
    write!(printed, "{real:.*e}", decimal.digits_count - 1).ok()?;
    Decimal::parse(&printed).is_some_and(|back| back == decimal).then_some(real)
}

/// A decimal number in a normal form: equal numbers are equal values.
struct Decimal<'a> {
    negative: bool,
    mantissa: &'a str,
    /// Significant digits, without leading and trailing zeros.
    digits_count: usize,
    /// Power of ten of the first significant digit.
    magnitude: i64,
}

impl<'a> Decimal<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => (&unsigned[..at], parse_exponent(&unsigned[at + 1..])?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
            Some(_) => return None,
            None if mantissa.is_empty() => return None,
            None => (mantissa, ""),
        };
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let leading_zero = whole.len() > 1 && whole.starts_with('0');
        if leading_zero || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        let position_of = |at: usize| {
            let whole_count = i64::try_from(whole.len()).ok()?;
            let at = i64::try_from(at).ok()?;
            Some(if at < whole_count { whole_count - 1 - at } else { whole_count - at })
        };
        let significant = |byte: &u8| (b'1'..=b'9').contains(byte);
        let first = mantissa.bytes().position(|byte| significant(&byte));
        let last = mantissa.bytes().rposition(|byte| significant(&byte));
        let (Some(first), Some(last)) = (first, last) else {
            return Some(Decimal { negative, mantissa: "", digits_count: 0, magnitude: 0 });
        };
        let mantissa = &mantissa[first..=last];
        Some(Decimal {
            negative,
            digits_count: mantissa.len() - usize::from(mantissa.contains('.')),
            mantissa,
            magnitude: position_of(first)?.checked_add(exponent)?,
        })
    }

    fn digits(&self) -> impl Iterator<Item = u8> + '_ {
        self.mantissa.bytes().filter(|byte| *byte != b'.')
    }
}

impl PartialEq for Decimal<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.negative == other.negative
            && self.magnitude == other.magnitude
            && self.digits().eq(other.digits())
    }
}

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let plain =
        !digits.is_empty() && digits.len() <= 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Whether SQLite's numeric affinity would read `text` as a number.
pub(crate) fn looks_numeric(text: &str) -> bool {
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let bytes = unsigned.as_bytes();
    let count = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = count(0);
    let mut at = whole;
    let mut fraction = 0;
    if bytes.get(at) == Some(&b'.') {
        fraction = count(at + 1);
        at += 1 + fraction;
    }
    if whole + fraction == 0 {
        return false;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = if at + 1 + sign <= bytes.len() { count(at + 1 + sign) } else { 0 };
        if exponent == 0 {
            return false;
        }
        at += 1 + sign + exponent;
    }
    at == bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_canonical_or_nothing() {
        for (text, integer) in [("0", 0), ("7", 7), ("-18", -18), ("9223372036854775807", i64::MAX)]
        {
            assert_eq!(canonical_integer(text), Some(integer));
        }
        assert_eq!(canonical_integer("-9223372036854775808"), Some(i64::MIN));
        for text in
            ["007", "-0", "+1", " 1", "1 ", "", "-", "1.0", "1e3", "9223372036854775808", "٣"]
        {
            assert_eq!(canonical_integer(text), None, "{text:?}");
        }
    }

    #[test]
    fn reals_keep_every_digit_or_nothing() {
        for (text, real) in [
            ("0", 0.0),
            ("0.0", 0.0),
            ("1.50", 1.5),
            (".5", 0.5),
            ("-2.25e-3", -0.00225),
            ("1e22", 1e22),
            ("0.1", 0.1),
            ("123456789012345", 123_456_789_012_345.0),
            ("0.30000000000000004", 0.300_000_000_000_000_04),
            ("9007199254740993e0", f64::NAN),
            ("5e-324", 5e-324),
        ] {
            let found = faithful_real(text);
            if real.is_nan() {
                assert_eq!(found, None, "{text}: 2^53 + 1 is no double");
            } else {
                assert_eq!(found.map(f64::to_bits), Some(real.to_bits()), "{text}");
            }
        }
        for text in [
            "",
            "-",
            ".",
            "5.",
            "e5",
            "1e",
            "007.5",
            "+1",
            "1,5",
            "nan",
            "inf",
            "1e999",
            "1e-400",
            "0x10",
            "1_0",
            "12345678901234567890",
            "0.1234567890123456789",
            "3e-324",
        ] {
            assert_eq!(faithful_real(text), None, "{text:?}");
        }
    }

    #[test]
    fn affinity_follows_the_declared_type() {
        for (declared, kind) in [
            ("INTEGER", Kind::Integer),
            ("unsigned big int", Kind::Integer),
            ("VARCHAR(20)", Kind::Text),
            ("", Kind::Untyped),
            ("BLOB", Kind::Untyped),
            ("DOUBLE PRECISION", Kind::Real),
            ("DECIMAL(10,2)", Kind::Numeric),
            ("DATETIME", Kind::Numeric),
            ("BOOLEAN", Kind::Boolean),
            ("FLOATING POINT", Kind::Integer), // contains INT: SQLite's own rule
            ("ANY", Kind::Numeric),
        ] {
            assert_eq!(Kind::of_declared(declared, false), kind, "{declared}");
        }
        assert_eq!(Kind::of_declared("any", true), Kind::Untyped);
    }

    #[test]
    fn a_numeric_column_keeps_dates_and_refuses_what_it_would_rewrite() {
        assert_eq!(store(Kind::Numeric, "2013-01-01"), Some(Stored::Text));
        assert_eq!(store(Kind::Numeric, "12"), Some(Stored::Integer(12)));
        assert_eq!(store(Kind::Numeric, "1.25"), Some(Stored::Real(1.25)));
        for text in ["007", " 12", "+1", "1.", "12345678901234567890.5", "1e999"] {
            assert_eq!(store(Kind::Numeric, text), None, "{text:?}");
        }
        for text in ["e5", "1e", "1e+", ".", "-", "", "0x1f", "1 2"] {
            assert_eq!(store(Kind::Numeric, text), Some(Stored::Text), "{text:?}");
        }
    }

    #[test]
    fn a_misfit_names_column_and_value_and_stays_short() {
        let reason = misfit("zip", Kind::Integer, "\"007\"");
        assert_eq!(reason, "column \"zip\" is INTEGER and cannot keep \"007\" as it is");
        assert!(misfit("a", Kind::Real, &"é".repeat(10_000)).len() < 250);
    }
}
