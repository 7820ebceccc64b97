//! A few connections that reads share, opened when they are needed.
//!
//! ```text
//!   a read ──► a free connection
//!      └─────► none: it waits, and one more is opened beside it, within the bound
//!                 ▲ first come, first served, by whichever is there first:
//!                 ├── a connection that is given back
//!                 ├── one that has been opened
//!                 └── where as many wait as there may be connections: one in use, behind its reads
//! ```
//!
//! A new connection costs a server far more than a short read does, the more so on a busy machine; so
//! no read waits for one to be opened while another becomes free. And a read that is sent behind
//! another waits for that one, however long it takes, while others become free; so that is left for
//! the time when there are so many that no connection should rest between an answer and the next
//! question.
//!
//! A connection is served by the runtime of the caller for whom it is opened, if that has threads of
//! its own: an answer then goes to that runtime's thread at once. When the runtime ends, so does the
//! connection, and another takes its place when it is needed.
//!
//! Invariants:
//! 1. Never more connections than the bound, from when one begins to be opened until its last read
//!    is over; but for one that is replaced, while what it does is being ended.
//! 2. Those who wait are served in order.
//! 3. Whoever waits is served or refused: while somebody waits, a connection is in use, is being
//!    opened, or will be after a pause.
//! 4. Nothing of a caller's, and no connection's destructor, runs under the lock.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::{runtime::Handle, sync::oneshot};

use crate::runtime::{self, NoThread};

/// Reads that wait for each connection that is being opened: it serves more than one, and opening many
/// at once keeps the server from everything else.
const WAITING_FOR_EACH: usize = 2;

/// How long nothing is opened after a connection could not be, while there are others.
const OPEN_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// How connections for reads are opened.
pub trait Open: Send + Sync + 'static {
    /// An open connection.
    type Connection: Send + Sync + 'static;

    /// Why there is none.
    type Error: From<NoThread> + Send + Sync + 'static;

    /// How many reads may be on their way over one connection. With 1, each has one for itself.
    const READS_MAX: usize;

    /// Opens a connection, which is served by the runtime that this runs in: see
    /// [`runtime::near`].
    fn open(&self) -> impl Future<Output = Result<Self::Connection, Self::Error>> + Send;

    /// Whether the connection is good for another read, as far as is known without asking the
    /// server. It is called under a lock: it neither blocks nor calls [`Lines`].
    fn is_usable(connection: &Self::Connection) -> bool;
}

/// Why a read was given no connection.
#[derive(Debug)]
pub enum Refused<E> {
    /// [`Lines::close`] was called.
    Closed,
    /// None could be opened, and none is there.
    NotOpened(Arc<E>),
}

/// The connections; see the module.
pub struct Lines<O: Open> {
    shared: Arc<Shared<O>>,
}

struct Shared<O: Open> {
    open: O,
    most: usize,
    state: Mutex<State<O>>,
    /// A caller's runtime could open none.
    stays_away: AtomicBool,
}

type Answer<O> = Result<Lent<O>, Refused<<O as Open>::Error>>;

struct State<O: Open> {
    /// Those that exist, the one that became free last at the end: its caches are the warmest.
    lines: Vec<Line<O::Connection>>,
    opening: usize,
    /// None is opened for a while: one could not be.
    is_pausing: bool,
    waiting: VecDeque<oneshot::Sender<Answer<O>>>,
    is_closed: bool,
}

struct Line<C> {
    connection: Arc<C>,
    reads: usize,
    /// No other read is to come.
    is_retired: bool,
}

impl<O: Open> State<O> {
    /// The line that serves the next who waits, if one does.
    fn next_line(&self, most: usize) -> Option<usize> {
        let serves =
            |line: &Line<O::Connection>| !line.is_retired && O::is_usable(&line.connection);
        let free = self.lines.iter().rposition(|line| line.reads == 0 && serves(line));
        if free.is_some() || self.waiting.len() < most {
            return free;
        }
        let shared = self.lines.iter().enumerate().filter(|(_, line)| serves(line));
        let (index, least) = shared.min_by_key(|(_, line)| line.reads)?;
        (least.reads < O::READS_MAX).then_some(index)
    }

    /// Whether somebody waits; forgets the first ones that do not any more.
    fn has_waiter(&mut self) -> bool {
        while self.waiting.pop_front_if(|waiter| waiter.is_closed()).is_some() {}
        !self.waiting.is_empty()
    }

