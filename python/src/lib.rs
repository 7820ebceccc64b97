//! The Python package of groupcommit: what its pure Python part, `groupcommit.database`, is built on.
//!
//! ```text
//! Python objects ──► Job: plain Rust values ──► run: on this thread, without the GIL
//!                                          └──► Lane::start: for an event loop
//! ```

mod closure;
mod database;
mod errors;
mod ffi;
mod job;
mod lane;
mod values;

/// Everything here is safe without the GIL.
#[pyo3::pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use super::{
        closure::Transaction,
        database::{Database, Rows},
        job::Job,
        lane::Lane,
        values::Result,
    };

    /// Tells the package that this process is the child of a fork.
    #[pyo3::pyfunction]
    fn forked() {
        groupcommit_bindings::forked();
    }
}
