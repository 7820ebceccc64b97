//! Records in flight: submitted in order, settled in order, each its own durable transaction.
//!
//! 1. At most `window` records are submitted and not settled; records to be submitted again wait in
//!    the backlog, and are part of that bound.
//! 2. A record that its own transaction could not decide (it ended the transaction, or failed only as
//!    the transaction ended) leaves a gap. Everything submitted behind the gap refuses itself as out
//!    of step, so the gap is filled with a verdict and the rest submitted again, in order.
//! 3. What is reached only moves over records whose tickets resolved to success: it is what is durable.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use groupcommit::sqlite::Database;
use groupcommit::{Failure, NotRun, Rejected, Stats, Terms, Ticket, Unknown};

use crate::exit::{Problem, explain};
use crate::ingest::course::{Destination, Reached};
use crate::ingest::execute::{Plan, Refusal, Verdict, code_of, execute, is_about_the_transaction};
use crate::ingest::job::{Job, Work};
use crate::ingest::ledger::{self, Reject};
use crate::ingest::progress::Progress;

/// After a gap the window shrinks to this, and doubles back: gaps in a row then cost little.
const WINDOW_AFTER_GAP: usize = 16;

/// What to do where nothing better is known.
const CORRECT: &str = "correct that, then use --resume";

struct InFlight {
    job: Arc<Job>,
    ticket: Ticket<Verdict, Refusal>,
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
    reached: Reached,
}

impl Destination for Pipeline {
    fn reached(&self) -> &Reached {
        &self.reached
    }

    fn reached_mut(&mut self) -> &mut Reached {
        &mut self.reached
    }

    fn warnings(&self) -> Vec<String> {
        self.database.warnings().iter().map(ToString::to_string).collect()
    }

    fn stats(&self) -> Stats {
        self.database.stats()
    }

    fn take(&mut self, job: Job, progress: &Progress) -> Result<(), Problem> {
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

    fn has_resolved(&self) -> bool {
        self.in_flight.front().is_some_and(|first| first.ticket.is_resolved())
    }

    fn settle_first(&mut self, progress: &Progress) -> Result<(), Problem> {
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

    fn drain(&mut self, progress: &Progress) -> Result<(), Problem> {
        loop {
            self.submit_backlog();
            if self.in_flight.is_empty() {
                return Ok(());
            }
            self.settle_first(progress)?;
        }
    }

    fn abandon(&mut self) {
        for waiting in self.in_flight.drain(..) {
            // Behind a stop nothing can have been decided.
            drop(waiting.ticket.wait());
        }
    }

    fn finish(&mut self, already: bool) -> Result<(), Problem> {
        if already {
            return Ok(());
        }
        let (id, position) = (self.plan.id, self.reached.position);
        let sentence = |what: String| {
            format!(
                "every record is durable, but the end of the ingest could not be noted in {}: {what}; use --resume",
                self.path.display()
            )
        };
        match self.database.transact(move |transaction| ledger::finish(transaction, id, position)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Problem::environment(sentence(
                "another ingest has moved its position".to_owned(),
            ))),
            Err(Failure::Unknown(unknown)) => {
                Err(Problem::unknown(sentence(explain(unknown.cause().as_ref()))))
            }
            Err(failure) => Err(Problem::environment(sentence(explain(&failure)))),
        }
    }

    fn close(&mut self) -> Result<(), Problem> {
        self.database.close().map_err(|error| {
            Problem::unknown(format!(
                "cannot close the database {}: {}; use --resume, which continues from what it recovers",
                self.path.display(),
                explain(&error)
            ))
        })
    }
}

impl Pipeline {
    /// A pipeline that goes on behind what is reached.
    pub(crate) fn new(
        database: Database,
        path: PathBuf,
        plan: Plan,
        in_flight_max: u32,
        reached: Reached,
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
            reached,
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

    fn submit(&mut self, job: Arc<Job>) {
        let (plan, shared) = (Arc::clone(&self.plan), Arc::clone(&job));
        let ticket = self
            .database
            .with(Terms::new().bytes(job.size_bytes()))
            .submit(move |transaction| execute(transaction, &plan, &shared));
        self.in_flight.push_back(InFlight { job, ticket });
    }

    fn advance(&mut self, job: &Job, verdict: Verdict, progress: &Progress) -> Result<(), Problem> {
        self.reached.move_to(job.record, job.line);
        if self.window < self.window_max {
            self.window = (self.window + 1).min(self.window_max);
        }
        let Verdict::Rejected(reason) = verdict else {
            self.reached.committed += 1;
            return Ok(());
        };
        let reject = Reject {
            record: job.record,
            line: job.line,
            reason: reason.into(),
            content: job.raw().to_owned(),
        };
        self.reached.reject(&reject, progress)
    }

    /// Why a record is to be rejected whose transaction was not committed, unless the ingest must stop.
    fn reason_for_verdict(&self, job: &Job, failure: Failure<Refusal>) -> Result<String, Problem> {
        let path = self.path.display();
        let durable = self.reached.durable();
        let record = job.record;
        let stop = |what: String, then: &str| {
            Err(Problem::environment(format!("{what}; {durable}; {then}")))
        };
        let decided = matches!(job.work, Work::Verdict(_));
        match failure {
            Failure::Rejected(Rejected::Caller(Refusal::Record(reason))) if !decided => Ok(reason),
            Failure::Rejected(Rejected::Engine(cause))
                if !decided && is_about_the_transaction(cause.as_ref()) =>
            {
                Ok(cause.to_string())
            }
            Failure::Rejected(Rejected::Caller(Refusal::OutOfStep)) => stop(
                format!("another ingest has moved the position of this one in {path}"),
                "let it finish, then use --resume",
            ),
            Failure::Rejected(Rejected::Caller(Refusal::Environment(error))) => {
                stop(format!("cannot write record {record} to {path} ({error})"), advice(&error))
            }
            Failure::Rejected(Rejected::Engine(cause)) => stop(
                format!("cannot write record {record} to {path} ({})", explain(cause.as_ref())),
                cause.downcast_ref().map_or(CORRECT, advice),
            ),
            Failure::Rejected(other) => {
                stop(format!("cannot write record {record} to {path} ({other:?})"), CORRECT)
            }
            Failure::NotRun(NotRun::Busy(_)) => stop(
                format!("another process holds the write lock on {path}"),
                "end its transaction or raise --busy-timeout, then use --resume",
            ),
            Failure::NotRun(reason) => {
                stop(format!("{path} takes no more transactions ({})", explain(&reason)), CORRECT)
            }
            Failure::Unknown(unknown) => self.unknown(record, &unknown),
        }
    }

    /// Stops because the outcome of `record` and those behind it is unknown.
    fn unknown<T>(&self, record: u64, unknown: &Unknown) -> Result<T, Problem> {
        Err(Problem::unknown(format!(
            "the outcome of the records from {record} on is unknown ({}); {}; check the disk, then use --resume, \
             which continues from what {} recovers",
            explain(unknown.cause().as_ref()),
            self.reached.durable(),
            self.path.display()
        )))
    }

    /// Submits a verdict for `job`, and again everything that was behind it.
    fn fill_gap(&mut self, job: &Arc<Job>, reason: String) -> Result<(), Problem> {
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
