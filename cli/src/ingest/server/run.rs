//! The records in flight: submitted in order, settled in order.

use std::collections::{HashMap, VecDeque};

use groupcommit::sql::{
    Database, Engine, Error, Kind, StatementsFailure, StatementsTicket, without_password,
};
use groupcommit::{Failure, Limits, Stats};

use crate::exit::{Exit, Problem, explain};
use crate::ingest::begin::{Beginning, SQL_TARGET, columns, note_on_header, previous, reading};
use crate::ingest::course::{self, Destination, Reached};
use crate::ingest::job::{Job, Shape, Work};
use crate::ingest::ledger::{Entry, PREFIX};
use crate::ingest::options::{Format, Options};
use crate::ingest::progress::Progress;
use crate::ingest::rejects::RejectsFile;
use crate::ingest::server::decide::{Plan, reason_of, reject_of, verdict};
use crate::ingest::server::ledger::{Ledger, Place};
use crate::ingest::server::table::describe;
use crate::ingest::stream::Stream;
use crate::ingest::table::insert_statement;
use crate::ingest::{input, interrupt, skip};

/// After so many records the position in the ledger moves over them.
const ADVANCE_RECORDS: u64 = 4_096;

/// A record that is submitted and not settled.
struct InFlight {
    job: Job,
    ticket: StatementsTicket,
}

/// Everything that stays the same from record to record, and how far it came.
struct Ingest<'a> {
    options: &'a Options,
    shown: String,
    database: Database,
    plan: Plan,
    in_flight: VecDeque<InFlight>,
    /// Decided by an earlier run, beyond the ledger's position.
    decided: HashMap<u64, Place>,
    advancing: Option<StatementsTicket>,
    reached: Reached,
    /// The place of what is reached.
    place: Place,
    /// Where the ledger's position is.
    advanced: u64,
}

/// Runs the subcommand for a server.
///
/// # Errors
/// A [`Problem`] with its exit code and sentence.
pub(crate) fn run(options: &Options, engine: Engine, url: &str) -> Result<Exit, Problem> {
    let layout = options.layout()?;
    let target = options.table.clone().unwrap_or_else(|| SQL_TARGET.to_owned());
    if target.starts_with(PREFIX) || target.len() > 200 {
        return Err(Problem::environment(format!(
            "the name {target} is reserved or too long: choose another with --table"
        )));
    }
    interrupt::install()?;
    let mut stream = Stream::open(input::open(options)?, layout)?;
    let shown = without_password(url);
    let cannot = |doing: &str, error: &(dyn std::error::Error + 'static)| {
        Problem::environment(format!("cannot {doing} {shown}: {}", explain(error)))
    };
    let window = options.in_flight as usize;
    let mut limits = Limits::default();
    limits.transactions = limits.transactions.max(window);
    let database = Database::options()
        .limits(limits)
        .connect(url)
        .map_err(|error| cannot("open the database", &error))?;
    let ledger = Ledger::open(&database, &target)
        .map_err(|failure| cannot("keep the position of the ingest in", &failure))?;
    let found = ledger.find(&database).map_err(|failure| cannot("read", &failure))?;
    let existing = if layout.format == Format::Sql {
        None
    } else {
        describe(&database, &target).map_err(|failure| cannot("read", &failure))?
    };
    let reading = reading(options, layout);
    let before_id = found.as_ref().map(|(entry, _)| entry.id);
    let (entry, mut decided) = found.map_or((None, HashMap::new()), |(entry, decided)| {
        let highest = decided.keys().copied().max().unwrap_or_default();
        // For the question whether there is anything to resume.
        let shown = Entry { position: entry.position.max(highest), ..entry.clone() };
        (Some((entry, shown)), decided)
    });
    let resumable = entry.as_ref().map(|(_, shown)| shown.clone());
    let before = previous(options, resumable, &target, &reading)?.and(entry);
    let (columns, creates) = if layout.format == Format::Sql {
        (Vec::new(), None)
    } else {
        columns(options, layout, &mut stream, existing.as_ref(), engine, &target)?
    };
    let note = note_on_header(before.is_none(), &stream);
    let resumed = before.is_some();
    let entry = if let Some((entry, _)) = before {
        entry
    } else {
        decided.clear();
        ledger
            .begin(&database, before_id, &stream.name, &reading, creates)
            .map_err(|failure| cannot("begin the ingest in", &failure))?
    };
    skip(&mut stream, &target, &entry)?;
    let rejects = RejectsFile::restore(options, None, |after, at_most| {
        let batch = ledger.rejects(&database, entry.id, after, at_most);
        batch.map_err(|failure| cannot("read the rejected records in", &failure))
    })?;
    let insert = match layout.format {
        Format::Sql => String::new(),
        _ => insert_statement(engine, &target, &columns),
    };
    let shape = Shape { format: layout.format, columns, nulls: options.nulls.clone() };
    let plan = Plan { id: entry.id, insert: insert.into(), columns: shape.columns.clone(), ledger };
    let place = Place { position: entry.position, line: entry.line, checksum: entry.checksum };
    let ingest = Ingest {
        options,
        shown: shown.clone(),
        database,
        plan,
        in_flight: VecDeque::with_capacity(window),
        decided,
        advancing: None,
        reached: Reached::behind(&entry, rejects),
        place,
        advanced: entry.position,
    };
    let beginning = Beginning { target, entry, resumed, shape, note };
    course::run(options, &mut stream, ingest, beginning)
}

