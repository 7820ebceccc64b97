//! A piece of work on a database, written once for all who wait: a thread runs it, an event loop's
//! lane starts it.

use std::{
    convert::Infallible,
    sync::{Mutex, PoisonError},
};

use futures_util::future::BoxFuture;
use groupcommit_bindings::{
    Description, Repeatable, all_rows, block_on, first_row, first_row_async,
    groupcommit::{
        Failure, OnceError, Rejected,
        sql::{
            Database, Error, Statement, StatementResult, StatementsFailure, StatementsOutcome,
            Value,
        },
    },
};
use pyo3::{prelude::*, types::PyList};

use crate::{
    errors,
    values::{Result as RowsResult, RowShape, object},
};

/// What is read: all rows, the first, or its first value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    All,
    One,
    Value,
}

/// What there is to do.
pub(crate) enum Work {
    /// A transaction; `bool` says whether its caller gave one statement, and wants one result.
    Transaction(Database, Vec<Statement>, bool),
    Read {
        database: Database,
        statement: Statement,
        want: Want,
        named: bool,
        durable: bool,
    },
    /// Anything that waits without blocking.
    Waiting(BoxFuture<'static, Answer>),
    /// Anything that blocks; no lane takes it.
    Blocking(Box<dyn FnOnce() -> Answer + Send>),
}

/// What came of it, before it is made of Python's objects.
pub(crate) enum Answer {
    Results(StatementsOutcome, bool),
    /// And which of them were given as one statement.
    Many(Vec<StatementsOutcome>, Vec<bool>),
    Read(Result<StatementResult, StatementsFailure>, Want, bool),
    Chunk(Result<(Vec<String>, Vec<Vec<Value>>), StatementsFailure>, bool),
    Called(Result<Py<PyAny>, Failure<PyErr>>),
    Once(Result<Repeatable, Failure<OnceError<Error>>>),
    Kept(Result<Option<Vec<StatementResult>>, Failure<OnceError<Infallible>>>),
    Flushed(Result<(), StatementsFailure>),
    Closed(Result<(), Error>),
}

/// A piece of work that has not been started.
#[pyclass(frozen, module = "groupcommit._native")]
pub(crate) struct Job(Mutex<Option<Work>>);

impl Job {
    pub(crate) fn new(work: Work) -> Self {
        Self(Mutex::new(Some(work)))
    }

    /// The work, once.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<Work> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.ok_or_else(|| errors::programming(py, "this job has been started before"))
    }
}

#[pymethods]
impl Job {
    /// Does it on this thread, without the GIL.
    fn run<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let work = self.take(py)?;
        py.detach(|| work.run()).into_object(py)
    }
}

impl Work {
    fn run(self) -> Answer {
        match self {
            Self::Transaction(database, statements, single) => {
                Answer::Results(database.transact(statements), single)
            }
            Self::Read { database, statement, want, named, durable } => {
                let read = if durable {
                    database.read_durable(&statement)
                } else if want == Want::All {
                    all_rows(&database, &statement)
                } else {
                    first_row(&database, &statement)
                };
                Answer::Read(read, want, named)
            }
            Self::Waiting(future) => block_on(future),
            Self::Blocking(run) => run(),
        }
    }

    /// The work as a future, for a lane.
    pub(crate) async fn wait(self) -> Answer {
        match self {
            Self::Read { database, statement, want, named, durable: false } => {
                let read = if want == Want::All {
                    database.read_async(&statement).await
                } else {
                    first_row_async(&database, statement).await
                };
                Answer::Read(read, want, named)
            }
            Self::Transaction(database, statements, single) => {
                Answer::Results(database.transact_async(statements).await, single)
            }
            Self::Waiting(future) => future.await,
            blocking => blocking.run(),
        }
    }

    /// Whether it blocks the thread that does it, whoever waits.
    pub(crate) fn is_blocking(&self) -> bool {
        matches!(self, Self::Blocking(_) | Self::Read { durable: true, .. })
    }
}

impl Answer {
    /// What its caller gets: an object, or an exception.
    pub(crate) fn into_object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Self::Results(outcome, single) => results(py, outcome, single),
            Self::Many(outcomes, singles) => {
                let objects = outcomes.into_iter().zip(singles).map(|(outcome, single)| {
                    results(py, outcome, single)
                        .or_else(|error| Ok(error.into_value(py).into_bound(py).into_any()))
                });
                Ok(PyList::new(py, objects.collect::<PyResult<Vec<_>>>()?)?.into_any())
            }
            Self::Read(Ok(read), want, named) => read_object(py, &read, want, named),
            Self::Chunk(Ok((columns, rows)), named) => {
                Ok(RowShape::new(py, &columns, named).rows(py, &rows)?.into_any())
            }
            Self::Called(Ok(object)) => Ok(object.into_bound(py)),
            Self::Called(Err(Failure::Rejected(Rejected::Caller(error)))) => Err(error),
            Self::Called(Err(failure)) => {
                Err(errors::described(py, &Description::of_any(&failure, |_| None)))
            }
            Self::Once(Ok(Repeatable { results, is_repeated })) => {
                let results = results_list(py, results)?;
                Ok((results, is_repeated).into_pyobject(py)?.into_any())
            }
            Self::Kept(Ok(Some(results))) => Ok(results_list(py, results)?.into_any()),
            Self::Kept(Ok(None)) | Self::Flushed(Ok(())) | Self::Closed(Ok(())) => {
                Ok(py.None().into_bound(py))
            }
            Self::Read(Err(failure), ..)
            | Self::Chunk(Err(failure), _)
            | Self::Flushed(Err(failure)) => Err(errors::failed(py, &failure)),
            Self::Once(Err(failure)) => Err(errors::described(py, &Description::of_once(&failure))),
            Self::Kept(Err(failure)) => {
                Err(errors::described(py, &Description::of_any(&failure, |_| None)))
            }
            Self::Closed(Err(error)) => Err(errors::error(py, &error)),
        }
    }
}

fn results(py: Python<'_>, outcome: StatementsOutcome, single: bool) -> PyResult<Bound<'_, PyAny>> {
    let mut results = outcome.map_err(|failure| errors::failed(py, &failure))?;
    match results.pop() {
        Some(result) if single => Ok(Bound::new(py, RowsResult(result))?.into_any()),
        last => {
            results.extend(last);
            Ok(results_list(py, results)?.into_any())
        }
    }
}

fn results_list(py: Python<'_>, results: Vec<StatementResult>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    results.into_iter().try_for_each(|result| list.append(Bound::new(py, RowsResult(result))?))?;
    Ok(list)
}

/// The rows that a read returned, in the shape that was asked for.
pub(crate) fn read_object<'py>(
    py: Python<'py>,
    read: &StatementResult,
    want: Want,
    named: bool,
) -> PyResult<Bound<'py, PyAny>> {
    if want == Want::All {
        return Ok(RowShape::new(py, &read.columns, named).rows(py, &read.rows)?.into_any());
    }
    match read.rows.first() {
        None => Ok(py.None().into_bound(py)),
        Some(row) if want == Want::One => RowShape::new(py, &read.columns, named).row(py, row),
        Some(row) => row.first().map_or_else(|| Ok(py.None().into_bound(py)), |it| object(py, it)),
    }
}
