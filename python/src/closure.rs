//! A function of Python's as a transaction. It runs on the thread that executes the group, with the
//! GIL: every transaction behind it waits for it.

use groupcommit_bindings::groupcommit::{
    sql::{Statement, StatementResult},
    sqlite,
};
use pyo3::{exceptions::PyRuntimeError, prelude::*};

use crate::{
    errors,
    ffi::Lent,
    job::{Want, read_object},
    values::{Parser, Result as RowsResult},
};

/// Calls `function` with the transaction.
pub(crate) fn call(function: &Py<PyAny>, tx: &mut sqlite::Transaction<'_>) -> PyResult<Py<PyAny>> {
    let called = Python::try_attach(|py| {
        let (lent, until_end) = Lent::new(tx);
        let called = function.call1(py, (Transaction(lent),));
        drop(until_end);
        called
    });
    called.unwrap_or_else(|| Err(PyRuntimeError::new_err("the interpreter is ending")))
}

/// The transaction that a function runs in; usable until that returns, on its thread.
#[pyclass(frozen, module = "groupcommit")]
pub(crate) struct Transaction(Lent);

impl Transaction {
    fn run(
        &self,
        py: Python<'_>,
        sql: &Bound<'_, PyAny>,
        params: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<StatementResult> {
        let statement: [Statement; 1] = [Parser::default().statement(sql, params)?];
        let Some(ran) = self.0.with(|tx| tx.run(&statement)) else {
            let message = "a transaction can be used only by its function, and while that runs";
            return Err(errors::programming(py, message));
        };
        let mut results = ran.map_err(|error| errors::sqlite(py, error))?;
        Ok(results.pop().unwrap_or_default())
    }

    fn read<'py>(
        &self,
        py: Python<'py>,
        (sql, params): (&Bound<'py, PyAny>, Option<&Bound<'py, PyAny>>),
        want: Want,
        named: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        read_object(py, &self.run(py, sql, params)?, want, named)
    }
}

#[pymethods]
impl Transaction {
    /// Runs one statement.
    #[pyo3(signature = (sql, params=None, /))]
    fn execute(
        &self,
        py: Python<'_>,
        sql: &Bound<'_, PyAny>,
        params: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<RowsResult> {
        self.run(py, sql, params).map(RowsResult)
    }

    /// All rows of a query.
    #[pyo3(signature = (sql, params=None, /, *, named=false))]
    fn fetch_all<'py>(
        &self,
        py: Python<'py>,
        sql: &Bound<'py, PyAny>,
        params: Option<&Bound<'py, PyAny>>,
        named: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.read(py, (sql, params), Want::All, named)
    }

    /// The first row of a query, or None.
    #[pyo3(signature = (sql, params=None, /, *, named=false))]
    fn fetch_one<'py>(
        &self,
        py: Python<'py>,
        sql: &Bound<'py, PyAny>,
        params: Option<&Bound<'py, PyAny>>,
        named: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.read(py, (sql, params), Want::One, named)
    }

    /// The first value of the first row of a query, or None.
    #[pyo3(signature = (sql, params=None, /))]
    fn fetch_val<'py>(
        &self,
        py: Python<'py>,
        sql: &Bound<'py, PyAny>,
        params: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.read(py, (sql, params), Want::Value, false)
    }
}
