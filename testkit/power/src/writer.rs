//! The writer: a process of its own that submits from many threads, records what is acknowledged,
//! and cuts the power, or kills itself, when its time has come.
//!
//! Numbers are given and transactions submitted under one lock, so that the order of numbers is
//! the order of submission. After a failure it opens the database again and goes on, as long as
//! that can be done: what the power cut has taken away cannot.

use std::{
    collections::VecDeque,
    path::Path,
    process,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use groupcommit_core::Outcome;

use crate::{
    medium::Switch,
    plan::Planned,
    record::{Record, Recorder},
    schedule::{End, Run, Style},
    subject::{Came, Failing, Subject, Waiting},
};

/// How often it opens the database again after a failure: one fault is injected at most.
const ROUNDS_MAX: usize = 4;

/// How many of a thread with a pace are in flight at most: as much as memory is to take.
const PACED_MAX: usize = 512;

/// How many transactions are submitted again, under their tokens, after each opening: the latest ones,
/// of which the writer before may have had no answer.
const AGAIN: usize = 100;

/// Runs until the end that the schedule says, or until the power is gone.
pub(crate) fn write<S: Subject>(
    folder: &Path,
    records: &Path,
    run: &Run,
    switch: Switch,
    seed: u64,
) -> Result<()> {
    std::panic::set_hook(Box::new(|_| {})); // transactions panic on purpose
    let common = Arc::new(Common {
        recorder: Recorder::open(records)?,
        run: run.clone(),
        acknowledged: AtomicU64::new(0),
        ends: AtomicBool::new(false),
        switch,
    });
    for round in 0..ROUNDS_MAX {
        let Ok(subject) = S::open(folder) else { break };
        let Ok(found) = subject.look() else { break };
        let next = found.transactions.last().map_or(0, |planned| planned.number) + 1;
        common.recorder.record(Record::Opened(next));
        submit_again(&subject, &found.transactions, &common.recorder);
        drop(found);
        let round = Arc::new(Round {
            common: common.clone(),
            folder: folder.to_owned(),
            queue: Mutex::new(Queue {
                subject,
                next,
                submissions: 0,
                random: fastrand::Rng::with_seed(seed ^ round as u64),
            }),
            stops: AtomicBool::new(false),
        });
        let threads: Vec<_> = run
            .threads
            .iter()
            .map(|&style| {
                let round = round.clone();
                thread::spawn(move || round.submit(style))
            })
            .collect();
        for thread in threads {
            if thread.join().is_err() {
                process::exit(4);
            }
        }
        let closed = round.queue().subject.close();
        if common.ends.load(SeqCst) && run.end == End::Close {
            return closed;
        }
    }
    Ok(())
}

/// Submits the latest transactions again: each is there, so none may be applied once more.
fn submit_again(subject: &impl Subject, there: &[Planned], recorder: &Recorder) {
    let again = there.iter().rev().take(AGAIN);
    let submitted: Vec<_> = again
        .filter_map(|planned| Some((planned.number, subject.submit_again(*planned)?)))
        .collect();
    for (number, ticket) in submitted {
        let came = ticket();
        match came.outcome {
            Outcome::Committed if came.is_repeated => recorder.record(Record::Repeated(number)),
            Outcome::Committed => recorder.record(Record::WrongOutcome),
            _ if came.contradicts => recorder.record(Record::WrongOutcome),
            _ => {} // the disk has failed
        }
    }
}

struct Common {
    recorder: Recorder,
    run: Run,
    acknowledged: AtomicU64,
    /// It has acknowledged as many as it should.
    ends: AtomicBool,
    switch: Switch,
}

/// From one opening of the database to a failure or the end.
struct Round<S> {
    common: Arc<Common>,
    folder: std::path::PathBuf,
    queue: Mutex<Queue<S>>,
    stops: AtomicBool,
}

struct Queue<S> {
    subject: S,
    next: u64,
    submissions: u64,
    random: fastrand::Rng,
}

/// What a submission came to at once.
enum Submitted {
    Waiting(u64, Waiting),
    Done(u64, Came),
    CalledBack,
}

impl<S: Subject> Round<S> {
    fn queue(&self) -> MutexGuard<'_, Queue<S>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread: submits, and waits for what it submitted, until something fails or the run ends.
    fn submit(self: &Arc<Self>, style: Style) {
        let mut waiting = VecDeque::new();
        let in_flight = Arc::new((Mutex::new(0_usize), Condvar::new()));
        let most = match style {
            Style::Tickets(n) | Style::Callbacks(n) => n,
            Style::Paced(_) => PACED_MAX,
            Style::Blocking => 1,
        };
        let mut random = fastrand::Rng::new(); // the system decides anyway when a pause ends
        while !self.stops.load(SeqCst) {
            match self.submit_one(style, &in_flight) {
                Some(Submitted::Waiting(number, ticket)) => waiting.push_back((number, ticket)),
                Some(Submitted::Done(number, came)) => self.came_and_read(number, &came),
                Some(Submitted::CalledBack) => {
                    let mut count = in_flight.0.lock().unwrap_or_else(PoisonError::into_inner);
                    while *count >= most {
                        count = in_flight.1.wait(count).unwrap_or_else(PoisonError::into_inner);
                    }
                }
                None => {}
            }
            if waiting.len() >= most
                && let Some((number, ticket)) = waiting.pop_front()
            {
                self.came_and_read(number, &ticket());
            }
            if let Style::Paced(us) = style {
                thread::sleep(Duration::from_micros(random.u64(..=2 * us)));
            }
        }
        for (number, ticket) in waiting {
            self.came(number, &ticket());
        }
        let mut count = in_flight.0.lock().unwrap_or_else(PoisonError::into_inner);
        while *count > 0 {
            count = in_flight.1.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn submit_one(
        self: &Arc<Self>,
        style: Style,
        in_flight: &Arc<(Mutex<usize>, Condvar)>,
    ) -> Option<Submitted> {
        let run = &self.common.run;
        let mut queue = self.queue();
        queue.submissions += 1;
        let due = |every: Option<u64>| every.is_some_and(|n| queue.submissions.is_multiple_of(n));
        let (tidy, reopen, fail) =
            (due(run.tidy_every), due(run.reopen_every), due(run.fail_every));
        if tidy {
            let choice = queue.random.u64(..);
            queue.subject.tidy(choice);
        }
        if reopen && !self.reopen(&mut queue) {
            self.stops.store(true, SeqCst);
            return None;
        }
        if fail {
            let failing = if queue.random.bool() { Failing::Error } else { Failing::Panic };
            let ticket = queue.subject.submit_failing(failing);
            drop(queue);
            if ticket().outcome == Outcome::Committed {
                self.common.recorder.record(Record::WrongOutcome);
            }
            return None;
        }
        let planned = Planned {
            number: queue.next,
            items: queue.random.u32(0..=run.items_max),
            bytes: queue.random.u32(1..=run.bytes_max),
        };
        queue.next += 1;
        Some(match style {
            Style::Tickets(_) => Submitted::Waiting(planned.number, queue.subject.submit(planned)),
            Style::Blocking => Submitted::Done(planned.number, queue.subject.transact(planned)),
            Style::Callbacks(_) | Style::Paced(_) => {
                *in_flight.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                let (round, in_flight) = (self.clone(), in_flight.clone());
                let then = Box::new(move |came: Came| {
                    let _acknowledged = round.came(planned.number, &came);
                    *in_flight.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
                    in_flight.1.notify_all();
                });
                queue.subject.submit_then(planned, then);
                Submitted::CalledBack
            }
        })
    }

    /// Closes and opens the database, between two submissions.
    fn reopen(&self, queue: &mut Queue<S>) -> bool {
        if queue.subject.close().is_err() {
            return false;
        }
        let opened = S::open(&self.folder);
        opened.map(|subject| queue.subject = subject).is_ok()
    }

    /// As [`Self::came`], and a durable read now and then, which a callback must not block for.
    fn came_and_read(&self, number: u64, came: &Came) {
        let acknowledged = self.came(number, came);
        if self
            .common
            .run
            .read_every
            .is_some_and(|n| acknowledged.is_some_and(|a| a.is_multiple_of(n)))
        {
            self.read_durable();
        }
    }

    /// Records what a transaction came to, and ends the run when it is the last; returns how many
    /// are acknowledged by now, if this one is.
    fn came(&self, number: u64, came: &Came) -> Option<u64> {
        let recorder = &self.common.recorder;
        // Its number is new.
        if came.is_repeated || came.contradicts {
            recorder.record(Record::WrongOutcome);
        }
        match came.outcome {
            Outcome::Committed => recorder.record(Record::Acknowledged(number)),
            Outcome::Rejected | Outcome::NotRun => recorder.record(Record::WithoutEffect(number)),
            Outcome::Unknown => recorder.record(Record::Unknown(number)),
        }
        if came.outcome != Outcome::Committed {
            if !self.stops.swap(true, SeqCst) {
                eprintln!("transaction {number}: {}", came.why);
            }
            return None;
        }
        let acknowledged = self.common.acknowledged.fetch_add(1, SeqCst) + 1;
        if acknowledged == self.common.run.acknowledgements {
            self.end();
        }
        Some(acknowledged)
    }

    fn read_durable(&self) {
        // A clone, so that nobody waits for the lock while the read flushes.
        let Ok(queue) = self.queue.try_lock() else { return };
        let subject = queue.subject.clone();
        drop(queue);
        if let Some(head) = subject.read_durable() {
            self.common.recorder.record(Record::ReadDurable(head));
        }
    }

    /// The end of the run, on a thread of its own while the others go on.
    fn end(&self) {
        self.common.ends.store(true, SeqCst);
        let common = self.common.clone();
        match common.run.end {
            End::Close => self.stops.store(true, SeqCst),
            end => {
                thread::spawn(move || {
                    let began = Instant::now();
                    let linger = Duration::from_micros(common.run.linger_us);
                    while began.elapsed() < linger {
                        thread::yield_now();
                    }
                    if end == End::Kill {
                        let own = nix::unistd::Pid::this();
                        let _gone = nix::sys::signal::kill(own, nix::sys::signal::SIGKILL);
                        return;
                    }
                    // A device loses power in one moment: no flush that ends later succeeds.
                    if matches!(common.switch, Switch::Shutdown(_)) {
                        common.recorder.record(Record::Cutting);
                    }
                    if let Err(error) = common.switch.cut() {
                        eprintln!("cannot cut the power: {error:#}");
                        process::exit(3);
                    }
                });
            }
        }
    }
}
