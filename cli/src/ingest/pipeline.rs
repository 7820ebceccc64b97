//! Records in flight: submitted in order, settled in order, each its own durable transaction.
//!
//! 1. At most `window` records are submitted and not settled; records to be submitted again wait in
//!    the backlog, and are part of that bound.
//! 2. A record that its own transaction could not decide (it ended the transaction, or failed only as
//!    the transaction ended) leaves a gap. Everything submitted behind the gap refuses itself as out
//!    of step, so the gap is filled with a verdict and the rest submitted again, in order.
//! 3. `position` only moves over records whose tickets resolved to success: it is what is durable.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use groupcommit::sqlite::Database;
use groupcommit::{Failure, NotRun, Rejected, Ticket, Unknown};

use crate::exit::{Exit, Problem, explain};
use crate::ingest::execute::{Plan, Refusal, Verdict, code_of, execute, is_about_the_transaction};
use crate::ingest::job::{Job, Work};
use crate::ingest::ledger::Reject;
use crate::ingest::progress::Progress;
use crate::ingest::rejects::RejectsFile;

/// After a gap the window shrinks to this, and doubles back: gaps in a row then cost little.
const WINDOW_AFTER_GAP: usize = 16;

/// What to do where nothing better is known.
const CORRECT: &str = "correct that, then use --resume";

/// Rejections told one by one where no file collects them.
const REJECTIONS_TOLD: u64 = 5;

struct InFlight {
    job: Arc<Job>,
    ticket: Ticket<Verdict, Refusal>,
}

/// Why no more records are submitted.
#[derive(Debug)]
pub(crate) struct Stop {
    /// [`Exit::Environment`] or [`Exit::Unknown`].
    pub(crate) exit: Exit,
    /// What failed and what to do.
    pub(crate) sentence: String,
}

/// The records in flight.
pub(crate) struct Pipeline {
    database: Database,
    path: PathBuf,
    plan: Arc<Plan>,
    in_flight: VecDeque<InFlight>,
    backlog: VecDeque<Arc<Job>>,
    window: usize,
    window_max: usize,
    rejects: Option<RejectsFile>,
    /// The last record decided and durable.
    pub(crate) position: u64,
    /// The line on which it begins.
    pub(crate) line: u64,
    /// Records committed here.
    pub(crate) committed: u64,
    /// Records rejected here.
    pub(crate) rejected: u64,
}

impl Pipeline {
    /// A pipeline that goes on behind `position`.
    pub(crate) fn new(
        database: Database,
        path: PathBuf,
        plan: Plan,
        in_flight_max: u32,
        rejects: Option<RejectsFile>,
        (position, line): (u64, u64),
    ) -> Self {
        let window = in_flight_max as usize;
        Pipeline {
            database,
            path,
            plan: Arc::new(plan),
            in_flight: VecDeque::with_capacity(window),
            backlog: VecDeque::new(),
            window,
            window_max: window,
            rejects,
            position,
            line,
            committed: 0,
            rejected: 0,
        }
    }

    /// Submits a record, first settling what is resolved, and waiting while the window is full.
    pub(crate) fn push(&mut self, job: Job, progress: &Progress) -> Result<(), Stop> {
        self.settle_resolved(progress)?;
        loop {
            self.submit_backlog();
            if self.in_flight.len() < self.window {
                break;
            }
            self.settle_first(progress)?;
        }
        self.submit(Arc::new(job));
        Ok(())
    }

    /// Settles every record whose ticket is resolved, without waiting.
    pub(crate) fn settle_resolved(&mut self, progress: &Progress) -> Result<(), Stop> {
        while self.in_flight.front().is_some_and(|first| first.ticket.is_resolved()) {
            self.settle_first(progress)?;
        }
        Ok(())
    }

    /// Waits until every record in flight is settled.
    pub(crate) fn drain(&mut self, progress: &Progress) -> Result<(), Stop> {
        loop {
            self.submit_backlog();
            if self.in_flight.is_empty() {
                return Ok(());
            }
            self.settle_first(progress)?;
        }
    }

    /// Submits from the backlog while the window has room. Room remains only if the backlog is empty.
    fn submit_backlog(&mut self) {
        while self.in_flight.len() < self.window {
            let Some(job) = self.backlog.pop_front() else {
                return;
            };
            self.submit(job);
        }
    }

    /// Hands the rejects written so far to the operating system.
    pub(crate) fn flush_rejects(&mut self) -> Result<(), Problem> {
        self.rejects.as_mut().map_or(Ok(()), RejectsFile::flush)
    }

    /// Ends the pipeline: whatever is in flight is waited for, the rejects file is synced.
    pub(crate) fn end(&mut self) -> Result<(), Problem> {
        for waiting in self.in_flight.drain(..) {
            // Behind a stop nothing can have been decided; only its end is awaited.
            drop(waiting.ticket.wait());
        }
        self.rejects.take().map_or(Ok(()), RejectsFile::finish)
    }

    fn submit(&mut self, job: Arc<Job>) {
        let (plan, shared) = (Arc::clone(&self.plan), Arc::clone(&job));
        let ticket = self
            .database
            .submission()
            .bytes(job.size_bytes())
            .submit(move |transaction| execute(transaction, &plan, &shared));
        self.in_flight.push_back(InFlight { job, ticket });
    }

    fn settle_first(&mut self, progress: &Progress) -> Result<(), Stop> {
        let Some(InFlight { job, ticket }) = self.in_flight.pop_front() else {
            return Ok(());
        };
        match ticket.wait() {
            Ok(verdict) => self.advance(&job, verdict, progress),
            Err(failure) => {
                let reason = self.reason_for_verdict(&job, failure)?;
                self.fill_gap(&job, reason)
            }
        }
    }

