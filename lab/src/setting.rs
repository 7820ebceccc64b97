//! One combination of what an experiment varies.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;

use crate::condition::Condition;
use crate::engine::Engine;

/// How keys are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Keys {
    /// All alike
    Uniform,
    /// By the Zipf distribution with an exponent of 0.99
    Zipf,
}

impl Keys {
    /// The name in records and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What is measured, and with which values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// What the callers do.
    pub task: Task,
    /// Who commits, and how.
    pub condition: Condition,
    /// Rows a transaction.
    pub batch: usize,
    /// Transactions outstanding at most; 0 in an open loop, which has no bound.
    pub in_flight: usize,
    /// Threads that submit.
    pub threads: usize,
    /// Added to every flush; zero for the disk as it is.
    pub flush_delay: Duration,
}

/// What the callers do, which names the experiment.
#[derive(Debug, Clone, Copy, PartialEq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Task {
    /// Write rows.
    Write,
    /// Replace random rows of a large table.
    Large(Keys),
    /// Read and write single rows in turn.
    Mixed,
    /// Write single rows from many threads.
    Threads,
    /// Write or read single entries of RocksDB, with its log or without.
    Wal(Benchmark),
    /// Requests of a web application, which read and write.
    Web(WebLoad, Queries),
    /// Write single rows as load grows.
    Load {
        /// How the pipeline forms groups.
        grouping: Grouping,
        /// The rate of arrivals in an open loop; `None` in a closed one.
        offered: Option<Offered>,
    },
}

/// What is done with RocksDB's log on or off, by the names of RocksDB's own benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Benchmark {
    /// Write keys in ascending order.
    Fillseq,
    /// Write keys in random order.
    Fillrandom,
    /// Read random keys of what `fillrandom` left.
    Readrandom,
}

impl Benchmark {
    /// In the order run.
    pub const ALL: [Self; 3] = [Self::Fillseq, Self::Fillrandom, Self::Readrandom];

    /// The name in options, records and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// How much there is to do besides, or at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum WebLoad {
    /// Nothing else runs.
    Normal,
    /// The machine's processors are kept busy besides.
    High,
    /// All requests arrive at the same moment.
    #[strum(serialize = "at once")]
    AtOnce,
}

/// What a query spends its time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Queries {
    /// Work for the database's processor, which here is one of this machine's
    Work,
    /// Waiting in the server, as for a disk
    Wait,
}

impl Queries {
    /// Both, in the order measured.
    pub const ALL: [Self; 2] = [Self::Work, Self::Wait];

    /// The name in options.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What there is on `engine`.
    #[must_use]
    pub fn of(engine: Engine) -> &'static [Self] {
        if engine.is_server() { &Self::ALL } else { &[Self::Work] }
    }
}

impl WebLoad {
    /// In the order measured.
    pub const ALL: [Self; 3] = [Self::Normal, Self::High, Self::AtOnce];

    /// The name in records and tables, with what the queries do unless that is work.
    #[must_use]
    pub fn label(self, queries: Queries) -> String {
        match queries {
            Queries::Work => self.name().to_owned(),
            Queries::Wait => format!("{}, wait", self.name()),
        }
    }

    /// The load alone.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// How the pipeline forms groups: the setting that is supposed not to need setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// Whatever waits.
    Adaptive,
    /// So many transactions, or what there is once the first of them has waited
    /// [`Grouping::PATIENCE`].
    Size(usize),
    /// What has arrived by so long after the first.
    Delay(Duration),
}

/// Poisson arrivals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offered {
    /// Of the capacity measured before, from 0 to 1.
    pub share: f64,
    /// Arrivals a second, on average.
    pub per_second: f64,
}

impl Task {
    /// The experiment's name in the records.
    #[must_use]
    pub fn experiment(self) -> &'static str {
        self.into()
    }
}

impl Grouping {
    /// How long a group of fixed size waits for members that may never come.
    pub const PATIENCE: Duration = Duration::from_millis(10);
}

impl Setting {
    /// On the disk as it is.
    pub(crate) fn of(
        task: Task,
        condition: Condition,
        batch: usize,
        in_flight: usize,
        threads: usize,
    ) -> Self {
        Self { task, condition, batch, in_flight, threads, flush_delay: Duration::ZERO }
    }
}

impl fmt::Display for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adaptive => f.write_str("adaptive"),
            Self::Size(transactions) => write!(f, "group {transactions}"),
            Self::Delay(delay) => write!(f, "delay {} ms", milliseconds(*delay)),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.task.experiment(), self.condition)?;
        match self.task {
            Task::Write => write!(f, ", batch {}", self.batch)?,
            Task::Load { grouping, offered } => {
                write!(f, ", {grouping}")?;
                if let Some(Offered { share, per_second }) = offered {
                    write!(f, ", {per_second:.0} arrivals/s ({:.0}%)", share * 100.0)?;
                }
            }
            Task::Large(keys) => write!(f, ", {} keys, batch {}", keys.name(), self.batch)?,
            Task::Wal(benchmark) => write!(f, ", {}", benchmark.name())?,
            Task::Web(load, queries) => write!(f, ", load {}", load.label(queries))?,
            Task::Mixed | Task::Threads => {}
        }
        if self.condition.is_async() && self.in_flight > 0 {
            write!(f, ", {} in flight", self.in_flight)?;
        }
        if self.threads > 1 {
            write!(f, ", {} threads", self.threads)?;
        }
        if !self.flush_delay.is_zero() {
            write!(f, ", flush delayed by {} ms", milliseconds(self.flush_delay))?;
        }
        Ok(())
    }
}

/// A duration in milliseconds, to be written without trailing zeros.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groupings_are_named_as_in_the_records() {
        for (grouping, name) in [
            (Grouping::Adaptive, "adaptive"),
            (Grouping::Size(64), "group 64"),
            (Grouping::Delay(Duration::ZERO), "delay 0 ms"),
            (Grouping::Delay(Duration::from_micros(100)), "delay 0.1 ms"),
            (Grouping::Delay(Duration::from_millis(10)), "delay 10 ms"),
        ] {
            assert_eq!(grouping.to_string(), name);
        }
    }

    #[test]
    fn a_setting_says_what_it_varies() {
        let setting = Setting {
            task: Task::Load {
                grouping: Grouping::Adaptive,
                offered: Some(Offered { share: 0.5, per_second: 1_000.0 }),
            },
            condition: Condition::GroupcommitAsync,
            batch: 1,
            in_flight: 0,
            threads: 1,
            flush_delay: Duration::from_millis(1),
        };
        assert_eq!(
            setting.to_string(),
            "load, groupcommit-async, adaptive, 1000 arrivals/s (50%), flush delayed by 1 ms"
        );
    }
}
