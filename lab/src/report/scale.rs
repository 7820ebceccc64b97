//! From a value to its place on an axis, and the values that an axis names.

use std::f64::consts::LOG10_2;

use crate::table::{grouped, short, significant};

/// One axis: where values lie on it, from 0 to 1, and which of them it names.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    kind: Kind,
    /// In the kind's own measure.
    low: f64,
    high: f64,
    ticks: Vec<Tick>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Linear,
    Logarithmic,
    /// By the number of nines of a quantile.
    Nines,
}

/// A value that an axis names.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    /// From 0 to 1.
    pub(super) position: f64,
    /// As written at the axis.
    pub(super) label: String,
}

/// Quantiles that an axis of percentiles names.
const PERCENTILES: [(f64, &str); 6] =
    [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99"), (1.0, "max")];

/// Where the longest stands, in nines.
const LONGEST: f64 = 5.0;

impl Scale {
    /// From 0 to a round number above the largest value.
    pub(super) fn linear(values: impl IntoIterator<Item = f64>) -> Self {
        let most = values.into_iter().fold(0.0, f64::max);
        let most = if most > 0.0 { most } else { 1.0 };
        let step = round_step(most / 5.0);
        let count = (most / step - 1e-9).ceil().max(1.0);
        let high = count * step;
        let mut ticks = Vec::new();
        let mut value = 0.0;
        while value <= high * (1.0 + 1e-9) {
            ticks.push(Tick { position: value / high, label: name(value) });
            value += step;
        }
        Self { kind: Kind::Linear, low: 0.0, high, ticks }
    }

    /// By powers of ten, closely around the values.
    pub(super) fn logarithmic(values: impl IntoIterator<Item = f64>) -> Self {
        Self::log_between(values, 0.0)
    }

    /// By powers of ten, beginning at a power of ten well below the smallest value, so that its bar
    /// has a length to see.
    pub(super) fn logarithmic_for_bars(values: impl IntoIterator<Item = f64>) -> Self {
        let scale = Self::log_between(values, 0.3);
        let (low, high) = (scale.low.floor(), scale.high.ceil());
        Self { low, high, ticks: log_ticks(low, high), ..scale }
    }

    fn log_between(values: impl IntoIterator<Item = f64>, below: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.into_iter().filter(|value| value.is_finite() && *value > 0.0) {
            low = low.min(value.log10());
            high = high.max(value.log10());
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let (mut low, mut high) = (round_down(low - below), round_up(high));
        if high - low < 0.9 {
            (low, high) = (low.floor(), high.ceil().max(low.floor() + 1.0));
        }
        Self { kind: Kind::Logarithmic, low, high, ticks: log_ticks(low, high) }
    }

    /// Logarithmic, naming exactly `values`: the settings that were measured.
    pub(super) fn settings(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().filter(|value| *value > 0.0).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let low = values.first().map_or(0.0, |value| value.log10()) - 0.05;
        let high = values.last().map_or(1.0, |value| value.log10()) + 0.05;
        let ticks = values
            .iter()
            .map(|value| Tick {
                position: (value.log10() - low) / (high - low),
                label: name(*value),
            })
            .collect();
        Self { kind: Kind::Logarithmic, low, high, ticks }
    }

    /// Quantiles: each nine as far from the last as the one before, and the longest at the end.
    pub(super) fn percentiles() -> Self {
        let ticks = PERCENTILES
            .iter()
            .map(|&(quantile, name)| Tick {
                position: nines(quantile) / LONGEST,
                label: name.to_owned(),
            })
            .collect();
        Self { kind: Kind::Nines, low: 0.0, high: LONGEST, ticks }
    }

    /// From 0 to 1; what lies outside is held at the edge.
    pub(super) fn position(&self, value: f64) -> f64 {
        let measure = match self.kind {
            Kind::Linear => value,
            Kind::Logarithmic if value > 0.0 => value.log10(),
            Kind::Logarithmic => return 0.0,
            Kind::Nines => nines(value),
        };
        ((measure - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// The values named, from left to right or from the bottom up.
    pub(super) fn ticks(&self) -> &[Tick] {
        &self.ticks
    }

    /// Whether each step multiplies rather than adds.
    pub(super) fn is_logarithmic(&self) -> bool {
        self.kind == Kind::Logarithmic
    }
}

/// 0.9 is one nine, 0.99 two.
fn nines(quantile: f64) -> f64 {
    if quantile >= 1.0 { LONGEST } else { -(1.0 - quantile).log10() }
}

/// 1, 2 or 5 times a power of ten, at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|f| f * power >= least * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// Logarithms of 1, 2 and 5, and of the 10 that follows.
const STEPS: [f64; 4] = [0.0, LOG10_2, 1.0 - LOG10_2, 1.0];

fn round_down(log: f64) -> f64 {
    let whole = log.floor();
    let step = STEPS.into_iter().rev().find(|step| whole + step <= log + 1e-9);
    whole + step.unwrap_or(0.0)
}

fn round_up(log: f64) -> f64 {
    let whole = log.floor();
    whole + STEPS.into_iter().find(|step| whole + step >= log - 1e-9).unwrap_or(1.0)
}

/// Powers of ten; with 2 and 5 in between where there are few.
fn log_ticks(low: f64, high: f64) -> Vec<Tick> {
    let steps = if high - low <= 2.5 { &STEPS[..3] } else { &STEPS[..1] };
    let mut ticks = Vec::new();
    let mut power = low.floor();
    while power <= high + 1e-9 {
        for step in steps {
            let log = power + step;
            if log >= low - 1e-9 && log <= high + 1e-9 {
                let position = (log - low) / (high - low);
                ticks.push(Tick { position, label: name(10_f64.powf(log)) });
            }
        }
        power += 1.0;
    }
    ticks
}

/// A round number as short as it gets.
fn name(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value >= 1e9 {
        return format!("{}M", grouped(value / 1e6));
    }
    if value >= 10_000.0 {
        let text = short(value);
        let (digits, unit) = text.split_at(text.len() - 1);
        return format!("{}{unit}", trim(digits));
    }
    if value >= 100.0 {
        return grouped(value);
    }
    if value < 0.01 {
        let decimals = if value < 1e-5 { 7 } else { 5 };
        return trim(&format!("{value:.decimals$}")).to_owned();
    }
    trim(&significant(value)).to_owned()
}

/// Without the zeros that end a fraction.
fn trim(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<&str> {
        scale.ticks().iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn a_linear_axis_has_round_steps_from_zero() {
        assert_eq!(labels(&Scale::linear([3.7, 9.1])), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(labels(&Scale::linear([111.04])), ["0", "50", "100", "150"]);
        assert_eq!(labels(&Scale::linear([])), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
    }

    #[test]
    fn a_wide_logarithmic_axis_names_powers_of_ten() {
        let scale = Scale::logarithmic([30.0, 400_000.0]);
        assert_eq!(labels(&scale), ["100", "1,000", "10k", "100k"]);
        assert!(scale.position(20.0).abs() < 1e-9 && (scale.position(5e5) - 1.0).abs() < 1e-9);
        assert_eq!(
            labels(&Scale::logarithmic([0.003, 0.09])),
            ["0.002", "0.005", "0.01", "0.02", "0.05", "0.1"]
        );
    }

    #[test]
    fn the_smallest_bar_has_a_length() {
        for least in [1.0, 9.9, 100.0, 999.0] {
            let scale = Scale::logarithmic_for_bars([least, 1e6]);
            assert!(scale.position(least) > 0.05, "{least}");
            assert!(scale.ticks()[0].position.abs() < 1e-9);
        }
    }

    #[test]
    fn one_value_or_none_still_make_an_axis() {
        for scale in [Scale::logarithmic([5.0]), Scale::logarithmic([]), Scale::settings([8.0])] {
            assert!(!scale.ticks().is_empty());
            assert!(scale.position(5.0).is_finite());
        }
    }

    #[test]
    fn settings_are_named_as_they_are() {
        assert_eq!(labels(&Scale::settings([4_096.0, 1.0, 64.0, 1.0])), ["1", "64", "4,096"]);
    }

    #[test]
    fn nothing_lies_outside() {
        let scale = Scale::logarithmic([1.0, 100.0]);
        for value in [-1.0, 0.0, 1e-9, 1e9] {
            assert!((0.0..=1.0).contains(&scale.position(value)));
        }
    }
}