impl Destination for Ingest<'_> {
    fn reached(&self) -> &Reached {
        &self.reached
    }

    fn reached_mut(&mut self) -> &mut Reached {
        &mut self.reached
    }

    fn warnings(&self) -> Vec<String> {
        self.database.warnings()
    }

    fn stats(&self) -> Stats {
        self.database.stats()
    }

    fn take(&mut self, job: Job, progress: &Progress) -> Result<(), Problem> {
        if let Some(decided) = self.decided.remove(&job.record) {
            return self.pass_over(&job, decided, progress);
        }
        self.settle(self.options.in_flight as usize - 1, progress)?;
        self.submit(job);
        Ok(())
    }

    fn has_resolved(&self) -> bool {
        self.in_flight.front().is_some_and(|first| first.ticket.is_resolved())
    }

    fn settle_first(&mut self, progress: &Progress) -> Result<(), Problem> {
        let Some(InFlight { job, ticket }) = self.in_flight.pop_front() else { return Ok(()) };
        match ticket.wait() {
            Ok(_) => self.settled(&job, progress),
            Err(failure) => self.refused(&job, &failure, progress),
        }
    }

    fn drain(&mut self, progress: &Progress) -> Result<(), Problem> {
        self.settle(0, progress)
    }

    fn abandon(&mut self) {
        for waiting in self.in_flight.drain(..) {
            // Whatever it came to, the ledger knows.
            drop(waiting.ticket.wait());
        }
    }

    fn finish(&mut self, already: bool) -> Result<(), Problem> {
        if already && self.reached.records() == 0 {
            return Ok(());
        }
        if let Some(before) = self.advancing.take() {
            before.wait().map_err(|failure| self.stop(self.place.position, &failure))?;
        }
        let plan = self.plan.ledger.advance(self.plan.id, self.place, true);
        let noted = self.database.transact(plan);
        noted.map(drop).map_err(|failure| self.stop(self.place.position, &failure))
    }

    fn close(&mut self) -> Result<(), Problem> {
        self.database.close().map_err(|error| {
            Problem::unknown(format!(
                "cannot close {}: {}; use --resume, which continues from what the server has",
                self.shown,
                explain(&error)
            ))
        })
    }
}

