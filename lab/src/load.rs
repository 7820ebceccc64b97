//! How the system behaves as load grows, and whether any fixed setting does better.
//!
//! Closed loop: so many transactions of one row in flight, each answer followed by the next.
//! Open loop: Poisson arrivals, at shares of the capacity that the adaptive setting reached in the
//! closed loop just before. Either against the adaptive setting and a grid of fixed group sizes and
//! delays, all through the same pipeline, with the same submitting and awaiting threads.

use std::time::Duration;

use clap::Args;

use crate::condition::Condition;
use crate::driver::Load;
use crate::error::LabError;
use crate::measure::Data;
use crate::measurement::Measurement;
use crate::options::{self, Common, at_least_one, check_settings, seconds};
use crate::session::{Experiment, Session};
use crate::setting::{Grouping, Offered, Setting, Task, milliseconds};
use crate::statistics::Spread;

/// What to measure.
#[derive(Debug, Clone, Args)]
pub struct LoadOptions {
    /// Transactions in flight in the closed loop
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1,2,4,8,16,32,64,128,256,512,1024,2048,4096",
        value_parser = at_least_one
    )]
    pub in_flight: Vec<usize>,

    /// Arrivals in the open loop, as shares of the capacity
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "0.1,0.25,0.5,0.7,0.8,0.9,0.95",
        value_parser = share
    )]
    pub share: Vec<f64>,

    /// Fixed group sizes beside the adaptive grouping
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,8,64,512,4096", value_parser = at_least_one)]
    pub group_size: Vec<usize>,

    /// Fixed delays beside the adaptive grouping, in milliseconds
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0,0.1,1,10", value_parser = options::milliseconds)]
    pub group_delay: Vec<Duration>,

    /// Rows to write at most, in each measurement
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = at_least_one)]
    pub rows: usize,

    /// How long each measurement lasts, in seconds
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    pub seconds_limit: Duration,

    /// What every experiment takes
    #[command(flatten)]
    pub common: Common,
}

/// Reads a share of the capacity.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|&share| share > 0.0 && share <= 2.0);
    share.ok_or_else(|| "give a share of the capacity, such as 0.5".to_owned())
}

impl LoadOptions {
    /// Every grouping at each of the loads.
    fn settings(&self, loads: &[(usize, Option<Offered>)]) -> Vec<Setting> {
        let fixed = self.group_size.iter().map(|&size| Grouping::Size(size));
        let delayed = self.group_delay.iter().map(|&delay| Grouping::Delay(delay));
        let groupings: Vec<_> =
            [Grouping::Adaptive].into_iter().chain(fixed).chain(delayed).collect();
        let at = |&(in_flight, offered)| {
            groupings.iter().map(move |&grouping| {
                let task = Task::Load { grouping, offered };
                Setting::of(task, Condition::GroupcommitAsync, 1, in_flight, 1)
            })
        };
        loads.iter().flat_map(at).collect()
    }

    fn closed_settings(&self) -> Vec<Setting> {
        let loads: Vec<_> = self.in_flight.iter().map(|&in_flight| (in_flight, None)).collect();
        self.settings(&loads)
    }

    fn open_settings(&self, capacity_per_second: f64) -> Vec<Setting> {
        let offered = |&share: &f64| Offered { share, per_second: share * capacity_per_second };
        let loads: Vec<_> = self.share.iter().map(|share| (0, Some(offered(share)))).collect();
        self.settings(&loads)
    }
}

impl Experiment for LoadOptions {
    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self) -> Result<(), LabError> {
        check_settings(&self.closed_settings())
    }

    fn measure(&self, session: &mut Session<'_>) -> Result<(), LabError> {
        let data = Data::rows(&self.common, self.rows);
        let load = Load { rows: self.rows, batch: 1, limit: self.seconds_limit };
        for &flush_delay in &self.common.flush_delay {
            let delayed = |settings: Vec<Setting>| -> Vec<Setting> {
                settings.into_iter().map(|setting| Setting { flush_delay, ..setting }).collect()
            };
            session.run(&delayed(self.closed_settings()), &data, |_| load)?;
            if let Some(capacity) = capacity(session.measurements(), flush_delay)
                && !self.share.is_empty()
            {
                session.run(&delayed(self.open_settings(capacity)), &data, |_| load)?;
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::tests::example;
    use crate::options::parse;

    #[test]
    fn the_grid_has_every_setting_at_every_load() {
        let options: LoadOptions = parse("").expect("parses");
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
    fn senseless_options_are_refused() {
        for line in ["--in-flight 0", "--share 50", "--share nan", "--group-delay x"] {
            parse::<LoadOptions>(line).expect_err(line);
        }
        let twice: LoadOptions = parse("--group-size 8,8").expect("parses");
        assert!(twice.check().expect_err("refused").to_string().contains("twice"));
        parse::<LoadOptions>("").expect("parses").check().expect("the default is measurable");
    }
}
