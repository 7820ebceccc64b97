//! Two runs side by side: what a change did, on one machine.

use crate::error::LabError;
use crate::measurement::{Measurement, Results};
use crate::quality::{is_same_setting, same_machine};
use crate::report::model::Table;
use crate::report::number::{grouped, ratio, significant};
use crate::report::text;
use crate::statistics::Spread;

/// A table of the settings that both runs have, with medians and the ratio of the second run to the
/// first.
///
/// # Errors
/// When the runs are of different machines, so that a ratio would say nothing, or have no setting
/// in common.
pub fn comparison(before: &Results, after: &Results) -> Result<String, LabError> {
    same_machine(&before.environment, &after.environment).map_err(LabError::Options)?;
    let mut seen: Vec<&Measurement> = Vec::new();
    for first in &before.measurements {
        let is_same = |other: &Measurement| is_same_setting(other, first);
        if after.measurements.iter().any(is_same) && !seen.iter().any(|other| is_same(other)) {
            seen.push(first);
        }
    }
    if seen.is_empty() {
        return Err(LabError::Options("The two runs have no setting in common.".to_owned()));
    }
    let median = |results: &Results, of: &Measurement, figure: fn(&Measurement) -> f64| {
        let repeats = results.measurements.iter().filter(|m| is_same_setting(m, of));
        Spread::of(repeats.map(figure)).map_or(f64::NAN, |spread| spread.median)
    };
    let quotient = |of: &Measurement, figure: fn(&Measurement) -> f64| {
        ratio(median(after, of, figure), Some(median(before, of, figure)))
    };
    let rate: fn(&Measurement) -> f64 = |m| m.rows_per_second;
    let table = Table::of(
        seen,
        &[
            ("experi\u{ad}ment", "", &|of| of.experiment.clone()),
            ("condition", "", &|of| of.condition.to_string()),
            ("batch", "", &|of| grouped(of.batch as f64)),
            ("in flight", "", &|of| grouped(of.in_flight as f64)),
            ("threads", "", &|of| grouped(of.threads as f64)),
            ("setting", "", &|of| variant(of)),
            ("rows/s before", "", &|of| grouped(median(before, of, rate))),
            ("rows/s after", "", &|of| grouped(median(after, of, rate))),
            ("after ÷ before", "", &|of| quotient(of, rate)),
            ("wait p99, after ÷ before", "", &|of| quotient(of, |m| m.latency_ms.p99)),
        ],
    );
    let table = text::table(&table);
    let commit = |results: &Results| {
        let commit = &results.environment.git_commit;
        commit.get(..12).unwrap_or(commit).to_owned()
    };
    Ok(format!(
        "before: {} ({}), after: {} ({})\n{table}",
        before.environment.date,
        commit(before),
        after.environment.date,
        commit(after),
    ))
}

/// How groups were formed, the load that was offered, and the simulated disk, where they apply.
fn variant(measurement: &Measurement) -> String {
    let share = measurement.offered_share.map(|share| format!("{}%", significant(share * 100.0)));
    let delay = measurement.flush_delay_ms.map(|delay| format!("simulated +{delay} ms"));
    [measurement.setting.clone(), share, delay].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Condition;
    use crate::environment::Environment;
    use crate::measurement::tests::example;

    fn results(measurements: Vec<Measurement>) -> Results {
        Results { title: None, environment: Environment::example(), measurements }
    }

    #[test]
    fn settings_in_both_runs_are_divided_by_medians() {
        let before = results(vec![
            example(Condition::Wal, 1, 1_000.0),
            example(Condition::Wal, 1, 3_000.0),
            example(Condition::Wal, 1, 2_000.0),
            example(Condition::Default, 1, 10.0),
        ]);
        let after = results(vec![example(Condition::Wal, 1, 5_000.0)]);
        let text = comparison(&before, &after).expect("one machine");
        assert!(
            text.contains("2,000") && text.contains("5,000") && text.contains("2.50"),
            "{text}"
        );
        assert!(!text.contains("default"), "{text}");
    }

    #[test]
    fn different_machines_and_disks_are_not_divided() {
        let before = results(vec![example(Condition::Wal, 1, 1_000.0)]);
        let mut after = before.clone();
        after.environment.cpu_model = "Another Processor".to_owned();
        let refusal = comparison(&before, &after).expect_err("refused").to_string();
        assert!(refusal.contains("No ratio") && refusal.contains("Another Processor"), "{refusal}");
        // A simulated disk is another disk.
        let mut simulated = example(Condition::Wal, 1, 1_000.0);
        simulated.flush_delay_ms = Some(1.0);
        let refusal = comparison(&before, &results(vec![simulated])).expect_err("refused");
        assert!(refusal.to_string().contains("no setting in common"), "{refusal}");
    }
}
