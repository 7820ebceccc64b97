//! From the pipeline to an event loop.
//!
//! ```text
//! loop's thread ──► start ──► pipeline ... flush ──► one byte into a pipe
//!      └─────────── drain ◄── the loop's selector ◄──────┘
//! ```
//!
//! Nothing but the loop's own thread needs the GIL: the thread that flushed writes a byte, and the
//! loop finds it with its next look at its files.

use std::{
    io::{PipeReader, PipeWriter, Read as _, Write as _, pipe},
    os::fd::AsRawFd as _,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Wake, Waker},
};

use groupcommit_bindings::{Delivered, Deliveries};
use pyo3::{intern, prelude::*};

use crate::{
    errors,
    job::{Answer, Job, Work},
};

/// Writes one byte for any number of wake-ups until the next drain.
struct Bell {
    rung: AtomicBool,
    writer: PipeWriter,
}

impl Bell {
    fn ring(&self) {
        // One byte at a time fits into any pipe. Without a reader, nobody waits any more.
        if !self.rung.swap(true, Ordering::AcqRel) {
            drop((&self.writer).write(&[0]));
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

/// Who waits for a piece of work: a future of asyncio's or of concurrent.futures.
struct Waiter {
    future: Py<PyAny>,
    /// Of a transaction: it was given as one statement.
    single: bool,
}

/// The way between one database and one event loop, or one thread that resolves futures.
#[pyclass(frozen, module = "groupcommit._native")]
pub(crate) struct Lane {
    deliveries: Mutex<Deliveries<Waiter, Answer>>,
    bell: Arc<Bell>,
    reader: PipeReader,
    stopped: AtomicBool,
}

impl Lane {
    /// Never held while Python code runs.
    fn deliveries(&self) -> MutexGuard<'_, Deliveries<Waiter, Answer>> {
        self.deliveries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Lane {
    #[new]
    fn new() -> PyResult<Self> {
        let (reader, writer) = pipe()?;
        let bell = Arc::new(Bell { rung: AtomicBool::new(false), writer });
        let deliveries = Mutex::new(Deliveries::new(Waker::from(bell.clone())));
        Ok(Self { deliveries, bell, reader, stopped: AtomicBool::new(false) })
    }

    /// Readable when there is something to drain.
    fn fileno(&self) -> i32 {
        self.reader.as_raw_fd()
    }

    /// Starts a job; `future` gets what comes of it, from `drain`.
    fn start(&self, py: Python<'_>, job: &Job, future: Py<PyAny>) -> PyResult<()> {
        let work = job.take(py)?;
        if work.is_blocking() {
            return Err(errors::programming(py, "this job blocks; run it in a thread"));
        }
        let mut deliveries = self.deliveries();
        match work {
            Work::Transaction(database, statements, single) => {
                deliveries.transact(&database, statements, Waiter { future, single });
            }
            work => deliveries.spawn(Waiter { future, single: false }, work.wait()),
        }
        Ok(())
    }

    /// Resolves the futures of all work that is done; whether none is left.
    fn drain(&self, py: Python<'_>) -> PyResult<bool> {
        if self.bell.rung.load(Ordering::Acquire) {
            // The byte is there already, or about to be.
            (&self.reader).read_exact(&mut [0])?;
            self.bell.rung.store(false, Ordering::Release);
        }
        let (delivered, is_idle) = {
            let mut deliveries = self.deliveries();
            (deliveries.take(), deliveries.is_empty())
        };
        for (Waiter { future, single }, delivered) in delivered {
            let answer = match delivered {
                Delivered::Outcome(outcome) => Answer::Results(outcome, single),
                Delivered::Answer(answer) => answer,
            };
            let future = future.bind(py);
            let told = match answer.into_object(py) {
                Ok(object) => future.call_method1(intern!(py, "set_result"), (object,)),
                Err(error) => {
                    future.call_method1(intern!(py, "set_exception"), (error.into_value(py),))
                }
            };
            // A future that was cancelled, or whose loop is closed, takes nothing any more.
            drop(told);
        }
        Ok(is_idle)
    }

    /// Blocks until there is something to drain; `false` once the lane is stopped and idle.
    fn wait(&self, py: Python<'_>) -> bool {
        py.detach(|| {
            if self.stopped.load(Ordering::Acquire) && self.deliveries().is_empty() {
                return false;
            }
            let read = (&self.reader).read_exact(&mut [0]);
            self.bell.rung.store(false, Ordering::Release);
            read.is_ok()
        })
    }

    /// Ends `wait` once everything is drained.
    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.bell.ring();
    }
}
