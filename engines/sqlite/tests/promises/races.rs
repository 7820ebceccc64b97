//! Everything at once: threads that die in the middle, futures that are dropped, wakers that panic,
//! cancels, deadlines, and a close amid all of it. Whatever happens, what was acknowledged is there,
//! what was refused is not, every callback is called once, and nothing is left in flight.

use std::{
    collections::BTreeSet,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Wake, Waker},
    thread,
    time::Duration,
};

use fastrand::Rng;
use groupcommit_sqlite::{Database, Failure, Limits, NotRun, Terms, Ticket, Transaction, rusqlite};

use crate::common::{Done, Scratch, insert};

/// What is known of a transaction by its id.
#[derive(Debug, Default)]
struct Fates {
    committed: BTreeSet<i64>,
    /// Refused, cancelled, late, rejected: not there.
    without_effect: BTreeSet<i64>,
    /// Nobody waited: there or not.
    unseen: BTreeSet<i64>,
}

struct PanicsWhenWoken;

impl Wake for PanicsWhenWoken {
    fn wake(self: Arc<Self>) {
        panic!("a test's panic in a waker");
    }
}

type Outcome = Result<usize, Failure<rusqlite::Error>>;

impl Fates {
    fn settle(&mut self, id: i64, outcome: &Outcome) {
        match outcome {
            Ok(_) => self.committed.insert(id),
            Err(
                Failure::Rejected(_)
                | Failure::NotRun(
                    NotRun::Closed
                    | NotRun::Cancelled
                    | NotRun::DeadlinePassed
                    | NotRun::Overloaded,
                ),
            ) => self.without_effect.insert(id),
            Err(other) => panic!("{id}: {other:?}"),
        };
    }

    fn check(&self, test: &Scratch) {
        let there: BTreeSet<i64> = test.ids().into_iter().collect();
        let lost: Vec<_> = self.committed.difference(&there).collect();
        assert!(lost.is_empty(), "acknowledged and not there: {lost:?}");
        let phantoms: Vec<_> = self.without_effect.intersection(&there).collect();
        assert!(phantoms.is_empty(), "refused and there: {phantoms:?}");
        let known = |id: &&i64| !self.committed.contains(id) && !self.unseen.contains(id);
        let strangers: Vec<_> = there.iter().filter(known).collect();
        assert!(strangers.is_empty(), "nobody submitted {strangers:?}");
    }
}

/// What all threads of a test share.
struct Ground {
    db: Database,
    ids: AtomicI64,
    fates: Mutex<Fates>,
    callbacks_owed: AtomicI64,
}

fn writes(id: i64, odd: u8) -> impl FnMut(&mut Transaction<'_>) -> Done<usize> + Send + 'static {
    move |tx| {
        let rows = insert(tx, id)?;
        match odd {
            0 => panic!("on purpose"),
            1 => Err(rusqlite::Error::InvalidQuery),
            2 => tx.execute("INSERT OR ROLLBACK INTO t VALUES (?1, 0)", [id]),
            _ => Ok(rows),
        }
    }
}

impl Ground {
    fn new(test: &Scratch, limits: Limits) -> Arc<Self> {
        let db = Database::options().limits(limits).open(&test.path).unwrap();
        Arc::new(Self {
            db,
            ids: AtomicI64::new(0),
            fates: Mutex::default(),
            callbacks_owed: AtomicI64::new(0),
        })
    }

    /// One thing that a caller may do; keeps tickets to be waited for later.
    fn act(
        self: &Arc<Self>,
        rng: &mut Rng,
        tickets: &mut Vec<(i64, Ticket<usize, rusqlite::Error>)>,
    ) {
        let id = self.ids.fetch_add(1, Relaxed);
        let transaction = writes(id, rng.u8(0..40));
        let settle = |outcome: &Outcome| self.fates.lock().unwrap().settle(id, outcome);
        let unseen = || self.fates.lock().unwrap().unseen.insert(id);
        let in_haste = rng.u8(0..4) == 0;
        let submission = if in_haste {
            self.db.with(Terms::new().deadline(Duration::from_micros(300)))
        } else {
            self.db.with(Terms::new())
        };
        match rng.u8(0..10) {
            0 => settle(&self.db.transact(transaction)),
            1 => {
                let ticket = submission.submit(transaction);
                let _too_late = !ticket.cancel();
                tickets.push((id, ticket));
            }
            2 => match self.db.try_submit(transaction) {
                Ok(ticket) => tickets.push((id, ticket)),
                Err(refused) => settle(&Err(refused.reason.into())),
            },
            3 => {
                unseen();
                drop(self.db.submit(transaction));
            }
            4 => {
                unseen();
                let mut ticket = self.db.submit(transaction);
                let waker = Waker::from(Arc::new(PanicsWhenWoken));
                let polled = Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker));
                // Some are dropped with the waker in place, some are forgotten with it.
                if polled.is_pending() && rng.bool() {
                    std::mem::forget(ticket);
                }
            }
            5 => {
                unseen();
                let mut submission = pin!(self.db.submit_async(transaction));
                // Admitted, or dropped while it waits for room.
                let _dropped =
                    submission.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
            }
            6 => {
                self.callbacks_owed.fetch_add(1, Relaxed);
                let ground = self.clone();
                self.db.submit_then(transaction, move |outcome| {
                    ground.callbacks_owed.fetch_sub(1, Relaxed);
                    ground.fates.lock().unwrap().settle(id, &outcome);
                });
            }
            7 => {
                unseen();
                let counted = self.db.read_durable(|conn| -> Done<i64> {
                    conn.query_row("SELECT count(*) FROM t", (), |row| row.get(0))
                });
                assert!(
                    matches!(counted, Ok(_) | Err(Failure::NotRun(NotRun::Closed))),
                    "{counted:?}"
                );
            }
            8 if rng.u8(0..8) == 0 => {
                settle(
                    &self.db.exclusive(move |conn| {
                        conn.execute("INSERT INTO t (id) VALUES (?1)", [id])
                    }),
                );
            }
            _ => tickets.push((id, submission.submit(transaction))),
        }
    }

    fn settle_all(&self, tickets: Vec<(i64, Ticket<usize, rusqlite::Error>)>) {
        for (id, ticket) in tickets {
            let outcome = ticket.wait();
            self.fates.lock().unwrap().settle(id, &outcome);
        }
    }

    fn wait_for_callbacks(&self) {
        while self.callbacks_owed.load(Relaxed) > 0 {
            thread::yield_now();
        }
        assert_eq!(self.callbacks_owed.load(Relaxed), 0, "one was called twice");
    }
}