impl Ingest<'_> {
    /// An earlier run decided this record, if it is the same.
    fn pass_over(&mut self, job: &Job, decided: Place, progress: &Progress) -> Result<(), Problem> {
        if decided.checksum != job.checksum {
            return Err(Problem::environment(format!(
                "cannot continue: record {} is not the one that is in {}; give the same input, or leave --resume \
                 out to ingest another",
                job.record, self.shown
            )));
        }
        self.settle(0, progress)?;
        self.move_to(job);
        Ok(())
    }

    fn submit(&mut self, job: Job) {
        let ticket = self.database.submit(self.plan.transaction(&job));
        self.in_flight.push_back(InFlight { job, ticket });
    }

    /// Waits until no more than `most` records are in flight.
    fn settle(&mut self, most: usize, progress: &Progress) -> Result<(), Problem> {
        self.settle_resolved(progress)?;
        while self.in_flight.len() > most {
            self.settle_first(progress)?;
        }
        Ok(())
    }

    /// Decides a record that the server refused, and whatever else in flight it did: their verdicts
    /// go out together.
    fn refused(
        &mut self,
        job: &Job,
        failure: &StatementsFailure,
        progress: &Progress,
    ) -> Result<(), Problem> {
        let first = self.with_verdict(job, failure)?;
        let mut again = vec![(first, true)];
        let behind: Vec<InFlight> = self.in_flight.drain(..).collect();
        for InFlight { job, ticket } in behind {
            match ticket.wait() {
                Ok(_) => again.push((job, false)),
                Err(failure) => again.push((self.with_verdict(&job, &failure)?, true)),
            }
        }
        let decisions: Vec<_> = again
            .into_iter()
            .map(|(job, is_refused)| {
                let ticket = is_refused.then(|| self.database.submit(self.plan.transaction(&job)));
                (job, ticket)
            })
            .collect();
        for (job, ticket) in decisions {
            if let Some(ticket) = ticket {
                ticket.wait().map_err(|failure| self.stop(job.record, &failure))?;
            }
            self.settled(&job, progress)?;
        }
        Ok(())
    }

    /// The record, to be rejected; an error where its failure says nothing about it.
    fn with_verdict(&self, job: &Job, failure: &StatementsFailure) -> Result<Job, Problem> {
        match verdict(job, failure) {
            Some(reason) => Ok(job.with_verdict(reason)),
            None => Err(self.stop(job.record, failure)),
        }
    }

    /// The record is decided and durable.
    fn settled(&mut self, job: &Job, progress: &Progress) -> Result<(), Problem> {
        self.move_to(job);
        let Work::Verdict(reason) = &job.work else {
            self.reached.committed += 1;
            return self.advance();
        };
        self.reached.reject(&reject_of(job, reason), progress)?;
        self.advance()
    }

    fn move_to(&mut self, job: &Job) {
        self.place = Place { position: job.record, line: job.line, checksum: job.checksum };
        self.reached.move_to(job.record, job.line);
    }

    /// Moves the ledger's position from time to time, behind what is decided.
    fn advance(&mut self) -> Result<(), Problem> {
        if self.place.position < self.advanced + ADVANCE_RECORDS {
            return Ok(());
        }
        if let Some(before) = self.advancing.take() {
            before.wait().map_err(|failure| self.stop(self.place.position, &failure))?;
        }
        let plan = self.plan.ledger.advance(self.plan.id, self.place, false);
        self.advancing = Some(self.database.submit(plan));
        self.advanced = self.place.position;
        Ok(())
    }

    /// Why no more records are submitted.
    fn stop(&self, record: u64, failure: &StatementsFailure) -> Problem {
        let (shown, durable) = (&self.shown, self.reached.durable());
        if let Failure::Unknown(unknown) = failure {
            return Problem::unknown(format!(
                "the outcome of the records from {record} on is unknown ({}); {durable}; use --resume, which \
                 continues from what {shown} has",
                explain(unknown.cause().as_ref())
            ));
        }
        let error = Error::of_failure(failure);
        match error {
            // Of a verdict, or of a position: nobody else writes there.
            Some(error) if error.kind() == Kind::Unique => Problem::environment(format!(
                "another ingest has decided record {record} in {shown}; {durable}; let it finish, then use --resume"
            )),
            Some(error) => Problem::environment(format!(
                "cannot write record {record} to {shown} ({error}: {}); {durable}; correct that, then use --resume",
                reason_of(&error)
            )),
            None => Problem::environment(format!(
                "cannot write record {record} to {shown} ({}); {durable}; correct that, then use --resume",
                explain(failure)
            )),
        }
    }
}
