//! Experiment 3, the asynchronous client: a request of a web application that asks for important and
//! less important data.
//!
//! ```text
//!            ┌─ important ──► first answer ──► update ─┐
//!  request ──┤                                         ├──► done
//!            └─ less important, three queries ─────────┘
//! ```
//!
//! 1. Every condition runs the same requests at the same intended times, and a latency counts from
//!    the intended time.
//! 2. A query takes from 0.2 to 6 ms alone on an idle machine. Either it is work for the database's
//!    processor, and how many rows it looks through for that is measured beforehand; or, on a
//!    server, it waits there.
//! 3. An update is one transaction, durable when it is answered; at the end the counters hold as
//!    many as were answered.
//!
//! A blocking client does one thing after the other, as it must: important, update, the rest.

mod asynchronous;
mod blocking;
mod burn;
mod count;
mod drive;
mod sqlite;
mod work;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use crate::adapter::GroupCounts;
use crate::condition::Condition;
use crate::error::{Cause, LabError};
use crate::file_system::settle;
use crate::measure::Trial;
use crate::measurement::Measurement;
use crate::open_loop::poisson_arrivals;
use crate::options::{Common, at_least_one, check_settings};
use crate::server::Schema;
use crate::session::{Experiment, Session};
use crate::setting::{Queries, Setting, Task, WebLoad};
use crate::statistics::Distribution;
use burn::Burning;
use count::Counting;
use drive::{Answers, drive};
use work::{Place, Request, Work};

/// Requests that warm a setting up.
const WARM_UP_REQUESTS: usize = 20;

/// What to measure.
#[derive(Debug, Clone, Args)]
pub struct WebOptions {
    /// Requests in each measurement under normal and under high load
    #[arg(long, value_name = "N", default_value = "400", value_parser = at_least_one)]
    pub requests: usize,

    /// Requests that arrive a second, on average
    #[arg(long, value_name = "RATE", default_value = "40", value_parser = rate)]
    pub per_second: f64,

    /// Requests that arrive at once, in measurements of their own; 0 leaves them out
    #[arg(long, value_name = "N", default_value = "10000")]
    pub at_once: usize,

    /// Connections that a condition with a bound may have
    #[arg(long, value_name = "N", default_value = "10")]
    pub connections: usize,

    /// Conditions to measure [default: every condition of the engine]
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide_possible_values = true)]
    pub conditions: Vec<Condition>,

    /// What a query spends its time on [default: work; work,wait on a server]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub queries: Vec<Queries>,

    /// What every experiment takes
    #[command(flatten)]
    pub common: Common,
}

/// Reads a rate greater than 0.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| *rate > 0.0 && rate.is_finite());
    rate.ok_or_else(|| "give a number greater than 0".to_owned())
}

impl WebOptions {
    /// Every combination to be measured, in the order of one round. A connection a request, ten
    /// thousand times, is what no server takes.
    fn settings(&self) -> Result<Vec<Setting>, LabError> {
        let engine = self.common.engine();
        let conditions = Condition::choose(&self.conditions, Condition::of_web(engine), "web")?;
        let queries = if self.queries.is_empty() { Queries::of(engine) } else { &self.queries };
        let loads =
            WebLoad::ALL.into_iter().filter(|&load| load != WebLoad::AtOnce || self.at_once > 0);
        let mut settings = Vec::new();
        for &queries in queries {
            for load in loads.clone() {
                let fits = |condition: &&Condition| {
                    load != WebLoad::AtOnce || **condition != Condition::Blocking
                };
                settings.extend(conditions.iter().filter(fits).map(|&condition| {
                    Setting::of(Task::Web(load, queries), condition, 1, self.connections, 1)
                }));
            }
        }
        Ok(settings)
    }

    fn measure_once(
        &self,
        setting: &Setting,
        url: &str,
        work: &Work,
        requests: usize,
    ) -> Result<Measured, LabError> {
        let failed = |source: Cause| LabError::Transaction {
            condition: setting.condition.name(),
            batch: 1,
            source,
        };
        let Task::Web(load, queries) = setting.task else {
            return Err(LabError::Options("not a setting of `web`".to_owned()));
        };
        let requests: Arc<[Request]> = work.requests(load, queries, requests).into();
        let arrivals_ns = match load {
            WebLoad::AtOnce => vec![0; requests.len()],
            _ => poisson_arrivals(self.per_second, Duration::MAX, requests.len(), self.common.seed),
        };
        let before = work::counted(url)?;
        let counting = Counting::begin(url)?;
        let burning = (load == WebLoad::High).then(Burning::begin);
        let answers = Place::new(url, queries, self.connections)
            .and_then(|place| drive(setting.condition, &place, &requests, &arrivals_ns))
            .map_err(failed);
        drop(burning);
        let connections_peak = counting.end();
        let answers = answers?;
        let updates = work::counted(url)? - before;
        Ok(Measured { answers, connections_peak, updates })
    }

