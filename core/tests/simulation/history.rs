//! What happened in a run, as the callers saw it, and the checks that each observation undergoes at
//! once. What can be judged only at the end is in [`crate::check`].

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use groupcommit_core::{Clock as _, Failure, NotRun, Outcome, Rejected};

use crate::{disk::Disk, schedule::SimulatedClock};

/// What a transaction's closure does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Put,
    /// Completes without writing.
    Look,
    /// Writes, and takes its time.
    PutSlowly,
    /// Writes, calls the pipeline that it runs in, and submits another.
    PutNested,
    /// Writes and then returns an error.
    Fail,
    /// Writes and then panics.
    Panic,
}

impl Act {
    pub(crate) fn completes(self) -> bool {
        !matches!(self, Self::Fail | Self::Panic)
    }

    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::Put | Self::PutSlowly | Self::PutNested)
    }
}

/// By which call it was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Submit,
    Transact,
    Try,
    Then,
    Async,
    Exclusive,
}

/// One transaction as its submitter knows it. Moments are places in the list of events.
#[derive(Debug, Clone)]
pub(crate) struct Submission {
    pub(crate) id: u64,
    pub(crate) how: How,
    pub(crate) act: Act,
    /// When its deadline is, at the earliest.
    pub(crate) deadline_ns: Option<u64>,
    /// The call that submits it began.
    pub(crate) begun: usize,
    /// The call returned; `None` where it did not submit.
    pub(crate) submitted: Option<usize>,
    pub(crate) cancelled: bool,
    /// What its caller was told.
    pub(crate) told: Option<(Told, usize)>,
    /// How often its closure was called.
    pub(crate) runs: u64,
    pub(crate) callbacks: u64,
    pub(crate) rejected_by_engine: bool,
}

/// A result without its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Committed,
    Rejected,
    Closed,
    Overloaded,
    Cancelled,
    DeadlinePassed,
    Reentrant,
    Busy,
    Failed,
    Unknown,
}

impl Told {
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Committed => Outcome::Committed,
            Self::Rejected => Outcome::Rejected,
            Self::Unknown => Outcome::Unknown,
            _ => Outcome::NotRun,
        }
    }
}

impl From<&NotRun> for Told {
    fn from(reason: &NotRun) -> Self {
        match reason {
            NotRun::Closed => Self::Closed,
            NotRun::Overloaded => Self::Overloaded,
            NotRun::Cancelled => Self::Cancelled,
            NotRun::DeadlinePassed => Self::DeadlinePassed,
            NotRun::Reentrant => Self::Reentrant,
            NotRun::Failed(_) => Self::Failed,
            _ => Self::Busy,
        }
    }
}

pub(crate) type Result64 = Result<u64, Failure<&'static str>>;

#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) submissions: Vec<Submission>,
    pub(crate) events: Vec<String>,
    pub(crate) violations: Vec<String>,
    /// The first moment at which anybody learnt that the pipeline had failed.
    pub(crate) failure_seen: Option<usize>,
}

impl History {
    fn of(&mut self, id: u64) -> &mut Submission {
        let first = self.submissions[0].id;
        &mut self.submissions[usize::try_from(id - first).expect("few transactions")]
    }
}

/// One opening of the database, from recovery to the next power cut.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) clock: Arc<SimulatedClock>,
    pub(crate) disk: Disk,
    first_id: u64,
    /// Somebody has begun to close the pipeline, or to drop it.
    pub(crate) closing: AtomicBool,
    history: Mutex<History>,
}

