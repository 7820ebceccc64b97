//! How the system behaves as load grows, and whether any fixed setting does better.
//!
//! Closed loop: so many transactions of one row in flight, each answer followed by the next.
//! Open loop: Poisson arrivals, at shares of the capacity that the adaptive setting reached in the
//! closed loop just before. Either against the adaptive setting and a grid of fixed group sizes and
//! delays, all through the same pipeline, with the same submitting and awaiting threads.

use std::time::Duration;

use crate::condition::Condition;
use crate::driver::Load;
use crate::error::LabError;
use crate::measure::Data;
use crate::measurement::{Measurement, Results};
use crate::session::{Common, Event, Session, at_least_one, check_settings};
use crate::setting::{Grouping, Offered, Setting, Task, milliseconds};
use crate::statistics::Spread;

/// What to measure, and where.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Transactions in flight in the closed loop, one setting each.
    pub in_flight: Vec<usize>,
    /// Shares of the capacity offered in the open loop, one setting each; may be empty.
    pub shares: Vec<f64>,
    /// Group sizes beside the adaptive setting.
    pub sizes: Vec<usize>,
    /// Delays beside the adaptive setting.
    pub delays: Vec<Duration>,
    /// Rows at most, in each measurement.
    pub rows: usize,
    /// How long each measurement lasts.
    pub time_limit: Duration,
    /// Repeats, folders, seed, flush delays.
    pub common: Common,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            in_flight: (0..=12).map(|power| 1 << power).collect(),
            shares: vec![0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95],
            sizes: vec![1, 8, 64, 512, 4_096],
            delays: [0, 100, 1_000, 10_000].map(Duration::from_micros).to_vec(),
            rows: 1_000_000,
            time_limit: Duration::from_secs(1),
            common: Common::default(),
        }
    }
}

impl LoadOptions {
    /// Whether the options can be measured.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        at_least_one("rows", self.rows)?;
        self.in_flight.iter().try_for_each(|&in_flight| at_least_one("in-flight", in_flight))?;
        self.sizes.iter().try_for_each(|&size| at_least_one("group-size", size))?;
        if let Some(share) = self.shares.iter().find(|&&share| !(share > 0.0 && share <= 2.0)) {
            return Err(LabError::Options(format!(
                "--share {share} is not a share of the capacity, such as 0.5"
            )));
        }
        self.common.check()?;
        check_settings(&self.closed_settings())?;
        let groupings = self.groupings();
        check_settings(
            &groupings.iter().map(|&grouping| setting(grouping, 1, None)).collect::<Vec<_>>(),
        )
    }

    fn groupings(&self) -> Vec<Grouping> {
        let fixed = self.sizes.iter().map(|&size| Grouping::Size(size));
        let delayed = self.delays.iter().map(|&delay| Grouping::Delay(delay));
        [Grouping::Adaptive].into_iter().chain(fixed).chain(delayed).collect()
    }

    fn closed_settings(&self) -> Vec<Setting> {
        let groupings = self.groupings();
        let at_load = |&in_flight: &usize| {
            groupings.iter().map(move |&grouping| setting(grouping, in_flight, None))
        };
        self.in_flight.iter().flat_map(at_load).collect()
    }

    fn open_settings(&self, capacity_per_second: f64) -> Vec<Setting> {
        let groupings = self.groupings();
        let at_share = |&share: &f64| {
            let offered = Offered { share, per_second: share * capacity_per_second };
            groupings.iter().map(move |&grouping| setting(grouping, 0, Some(offered)))
        };
        self.shares.iter().flat_map(at_share).collect()
    }

    /// Measures into `session`.
    pub(crate) fn run(&self, session: &mut Session<'_>) -> Result<(), LabError> {
        let data = Data::rows(&self.common, self.rows);
        let load = Load { rows: self.rows, batch: 1, limit: self.time_limit };
        for &flush_delay in &self.common.flush_delays {
            let delayed = |settings: Vec<Setting>| -> Vec<Setting> {
                settings.into_iter().map(|setting| Setting { flush_delay, ..setting }).collect()
            };
            session.run(&delayed(self.closed_settings()), &data, |_| load)?;
            if let Some(capacity) = capacity(session.measurements(), flush_delay)
                && !self.shares.is_empty()
            {
                session.run(&delayed(self.open_settings(capacity)), &data, |_| load)?;
            }
        }
        Ok(())
    }
}

