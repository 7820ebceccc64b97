//! The callers: threads that submit in every way there is, and one that watches tickets of all.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use groupcommit_core::{Failure, Limits, NotRun, Pipeline, Terms, Ticket};
use shuttle::{future::block_on, sync::Mutex, thread};

use crate::{
    engine::{SimulatedEngine, Tx, panic_expected},
    history::{Act, How, Result64, Told, World},
};

pub(crate) type Handle = Ticket<u64, &'static str>;

/// A ticket that its submitter has given to the watcher.
pub(crate) struct Handed {
    id: u64,
    begun: usize,
    submitted: usize,
    bytes: usize,
    /// Resolved as soon as it was there: perhaps never admitted, so no part of the order.
    at_once: bool,
    ticket: Handle,
}

/// What the threads of a run share.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) world: Arc<World>,
    pub(crate) pipeline: Arc<Pipeline<SimulatedEngine>>,
    pub(crate) handed: Arc<Mutex<Vec<Handed>>>,
    pub(crate) limits: Limits,
    pub(crate) clients_ended: Arc<AtomicBool>,
    /// Of 16 transactions, how many have a deadline.
    pub(crate) deadlines_of_16: u8,
}

struct Noticed(AtomicBool);

impl Wake for Noticed {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Scene {
    /// The closure of transaction `id`.
    fn closure(
        &self,
        id: u64,
        act: Act,
    ) -> impl FnMut(&mut Tx) -> Result<u64, &'static str> + Send + 'static + use<> {
        let scene = self.clone();
        move |tx: &mut Tx| {
            tx.enter(id);
            scene.world.ran(id);
            if act != Act::Look {
                tx.put(id);
            }
            match act {
                Act::Put | Act::Look => Ok(id),
                Act::PutSlowly => {
                    scene.world.clock.sleep(1_500_000);
                    Ok(id)
                }
                Act::PutNested => {
                    scene.call_from_inside();
                    Ok(id)
                }
                Act::Fail => Err("no"),
                Act::Panic => panic_expected("a panic"),
            }
        }
    }

    /// What a transaction may do with its own pipeline, and what it may not.
    fn call_from_inside(&self) {
        let id = self.world.begin(How::Transact, Act::Put, None);
        let result = self.pipeline.transact(self.closure(id, Act::Put));
        if !matches!(result, Err(Failure::NotRun(NotRun::Reentrant))) {
            self.world.violation(format!("{id}: blocking inside a transaction: {result:?}"));
        }
        self.world.told(id, &result);
        self.try_submit(Act::Put, Terms::new());
    }

    fn try_submit(&self, act: Act, terms: Terms) -> Option<(u64, Handle)> {
        let id = self.begin(How::Try, act, terms);
        match self.pipeline.with(terms).try_submit(self.closure(id, act)) {
            Ok(ticket) => {
                self.world.submitted(id);
                Some((id, ticket))
            }
            Err(refused) => {
                self.world.told(id, &Err(refused.reason.into()));
                None
            }
        }
    }

    fn begin(&self, how: How, act: Act, terms: Terms) -> u64 {
        let deadline_ns =
            terms.deadline.map(|deadline| deadline.as_nanos().try_into().expect("short"));
        self.world.begin(how, act, deadline_ns)
    }

    fn terms(&self, rng: &mut fastrand::Rng) -> Terms {
        let deadline = (rng.u8(0..16) < self.deadlines_of_16)
            .then(|| Duration::from_nanos(rng.u64(0..3_000_000)));
        let bytes = if rng.bool() { 0 } else { rng.usize(0..self.limits.bytes * 2) };
        let mut terms = Terms::new().bytes(bytes);
        terms.deadline = deadline;
        terms
    }

    fn submit(&self, act: Act, terms: Terms) -> (u64, Handle) {
        let id = self.begin(How::Submit, act, terms);
        let ticket = self.pipeline.with(terms).submit(self.closure(id, act));
        self.world.submitted(id);
        (id, ticket)
    }

    fn hand_over(&self, (id, ticket): (u64, Handle), terms: Terms) {
        let at_once = ticket.is_resolved();
        let (begun, submitted) = {
            let history = self.world.history();
            let it = history.submissions.iter().find(|it| it.id == id).expect("begun");
            (it.begun, it.submitted.expect("submitted"))
        };
        let bytes = terms.bytes.min(self.limits.bytes);
        let handed = Handed { id, begun, submitted, bytes, at_once, ticket };
        self.handed.lock().expect("unpoisoned").push(handed);
    }