impl World {
    pub(crate) fn new(clock: Arc<SimulatedClock>, disk: Disk, first_id: u64) -> Arc<Self> {
        let closing = AtomicBool::new(false);
        Arc::new(Self { clock, disk, first_id, closing, history: Mutex::default() })
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn violation(&self, what: String) {
        self.event(format!("VIOLATION: {what}"));
        self.history().violations.push(what);
    }

    /// Notes what happens, and returns its place in the list of events.
    pub(crate) fn event(&self, what: impl std::fmt::Display) -> usize {
        let now_us = self.clock.now_ns() / 1_000;
        let mut history = self.history();
        history.events.push(format!("{now_us:>8} µs  {what}"));
        history.events.len() - 1
    }

    /// A call that submits begins; returns the transaction's number.
    pub(crate) fn begin(&self, how: How, act: Act, deadline_ns: Option<u64>) -> u64 {
        let id = self.first_id + self.history().submissions.len() as u64;
        let deadline_ns = deadline_ns.map(|deadline_ns| self.clock.now_ns() + deadline_ns);
        let begun = self.event(format_args!("{id}: {how:?} {act:?} begins"));
        self.history().submissions.push(Submission {
            id,
            how,
            act,
            deadline_ns,
            begun,
            submitted: None,
            cancelled: false,
            told: None,
            runs: 0,
            callbacks: 0,
            rejected_by_engine: false,
        });
        id
    }

    /// The call has returned with a ticket, or for a callback.
    pub(crate) fn submitted(&self, id: u64) {
        let submitted = self.event(format_args!("{id}: submitted"));
        self.history().of(id).submitted = Some(submitted);
    }

    pub(crate) fn cancelled(&self, id: u64) {
        self.event(format_args!("{id}: cancelled"));
        self.history().of(id).cancelled = true;
    }

    pub(crate) fn ran(&self, id: u64) {
        self.event(format_args!("{id}: runs"));
        self.history().of(id).runs += 1;
    }

    pub(crate) fn engine_rejects(&self, id: u64) {
        self.event(format_args!("{id}: rejected by the engine"));
        self.history().of(id).rejected_by_engine = true;
    }

    pub(crate) fn called_back(&self, id: u64, result: &Result64) {
        self.event(format_args!("{id}: called back"));
        self.history().of(id).callbacks += 1;
        self.told(id, result);
    }

    /// Somebody learns that the pipeline has failed.
    pub(crate) fn failure_seen(&self, at: usize) {
        self.history().failure_seen.get_or_insert(at);
    }

    /// The submitter learns the result.
    pub(crate) fn told(&self, id: u64, result: &Result64) {
        let told = match result {
            Ok(_) => Told::Committed,
            Err(Failure::Rejected(_)) => Told::Rejected,
            Err(Failure::NotRun(reason)) => reason.into(),
            Err(Failure::Unknown(_)) => Told::Unknown,
        };
        let at = self.event(format_args!("{id}: told {told:?}"));
        if matches!(told, Told::Unknown | Told::Failed) {
            self.failure_seen(at);
        }
        let submission = {
            let mut history = self.history();
            let submission = history.of(id);
            let submission_before = submission.clone();
            submission.told = Some((told, at));
            submission_before
        };
        if submission.told.is_some() {
            self.violation(format!("{id} was told an outcome twice"));
        }
        if let Some(what) = self.fault_of(&submission, told, result) {
            self.violation(format!("{id} ({submission:?}) was told {told:?}: {what}"));
        }
    }

    /// What is wrong with a result at the moment at which it is told.
    fn fault_of(&self, it: &Submission, told: Told, result: &Result64) -> Option<&'static str> {
        let is_closing = self.closing.load(Ordering::Relaxed);
        let wrong = match (told, result) {
            (Told::Committed, Ok(value)) => {
                if *value != it.id {
                    Some("the value is another's")
                } else if !it.act.completes() || it.rejected_by_engine {
                    Some("it was to be rejected")
                } else if it.act.writes() && !self.disk.is_durable(it.id) {
                    Some("a power cut now would lose it")
                } else {
                    None
                }
            }
            (Told::Rejected, Err(Failure::Rejected(rejected))) => {
                let fits = match rejected {
                    Rejected::Caller(error) => it.act == Act::Fail && *error == "no",
                    Rejected::Panicked(message) => it.act == Act::Panic && message == "a panic",
                    _ => it.rejected_by_engine,
                };
                (!fits).then_some("there was no such reason")
            }
            (Told::Closed, _) => (!is_closing).then_some("nobody closes"),
            (Told::Overloaded, _) => {
                (!matches!(it.how, How::Try | How::Then)).then_some("it should have waited")
            }
            (Told::Cancelled, _) => (!it.cancelled).then_some("nobody cancelled it"),
            (Told::DeadlinePassed, _) => {
                let passed = it.deadline_ns.is_some_and(|at_ns| self.clock.now_ns() >= at_ns);
                (!passed).then_some("its deadline has not passed")
            }
            (Told::Failed | Told::Unknown, _) => {
                (!self.disk.has_failed()).then_some("the disk has not failed")
            }
            (Told::Busy | Told::Reentrant, _) => None,
            (Told::Committed | Told::Rejected, _) => Some("the result is something else"),
        };
        match wrong {
            None if it.cancelled && told != Told::Cancelled => {
                Some("it had been cancelled, with success")
            }
            None if told == Told::Unknown && !it.act.completes() => Some("it never completed"),
            wrong => wrong,
        }
    }
}
