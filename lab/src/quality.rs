//! Whether figures can be relied on, and compared at all.

use crate::engine::Engine;
use crate::environment::Environment;
use crate::measurement::{Measurement, Results};
use crate::statistics::Spread;

/// Largest less smallest of the repeats, as a share of the median, beyond which the spread is too
/// wide to tell settings apart.
const SPREAD_MAX: f64 = 0.3;

/// Cores used by others, as a share of all, beyond which a measurement was disturbed.
const OTHERS_SHARE_MAX: f64 = 0.1;

/// The lab's own cost, as a share of what the fastest condition takes for a transaction, beyond
/// which the lab measures itself.
const LAB_COST_MAX: f64 = 0.05;

/// Whether two measurements are repeats of one setting.
#[must_use]
pub fn is_same_setting(one: &Measurement, other: &Measurement) -> bool {
    let setting = |m: &Measurement| {
        (m.condition, m.batch, m.in_flight, m.threads, m.offered_share, m.flush_delay_ms)
    };
    one.experiment == other.experiment
        && one.engine == other.engine
        && one.setting == other.setting
        && one.arrivals == other.arrivals
        && setting(one) == setting(other)
}

/// What makes the figures less than they seem, found in the records themselves.
#[must_use]
pub fn warnings(results: &Results) -> Vec<String> {
    [busy(results), wide_spreads(results), lab_cost(results)].into_iter().flatten().collect()
}

fn busy(results: &Results) -> Option<String> {
    let cores = results.environment.cpu_cores.max(1) as f64;
    // A server on this machine is among the other processes.
    let is_server = |m: &&Measurement| m.engine.parse().is_ok_and(Engine::is_server);
    let alone = results.measurements.iter().filter(|m| !is_server(m));
    let known: Vec<f64> = alone.filter_map(|m| m.others_cpu_cores).collect();
    let disturbed = known.iter().filter(|&&others| others > OTHERS_SHARE_MAX * cores).count();
    let median = Spread::of(known.iter().copied())?.median;
    (disturbed > 0).then(|| {
        format!(
            "Other processes disturbed {disturbed} of {} measurements: they used {median:.2} of {cores} \
             cores (median over all). Measure again when the machine is quiet.",
            known.len()
        )
    })
}

fn wide_spreads(results: &Results) -> Option<String> {
    let mut groups: Vec<Vec<&Measurement>> = Vec::new();
    for measurement in &results.measurements {
        match groups.iter_mut().find(|group| is_same_setting(group[0], measurement)) {
            Some(group) => group.push(measurement),
            None => groups.push(vec![measurement]),
        }
    }
    let wide: Vec<(f64, &Measurement)> = groups
        .iter()
        .filter_map(|group| {
            let spread = Spread::of(group.iter().map(|m| m.rows_per_second))?;
            let share = (spread.max - spread.min) / spread.median;
            (share > SPREAD_MAX).then_some((share, group[0]))
        })
        .collect();
    let &(share, widest) = wide.iter().max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(format!(
        "The repeats of {} of {} settings lie more than {:.0}% of their median apart, up to {:.0}% ({}, \
         {}{}); differences of that size mean nothing there.",
        wide.len(),
        groups.len(),
        SPREAD_MAX * 100.0,
        share * 100.0,
        widest.experiment,
        widest.condition,
        widest.setting.as_ref().map(|setting| format!(", {setting}")).unwrap_or_default(),
    ))
}

fn lab_cost(results: &Results) -> Option<String> {
    let cost_ns = results.environment.lab_cost_ns_per_transaction;
    let shortest_ns = results
        .measurements
        .iter()
        .map(|m| m.completion_interval_ms * 1e6)
        .filter(|&interval_ns| interval_ns > 0.0)
        .min_by(f64::total_cmp)?;
    (cost_ns > LAB_COST_MAX * shortest_ns).then(|| {
        format!(
            "The lab itself takes {cost_ns:.0} ns a transaction, {:.0}% of the fastest condition's {shortest_ns:.0} ns.",
            100.0 * cost_ns / shortest_ns
        )
    })
}