    fn record(
        &self,
        setting: &Setting,
        repeat: usize,
        measured: Measured,
    ) -> Result<Measurement, LabError> {
        let Measured { answers: Answers { driven, first_ns }, connections_peak, updates } =
            measured;
        let Task::Web(load, queries) = setting.task else {
            return Err(LabError::Options("not a setting of `web`".to_owned()));
        };
        let answered = driven.acknowledged_rows();
        let condition = setting.condition.name();
        if updates != answered {
            return Err(LabError::Content { condition, writes: answered, key: 0 });
        }
        let first = Distribution::of_ns(first_ns);
        let trial = Trial::verified(self.common.engine(), driven, GroupCounts::ONE_COMMIT_A_CALL);
        Ok(Measurement {
            setting: Some(load.label(queries)),
            offered_per_second: (load != WebLoad::AtOnce).then_some(self.per_second),
            read_latency_ms: Some(first.summary),
            read_latency_percentiles_ms: Some(first.percentiles_ms),
            connections_peak: Some(connections_peak),
            ..trial.to_measurement(setting, repeat)
        })
    }
}

impl Experiment for WebOptions {
    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self) -> Result<(), LabError> {
        let engine = self.common.engine();
        let refuse = |reason: String| Err(LabError::Options(reason));
        if self.connections < 4 {
            return refuse("--connections must be at least 4".to_owned());
        }
        if self.queries.iter().any(|queries| !Queries::of(engine).contains(queries)) {
            return refuse(format!(
                "queries of {} cannot wait: use --queries work",
                engine.title()
            ));
        }
        check_settings(&self.settings()?)
    }

    fn measure(&self, session: &mut Session<'_>) -> Result<(), LabError> {
        let schema = self.common.server().map(Schema::create).transpose()?;
        let url = match &schema {
            Some(schema) => schema.url().to_owned(),
            None => format!("sqlite:{}", session.folder().join("web.db").display()),
        };
        let work = Work::prepare(&url, self.common.seed)?;
        session.rounds(&self.settings()?, |session, setting, repeat| {
            let Some(repeat) = repeat else {
                return self.measure_once(setting, &url, &work, WARM_UP_REQUESTS).map(drop);
            };
            let requests = match setting.task {
                Task::Web(WebLoad::AtOnce, _) => self.at_once,
                _ => self.requests,
            };
            settle(session.folder())?;
            let measured = self.measure_once(setting, &url, &work, requests)?;
            session.keep(self.record(setting, repeat, measured)?)
        })?;
        schema.map_or(Ok(()), Schema::drop_all)
    }
}

/// What came of one measurement.
struct Measured {
    answers: Answers,
    connections_peak: u64,
    /// Found in the counters.
    updates: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::options::parse;

    #[test]
    fn a_connection_a_request_is_not_measured_ten_thousand_times_at_once() {
        let count = |line| {
            let options: WebOptions = parse(line).expect("parses");
            options.settings().expect("measurable").len()
        };
        let conditions = Condition::of_web(Engine::Sqlite).len();
        assert_eq!(count(""), 3 * conditions - 1);
        assert_eq!(count("--at-once 0"), 2 * conditions);
    }

    #[test]
    fn senseless_options_are_refused_by_name() {
        for line in ["--requests 0", "--connections x", "--per-second nan", "--queries sleep"] {
            parse::<WebOptions>(line).expect_err(line);
        }
        for (line, named) in [
            ("--connections 3", "--connections"),
            ("--connections 0", "--connections"),
            ("--queries wait", "cannot wait"),
            ("--conditions wal", "wal is not"),
            ("--engine lmdb", "nothing to measure"),
        ] {
            let options = parse::<WebOptions>(line).expect("parses");
            let error = options.check().expect_err(line).to_string();
            assert!(error.contains(named), "{error}");
        }
        parse::<WebOptions>("").expect("parses").check().expect("the default is measurable");
    }
}
