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
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;
mod work;

use std::sync::Arc;
use std::time::Duration;

use crate::condition::Condition;
use crate::engine::{Engine, GroupCounts};
use crate::error::{Cause, LabError};
use crate::measure::Trial;
use crate::measurement::{Measurement, Results};
use crate::open_loop::poisson_arrivals;
use crate::server::Schema;
use crate::session::{Common, Event, Session, at_least_one, settle};
use crate::setting::{Queries, Setting, Task, WebLoad};
use crate::statistics::Distribution;
use burn::Burning;
use count::Counting;
use drive::Answers;
use work::{Place, Request, Work};

/// What to measure, and where.
#[derive(Debug, Clone)]
pub struct WebOptions {
    /// Requests in each measurement under normal and under high load.
    pub requests: usize,
    /// How many of them arrive a second, on average.
    pub per_second: f64,
    /// Requests that arrive at once; 0 leaves that out.
    pub at_once: usize,
    /// Connections that a condition with a bound may have.
    pub connections: usize,
    /// What takes the queries their time, one setting each.
    pub queries: Vec<Queries>,
    /// Which of [`Condition::of_web`].
    pub conditions: Vec<Condition>,
    /// Repeats, folders, seed, the server.
    pub common: Common,
}

impl Default for WebOptions {
    fn default() -> Self {
        Self {
            requests: 400,
            per_second: 40.0,
            at_once: 10_000,
            connections: 10,
            queries: Queries::of(Engine::Sqlite).to_vec(),
            conditions: Condition::of_web(Engine::Sqlite).to_vec(),
            common: Common::default(),
        }
    }
}

impl WebOptions {
    pub(crate) fn check(&self) -> Result<(), LabError> {
        at_least_one("requests", self.requests)?;
        if self.connections < 4 {
            return Err(LabError::Options("--connections must be at least 4".to_owned()));
        }
        if !(self.per_second > 0.0 && self.per_second.is_finite()) {
            return Err(LabError::Options("--per-second must be more than 0".to_owned()));
        }
        if self.queries.iter().any(|queries| !Queries::of(self.common.engine).contains(queries)) {
            let engine = self.common.engine.title();
            return Err(LabError::Options(format!(
                "no query waits in {engine}: use --queries work"
            )));
        }
        let known = Condition::of_web(self.common.engine);
        Condition::check_all(&self.conditions, known, "web")?;
        if self.conditions.is_empty() || self.queries.is_empty() {
            let engine = self.common.engine.title();
            return Err(LabError::Options(format!("there is nothing to measure on {engine}")));
        }
        self.common.check()
    }

    fn loads(&self) -> Vec<WebLoad> {
        let at_once = (self.at_once > 0).then_some(WebLoad::AtOnce);
        [WebLoad::Normal, WebLoad::High].into_iter().chain(at_once).collect()
    }

    /// Every combination to be measured, in the order of one round. A connection a request, ten
    /// thousand times, is what no server takes.
    fn settings(&self) -> Vec<Setting> {
        let of_load = |queries, load| {
            let fits = move |condition: &&Condition| {
                load != WebLoad::AtOnce || **condition != Condition::Blocking
            };
            self.conditions.iter().filter(fits).map(move |&condition| Setting {
                task: Task::Web(load, queries),
                condition,
                batch: 1,
                in_flight: self.connections,
                threads: 1,
                flush_delay: Duration::ZERO,
            })
        };
        let loads = self.loads();
        let each =
            self.queries.iter().flat_map(|&queries| loads.iter().map(move |&load| (queries, load)));
        each.flat_map(|(queries, load)| of_load(queries, load)).collect()
    }