    fn advance(&mut self, job: &Job, verdict: Verdict, progress: &Progress) -> Result<(), Stop> {
        self.position = job.record;
        self.line = job.line;
        if self.window < self.window_max {
            self.window = (self.window + 1).min(self.window_max);
        }
        let Verdict::Rejected(reason) = verdict else {
            self.committed += 1;
            return Ok(());
        };
        self.rejected += 1;
        let reject = Reject {
            record: job.record,
            line: job.line,
            reason: reason.into(),
            content: job.raw().to_owned(),
        };
        if let Some(file) = &mut self.rejects {
            return file
                .add(&reject)
                .map_err(|problem| Stop { exit: problem.exit, sentence: problem.to_string() });
        }
        if self.rejected <= REJECTIONS_TOLD {
            progress.note(&format!(
                "record {} (line {}) rejected: {}",
                reject.record, reject.line, reject.reason
            ));
        } else if self.rejected == REJECTIONS_TOLD + 1 {
            progress.note("more records are rejected; --rejects FILE lists all, so does the table _groupcommit_rejects");
        }
        Ok(())
    }

    /// Why a record is to be rejected whose transaction was not committed, unless the ingest must stop.
    fn reason_for_verdict(&self, job: &Job, failure: Failure<Refusal>) -> Result<String, Stop> {
        let path = self.path.display();
        let durable = self.durable_so_far();
        let record = job.record;
        let stop = |exit, what: String, then: &str| {
            Err(Stop { exit, sentence: format!("{what}; {durable}; {then}") })
        };
        let environment = Exit::Environment;
        let decided = matches!(job.work, Work::Verdict(_));
        match failure {
            Failure::Rejected(Rejected::Caller(Refusal::Record(reason))) if !decided => Ok(reason),
            Failure::Rejected(Rejected::Engine(cause))
                if !decided && is_about_the_transaction(cause.as_ref()) =>
            {
                Ok(cause.to_string())
            }
            Failure::Rejected(Rejected::Caller(Refusal::OutOfStep)) => stop(
                environment,
                format!("another ingest has moved the position of this one in {path}"),
                "let it finish, then use --resume",
            ),
            Failure::Rejected(Rejected::Caller(Refusal::Environment(error))) => stop(
                environment,
                format!("cannot write record {record} to {path} ({error})"),
                advice(&error),
            ),
            Failure::Rejected(Rejected::Engine(cause)) => stop(
                environment,
                format!("cannot write record {record} to {path} ({})", explain(cause.as_ref())),
                cause.downcast_ref().map_or(CORRECT, advice),
            ),
            Failure::Rejected(other) => stop(
                environment,
                format!("cannot write record {record} to {path} ({other:?})"),
                CORRECT,
            ),
            Failure::NotRun(NotRun::Busy(_)) => stop(
                environment,
                format!("another process holds the write lock on {path}"),
                "end its transaction or raise --busy-timeout, then use --resume",
            ),
            Failure::NotRun(reason) => stop(
                environment,
                format!("{path} takes no more transactions ({})", explain(&reason)),
                CORRECT,
            ),
            Failure::Unknown(unknown) => self.unknown(record, &unknown),
        }
    }

    /// Stops because the outcome of `record` and those behind it is unknown.
    fn unknown<T>(&self, record: u64, unknown: &Unknown) -> Result<T, Stop> {
        let sentence = format!(
            "the outcome of the records from {record} on is unknown ({}); {}; check the disk, then use --resume, \
             which continues from what {} recovers",
            explain(unknown.cause().as_ref()),
            self.durable_so_far(),
            self.path.display()
        );
        Err(Stop { exit: Exit::Unknown, sentence })
    }

    /// What is durable now, as part of a sentence.
    pub(crate) fn durable_so_far(&self) -> String {
        durable_through(self.position, self.line)
    }

    /// Submits a verdict for `job`, and again everything that was behind it.
    fn fill_gap(&mut self, job: &Arc<Job>, reason: String) -> Result<(), Stop> {
        let behind: Vec<InFlight> = self.in_flight.drain(..).collect();
        let mut again = VecDeque::with_capacity(behind.len() + self.backlog.len());
        for InFlight { job: follower, ticket } in behind {
            match ticket.wait() {
                Err(Failure::Unknown(unknown)) => return self.unknown(job.record, &unknown),
                // Out of step, as it must be behind a gap; or not run, which will show again.
                Ok(_) | Err(_) => again.push_back(follower),
            }
        }
        self.window = WINDOW_AFTER_GAP.min(self.window_max);
        again.append(&mut self.backlog);
        self.backlog = again;
        self.submit(Arc::new(job.with_verdict(reason)));
        Ok(())
    }
}

/// What is durable, as part of a sentence.
pub(crate) fn durable_through(position: u64, line: u64) -> String {
    if position == 0 {
        "no record is durable yet".to_owned()
    } else {
        format!("every record through number {position} (line {line}) is durable")
    }
}

fn advice(error: &groupcommit::sqlite::rusqlite::Error) -> &'static str {
    use groupcommit::sqlite::rusqlite::ErrorCode;
    match code_of(error) {
        Some(ErrorCode::DiskFull) => "free space on the disk, then use --resume",
        Some(ErrorCode::ReadOnly) => "make it writable, then use --resume",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "let the other process finish, then use --resume"
        }
        _ => CORRECT,
    }
}