    /// Takes away what serves nobody any more, to be dropped without the lock.
    fn take_gone(&mut self) -> Vec<Line<O::Connection>> {
        let is_gone = |line: &mut Line<O::Connection>| {
            line.reads == 0 && (line.is_retired || !O::is_usable(&line.connection))
        };
        self.lines.extract_if(.., is_gone).collect()
    }

    fn place_of(&self, connection: &Arc<O::Connection>) -> Option<usize> {
        self.lines.iter().position(|line| Arc::ptr_eq(&line.connection, connection))
    }
}

impl<O: Open> Shared<O> {
    fn lock(&self) -> MutexGuard<'_, State<O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves those who wait as far as that goes, and has connections opened for the others.
    fn serve(self: &Arc<Self>, mut state: MutexGuard<'_, State<O>>) {
        let mut served = Vec::new();
        while state.has_waiter()
            && let Some(index) = state.next_line(self.most)
            && let Some(waiter) = state.waiting.pop_front()
        {
            let line = &mut state.lines[index];
            line.reads += 1;
            let connection = line.connection.clone();
            served.push((waiter, Lent { shared: self.clone(), connection }));
        }
        // Behind those that were lent: what was usable then may be gone by now.
        let gone = state.take_gone();
        let most = if state.is_pausing { 0 } else { self.most };
        let room = most.saturating_sub(state.lines.len() + state.opening);
        let wanted = state.waiting.len().div_ceil(WAITING_FOR_EACH);
        let needed = wanted.saturating_sub(state.opening).min(room);
        state.opening += needed;
        drop(state);
        drop(gone);
        for (waiter, lent) in served {
            // Who does not wait any more gives it back by that.
            drop(waiter.send(Ok(lent)));
        }
        for _ in 0..needed {
            self.open_one();
        }
    }

    fn open_one(self: &Arc<Self>) {
        let opening = Opening { shared: self.clone(), is_elsewhere: false, is_over: false };
        match runtime::near() {
            Ok(handle) if !self.stays_away.load(Ordering::Relaxed) => opening.begin(&handle),
            _ => opening.begin_elsewhere(),
        }
    }

    fn opened(self: &Arc<Self>, opened: Result<O::Connection, O::Error>) {
        let mut state = self.lock();
        state.opening -= 1;
        match opened {
            Ok(_) if state.is_closed => {}
            Ok(connection) => {
                let connection = Arc::new(connection);
                state.lines.push(Line { connection, reads: 0, is_retired: false });
                self.serve(state);
            }
            Err(error) => {
                let gone = state.take_gone();
                if state.opening > 0 || !state.lines.is_empty() {
                    tracing::debug!("a connection for reads could not be opened");
                    // Who waits is served by those that there are; but they may be in use for as long
                    // as whoever waits does not go on.
                    let pauses = state.opening == 0 && state.has_waiter() && !state.is_pausing;
                    state.is_pausing |= pauses;
                    drop(state);
                    drop(gone);
                    if pauses {
                        self.open_later();
                    }
                    return;
                }
                let waiting = std::mem::take(&mut state.waiting);
                drop(state);
                drop(gone);
                let error = Arc::new(error);
                for waiter in waiting {
                    drop(waiter.send(Err(Refused::NotOpened(error.clone()))));
                }
            }
        }
    }

    /// Tries again after a pause, in which nothing is opened: the server may have as many connections
    /// as it allows.
    fn open_later(self: &Arc<Self>) {
        let shared = self.clone();
        let over = move || {
            let mut state = shared.lock();
            state.is_pausing = false;
            shared.serve(state);
        };
        match runtime::handle() {
            Ok(handle) => drop(handle.spawn(async move {
                tokio::time::sleep(OPEN_AGAIN_AFTER).await;
                over();
            })),
            Err(_) => over(),
        }
    }

    fn give_back(self: &Arc<Self>, connection: &Arc<O::Connection>) {
        let mut state = self.lock();
        // What was replaced is not there any more.
        let Some(index) = state.place_of(connection) else { return };
        state.lines[index].reads -= 1;
        if state.lines[index].reads == 0 {
            let line = state.lines.remove(index);
            state.lines.push(line);
        }
        self.serve(state);
    }
}

