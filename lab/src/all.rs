//! Every experiment, one after the other, into one folder of records.

use std::time::Duration;

use crate::condition::Condition;
use crate::error::LabError;
use crate::load::LoadOptions;
use crate::measurement::Results;
use crate::mixed::MixedOptions;
use crate::session::{Common, Event, Session};
use crate::threads::ThreadsOptions;
use crate::write::WriteOptions;

/// What to measure; all parts with the same [`Common`] options.
#[derive(Debug, Clone)]
pub struct AllOptions {
    /// Experiment 1, pure write.
    pub write: WriteOptions,
    /// Experiment 1, mixed.
    pub mixed: MixedOptions,
    /// Experiment 2.
    pub threads: ThreadsOptions,
    /// Growing load.
    pub load: LoadOptions,
}

impl AllOptions {
    /// Each experiment as published, with the conditions of the engine.
    #[must_use]
    pub fn published(common: Common) -> Self {
        let engine = common.engine;
        Self {
            // As many callers as the async condition has transactions in flight, too.
            write: WriteOptions {
                threads: vec![1, 1_000],
                batches: WriteOptions::batches_of(engine),
                conditions: Condition::of_write(engine).to_vec(),
                common: common.clone(),
                ..WriteOptions::default()
            },
            mixed: MixedOptions {
                conditions: Condition::of_mixed(engine).to_vec(),
                common: common.clone(),
                ..MixedOptions::default()
            },
            threads: ThreadsOptions {
                conditions: Condition::of_threads(engine).to_vec(),
                common: common.clone(),
                ..ThreadsOptions::default()
            },
            load: LoadOptions { common, ..LoadOptions::default() },
        }
    }

    /// Less of everything, so that all of it takes less than two minutes on the disk as it is.
    #[must_use]
    pub fn quick(common: Common) -> Self {
        let time_limit = Duration::from_millis(300);
        let all = Self::published(common);
        Self {
            write: WriteOptions { threads: vec![1], time_limit, ..all.write },
            mixed: MixedOptions { rows: 100_000, operations: 200_000, time_limit, ..all.mixed },
            threads: ThreadsOptions {
                threads: vec![1, 8, 32, 128],
                rows: 200_000,
                time_limit,
                ..all.threads
            },
            load: LoadOptions {
                in_flight: vec![1, 16, 256, 4_096],
                shares: vec![0.25, 0.75, 0.95],
                sizes: vec![1, 64, 4_096],
                delays: vec![Duration::ZERO, Duration::from_millis(1)],
                rows: 200_000,
                time_limit,
                ..all.load
            },
        }
    }
}

/// Runs the experiments and returns the records, which are also in the folder of `options.write`.
///
/// # Errors
/// As [`run_write`](crate::write::run_write); what was measured before an error is in the folder.
pub fn run_all(
    options: &AllOptions,
    mut observe: impl FnMut(Event<'_>),
) -> Result<Results, LabError> {
    if options.write.common.engine.is_server() {
        return Err(LabError::Options(
            "not every experiment is for a server: use `bench write` and `bench web`".to_owned(),
        ));
    }
    options.write.check()?;
    options.mixed.check()?;
    options.threads.check()?;
    options.load.check()?;
    let mut session = Session::begin(&options.write.common, &mut observe)?;
    options.write.run(&mut session)?;
    options.mixed.run(&mut session)?;
    options.threads.run(&mut session)?;
    options.load.run(&mut session)?;
    session.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;

    #[test]
    fn all_of_any_engine_is_measurable() {
        for engine in
            Engine::ALL.into_iter().filter(|engine| engine.is_built_in() && !engine.is_server())
        {
            let common = Common { engine, ..Common::default() };
            for all in [AllOptions::published(common.clone()), AllOptions::quick(common)] {
                all.write.check().expect("write");
                all.mixed.check().expect("mixed");
                all.threads.check().expect("threads");
                all.load.check().expect("load");
            }
        }
    }
}
