//! The memory of a queued one-row transaction, beyond its own data. A test binary of its own, since
//! it counts every allocation of the process.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(unsafe_code, reason = "a counting allocator; each method passes its call on")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    sync::mpsc,
};

use groupcommit_sqlite::{Database, Statement, Ticket, Value};

struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every method is the system allocator's own, called with what it was called with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: as this method's own caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as this method's own caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const QUEUED: usize = 10_000;

/// Bytes that a queued transaction may take beyond its own data.
const BYTES_MAX: usize = 400;

/// Bytes that each of many takes while it is queued, its ticket included.
fn bytes_each<T, E>(db: &Database, submit: impl Fn(i64) -> Ticket<T, E>) -> usize
where
    T: Send + 'static,
    E: Send + std::fmt::Debug + 'static,
{
    let (started, has_started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let held = db.submit(move |_| {
        started.send(()).unwrap();
        released.recv().ok();
        Ok::<_, ()>(())
    });
    has_started.recv().unwrap();
    let before = ALLOCATED.load(Relaxed);
    let tickets: Vec<_> = (0..).take(QUEUED).map(submit).collect();
    let each = (ALLOCATED.load(Relaxed) - before) / QUEUED;
    drop(release);
    held.wait().unwrap();
    for ticket in tickets {
        assert!(ticket.wait().is_ok());
    }
    each
}

#[test]
fn of_a_queued_transaction_is_small() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("app.db")).unwrap();
    db.exclusive(|conn| conn.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)"))
        .unwrap();

    let row = "0123456789abcdef0123456789abcdef0123";
    let own = size_of::<String>() + row.len() + size_of::<i64>();
    let closures = bytes_each(&db, |id| {
        let row = row.to_owned();
        db.submit(move |tx| tx.execute("INSERT INTO t VALUES (?1, ?2)", (id, &row)))
    });
    assert!(closures - own <= BYTES_MAX, "{} bytes beyond its own {own}", closures - own);

    let own = size_of::<Statement>() + 2 * size_of::<Value>() + row.len();
    let sql: std::sync::Arc<str> = "INSERT INTO t VALUES (?1, ?2)".into();
    let data = bytes_each(&db, |id| {
        let params = [Value::Int(1_000_000 + id), Value::Text(row.to_owned())];
        db.submit_statements(vec![Statement::new(sql.clone(), params)])
    });
    assert!(data - own <= BYTES_MAX, "{} bytes beyond its own {own}", data - own);
    println!("a queued closure takes {closures} bytes, plain data {data}");
}
