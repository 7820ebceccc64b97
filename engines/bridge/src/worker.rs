//! One thread of a bridge, with its connection.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
    connect::Connect,
    queue::{Job, Queue},
};

/// What the threads of a bridge share.
pub(crate) struct Shared<C: Connect> {
    pub(crate) connect: C,
    pub(crate) queue: Queue<C>,
    pub(crate) open: AtomicUsize,
    pub(crate) open_peak: AtomicUsize,
}

/// A connection that is counted for as long as it exists.
pub(crate) struct Opened<C: Connect> {
    pub(crate) connection: C::Connection,
    pub(crate) shared: Arc<Shared<C>>,
}

impl<C: Connect> Drop for Opened<C> {
    fn drop(&mut self) {
        self.shared.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs calls until the queue is closed and empty.
pub(crate) fn work<C: Connect>(shared: &Arc<Shared<C>>) {
    let mut connection = None;
    while let Some(job) = shared.queue.pop() {
        if !job.is_wanted() {
            discard(job);
            continue;
        }
        let mut opened = match connection.take() {
            Some(opened) => opened,
            None => match open(shared) {
                Ok(opened) => opened,
                Err(Refusal::Error(error)) => {
                    job.refuse(error);
                    continue;
                }
                // Unanswered, which its caller sees.
                Err(Refusal::Panicked) => {
                    discard(job);
                    continue;
                }
            },
        };
        let has_panicked = job.run(&mut opened.connection);
        // After a panic nobody knows what state the connection is in.
        let is_whole = !has_panicked
            && catch_unwind(AssertUnwindSafe(|| !shared.connect.is_broken(&mut opened.connection)))
                .unwrap_or(false);
        if is_whole {
            connection = Some(opened);
        } else {
            close(opened);
        }
    }
    if let Some(opened) = connection {
        close(opened);
    }
}

/// What a call holds may panic when it is dropped, which must not end the thread.
fn discard<C: Connect>(job: Box<dyn Job<C>>) {
    if catch_unwind(AssertUnwindSafe(|| drop(job))).is_err() {
        tracing::warn!("dropping a call that nobody waits for panicked");
    }
}

enum Refusal<E> {
    Error(E),
    Panicked,
}

fn open<C: Connect>(shared: &Arc<Shared<C>>) -> Result<Opened<C>, Refusal<C::Error>> {
    let made = catch_unwind(AssertUnwindSafe(|| shared.connect.connect()));
    let Ok(made) = made else {
        tracing::error!("making a connection panicked; its call is not run");
        return Err(Refusal::Panicked);
    };
    let connection = made.map_err(Refusal::Error)?;
    let open = shared.open.fetch_add(1, Ordering::SeqCst) + 1;
    shared.open_peak.fetch_max(open, Ordering::SeqCst);
    Ok(Opened { connection, shared: Arc::clone(shared) })
}

/// A client's destructor may panic, which must not end the thread.
fn close<C: Connect>(opened: Opened<C>) {
    if catch_unwind(AssertUnwindSafe(|| drop(opened))).is_err() {
        tracing::warn!("closing a connection panicked");
    }
}