    /// One caller's work.
    pub(crate) fn client(&self, mut rng: fastrand::Rng, calls: usize) {
        let mut own: Vec<(u64, Handle)> = Vec::new();
        for _ in 0..calls {
            let act = [
                Act::Put,
                Act::Put,
                Act::Put,
                Act::Put,
                Act::Look,
                Act::PutSlowly,
                Act::PutNested,
                Act::Fail,
                Act::Panic,
            ][rng.usize(0..9)];
            let terms = self.terms(&mut rng);
            match rng.u8(0..17) {
                0..3 => self.hand_over(self.submit(act, terms), terms),
                3 => own.push(self.submit(act, terms)),
                4 => drop(self.submit(act, terms)),
                5 => {
                    let (id, ticket) = self.submit(act, terms);
                    self.wait(id, ticket, &mut rng);
                }
                6 => {
                    let (id, ticket) = self.submit(act, terms);
                    self.pause(&mut rng);
                    self.cancel(id, &ticket);
                    self.hand_over((id, ticket), terms);
                }
                7 | 8 => self.transact(act, terms),
                9 => own.extend(self.try_submit(act, terms)),
                10 | 11 => self.submit_then(act, terms, rng.fork()),
                12 => self.submit_async(act, terms, &mut rng),
                13 => self.abandon(act, terms, &mut rng),
                14 => self.exclusive(act),
                15 => self.flush(&own, rng.bool()),
                _ => self.pause(&mut rng),
            }
            // From the last to the first: one that is resolved implies all before it.
            let resolved: Vec<bool> = own.iter().rev().map(|(_, it)| it.is_resolved()).collect();
            let first = resolved.iter().position(|is_resolved| *is_resolved);
            let admitted = !self.world.closing.load(Ordering::Relaxed)
                && !self.world.disk.has_failed()
                && self.deadlines_of_16 == 0;
            if admitted && first.is_some_and(|first| resolved[first..].contains(&false)) {
                self.world.violation(format!("resolved out of order: {resolved:?}, last first"));
            }
        }
        for (id, ticket) in own {
            self.wait(id, ticket, &mut rng);
        }
    }

    fn pause(&self, rng: &mut fastrand::Rng) {
        self.world.clock.sleep(rng.u64(0..400_000));
    }

    fn cancel(&self, id: u64, ticket: &Handle) {
        if ticket.cancel() {
            self.world.cancelled(id);
        }
    }

