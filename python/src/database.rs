//! The database as `groupcommit.database` uses it: every call makes a [`Job`].

use std::time::Duration;

use groupcommit::{
    Terms,
    sql::{Database as Sql, Statement},
};
use groupcommit_bindings::{
    Chunks, Database as Opened, OpenError, Repeatable, Settings, groupcommit, kept_results,
};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};

use crate::{
    closure, errors,
    job::{Answer, Job, Want, Work},
    values::Parser,
};

/// An open database.
#[pyclass(frozen, module = "groupcommit._native")]
pub(crate) struct Database(std::sync::Arc<Opened>);

impl Database {
    fn usable(&self, py: Python<'_>) -> PyResult<&Sql> {
        self.0.usable().map_err(|failure| errors::failed(py, &failure))
    }

    /// The database, for transactions with this deadline in seconds.
    fn within(&self, py: Python<'_>, deadline: Option<f64>) -> PyResult<Sql> {
        let database = self.usable(py)?;
        Ok(match deadline {
            None => database.clone(),
            Some(deadline) => database.with(Terms::new().deadline(seconds(deadline)?)),
        })
    }
}

fn seconds(given: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(given)
        .map_err(|error| PyValueError::new_err(format!("{given} seconds: {error}")))
}

fn want(word: &str) -> PyResult<Want> {
    Ok(match word {
        "all" => Want::All,
        "one" => Want::One,
        "value" => Want::Value,
        _ => return Err(PyValueError::new_err("what is wanted is all, one or value")),
    })
}