    /// Measures into `session`.
    pub(crate) fn run(&self, session: &mut Session<'_>) -> Result<(), LabError> {
        let schema = match &self.common.url {
            Some(url) if self.common.engine.is_server() => Some(Schema::create(url)?),
            _ => None,
        };
        let url = match &schema {
            Some(schema) => schema.url().to_owned(),
            None => format!("sqlite:{}", session.folder().join("web.db").display()),
        };
        let work = Work::prepare(&url, self.common.seed)?;
        let settings = self.settings();
        for setting in &settings {
            session.tell(Event::Warming(setting));
            self.measure(setting, &url, &work, 20)?;
        }
        let count = settings.len() * self.common.repeats;
        for repeat in 1..=self.common.repeats {
            for (index, setting) in settings.iter().enumerate() {
                let number = (repeat - 1) * settings.len() + index + 1;
                session.tell(Event::Started { setting, number, count });
                let requests = match setting.task {
                    Task::Web(WebLoad::AtOnce, _) => self.at_once,
                    _ => self.requests,
                };
                settle(session.folder())?;
                let measured = self.measure(setting, &url, &work, requests)?;
                session.keep(self.record(setting, repeat, measured)?)?;
            }
        }
        match schema {
            Some(schema) => schema.drop_all(),
            None => Ok(()),
        }
    }

    fn measure(
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
            return Err(LabError::Options("not a setting of `bench web`".to_owned()));
        };
        let requests: Arc<[Request]> = work.requests(load, queries, requests).into();
        let arrivals_ns = match load {
            WebLoad::AtOnce => vec![0; requests.len()],
            _ => poisson_arrivals(self.per_second, Duration::MAX, requests.len(), self.common.seed),
        };
        let before = work::counted(url)?;
        let counting = Counting::begin(url)?;
        let burning = (load == WebLoad::High).then(Burning::begin);
        let answers =
            self.drive(setting.condition, url, queries, &requests, &arrivals_ns).map_err(failed);
        drop(burning);
        let connections_peak = counting.end();
        let answers = answers?;
        let updates = work::counted(url)? - before;
        Ok(Measured { answers, connections_peak, updates })
    }

    fn drive(
        &self,
        condition: Condition,
        url: &str,
        queries: Queries,
        requests: &Arc<[Request]>,
        arrivals_ns: &[u64],
    ) -> Result<Answers, Cause> {
        let place = Place::new(url, queries, self.connections)?;
        match self.common.engine {
            #[cfg(feature = "mysql")]
            Engine::Mysql => mysql::drive(condition, &place, requests, arrivals_ns),
            #[cfg(feature = "postgres")]
            Engine::Postgres => postgres::drive(condition, &place, requests, arrivals_ns),
            _ => sqlite::drive(condition, &place, requests, arrivals_ns),
        }
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
            return Err(LabError::Options("not a setting of `bench web`".to_owned()));
        };
        let answered = driven.acknowledged_rows();
        let condition = setting.condition.name();
        if updates != answered {
            return Err(LabError::Content { condition, writes: answered, key: 0 });
        }
        let first = Distribution::of_ns(first_ns);
        let trial = Trial::verified(self.common.engine, driven, GroupCounts::ONE_COMMIT_A_CALL);
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

/// What came of one measurement.
struct Measured {
    answers: Answers,
    connections_peak: u64,
    /// Found in the counters.
    updates: u64,
}

/// Runs the experiment and returns the records, which are also in the folder of `options`.
///
/// # Errors
/// When the options make no sense, a folder or the server cannot be used, a request is not answered,
/// or the counters at the end do not hold what was answered.
pub fn run_web(
    options: &WebOptions,
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

    #[test]
    fn a_connection_a_request_is_not_measured_ten_thousand_times_at_once() {
        let options = WebOptions::default();
        let settings = options.settings();
        assert_eq!(settings.len(), 3 * options.conditions.len() - 1);
        let without = WebOptions { at_once: 0, ..WebOptions::default() };
        assert_eq!(without.settings().len(), 2 * without.conditions.len());
    }

    #[test]
    fn senseless_options_are_refused_by_name() {
        for (options, named) in [
            (WebOptions { requests: 0, ..WebOptions::default() }, "--requests"),
            (WebOptions { connections: 3, ..WebOptions::default() }, "--connections"),
            (WebOptions { per_second: f64::NAN, ..WebOptions::default() }, "--per-second"),
            (WebOptions { conditions: vec![], ..WebOptions::default() }, "nothing to measure"),
            (
                WebOptions { queries: vec![Queries::Wait], ..WebOptions::default() },
                "no query waits",
            ),
            (
                WebOptions { conditions: vec![Condition::Wal], ..WebOptions::default() },
                "wal is not",
            ),
        ] {
            let error = options.check().expect_err("refused").to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