/// A connection that is being opened. It is counted until it is there, or it is known why not.
struct Opening<O: Open> {
    shared: Arc<Shared<O>>,
    /// On the thread of [`runtime`], which lasts as long as the process.
    is_elsewhere: bool,
    is_over: bool,
}

impl<O: Open> Opening<O> {
    fn begin(mut self, on: &Handle) {
        drop(on.spawn(async move {
            let opened = self.shared.open.open().await;
            self.is_over = true;
            self.shared.opened(opened);
        }));
    }

    fn begin_elsewhere(mut self) {
        self.is_elsewhere = true;
        match runtime::handle() {
            Ok(handle) => self.begin(handle),
            Err(error) => {
                self.is_over = true;
                self.shared.opened(Err(error.into()));
            }
        }
    }
}

impl<O: Open> Drop for Opening<O> {
    /// The caller's runtime has ended, or can open no sockets, which it says by a panic; or opening
    /// panics wherever it is tried.
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let shared = self.shared.clone();
        if self.is_elsewhere {
            shared.opened(Err(NoThread::abandoned().into()));
        } else {
            shared.stays_away.store(thread::panicking(), Ordering::Relaxed);
            Self { shared, is_elsewhere: true, is_over: false }.begin_elsewhere();
        }
    }
}

impl<O: Open> Lines<O> {
    /// At most so many connections, none of them open yet.
    #[must_use]
    pub fn new(open: O, most: usize) -> Self {
        let state = State {
            lines: Vec::new(),
            opening: 0,
            is_pausing: false,
            waiting: VecDeque::new(),
            is_closed: false,
        };
        let (most, state) = (most.max(1), Mutex::new(state));
        Self { shared: Arc::new(Shared { open, most, state, stays_away: AtomicBool::new(false) }) }
    }

    /// A connection for one read, until what is returned is dropped. Waits for its turn.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    ///
    /// # Cancel safety
    ///
    /// Who is dropped while it waits is served no more, and takes nothing away.
    pub async fn take(&self) -> Answer<O> {
        let served = {
            let mut state = self.shared.lock();
            if state.is_closed {
                return Err(Refused::Closed);
            }
            let (waiter, served) = oneshot::channel();
            state.waiting.push_back(waiter);
            self.shared.serve(state);
            served
        };
        served.await.unwrap_or(Err(Refused::Closed))
    }

    /// How its connections are opened.
    #[must_use]
    pub fn opener(&self) -> &O {
        &self.shared.open
    }

    /// What is open.
    #[must_use]
    pub fn connections(&self) -> Vec<Arc<O::Connection>> {
        self.shared.lock().lines.iter().map(|line| line.connection.clone()).collect()
    }

    /// Closes what is free: the server that it leads to is gone.
    pub fn forget_free(&self) {
        let mut state = self.shared.lock();
        let (free, used) = state.lines.drain(..).partition(|line| line.reads == 0);
        state.lines = used;
        self.shared.serve(state);
        drop::<Vec<_>>(free);
    }

    /// Refuses whoever waits and comes, and closes what is free; what is in use is closed when it is
    /// given back.
    pub fn close(&self) {
        let mut state = self.shared.lock();
        state.is_closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        for line in &mut state.lines {
            line.is_retired = true;
        }
        self.shared.serve(state);
        drop(waiting);
    }
}

impl<O: Open> fmt::Debug for Lines<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("most", &self.shared.most).finish_non_exhaustive()
    }
}

/// A connection for one read. Dropping it ends the read's claim to it, so the read should be over.
pub struct Lent<O: Open> {
    shared: Arc<Shared<O>>,
    connection: Arc<O::Connection>,
}

impl<O: Open> Lent<O> {
    /// The connection.
    #[must_use]
    pub fn connection(&self) -> &Arc<O::Connection> {
        &self.connection
    }

    /// No other read is to come; the connection is closed when the last of its reads is over.
    pub fn retire(&self) {
        let mut state = self.shared.lock();
        if let Some(index) = state.place_of(&self.connection) {
            state.lines[index].is_retired = true;
        }
    }

    /// Puts `successor` in its place, for whoever comes next.
    pub fn replace(self, successor: O::Connection) {
        let mut state = self.shared.lock();
        if state.is_closed {
            return;
        }
        let line = Line { connection: Arc::new(successor), reads: 0, is_retired: false };
        match state.place_of(&self.connection) {
            Some(index) => {
                let replaced = std::mem::replace(&mut state.lines[index], line);
                self.shared.serve(state);
                drop(replaced);
            }
            None => drop(state),
        }
    }
}

