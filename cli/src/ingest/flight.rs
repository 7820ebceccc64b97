//! Records in flight: submitted in order, settled in order, each its own durable transaction.
//!
//! 1. At most `window` records are submitted and not settled.
//! 2. A record whose transaction failed for its own fault leaves a gap. Everything in flight behind it
//!    is waited for; then its verdict is submitted, and in order behind it every record that is not
//!    decided yet.
//! 3. What is reached only moves over records whose tickets resolved to success: it is what is durable.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use groupcommit::{Failure, Ticket};

use crate::exit::Problem;
use crate::ingest::job::{Job, Work};
use crate::ingest::ledger::{Entry, Place, Reject};
use crate::ingest::progress::Progress;
use crate::ingest::rejects::RejectsFile;
use crate::ingest::store::{Store, Trouble};

/// After a gap the window shrinks to this, and grows back: gaps in a row then cost little.
const WINDOW_AFTER_GAP: usize = 16;

/// A record that takes longer than this is told.
const PATIENCE: Duration = Duration::from_secs(1);

/// Rejections told one by one where no file collects them.
const REJECTIONS_TOLD: u64 = 5;

/// A record that is submitted, or known to be decided.
enum Pending<S: Store> {
    Ticket(Ticket<S::Output, S::Error>),
    Decided(Option<Box<str>>),
}

/// The records in flight, and how far the ingest came.
pub(crate) struct Flight<S: Store> {
    pub(crate) store: S,
    pending: VecDeque<(Arc<Job>, Pending<S>)>,
    /// To be submitted; behind a gap some of them are decided already.
    waiting: VecDeque<(Arc<Job>, Option<Pending<S>>)>,
    window: usize,
    window_max: usize,
    /// The last record decided and durable.
    pub(crate) place: Place,
    /// Records committed by this run.
    pub(crate) committed: u64,
    /// Records rejected by this run.
    pub(crate) rejected: u64,
    /// Where rejected records are written.
    pub(crate) rejects: Option<RejectsFile>,
}

impl<S: Store> Flight<S> {
    /// Nothing yet, behind what earlier runs did.
    pub(crate) fn new(
        store: S,
        entry: &Entry,
        in_flight_max: u32,
        rejects: Option<RejectsFile>,
    ) -> Self {
        let window = in_flight_max as usize;
        Self {
            store,
            pending: VecDeque::with_capacity(window),
            waiting: VecDeque::new(),
            window,
            window_max: window,
            place: entry.place,
            committed: 0,
            rejected: 0,
            rejects,
        }
    }

    /// Records decided by this run.
    pub(crate) fn records(&self) -> u64 {
        self.committed + self.rejected
    }

    /// What is durable, as part of a sentence.
    pub(crate) fn durable(&self) -> String {
        match self.place {
            Place { position: 0, .. } => "no record is durable yet".to_owned(),
            Place { position, line, .. } => {
                format!("every record through number {position} (line {line}) is durable")
            }
        }
    }

    /// Submits a record, waiting while too much is in flight.
    pub(crate) fn take(&mut self, job: Job, progress: &Progress) -> Result<(), Problem> {
        self.settle_resolved(progress)?;
        if self.store.is_decided(&job).map_err(|trouble| self.stop(&job, trouble))? {
            self.drain(progress)?;
            self.place = job.place;
            return Ok(());
        }
        self.waiting.push_back((Arc::new(job), None));
        loop {
            self.submit_waiting();
            if self.waiting.is_empty() {
                return Ok(());
            }
            self.settle_first(progress)?;
        }
    }

    /// Settles every record whose ticket is resolved, without waiting.
    pub(crate) fn settle_resolved(&mut self, progress: &Progress) -> Result<(), Problem> {
        while self.pending.front().is_some_and(|(_, pending)| match pending {
            Pending::Ticket(ticket) => ticket.is_resolved(),
            Pending::Decided(_) => true,
        }) {
            self.settle_first(progress)?;
        }
        Ok(())
    }

    /// Waits until every record is settled.
    pub(crate) fn drain(&mut self, progress: &Progress) -> Result<(), Problem> {
        loop {
            self.submit_waiting();
            if self.pending.is_empty() {
                return Ok(());
            }
            self.settle_first(progress)?;
        }
    }

    /// Waits for the end of everything in flight behind a stop, and settles none of it.
    pub(crate) fn abandon(&mut self) {
        self.waiting.clear();
        for (_, pending) in self.pending.drain(..) {
            if let Pending::Ticket(ticket) = pending {
                drop(ticket.wait());
            }
        }
    }

