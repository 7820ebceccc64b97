//! Medians, spreads, latency percentiles and effective throughput.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The latency that effective throughput is measured against, in milliseconds.
pub const TARGET_LATENCY_MS: f64 = 1.0;

/// The quantiles that records keep of a distribution: minimum, what a box plot needs, the tail,
/// maximum.
pub const QUANTILES: [f64; 14] =
    [0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999, 1.0];

const NS_PER_MS: f64 = 1e6;

/// The longest latency that the percentiles tell apart: an hour. Mean and maximum have no such
/// bound.
const HISTOGRAM_MAX_NS: u64 = 3_600_000_000_000;

/// How long callers waited, in milliseconds.
///
/// The percentiles come from a histogram of nanoseconds with three significant digits (0.1%); mean
/// and maximum are exact.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyMs {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    #[serde(default = "unknown")]
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    #[serde(default = "unknown")]
    pub p999: f64,
    /// The longest.
    #[serde(default = "unknown")]
    pub max: f64,
}

/// A figure that a record does not have; it is shown as a dash.
pub(crate) fn unknown() -> f64 {
    f64::NAN
}

impl LatencyMs {
    /// Sums up latencies given in nanoseconds; all zero when there are none.
    #[cfg(test)]
    pub(crate) fn from_ns(latencies_ns: impl IntoIterator<Item = u64>) -> Self {
        Distribution::of_ns(latencies_ns).summary
    }
}

/// A summary and the latencies at [`QUANTILES`], from one pass over the data.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Distribution {
    pub(crate) summary: LatencyMs,
    /// Pairs of quantile and milliseconds; empty when there is nothing.
    pub(crate) percentiles_ms: Vec<(f64, f64)>,
}

impl Distribution {
    pub(crate) fn of_ns(latencies_ns: impl IntoIterator<Item = u64>) -> Self {
        let mut histogram = Histogram::<u64>::new_with_max(HISTOGRAM_MAX_NS, 3)
            .expect("a range and a precision that are supported");
        let (mut sum_ns, mut max_ns, mut count) = (0_u128, 0_u64, 0_u64);
        for latency_ns in latencies_ns {
            histogram.saturating_record(latency_ns);
            sum_ns += u128::from(latency_ns);
            max_ns = max_ns.max(latency_ns);
            count += 1;
        }
        // The histogram answers with the upper end of a bucket, which may lie above the true
        // maximum.
        let at = |quantile| histogram.value_at_quantile(quantile).min(max_ns) as f64 / NS_PER_MS;
        let summary = LatencyMs {
            mean: if count == 0 { 0.0 } else { sum_ns as f64 / count as f64 / NS_PER_MS },
            p50: at(0.50),
            p90: at(0.90),
            p99: at(0.99),
            p999: at(0.999),
            max: max_ns as f64 / NS_PER_MS,
        };
        let quantiles = if count == 0 { &[][..] } else { &QUANTILES };
        let percentiles_ms = quantiles.iter().map(|&quantile| (quantile, at(quantile))).collect();
        Self { summary, percentiles_ms }
    }
}

/// Effective throughput: rows per second × (target latency ÷ mean latency), with a target of
/// [`TARGET_LATENCY_MS`]; higher is better.
///
/// The latency is what a caller waits, from submit to resolved, and not the time between
/// completions, so that a condition cannot gain by making its callers wait. 0 when nothing was
/// written.
#[must_use]
pub fn effective_throughput_1ms(rows_per_second: f64, latency_ms_mean: f64) -> f64 {
    if latency_ms_mean > 0.0 {
        rows_per_second * (TARGET_LATENCY_MS / latency_ms_mean)
    } else {
        0.0
    }
}

/// The median of several repeats with the smallest and the largest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Smallest.
    pub min: f64,
    /// Median; of an even number the mean of the middle two.
    pub median: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Sums up `values`; `None` when there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { min, median, max })
    }
}

/// The value below which a share `quantile` (0 to 1) of `sorted` lies, by nearest rank; `None` when
/// empty.
#[must_use]
pub fn percentile(sorted: &[f64], quantile: f64) -> Option<f64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank from 1 to the length"
    )]
    let rank = (quantile.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= expected * tolerance, "{found} is not near {expected}");
    }

    #[test]
    fn percentiles_of_a_known_distribution() {
        let latency = LatencyMs::from_ns((1..=1_000_u64).map(|microseconds| microseconds * 1_000));
        close(latency.mean, 0.5005, 1e-12);
        close(latency.p50, 0.5, 0.001);
        close(latency.p90, 0.9, 0.001);
        close(latency.p99, 0.99, 0.001);
        close(latency.p999, 0.999, 0.001);
        close(latency.max, 1.0, 1e-12);
    }

    #[test]
    fn one_outlier_moves_the_maximum_and_not_the_percentiles() {
        let latency = LatencyMs::from_ns(std::iter::repeat_n(10_000, 9_999).chain([2_000_000_000]));
        close(latency.p999, 0.01, 0.001);
        close(latency.max, 2_000.0, 1e-12);
    }

    #[test]
    fn the_curve_rises_from_the_minimum_to_the_maximum() {
        let curve = Distribution::of_ns((1..=1_000_u64).map(|n| n * 1_000)).percentiles_ms;
        let (quantiles, values): (Vec<f64>, Vec<f64>) = curve.into_iter().unzip();
        assert_eq!(quantiles, QUANTILES);
        assert!(values.is_sorted(), "{values:?}");
        close(values[0], 0.001, 0.001);
        close(values[4], 0.25, 0.001);
        close(values[13], 1.0, 1e-12);
        assert!(Distribution::of_ns([]).percentiles_ms.is_empty());
    }

    #[test]
    fn a_single_latency_is_every_percentile_exactly() {
        let latency = LatencyMs::from_ns([123_457]);
        for value in [latency.mean, latency.p50, latency.p999, latency.max] {
            close(value, 0.123_457, 1e-12);
        }
    }

    #[test]
    fn no_latencies_are_zero() {
        let none = LatencyMs::from_ns([]);
        assert!([none.mean, none.p50, none.max].iter().all(|&value| value == 0.0));
    }

    #[test]
    fn effective_throughput_follows_the_definition() {
        // 16,829.2 rows/s with 1,000 in flight wait about 59 ms each, by Little's law.
        close(effective_throughput_1ms(16_829.2, 59.42), 283.2, 0.001);
        // At the target latency it equals the throughput; half the latency doubles it.
        close(effective_throughput_1ms(500.0, 1.0), 500.0, 1e-12);
        close(effective_throughput_1ms(500.0, 0.5), 1_000.0, 1e-12);
        assert!(effective_throughput_1ms(0.0, 0.0) == 0.0);
    }

    #[test]
    fn medians_of_odd_and_even_counts() {
        let odd = Spread::of([3.0, 1.0, 2.0]).expect("values");
        assert_eq!(odd, Spread { min: 1.0, median: 2.0, max: 3.0 });
        let even = Spread::of([4.0, 1.0, 2.0, 3.0]).expect("values");
        assert_eq!(even, Spread { min: 1.0, median: 2.5, max: 4.0 });
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn percentile_is_the_nearest_rank() {
        let sorted = [10.0, 20.0, 30.0, 40.0];
        assert_eq!(percentile(&sorted, 0.5), Some(20.0));
        assert_eq!(percentile(&sorted, 0.99), Some(40.0));
        assert_eq!(percentile(&sorted, 0.0), Some(10.0));
        assert_eq!(percentile(&[], 0.5), None);
    }
}
