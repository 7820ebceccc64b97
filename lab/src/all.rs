//! Every experiment, one after the other, into one folder of records.

use std::time::Duration;

use crate::condition::Condition;
use crate::error::LabError;
use crate::load::LoadOptions;
use crate::measurement::Results;
use crate::mixed::MixedOptions;
use crate::session::{Common, Event, Session};
use crate::setting::Queries;
use crate::threads::ThreadsOptions;
use crate::web::WebOptions;
use crate::write::WriteOptions;

/// What to measure; all parts with the same [`Common`] options.
#[derive(Debug, Clone)]
pub struct AllOptions {
    /// Experiment 1, pure write.
    pub write: WriteOptions,
    /// Experiment 1, mixed; `None` on a server.
    pub mixed: Option<MixedOptions>,
    /// Experiment 2.
    pub threads: ThreadsOptions,
    /// Growing load.
    pub load: LoadOptions,
    /// Experiment 3; `None` where values are kept under keys, and no query looks through them.
    pub web: Option<WebOptions>,
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
            mixed: (!engine.is_server()).then(|| MixedOptions {
                conditions: Condition::of_mixed(engine).to_vec(),
                common: common.clone(),
                ..MixedOptions::default()
            }),
            threads: ThreadsOptions {
                threads: ThreadsOptions::threads_of(engine),
                conditions: Condition::of_threads(engine).to_vec(),
                common: common.clone(),
                ..ThreadsOptions::default()
            },
            load: LoadOptions { common: common.clone(), ..LoadOptions::default() },
            web: (!engine.is_keyed()).then(|| WebOptions {
                queries: Queries::of(engine).to_vec(),
                conditions: Condition::of_web(engine).to_vec(),
                common,
                ..WebOptions::default()
            }),
        }
    }

    /// Less of everything, so that all of it takes less than two minutes on the disk as it is.
    #[must_use]
    pub fn quick(common: Common) -> Self {
        let time_limit = Duration::from_millis(300);
        let all = Self::published(common);
        Self {
            write: WriteOptions { threads: vec![1], time_limit, ..all.write },
            mixed: all.mixed.map(|mixed| MixedOptions {
                rows: 100_000,
                operations: 200_000,
                time_limit,
                ..mixed
            }),
            threads: ThreadsOptions {
                threads: all
                    .threads
                    .threads
                    .into_iter()
                    .filter(|n| [1, 8, 32, 128].contains(n))
                    .collect(),
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
            web: all.web.map(|web| WebOptions {
                requests: 30,
                at_once: 200,
                queries: vec![Queries::Work],
                ..web
            }),
        }
    }
}

impl AllOptions {
    /// Whether all of it can be measured.
    fn check(&self) -> Result<(), LabError> {
        self.write.check()?;
        self.mixed.as_ref().map_or(Ok(()), MixedOptions::check)?;
        self.threads.check()?;
        self.load.check()?;
        self.web.as_ref().map_or(Ok(()), WebOptions::check)
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
    options.check()?;
    let mut session = Session::begin(&options.write.common, &mut observe)?;
    options.write.run(&mut session)?;
    if let Some(mixed) = &options.mixed {
        mixed.run(&mut session)?;
    }
    options.threads.run(&mut session)?;
    options.load.run(&mut session)?;
    if let Some(web) = &options.web {
        web.run(&mut session)?;
    }
    session.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;

    #[test]
    fn all_of_any_engine_is_measurable() {
        for engine in Engine::ALL.into_iter().filter(|engine| engine.is_built_in()) {
            let url = engine.is_server().then(|| "scheme://host/database".to_owned());
            let common = Common { engine, url, ..Common::default() };
            for all in [AllOptions::published(common.clone()), AllOptions::quick(common)] {
                assert!(all.check().is_ok(), "{engine}: {:?}", all.check());
                assert_eq!(all.mixed.is_none(), engine.is_server());
                assert_eq!(all.web.is_none(), engine.is_keyed());
                // Each may have a connection.
                assert!(!engine.is_server() || all.threads.threads.iter().all(|&n| n <= 64));
            }
        }
    }
}
