//! Every experiment, one after the other, into one folder of records.

use clap::Args;

use crate::load::LoadOptions;
use crate::mixed::MixedOptions;
use crate::options::{Common, parse};
use crate::session::Experiment;
use crate::threads::ThreadsOptions;
use crate::web::WebOptions;
use crate::write::WriteOptions;

/// What to measure.
#[derive(Debug, Clone, Args)]
pub struct AllOptions {
    /// Less of everything: done within three minutes
    #[arg(long)]
    pub quick: bool,

    /// What every experiment takes
    #[command(flatten)]
    pub common: Common,
}

impl AllOptions {
    /// Each experiment as published, with the conditions of the engine: on a server without `mixed`,
    /// on a key-value engine without `web`.
    ///
    /// # Panics
    /// When one of the command lines below is wrong.
    #[must_use]
    pub fn experiments(&self) -> Vec<Box<dyn Experiment>> {
        let engine = self.common.engine();
        let common = &self.common;
        // As many callers that block as the async condition has transactions in flight, too.
        let [write, mixed, threads, load, web] = if self.quick {
            [
                "--seconds-limit 0.3",
                "--seconds-limit 0.3 --rows 100000 --operations 200000",
                "--seconds-limit 0.3 --rows 200000 --threads 1,8,32",
                "--seconds-limit 0.3 --rows 200000 --in-flight 1,16,256,4096 --share 0.25,0.75,0.95 \
                 --group-size 1,64,4096 --group-delay 0,1",
                "--requests 30 --at-once 200 --queries work",
            ]
        } else {
            ["--threads 1,1000", "", "", "", ""]
        };
        let mut experiments: Vec<Box<dyn Experiment>> = Vec::new();
        let common = || common.clone();
        experiments.push(Box::new(WriteOptions { common: common(), ..options(write) }));
        if !engine.is_server() {
            experiments.push(Box::new(MixedOptions { common: common(), ..options(mixed) }));
        }
        experiments.push(Box::new(ThreadsOptions { common: common(), ..options(threads) }));
        experiments.push(Box::new(LoadOptions { common: common(), ..options(load) }));
        if !engine.is_keyed() {
            experiments.push(Box::new(WebOptions { common: common(), ..options(web) }));
        }
        experiments
    }
}

fn options<T: Args>(line: &str) -> T {
    parse(line).expect("options that a test checks")
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;
    use crate::engine::Engine;

    #[test]
    fn all_of_any_engine_is_measurable() {
        let built_in = |engine: &&Engine| engine.is_built_in();
        for &engine in Engine::value_variants().iter().filter(built_in) {
            let common = if engine.is_server() {
                format!("--url {engine}://host/database")
            } else {
                format!("--engine {engine}")
            };
            for quick in ["", "--quick"] {
                let all: AllOptions = parse(&format!("{common} {quick}")).expect("parses");
                let experiments = all.experiments();
                let is_left_out = engine.is_server() || engine.is_keyed();
                assert_eq!(experiments.len(), if is_left_out { 4 } else { 5 }, "{engine}");
                for experiment in experiments {
                    experiment.common().check().expect("measurable");
                    experiment.check().expect("measurable");
                }
            }
        }
    }
}