impl<O: Open> fmt::Debug for Lent<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").finish_non_exhaustive()
    }
}

impl<O: Open> Drop for Lent<O> {
    fn drop(&mut self) {
        self.shared.give_back(&self.connection);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::{sync::Semaphore, time::timeout};

    use super::*;

    /// Long enough for anything that does not hang.
    const FOREVER: Duration = Duration::from_secs(20);

    /// Opens a connection for each permit; without a word, or with an error where there is to be one.
    struct Door {
        permits: Arc<Semaphore>,
        asked: Arc<AtomicUsize>,
        fails: Arc<AtomicBool>,
    }

    #[derive(Debug)]
    struct Failed;

    impl From<NoThread> for Failed {
        fn from(_: NoThread) -> Self {
            Self
        }
    }

    struct Connection {
        number: usize,
        is_broken: AtomicBool,
    }

    impl Open for Door {
        type Connection = Connection;
        type Error = Failed;

        const READS_MAX: usize = 2;

        async fn open(&self) -> Result<Connection, Failed> {
            let number = self.asked.fetch_add(1, Ordering::SeqCst);
            self.permits.acquire().await.map_err(|_| Failed)?.forget();
            if self.fails.load(Ordering::SeqCst) {
                return Err(Failed);
            }
            Ok(Connection { number, is_broken: AtomicBool::new(false) })
        }

        fn is_usable(connection: &Connection) -> bool {
            !connection.is_broken.load(Ordering::SeqCst)
        }
    }

    struct Bench {
        lines: Arc<Lines<Door>>,
        permits: Arc<Semaphore>,
        asked: Arc<AtomicUsize>,
        fails: Arc<AtomicBool>,
    }

    impl Bench {
        fn new(most: usize, permits: usize) -> Self {
            let permits = Arc::new(Semaphore::new(permits));
            let (asked, fails) = (Arc::default(), Arc::default());
            let door = Door {
                permits: Arc::clone(&permits),
                asked: Arc::clone(&asked),
                fails: Arc::clone(&fails),
            };
            Self { lines: Arc::new(Lines::new(door, most)), permits, asked, fails }
        }

        fn take(&self) -> tokio::task::JoinHandle<Answer<Door>> {
            let lines = Arc::clone(&self.lines);
            tokio::spawn(async move { lines.take().await })
        }

        async fn until(&self, reached: impl Fn(&State<Door>) -> bool) {
            let reaching = async {
                while !reached(&self.lines.shared.lock()) {
                    tokio::task::yield_now().await;
                }
            };
            timeout(FOREVER, reaching).await.expect("it is reached");
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::SeqCst)
        }
    }

    async fn number(taken: tokio::task::JoinHandle<Answer<Door>>) -> (usize, Lent<Door>) {
        let lent = timeout(FOREVER, taken).await.expect("it is served").unwrap().unwrap();
        (lent.connection().number, lent)
    }

    #[tokio::test]
    async fn a_read_takes_the_connection_that_becomes_free_before_its_own_is_open() {
        let bench = Bench::new(2, 1);
        let (first, lent) = number(bench.take()).await;
        let waits = bench.take();
        bench.until(|state| state.opening == 1 && state.waiting.len() == 1).await;
        drop(lent);
        let (second, lent) = number(waits).await;
        assert_eq!((first, second), (0, 0));
        // The one that was begun for it is there for the next.
        bench.permits.add_permits(1);
        assert_eq!(number(bench.take()).await.0, 1);
        drop(lent);
        assert_eq!(bench.asked(), 2);
    }

    #[tokio::test]
    async fn no_more_are_opened_than_allowed_and_reads_share_only_when_many_wait() {
        let bench = Bench::new(2, 10);
        let (one, two) = (number(bench.take()).await, number(bench.take()).await);
        assert_ne!(one.0, two.0);
        let third = bench.take();
        bench.until(|state| state.waiting.len() == 1).await;
        assert_eq!(bench.lines.shared.lock().lines.iter().map(|line| line.reads).max(), Some(1));
        // As many wait as there may be connections: the first of them goes behind a read.
        let fourth = bench.take();
        let third = number(third).await;
        bench.until(|state| state.waiting.len() == 1).await;
        let (fifth, sixth) = (bench.take(), bench.take());
        let fourth = number(fourth).await;
        assert_ne!(third.0, fourth.0);
        // Each has two reads now, which is all that it may have.
        bench.until(|state| state.waiting.len() == 2 && state.opening == 0).await;
        assert_eq!(bench.asked(), 2);
        drop((one, two, third, fourth));
        drop((number(fifth).await, number(sixth).await));
    }