    /// Waits in one of the ways in which a ticket can be waited for.
    fn wait(&self, id: u64, mut ticket: Handle, rng: &mut fastrand::Rng) {
        let result = match rng.u8(0..3) {
            0 => ticket.wait(),
            1 => block_on(ticket),
            _ => {
                // Polled by two in turn; the last to ask is woken.
                let wakers = [(); 2].map(|()| Arc::new(Noticed(AtomicBool::new(false))));
                let mut polls = 0;
                loop {
                    let notice = &wakers[polls % 2];
                    notice.0.store(false, Ordering::Relaxed);
                    let waker = Waker::from(notice.clone());
                    let polled = Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker));
                    if let Poll::Ready(result) = polled {
                        break result;
                    }
                    polls += 1;
                    if polls < 4 {
                        thread::yield_now();
                    } else {
                        while !notice.0.load(Ordering::Relaxed) {
                            thread::yield_now();
                        }
                    }
                }
            }
        };
        self.world.told(id, &result);
    }

    fn transact(&self, act: Act, terms: Terms) {
        let id = self.begin(How::Transact, act, terms);
        let result = self.pipeline.with(terms).transact(self.closure(id, act));
        self.world.submitted(id);
        self.world.told(id, &result);
    }

    fn exclusive(&self, act: Act) {
        let id = self.world.begin(How::Exclusive, act, None);
        let result = self.pipeline.exclusive(self.closure(id, act));
        self.world.submitted(id);
        self.world.told(id, &result);
    }

    fn submit_then(&self, act: Act, terms: Terms, mut rng: fastrand::Rng) {
        let id = self.begin(How::Then, act, terms);
        let scene = self.clone();
        self.pipeline.with(terms).submit_then(self.closure(id, act), move |result: Result64| {
            scene.world.called_back(id, &result);
            match rng.u8(0..8) {
                0 => scene.pause(&mut rng),
                1 => panic_expected("a callback's panic"),
                2 => scene.submit_then(Act::Put, Terms::new(), rng.fork()),
                _ => {}
            }
        });
        self.world.submitted(id);
    }

    fn submit_async(&self, act: Act, terms: Terms, rng: &mut fastrand::Rng) {
        let id = self.begin(How::Async, act, terms);
        let ticket = block_on(self.pipeline.with(terms).submit_async(self.closure(id, act)));
        self.world.submitted(id);
        if rng.bool() {
            self.wait(id, ticket, rng);
        } else {
            self.hand_over((id, ticket), terms);
        }
    }

    /// Begins to submit and gives up after some polls.
    fn abandon(&self, act: Act, terms: Terms, rng: &mut fastrand::Rng) {
        let id = self.begin(How::Async, act, terms);
        let submitter = self.pipeline.with(terms);
        let mut submission = pin!(submitter.submit_async(self.closure(id, act)));
        for _ in 0..rng.u8(0..4) {
            let polled = submission.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(ticket) = polled {
                self.world.submitted(id);
                drop(ticket); // neither cancels nor leaks
                return;
            }
            self.pause(rng);
        }
        self.world.event(format_args!("{id}: abandoned"));
    }

    fn flush(&self, own: &[(u64, Handle)], force: bool) {
        self.world.event("flush begins");
        let flushed: Result<(), Failure<&'static str>> = if force {
            self.pipeline.flush_others()
        } else {
            self.pipeline.flush().map_err(|failure| failure.map_caller(|never| match never {}))
        };
        let at = self.world.event(format_args!("flush ends: {}", flushed.is_ok()));
        match flushed {
            Ok(()) => {}
            Err(Failure::NotRun(NotRun::Failed(_)) | Failure::Unknown(_)) => {
                if !self.world.disk.has_failed() {
                    self.world.violation("flush failed on a disk that has not".into());
                }
                self.world.failure_seen(at);
            }
            Err(other) => self.world.violation(format!("flush came to {other:?}")),
        }
        for (id, _) in own.iter().filter(|(_, ticket)| !ticket.is_resolved()) {
            self.world.violation(format!("{id} is not resolved after flush"));
        }
    }

    /// Closes while the others submit.
    pub(crate) fn close(&self) {
        self.world.closing.store(true, Ordering::Relaxed);
        let began = self.world.event("close begins");
        let closed = self.pipeline.close();
        self.world.event(format_args!("close ends: {}", closed.is_ok()));
        if closed.is_err() && !self.world.disk.has_failed() {
            self.world.violation(format!("close came to {closed:?}"));
        }
        let handed = self.handed.lock().expect("unpoisoned");
        for it in handed.iter().filter(|it| it.submitted < began && !it.ticket.is_resolved()) {
            self.world.violation(format!("{} is not resolved after close", it.id));
        }
    }

    /// Looks at the tickets of all clients until these have ended.
    pub(crate) fn watch(&self, mut rng: fastrand::Rng) {
        loop {
            let ended = self.clients_ended.load(Ordering::Relaxed);
            self.look_at_tickets();
            let taken = {
                let mut handed = self.handed.lock().expect("unpoisoned");
                let count = handed.len();
                (count > 0 && (ended || rng.u8(0..4) == 0))
                    .then(|| handed.swap_remove(rng.usize(0..count)))
            };
            match taken {
                None if ended => return,
                None => thread::yield_now(),
                Some(it) => self.finish(it, &mut rng, ended),
            }
        }
    }

    fn finish(&self, mut it: Handed, rng: &mut fastrand::Rng, ended: bool) {
        match rng.u8(0..6) {
            0 if !ended => drop(it.ticket),
            1 if !ended => {
                if !self.world.history().submissions.iter().any(|s| s.id == it.id && s.cancelled) {
                    self.cancel(it.id, &it.ticket);
                }
                self.wait(it.id, it.ticket, rng);
            }
            2 => match it.ticket.wait_timeout(Duration::ZERO) {
                Some(result) => self.world.told(it.id, &result),
                None => self.handed.lock().expect("unpoisoned").push(it),
            },
            _ => self.wait(it.id, it.ticket, rng),
        }
    }

    /// The order of resolution, and how much is in flight, judged without the pipeline's own account.
    fn look_at_tickets(&self) {
        let mut handed = self.handed.lock().expect("unpoisoned");
        handed.sort_by_key(|it| std::cmp::Reverse(it.submitted));
        let mut resolved: Option<&Handed> = None;
        let mut in_flight = (0, 0);
        for it in handed.iter() {
            if it.ticket.is_resolved() {
                if !it.at_once && resolved.is_none_or(|other| other.begun < it.begun) {
                    resolved = Some(it);
                }
            } else {
                in_flight = (in_flight.0 + 1, in_flight.1 + it.bytes);
                if let Some(later) = resolved.filter(|later| it.submitted < later.begun) {
                    let what = format!("{} is resolved and {} before it is not", later.id, it.id);
                    self.world.violation(what);
                }
            }
        }
        // Those whose flush has returned have left admission when others find them unresolved yet, all
        // of one flush at most.
        let Limits { transactions, bytes, .. } = self.limits;
        if in_flight.0 > 2 * transactions || in_flight.1 > 2 * bytes {
            self.world.violation(format!("{in_flight:?} in flight, limits {:?}", self.limits));
        }
        drop(handed);
        let counted = self.pipeline.stats().in_flight;
        if counted > transactions {
            self.world.violation(format!("{counted} are admitted, limits {:?}", self.limits));
        }
    }

    /// The pipeline's own account, once nothing is under way.
    pub(crate) fn check_counts(&self) {
        let stats = self.pipeline.stats();
        let history = self.world.history();
        let entered = history
            .submissions
            .iter()
            .filter(|it| it.submitted.is_some())
            .filter(|it| !matches!(it.told, Some((Told::Reentrant, _)) if it.how == How::Transact))
            .count() as u64;
        let counted = stats.committed + stats.rejected + stats.not_run + stats.unknown;
        drop(history);
        if (stats.in_flight, stats.queued) != (0, 0) || counted != entered {
            self.world.violation(format!("{entered} were submitted, and {stats:?}"));
        }
    }
}
