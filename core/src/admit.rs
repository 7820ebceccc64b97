//! Waiting for admission, as a future.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use crate::{
    outcome::NotRun,
    sync::{Mutex, lock},
};

/// A place in the line of those who wait for admission.
pub(crate) struct Line {
    state: Mutex<LineState>,
}

enum LineState {
    Waiting(Option<Waker>),
    Admitted,
    Refused(NotRun),
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line")
    }
}

impl Line {
    /// Marks the one who waits as admitted, and returns whom to wake once no lock is held.
    #[must_use]
    pub(crate) fn admit(&self) -> Option<Waker> {
        self.end(LineState::Admitted)
    }

    /// Marks the one who waits as refused, and returns whom to wake once no lock is held.
    #[must_use]
    pub(crate) fn refuse(&self, reason: NotRun) -> Option<Waker> {
        self.end(LineState::Refused(reason))
    }

    pub(crate) fn is_admitted(&self) -> bool {
        matches!(*lock(&self.state), LineState::Admitted)
    }

    fn end(&self, end: LineState) -> Option<Waker> {
        match std::mem::replace(&mut *lock(&self.state), end) {
            LineState::Waiting(waker) => waker,
            LineState::Admitted | LineState::Refused(_) => None,
        }
    }
}

/// The part of a pipeline that lets transactions in.
pub(crate) trait Door: Send + Sync {
    /// Admits at once (`true`) or puts `line` at the end.
    fn join_line(&self, bytes: usize, line: &Arc<Line>) -> Result<bool, NotRun>;

    /// Gives up the place, or what it has come to.
    fn leave_line(&self, bytes: usize, line: &Arc<Line>);
}

/// Ready once a transaction of `bytes` is admitted, in the order in which waiting began.
///
/// # Cancel safety
///
/// Dropping it gives its place, or its admission, to the next.
pub(crate) struct Admit<'a> {
    door: &'a dyn Door,
    bytes: usize,
    line: Option<Arc<Line>>,
}

impl<'a> Admit<'a> {
    pub(crate) fn new(door: &'a dyn Door, bytes: usize) -> Self {
        Self { door, bytes, line: None }
    }
}

impl Future for Admit<'_> {
    type Output = Result<(), NotRun>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(line) = self.line.clone() else {
            let waiting = LineState::Waiting(Some(cx.waker().clone()));
            let line = Arc::new(Line { state: Mutex::new(waiting) });
            return match self.door.join_line(self.bytes, &line) {
                Ok(true) => Poll::Ready(Ok(())),
                Ok(false) => {
                    self.line = Some(line);
                    Poll::Pending
                }
                Err(reason) => Poll::Ready(Err(reason)),
            };
        };
        let mut state = lock(&line.state);
        let ready = match &mut *state {
            LineState::Waiting(waker) => {
                *waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            LineState::Admitted => Ok(()),
            LineState::Refused(reason) => Err(reason.clone()),
        };
        drop(state);
        self.line = None;
        Poll::Ready(ready)
    }
}

impl Drop for Admit<'_> {
    fn drop(&mut self) {
        if let Some(line) = self.line.take() {
            self.door.leave_line(self.bytes, &line);
        }
    }
}