/// A setting of this experiment on the disk as it is.
fn setting(grouping: Grouping, in_flight: usize, offered: Option<Offered>) -> Setting {
    Setting {
        task: Task::Load { grouping, offered },
        condition: Condition::GroupcommitAsync,
        batch: 1,
        in_flight,
        threads: 1,
        flush_delay: Duration::ZERO,
    }
}

/// The most that the adaptive setting reached in the closed loop: the highest of the medians.
fn capacity(measurements: &[Measurement], flush_delay: Duration) -> Option<f64> {
    let flush_delay_ms = (!flush_delay.is_zero()).then(|| milliseconds(flush_delay));
    let adaptive: Vec<&Measurement> = measurements
        .iter()
        .filter(|m| {
            m.setting.as_deref() == Some("adaptive")
                && m.arrivals.as_deref() == Some("closed")
                && m.flush_delay_ms == flush_delay_ms
        })
        .collect();
    let median_at = |in_flight: usize| {
        let repeats = adaptive.iter().filter(|m| m.in_flight == in_flight);
        Spread::of(repeats.map(|m| m.rows_per_second)).map(|spread| spread.median)
    };
    adaptive
        .iter()
        .filter_map(|m| median_at(m.in_flight))
        .max_by(f64::total_cmp)
        .filter(|&capacity| capacity > 0.0)
}

/// Runs the experiment and returns the records, which are also in the folder of `options`.
///
/// # Errors
/// As [`run_write`](crate::write::run_write).
pub fn run_load(
    options: &LoadOptions,
    mut observe: impl FnMut(Event<'_>),
) -> Result<Results, LabError> {
    options.check()?;
    let mut session = Session::begin(&options.common, &mut observe)?;
    options.run(&mut session)?;
    session.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::tests::example;

    #[test]
    fn the_grid_has_every_setting_at_every_load() {
        let options = LoadOptions::default();
        assert_eq!(options.closed_settings().len(), 13 * 10);
        let open = options.open_settings(1_000.0);
        assert_eq!(open.len(), 7 * 10);
        let rates = open.iter().filter_map(|setting| match setting.task {
            Task::Load { offered, .. } => offered.map(|offered| offered.per_second),
            _ => None,
        });
        assert!(rates.clone().all(|rate| (100.0..=950.0).contains(&rate)));
        assert_eq!(rates.count(), 70);
    }

    #[test]
    fn the_capacity_is_the_highest_median_of_the_adaptive_setting_on_the_same_disk() {
        let record = |setting: &str, in_flight, rows_per_second, flush_delay_ms| Measurement {
            setting: Some(setting.to_owned()),
            arrivals: Some("closed".to_owned()),
            in_flight,
            flush_delay_ms,
            ..example(Condition::GroupcommitAsync, 1, rows_per_second)
        };
        let measurements = [
            record("adaptive", 1, 1_000.0, None),
            record("adaptive", 64, 3_000.0, None),
            record("adaptive", 64, 9_000.0, None), // an outlier
            record("adaptive", 64, 3_200.0, None),
            record("group 64", 64, 50_000.0, None),
            record("adaptive", 64, 700.0, Some(1.0)),
        ];
        assert_eq!(capacity(&measurements, Duration::ZERO), Some(3_200.0));
        assert_eq!(capacity(&measurements, Duration::from_millis(1)), Some(700.0));
        assert_eq!(capacity(&measurements, Duration::from_millis(5)), None);
    }

    #[test]
    fn senseless_options_are_refused_by_name() {
        let refused = |change: fn(&mut LoadOptions), named: &str| {
            let mut options = LoadOptions::default();
            change(&mut options);
            let error = options.check().expect_err("refused").to_string();
            assert!(error.contains(named), "{error}");
        };
        refused(|o| o.in_flight = vec![0], "--in-flight");
        refused(|o| o.in_flight.clear(), "nothing to measure");
        refused(|o| o.shares = vec![50.0], "--share 50");
        refused(|o| o.shares = vec![f64::NAN], "--share");
        refused(|o| o.sizes = vec![8, 8], "twice");
        LoadOptions::default().check().expect("the default is measurable");
    }
}