#[test]
fn threads_that_die_take_nothing_with_them() {
    for seed in 0..6 {
        let test = Scratch::with_table();
        let ground = Ground::new(&test, Limits::new(64, 1 << 20));
        let died = AtomicU64::new(0);
        thread::scope(|scope| {
            for thread in 0..8 {
                let (ground, died) = (&ground, &died);
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(seed * 8 + thread);
                    let ended = catch_unwind(AssertUnwindSafe(|| {
                        let mut tickets = Vec::new();
                        for _ in 0..rng.usize(20..150) {
                            ground.act(&mut rng, &mut tickets);
                        }
                        if thread % 2 == 0 {
                            // With its tickets unresolved in its hands.
                            let mut fates = ground.fates.lock().unwrap();
                            fates.unseen.extend(tickets.iter().map(|(id, _)| *id));
                            drop(fates);
                            panic!("a thread of a test dies");
                        }
                        ground.settle_all(tickets);
                    }));
                    died.fetch_add(u64::from(ended.is_err()), Relaxed);
                });
            }
        });
        assert_eq!(died.into_inner(), 4);
        ground.db.flush().unwrap();
        ground.wait_for_callbacks();
        assert_eq!(ground.db.transact(|tx| insert(tx, -1)).unwrap(), 1);
        let mut fates = ground.fates.lock().unwrap();
        fates.committed.insert(-1);
        fates.check(&test);
        assert_eq!(ground.db.stats().in_flight, 0);
    }
}

/// Waits at a barrier when it is dropped, also by a panic: else the others would wait there for ever.
struct Arrives<'a>(&'a Barrier);

impl Drop for Arrives<'_> {
    fn drop(&mut self) {
        self.0.wait();
    }
}

#[test]
fn closing_amid_everything_resolves_everything() {
    for seed in 0..6 {
        let test = Scratch::with_table();
        let ground = Ground::new(&test, Limits::new(32, 1 << 20));
        let begun = Barrier::new(7);
        thread::scope(|scope| {
            for thread in 0..6 {
                let (ground, begun) = (&ground, &begun);
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(1_000 + seed * 8 + thread);
                    let mut tickets = Vec::new();
                    let mut arrives = Some(Arrives(begun));
                    for turn in 0..200 {
                        if turn == 40 {
                            drop(arrives.take());
                        }
                        ground.act(&mut rng, &mut tickets);
                    }
                    ground.settle_all(tickets);
                });
            }
            begun.wait();
            ground.db.close().unwrap();
        });
        ground.wait_for_callbacks();
        ground.fates.lock().unwrap().check(&test);
        assert_eq!(ground.db.stats().in_flight, 0);
        let refused = ground.db.transact(|tx| insert(tx, -1));
        assert!(matches!(refused, Err(Failure::NotRun(NotRun::Closed))), "{refused:?}");
    }
}
