//! Numbers as a reader sees them. A figure that a record does not have is a dash.

const MISSING: &str = "–";

/// A whole number with commas between thousands.
#[must_use]
pub fn grouped(number: f64) -> String {
    if !number.is_finite() {
        return MISSING.to_owned();
    }
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three significant digits, and always the whole part.
#[must_use]
pub fn significant(number: f64) -> String {
    let decimals = match number {
        n if !n.is_finite() => return MISSING.to_owned(),
        n if n >= 100.0 => return grouped(n),
        n if n >= 10.0 => 1,
        n if n >= 1.0 => 2,
        _ => 3,
    };
    format!("{number:.decimals$}")
}

/// Three significant digits with `k` or `M`.
#[must_use]
pub fn short(number: f64) -> String {
    match number {
        n if n >= 999_500.0 => format!("{}M", significant(n / 1e6)),
        n if n >= 999.5 => format!("{}k", significant(n / 1e3)),
        n => significant(n),
    }
}

/// `part / whole` with three digits; a dash without a whole.
pub(crate) fn ratio(part: f64, whole: Option<f64>) -> String {
    whole
        .filter(|&whole| whole > 0.0)
        .map_or_else(|| MISSING.to_owned(), |whole| significant(part / whole))
}

/// The figure, or a dash.
pub(crate) fn optional(number: Option<f64>) -> String {
    significant(number.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_reading() {
        assert_eq!(grouped(1_234_567.4), "1,234,567");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(significant(0.058_4), "0.058");
        assert_eq!(significant(59.42), "59.4");
        assert_eq!(significant(2_345.6), "2,346");
        assert_eq!(short(999.0), "999");
        assert_eq!(short(16_829.2), "16.8k");
        assert_eq!(short(1_234_567.0), "1.23M");
    }

    #[test]
    fn a_missing_figure_is_a_dash() {
        assert_eq!((significant(f64::NAN), grouped(f64::NAN)), ("–".into(), "–".into()));
        assert_eq!((ratio(1.0, None), ratio(1.0, Some(0.0))), ("–".into(), "–".into()));
    }
}
