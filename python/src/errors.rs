//! Failures as exceptions: `groupcommit.errors` builds them.

use groupcommit_bindings::{
    Description,
    groupcommit::{
        Failure, Rejected,
        sql::{Error, StatementsFailure},
        sqlite::rusqlite,
    },
};
use pyo3::{prelude::*, sync::PyOnceLock};

fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let import = || Ok(PyModule::import(py, "groupcommit.errors")?.unbind());
    MODULE.get_or_try_init(py, import).map(|module| module.bind(py))
}

/// What `description` says.
pub(crate) fn described(py: Python<'_>, description: &Description) -> PyErr {
    let Description { outcome, message, code, reason, .. } = description;
    let said = (outcome.as_str(), message, description.kind_name(), code, reason);
    let built = module(py).and_then(|module| module.getattr("build")?.call1(said));
    built.map_or_else(|error| error, PyErr::from_value)
}

pub(crate) fn failed(py: Python<'_>, failure: &StatementsFailure) -> PyErr {
    described(py, &Description::of(failure))
}

pub(crate) fn error(py: Python<'_>, error: &Error) -> PyErr {
    described(py, &Description::of_error(error))
}

/// What SQLite says of a statement inside a closure.
pub(crate) fn sqlite(py: Python<'_>, error: rusqlite::Error) -> PyErr {
    failed(py, &Failure::Rejected(Rejected::Engine(std::sync::Arc::new(error))))
}

/// A mistake in how the package is used.
pub(crate) fn programming(py: Python<'_>, message: &str) -> PyErr {
    named(py, "ProgrammingError", message)
}

/// What this database does not do.
pub(crate) fn not_supported(py: Python<'_>, message: &str) -> PyErr {
    named(py, "NotSupportedError", message)
}

fn named(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let built = module(py).and_then(|module| module.getattr(class)?.call1((message,)));
    built.map_or_else(|error| error, PyErr::from_value)
}