#[pymethods]
impl Database {
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "as many as `connect` has")]
    #[pyo3(signature = (target, create, convert_to_wal, busy_timeout, readers, max_transactions, max_bytes))]
    fn open(
        py: Python<'_>,
        target: &str,
        create: bool,
        convert_to_wal: bool,
        busy_timeout: Option<f64>,
        readers: Option<usize>,
        max_transactions: Option<usize>,
        max_bytes: Option<usize>,
    ) -> PyResult<Self> {
        let settings = Settings {
            create,
            convert_to_wal,
            busy_timeout: busy_timeout.map(seconds).transpose()?,
            readers,
            transactions_max: max_transactions,
            bytes_max: max_bytes,
        };
        match py.detach(|| Opened::open(target, &settings)) {
            Ok(database) => Ok(Self(std::sync::Arc::new(database))),
            Err(OpenError::Engine(error)) => Err(errors::error(py, &error)),
            Err(other) => Err(errors::programming(py, &other.to_string())),
        }
    }

    /// "sqlite", "postgres" or "mysql".
    #[getter]
    fn engine(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(self.usable(py)?.engine().name())
    }

    #[getter]
    fn warnings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.usable(py)?.warnings())
    }

    fn execute(
        &self,
        py: Python<'_>,
        sql: &Bound<'_, PyAny>,
        params: &Bound<'_, PyAny>,
        deadline: Option<f64>,
    ) -> PyResult<Job> {
        let statement = Parser::default().statement(sql, Some(params))?;
        Ok(Job::new(Work::Transaction(self.within(py, deadline)?, vec![statement], true)))
    }

    fn transact(
        &self,
        py: Python<'_>,
        statements: &Bound<'_, PyAny>,
        deadline: Option<f64>,
    ) -> PyResult<Job> {
        let statements = Parser::default().statements(statements)?;
        Ok(Job::new(Work::Transaction(self.within(py, deadline)?, statements, false)))
    }

    fn submit_many(
        &self,
        py: Python<'_>,
        transactions: &Bound<'_, PyAny>,
        deadline: Option<f64>,
    ) -> PyResult<Job> {
        let database = self.within(py, deadline)?;
        let mut parser = Parser::default();
        let (mut all, mut singles) = (Vec::new(), Vec::new());
        for transaction in transactions.try_iter()? {
            let (statements, is_single) = parser.transaction(&transaction?)?;
            all.push(statements);
            singles.push(is_single);
        }
        Ok(Job::new(Work::Waiting(Box::pin(async move {
            Answer::Many(database.submit_many_async(all).await.await, singles)
        }))))
    }

    /// `function(tx)` as a transaction.
    fn call(&self, py: Python<'_>, function: Py<PyAny>, deadline: Option<f64>) -> PyResult<Job> {
        let database = self.within(py, deadline)?;
        let Some(sqlite) = database.as_sqlite() else {
            let message = "only SQLite runs a function as a transaction; pass a list of statements";
            return Err(errors::not_supported(py, message));
        };
        let mut terms = Terms::new();
        if let Some(deadline) = deadline {
            terms = terms.deadline(seconds(deadline)?);
        }
        let called = sqlite.with(terms);
        Ok(Job::new(Work::Waiting(Box::pin(async move {
            let outcome = called.transact_async(move |tx| closure::call(&function, tx)).await;
            Answer::Called(outcome)
        }))))
    }

    fn fetch(
        &self,
        py: Python<'_>,
        what: &str,
        sql: &Bound<'_, PyAny>,
        params: &Bound<'_, PyAny>,
        named: bool,
        durable: bool,
    ) -> PyResult<Job> {
        let statement = Parser::default().statement(sql, Some(params))?;
        let database = self.usable(py)?.clone();
        Ok(Job::new(Work::Read { database, statement, want: want(what)?, named, durable }))
    }

    fn rows(
        &self,
        py: Python<'_>,
        sql: &Bound<'_, PyAny>,
        params: &Bound<'_, PyAny>,
    ) -> PyResult<Rows> {
        let statement = Parser::default().statement(sql, Some(params))?;
        Ok(Rows(Chunks::new(self.usable(py)?.clone(), statement)))
    }

    fn once(
        &self,
        py: Python<'_>,
        token: Vec<u8>,
        statements: &Bound<'_, PyAny>,
        deadline: Option<f64>,
    ) -> PyResult<Job> {
        let statements = Parser::default().statements(statements)?;
        let database = self.within(py, deadline)?;
        Ok(Job::new(Work::Waiting(Box::pin(async move {
            Answer::Once(Repeatable::run(&database, &token, statements).await)
        }))))
    }

    fn outcome_of(&self, py: Python<'_>, token: Vec<u8>) -> PyResult<Job> {
        let database = self.usable(py)?.clone();
        Ok(Job::new(Work::Waiting(Box::pin(async move {
            let record = database.outcome_of(&token).await;
            Answer::Kept(record.map(|record| record.as_ref().map(kept_results)))
        }))))
    }

    fn exclusive(&self, py: Python<'_>, statements: &Bound<'_, PyAny>) -> PyResult<Job> {
        let statements: Vec<Statement> = Parser::default().statements(statements)?;
        let database = self.usable(py)?.clone();
        Ok(Job::new(Work::Blocking(Box::new(move || {
            Answer::Results(database.exclusive(statements), false)
        }))))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<Job> {
        let database = self.usable(py)?.clone();
        Ok(Job::new(Work::Blocking(Box::new(move || Answer::Flushed(database.flush())))))
    }

    fn close(&self) -> Job {
        let database = self.0.clone();
        Job::new(Work::Blocking(Box::new(move || Answer::Closed(database.close()))))
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.usable(py)?.stats();
        let dict = PyDict::new(py);
        dict.set_item("committed", stats.committed)?;
        dict.set_item("rejected", stats.rejected)?;
        dict.set_item("not_run", stats.not_run)?;
        dict.set_item("unknown", stats.unknown)?;
        dict.set_item("commits", stats.commits)?;
        dict.set_item("flushes", stats.flushes)?;
        dict.set_item("reruns", stats.reruns)?;
        dict.set_item("in_flight", stats.in_flight)?;
        dict.set_item("queued", stats.queued)?;
        for (name, summary) in [
            ("group_transactions", stats.group_transactions),
            ("queue_wait_ns", stats.queue_wait_ns),
            ("execute_ns", stats.execute_ns),
            ("flush_ns", stats.flush_ns),
            ("total_ns", stats.total_ns),
        ] {
            let quantiles = (summary.p50, summary.p90, summary.p99, summary.p999);
            let (p50, p90, p99, p999) = quantiles;
            let numbers = (summary.count, summary.mean, p50, p90, p99, p999, summary.max);
            dict.set_item(name, numbers)?;
        }
        Ok(dict)
    }
}

/// A read whose rows come a piece at a time.
#[pyclass(frozen, module = "groupcommit._native")]
pub(crate) struct Rows(Chunks);

#[pymethods]
impl Rows {
    /// The next rows; an empty list at the end.
    fn next(&self, named: bool) -> Job {
        let chunks = self.0.clone();
        Job::new(Work::Waiting(Box::pin(async move { Answer::Chunk(chunks.next().await, named) })))
    }

    fn close(&self) {
        self.0.close();
    }
}