    fn submit_waiting(&mut self) {
        while self.pending.len() < self.window {
            let Some((job, pending)) = self.waiting.pop_front() else { return };
            let pending = pending.unwrap_or_else(|| Pending::Ticket(self.store.submit(&job)));
            self.pending.push_back((job, pending));
        }
    }

    fn settle_first(&mut self, progress: &Progress) -> Result<(), Problem> {
        let Some((job, pending)) = self.pending.pop_front() else { return Ok(()) };
        let failure = match self.wait(pending, progress) {
            Ok(rejection) => return self.decided(&job, rejection, progress),
            Err(failure) => failure,
        };
        match self.store.judge(&job, &failure) {
            Trouble::Record(reason) => self.fill_gap(&job, reason, progress),
            trouble => Err(self.stop(&job, trouble)),
        }
    }

    /// Waits for a record, and tells that it does where that takes long.
    fn wait(
        &self,
        pending: Pending<S>,
        progress: &Progress,
    ) -> Result<Option<Box<str>>, Failure<S::Error>> {
        let mut ticket = match pending {
            Pending::Ticket(ticket) => ticket,
            Pending::Decided(rejection) => return Ok(rejection),
        };
        let resolved = ticket.wait_timeout(PATIENCE);
        let output = resolved.unwrap_or_else(|| {
            progress.note(&format!(
                "waiting for {}: its disk is slow, or another process holds its write lock",
                self.store.name()
            ));
            ticket.wait()
        });
        output.map(S::rejection)
    }

    /// Has a record rejected, and submits again what is undecided behind it.
    fn fill_gap(&mut self, job: &Job, reason: String, progress: &Progress) -> Result<(), Problem> {
        let mut again = VecDeque::with_capacity(self.pending.len() + self.waiting.len() + 1);
        again.push_back((Arc::new(job.with_verdict(reason)), None));
        for (job, pending) in std::mem::take(&mut self.pending) {
            match self.wait(pending, progress) {
                Ok(rejection) => again.push_back((job, Some(Pending::Decided(rejection)))),
                Err(failure) => match self.store.judge(&job, &failure) {
                    Trouble::Record(reason) => {
                        again.push_back((Arc::new(job.with_verdict(reason)), None));
                    }
                    trouble @ Trouble::Unknown(_) => return Err(self.stop(&job, trouble)),
                    // Behind a gap it has to be out of step; anything else will show again.
                    _ => {
                        self.window = WINDOW_AFTER_GAP.min(self.window_max);
                        again.push_back((job, None));
                    }
                },
            }
        }
        again.append(&mut self.waiting);
        self.waiting = again;
        self.submit_waiting();
        Ok(())
    }

    /// The record is decided and durable.
    fn decided(
        &mut self,
        job: &Job,
        rejection: Option<Box<str>>,
        progress: &Progress,
    ) -> Result<(), Problem> {
        self.place = job.place;
        self.window = (self.window + 1).min(self.window_max);
        self.store.settled(self.place).map_err(|trouble| self.stop(job, trouble))?;
        let known = if let Work::Verdict(reason) = &job.work { Some(reason.clone()) } else { None };
        let Some(reason) = rejection.or(known) else {
            self.committed += 1;
            return Ok(());
        };
        self.rejected += 1;
        if let Some(file) = &mut self.rejects {
            return file.add(&job.reject(reason));
        }
        if self.rejected <= REJECTIONS_TOLD {
            let Place { position, line, .. } = job.place;
            progress.note(&format!("record {position} (line {line}) rejected: {reason}"));
        } else if self.rejected == REJECTIONS_TOLD + 1 {
            progress.note(
                "more records are rejected; --rejects FILE lists all of them, as does the table _groupcommit_rejects",
            );
        }
        Ok(())
    }

    /// Why no more records are submitted.
    fn stop(&self, job: &Job, trouble: Trouble) -> Problem {
        let doing = format!("write record {} to", job.place.position);
        trouble.problem(&doing, &self.store.name(), Some(&self.durable()))
    }
}

impl Job {
    /// The record as one that is rejected.
    pub(crate) fn reject(&self, reason: impl Into<String>) -> Reject {
        Reject {
            record: self.place.position,
            line: self.place.line,
            reason: reason.into(),
            content: self.content().to_vec(),
        }
    }
}