/// Whether figures of two runs may be divided by each other.
///
/// # Errors
/// In what the machines differ, as a sentence.
pub fn same_machine(one: &Environment, other: &Environment) -> Result<(), String> {
    let compare = |what: &str, one: String, other: String| {
        if one == other {
            Ok(())
        } else {
            Err(format!(
                "No ratio between runs of different machines: the {what} is {one} in one and {other} in the other. \
                 Measure both on one machine."
            ))
        }
    };
    let memory_gib = |e: &Environment| format!("{:.0} GiB", e.memory_bytes as f64 / 2_f64.powi(30));
    compare("processor", one.cpu_model.clone(), other.cpu_model.clone())?;
    compare("number of cores", one.cpu_cores.to_string(), other.cpu_cores.to_string())?;
    compare("memory", memory_gib(one), memory_gib(other))?;
    compare("operating system", one.os.clone(), other.os.clone())?;
    compare("kernel", one.kernel.clone(), other.kernel.clone())?;
    let disk = |e: &Environment| format!("{} on {}", e.file_system.kind, e.file_system.device);
    compare("disk", disk(one), disk(other))?;
    compare("build", one.build_profile.clone(), other.build_profile.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Condition;
    use crate::measurement::tests::example;

    fn results(measurements: Vec<Measurement>) -> Results {
        Results { title: None, environment: Environment::example(), measurements }
    }

    #[test]
    fn quiet_and_narrow_repeats_are_not_warned_of() {
        let mut quiet = example(Condition::Wal, 1, 1_000.0);
        quiet.others_cpu_cores = Some(0.05);
        assert_eq!(warnings(&results(vec![quiet.clone(), quiet])), Vec::<String>::new());
    }

    #[test]
    fn a_busy_machine_is_told_by_what_others_used() {
        let mut busy = example(Condition::Wal, 1, 1_000.0);
        busy.others_cpu_cores = Some(0.9);
        let found = warnings(&results(vec![busy, example(Condition::Wal, 1, 1_000.0)]));
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("1 of 1") && found[0].contains("0.90 of 2"), "{found:?}");
    }

    #[test]
    fn a_server_on_this_machine_is_no_disturbance() {
        let mut on_server = example(Condition::Connections, 1, 1_000.0);
        (on_server.engine, on_server.others_cpu_cores) = ("postgres".to_owned(), Some(1.5));
        assert_eq!(warnings(&results(vec![on_server.clone(), on_server])), Vec::<String>::new());
    }

    #[test]
    fn a_wide_spread_is_told_of_repeats_of_one_setting_only() {
        let (slow, fast) = (example(Condition::Wal, 1, 1_000.0), example(Condition::Wal, 1, 2e3));
        let found = warnings(&results(vec![slow.clone(), fast.clone()]));
        assert!(found.len() == 1 && found[0].contains("1 of 1 settings"), "{found:?}");
        let simulated = Measurement { flush_delay_ms: Some(1.0), ..fast };
        assert!(warnings(&results(vec![slow, simulated])).is_empty());
    }

    #[test]
    fn a_lab_that_measures_itself_is_told() {
        let mut quick = example(Condition::WalNormal, 1, 1_000.0);
        quick.completion_interval_ms = 0.000_3; // the example's lab takes 30.5 ns
        let found = warnings(&results(vec![quick]));
        assert!(found.len() == 1 && found[0].contains("10%"), "{found:?}");
    }

    #[test]
    fn different_machines_are_refused_by_what_differs() {
        let one = Environment::example();
        assert_eq!(same_machine(&one, &one.clone()), Ok(()));
        let other = Environment { cpu_cores: 64, ..one.clone() };
        assert!(same_machine(&one, &other).expect_err("differs").contains("number of cores is 2"));
        let mut other = one.clone();
        other.file_system.device = "/dev/nvme0n1".to_owned();
        assert!(same_machine(&one, &other).expect_err("differs").contains("/dev/nvme0n1"));
    }
}