    #[tokio::test]
    async fn those_who_wait_are_served_in_order_and_those_who_have_gone_are_not() {
        let bench = Bench::new(1, 1);
        let (_, lent) = number(bench.take()).await;
        let gone = bench.take();
        bench.until(|state| state.lines.iter().any(|line| line.reads == 2)).await;
        let goes = bench.lines.take();
        tokio::select! {
            biased;
            _ = goes => panic!("both places are taken"),
            () = std::future::ready(()) => {}
        }
        let next = bench.take();
        drop(lent);
        drop(gone.await);
        assert_eq!(number(next).await.0, 0);
    }

    #[tokio::test]
    async fn a_failure_is_told_to_all_who_wait_and_only_where_there_is_no_other_way() {
        let bench = Bench::new(2, 0);
        let waiting = [bench.take(), bench.take(), bench.take()];
        bench.until(|state| state.waiting.len() == 3 && state.opening == 2).await;
        bench.fails.store(true, Ordering::SeqCst);
        bench.permits.add_permits(2);
        for refused in waiting {
            let refused = timeout(FOREVER, refused).await.expect("it is told").unwrap();
            assert!(matches!(refused, Err(Refused::NotOpened(_))));
        }
        bench.fails.store(false, Ordering::SeqCst);
        bench.permits.add_permits(1);
        let (_, lent) = number(bench.take()).await;
        bench.fails.store(true, Ordering::SeqCst);
        bench.permits.add_permits(1);
        let waits = bench.take();
        bench.until(|state| state.opening == 0 && state.waiting.len() == 1).await;
        drop(lent);
        let (_, lent) = number(waits).await;
        // Who waits while it holds the only one there is, which is fine with two, is served once
        // another can be opened.
        bench.permits.add_permits(1);
        let waits = bench.take();
        bench.until(|state| state.is_pausing && state.waiting.len() == 1).await;
        bench.fails.store(false, Ordering::SeqCst);
        bench.permits.add_permits(1);
        drop(number(waits).await);
        drop(lent);
    }

    #[test]
    fn a_thread_of_a_runtime_that_blocks_gets_a_connection_that_the_runtime_serves() {
        for threads in [1, 2] {
            let bench = Bench::new(1, 1);
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let runtime = builder.worker_threads(threads).enable_time().build().unwrap();
            let lines = Arc::clone(&bench.lines);
            let taken = runtime.spawn(async move { runtime::block_on(lines.take()).map(drop) });
            runtime.block_on(async { timeout(FOREVER, taken).await }).unwrap().unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn what_is_retired_broken_or_replaced_serves_no_other() {
        let bench = Bench::new(1, 10);
        let (number_0, lent) = number(bench.take()).await;
        lent.retire();
        let next = bench.take();
        drop(lent);
        let (number_1, lent) = number(next).await;
        assert_eq!((number_0, number_1), (0, 1));
        lent.connection().is_broken.store(true, Ordering::SeqCst);
        drop(lent);
        let (number_2, lent) = number(bench.take()).await;
        assert_eq!(number_2, 2);
        let waits = bench.take();
        lent.replace(Connection { number: 77, is_broken: AtomicBool::new(false) });
        assert_eq!(number(waits).await.0, 77);
        bench.lines.close();
        assert!(matches!(bench.lines.take().await, Err(Refused::Closed)));
        assert!(bench.lines.connections().is_empty());
    }

    #[test]
    fn a_connection_outlives_no_runtime_and_a_runtime_that_ends_strands_nobody() {
        let bench = Bench::new(1, 0);
        let dying = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let begun = bench.lines.shared.clone();
        let lines = Arc::clone(&bench.lines);
        drop(dying.spawn(async move { lines.take().await }));
        while begun.lock().opening == 0 {
            thread::yield_now();
        }
        dying.shutdown_background();
        bench.permits.add_permits(1);
        let here = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let taken = here.block_on(async { timeout(FOREVER, bench.lines.take()).await });
        drop(taken.expect("it is served").unwrap());
    }
}
