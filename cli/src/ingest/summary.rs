//! The summary of an ingest, for people and, with `--json`, for programs.

use std::io::Write as _;

use groupcommit::Stats;
use indicatif::HumanCount;
use serde::Serialize;

use crate::exit::{Exit, Problem};

/// How an ingest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// The input was read to its end.
    Complete,
    /// Stopped by a signal, drained.
    Interrupted,
    /// Stopped by the environment.
    Stopped,
    /// A commit or its flush could not be confirmed.
    Unknown,
}

/// Latency from submitting a record to knowing that it is durable.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct LatencyMs {
    /// Median.
    pub(crate) p50: f64,
    /// 99th percentile.
    pub(crate) p99: f64,
    /// The longest.
    pub(crate) max: f64,
}

/// Figures of one database since it was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measure {
    /// Latency from submission to resolution; `None` before the first transaction.
    pub(crate) latency_ms: Option<LatencyMs>,
    /// Mean number of transactions that shared a commit.
    pub(crate) group_transactions_mean: f64,
    /// Flushes to disk.
    pub(crate) flushes: u64,
}

impl Measure {
    /// The figures in a database's counters.
    pub(crate) fn of(stats: &Stats) -> Self {
        let latency = &stats.total_ns;
        let ms = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        let latency_ms = (latency.count > 0).then(|| LatencyMs {
            p50: ms(latency.p50),
            p99: ms(latency.p99),
            max: ms(latency.max),
        });
        let group_transactions_mean = stats.group_transactions.mean;
        Measure { latency_ms, group_transactions_mean, flushes: stats.flushes }
    }
}

/// The summary of one run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    /// The table, or (sql).
    pub(crate) target: String,
    /// How messages call the input.
    pub(crate) source: String,
    /// How the run ended.
    pub(crate) outcome: Outcome,
    /// Whether every record that was submitted is decided, and survives a power cut: false when an
    /// outcome is unknown, or where the file system promises nothing.
    pub(crate) durable: bool,
    /// Records decided by this run.
    pub(crate) records: u64,
    /// Records committed by this run.
    pub(crate) committed: u64,
    /// Records rejected by this run.
    pub(crate) rejected: u64,
    /// Records that earlier runs had decided; null when this run began the ingest.
    pub(crate) resumed_from: Option<u64>,
    /// Records decided by all runs of this ingest: the position in the input.
    pub(crate) position: u64,
    /// Line of the input on which the last decided record begins.
    pub(crate) line: u64,
    /// Records rejected by all runs of this ingest.
    pub(crate) rejected_in_all: u64,
    /// Wall-clock time of this run's transactions.
    pub(crate) seconds: f64,
    /// Records of this run by that time.
    pub(crate) records_per_second: f64,
    /// Latency of this run's transactions; null when there were none.
    pub(crate) latency_ms: Option<LatencyMs>,
    /// Mean number of transactions that shared a commit.
    pub(crate) group_transactions_mean: f64,
    /// Flushes to disk.
    pub(crate) flushes: u64,
    /// Why the run stopped early, or what failed besides the records, if anything.
    pub(crate) problem: Option<String>,
}

impl Summary {
    /// The exit code of this run.
    pub(crate) fn exit(&self) -> Exit {
        match self.outcome {
            Outcome::Complete if self.rejected_in_all > 0 => Exit::Rejected,
            Outcome::Complete => Exit::Durable,
            Outcome::Interrupted => Exit::Interrupted,
            Outcome::Stopped => Exit::Environment,
            Outcome::Unknown => Exit::Unknown,
        }
    }

    /// The summary as text.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![format!(
            "{}: {} committed{}, {} rejected, in {:.2} s ({} records/s)\n",
            self.target,
            counted(self.committed, "record"),
            if self.durable { " and durable" } else { "" },
            HumanCount(self.rejected),
            self.seconds,
            rate(self.records_per_second),
        )];
        if let Some(latency) = self.latency_ms {
            lines.push(format!(
                "latency p50 {} ms, p99 {} ms, max {} ms; {:.1} transactions a group, {} flush{}\n",
                milliseconds(latency.p50),
                milliseconds(latency.p99),
                milliseconds(latency.max),
                self.group_transactions_mean,
                HumanCount(self.flushes),
                if self.flushes == 1 { "" } else { "es" },
            ));
        }
        if let Some(before) = self.resumed_from {
            lines.push(format!(
                "continued after record {}; {} of the input in the database, {} rejected in all\n",
                HumanCount(before),
                counted(self.position - self.rejected_in_all, "record"),
                HumanCount(self.rejected_in_all),
            ));
        }
        lines.concat()
    }

    /// Prints the summary on standard output.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn print(&self, json: bool) -> Result<(), Problem> {
        let mut text = if json {
            serde_json::to_string(self).map_err(|error| {
                Problem::environment(format!("cannot write the summary as JSON: {error}"))
            })?
        } else {
            self.text()
        };
        if json {
            text.push('\n');
        }
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .map_err(|error| {
                Problem::environment(format!(
                    "cannot write the summary to standard output ({error}); what was ingested is durable all the same, and --resume tells how far it came"
                ))
            })
    }
}

/// A number with its noun.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", HumanCount(number), if number == 1 { "" } else { "s" })
}

/// A rate without a fraction where none is wanted.
pub(crate) fn rate(per_second: f64) -> String {
    if per_second < 10.0 {
        format!("{per_second:.1}")
    } else {
        indicatif::HumanFloatCount(per_second.round()).to_string()
    }
}

/// Milliseconds with three significant digits or so.
pub(crate) fn milliseconds(value: f64) -> String {
    let decimals = if value < 1.0 {
        3
    } else if value < 10.0 {
        2
    } else {
        usize::from(value < 100.0)
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        Summary {
            target: "flights".into(),
            source: "flights.csv".into(),
            outcome: Outcome::Complete,
            durable: true,
            records: 12_345,
            committed: 12_345,
            rejected: 0,
            resumed_from: None,
            position: 12_345,
            line: 12_346,
            rejected_in_all: 0,
            seconds: 0.5,
            records_per_second: 24_690.0,
            latency_ms: Some(LatencyMs { p50: 0.1234, p99: 12.34, max: 123.4 }),
            group_transactions_mean: 512.25,
            flushes: 25,
            problem: None,
        }
    }

    #[test]
    fn the_exit_code_follows_the_outcome_and_the_rejects_of_all_runs() {
        assert_eq!(summary().exit(), Exit::Durable);
        assert_eq!(Summary { rejected_in_all: 1, ..summary() }.exit(), Exit::Rejected);
        assert_eq!(Summary { outcome: Outcome::Interrupted, ..summary() }.exit().code(), 130);
        assert_eq!(
            Summary { outcome: Outcome::Stopped, rejected_in_all: 1, ..summary() }.exit(),
            Exit::Environment
        );
        assert_eq!(Summary { outcome: Outcome::Unknown, ..summary() }.exit(), Exit::Unknown);
    }

    #[test]
    fn the_text_reads_as_sentences() {
        assert_eq!(
            summary().text(),
            "flights: 12,345 records committed and durable, 0 rejected, in 0.50 s (24,690 records/s)\n\
             latency p50 0.123 ms, p99 12.3 ms, max 123 ms; 512.2 transactions a group, 25 flushes\n"
        );
        let resumed =
            Summary { resumed_from: Some(1), rejected_in_all: 2, latency_ms: None, ..summary() };
        assert!(resumed.text().ends_with(
            "continued after record 1; 12,343 records of the input in the database, 2 rejected in all\n"
        ));
    }
}
