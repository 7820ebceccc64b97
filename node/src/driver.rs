//! What one database has under way for one thread of JavaScript's, and how its outcomes come back.
//!
//! 1. Everything here happens on JavaScript's thread. All that another thread ever does is
//!    [`Signal::wake`].
//! 2. The event loop stays alive while something is under way, and no longer.

use std::{
    cell::RefCell,
    collections::HashMap,
    rc::{Rc, Weak},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Wake, Waker},
};

use futures_util::future::{AbortHandle, abortable};
use groupcommit_bindings::{
    Database, Deliveries,
    groupcommit::{
        Failure, NotRun, Terms,
        sql::{self, Engine, Statement, StatementsFailure},
    },
};
use napi::{
    Env, Error, Result, Status,
    bindgen_prelude::Function,
    threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode},
};

use crate::{
    delivery::{Answer, Delivery, answer},
    node_api::{Style, hold_memory, keep_loop_alive},
};

/// Calls JavaScript with what there is to deliver. Weak: it keeps no event loop alive by itself.
type Settle = ThreadsafeFunction<(), (), Delivery, Status, false, true>;

/// Wakes the driver from any thread: one call of JavaScript, until that has run.
#[derive(Default)]
struct Signal {
    settle: OnceLock<Settle>,
    is_raised: AtomicBool,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(settle) = self.settle.get()
            && !self.is_raised.swap(true, Ordering::AcqRel)
        {
            // Refused only when the environment ends, and then nobody waits any more.
            let _status = settle.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }
}

/// Memory that a database holds until its object is collected, also when it is closed: statistics, and
/// what the pipeline keeps at hand.
const MEMORY_BYTES: i64 = 48 * 1_024;

/// What one database has under way.
pub(crate) struct Driver {
    env: Env,
    /// Filled once it is open.
    pub(crate) database: Arc<OnceLock<Database>>,
    signal: Arc<Signal>,
    bigints: bool,
    state: RefCell<State>,
}

struct State {
    /// Each with the number that JavaScript gave it.
    deliveries: Deliveries<u32, Answer>,
    aborts: HashMap<u32, AbortHandle>,
    keeps_loop_alive: bool,
}

impl Driver {
    /// A driver that calls `settle` with what there is to deliver.
    pub(crate) fn new(env: Env, settle: &Function<'_, (), ()>, bigints: bool) -> Result<Rc<Self>> {
        let signal = Arc::new(Signal::default());
        let state = State {
            deliveries: Deliveries::new(Waker::from(signal.clone())),
            aborts: HashMap::new(),
            keeps_loop_alive: false,
        };
        let (database, state) = (Arc::default(), RefCell::new(state));
        let driver = Rc::new(Self { env, database, signal, bigints, state });
        hold_memory(env, MEMORY_BYTES);
        let weak = Rc::downgrade(&driver);
        let settle = settle
            .build_threadsafe_function::<()>()
            .weak::<true>()
            .build_callback(move |context| Ok(Self::deliver(&weak, context.env)))?;
        // It is empty: this is a new one.
        let _none_before = driver.signal.settle.set(settle);
        Ok(driver)
    }

    /// The database, for work.
    pub(crate) fn sql(&self) -> Result<&sql::Database> {
        let Some(database) = self.database.get() else {
            return Err(Error::from_reason("the database is not open"));
        };
        database.usable().map_err(|failure| Error::from_reason(failure.to_string()))
    }

    pub(crate) fn style(&self) -> Style {
        let none = Style { bigints: self.bigints, is_sqlite: false };
        self.sql().map_or(none, |database| self.style_of(database))
    }

    /// As [`style`](Self::style), of the database where it is known.
    pub(crate) fn style_of(&self, database: &sql::Database) -> Style {
        Style { bigints: self.bigints, is_sqlite: database.engine() == Engine::Sqlite }
    }

    /// Submits transactions, each with its number.
    pub(crate) fn submit(
        &self,
        env: Env,
        transactions: Vec<(u32, Vec<Statement>)>,
        terms: Terms,
    ) -> Result<()> {
        let database = self.sql()?.with(terms);
        let mut state = self.state.borrow_mut();
        for (number, statements) in transactions {
            state.deliveries.transact(&database, statements, number);
        }
        state.keep_loop_alive(env, &self.signal);
        Ok(())
    }

    /// Does other work.
    pub(crate) fn spawn(
        &self,
        env: Env,
        number: u32,
        work: impl Future<Output = Answer> + Send + 'static,
    ) {
        let (work, abort) = abortable(work);
        let work = async move {
            work.await.unwrap_or_else(|_| {
                answer::<(), StatementsFailure>(Err(Failure::NotRun(NotRun::Cancelled)))
            })
        };
        let mut state = self.state.borrow_mut();
        state.aborts.insert(number, abort);
        state.deliveries.spawn(number, work);
        state.keep_loop_alive(env, &self.signal);
    }

    /// Withdraws the transaction of this number if it is still queued, or ends other work.
    pub(crate) fn cancel(&self, number: u32) {
        let mut state = self.state.borrow_mut();
        match state.aborts.get(&number) {
            Some(abort) => abort.abort(),
            None => state.deliveries.cancel(&number),
        }
    }

    fn deliver(driver: &Weak<Self>, env: Env) -> Delivery {
        let Some(driver) = driver.upgrade() else { return Delivery::default() };
        // Lowered first: what happens from now on raises it again.
        driver.signal.is_raised.store(false, Ordering::Release);
        let style = driver.style();
        let mut state = driver.state.borrow_mut();
        let delivered = state.deliveries.take();
        if !state.aborts.is_empty() {
            delivered.iter().for_each(|(number, _)| drop(state.aborts.remove(number)));
        }
        state.keep_loop_alive(env, &driver.signal);
        Delivery { delivered, style }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        hold_memory(self.env, -MEMORY_BYTES);
    }
}

impl State {
    fn keep_loop_alive(&mut self, env: Env, signal: &Signal) {
        let keep = !self.deliveries.is_empty();
        if keep != self.keeps_loop_alive
            && let Some(settle) = signal.settle.get()
        {
            self.keeps_loop_alive = keep;
            keep_loop_alive(env, settle.raw(), keep);
        }
    }
}
