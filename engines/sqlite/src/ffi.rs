//! The few calls of SQLite's C interface that `rusqlite` does not offer. All `unsafe` of this
//! crate is here.
#![expect(unsafe_code, reason = "SQLite's C interface; each block says why it is sound")]

use std::{
    ffi::{CStr, c_int, c_void},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    ptr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use rusqlite::{Connection, ffi};

use crate::pieces::Pieces;

/// Sets what `last_insert_rowid()` returns until the next insert.
pub(crate) fn set_last_insert_rowid(connection: &Connection, rowid: i64) {
    // SAFETY: the handle is valid for as long as `connection` is borrowed, is closed only by
    // dropping it, and is used by this thread alone (`Connection` is not `Sync`).
    unsafe { ffi::sqlite3_set_last_insert_rowid(connection.handle(), rowid) }
}

/// Whether a foreign key, immediate or deferred, is not satisfied in the open transaction.
pub(crate) fn has_unsatisfied_foreign_keys(connection: &Connection) -> bool {
    let (mut current, mut highest) = (0, 0);
    // SAFETY: the handle is valid as above, and the two integers outlive the call.
    let code = unsafe {
        ffi::sqlite3_db_status(
            connection.handle(),
            ffi::SQLITE_DBSTATUS_DEFERRED_FKS,
            &raw mut current,
            &raw mut highest,
            0,
        )
    };
    // An error here would be one of usage; then rather look unsatisfied than wave it through.
    code != ffi::SQLITE_OK || current != 0
}

/// Pages that the connection has handed to its log so far.
///
/// SQLite counts them (`pagerWalFrames`) before it calls the only function that writes a frame, so a
/// count that has not moved says that no frame was written.
pub(crate) fn pages_written(connection: &Connection) -> Option<i32> {
    let (mut current, mut highest) = (0, 0);
    // SAFETY: as above.
    let code = unsafe {
        ffi::sqlite3_db_status(
            connection.handle(),
            ffi::SQLITE_DBSTATUS_CACHE_WRITE,
            &raw mut current,
            &raw mut highest,
            0,
        )
    };
    (code == ffi::SQLITE_OK).then_some(current)
}

/// The first of the switches of a connection that have a number for a value; those before it have
/// something else. The others follow it without a gap.
pub(crate) const FIRST_SWITCH: i32 = ffi::SQLITE_DBCONFIG_ENABLE_FKEY;

/// Sets a switch of the connection, unless `value` is negative, and returns its value; `None` for
/// one that this SQLite does not have.
pub(crate) fn switch(connection: &Connection, switch: i32, value: i32) -> Option<i32> {
    let mut now = 0;
    // SAFETY: the handle is valid as above. The switches from the first on take an `int` and a
    // pointer to one, which outlives the call; to an unknown number SQLite answers with an error
    // and reads no argument.
    let code = unsafe { ffi::sqlite3_db_config(connection.handle(), switch, value, &raw mut now) };
    (code == ffi::SQLITE_OK).then_some(now)
}

/// Sets a limit of the connection, unless `value` is negative, and returns what it was before;
/// `None` for one that this SQLite does not have.
pub(crate) fn limit(connection: &Connection, limit: i32, value: i32) -> Option<i32> {
    // SAFETY: the handle is valid as above.
    let before = unsafe { ffi::sqlite3_limit(connection.handle(), limit, value) };
    (before >= 0).then_some(before)
}

/// How often the page cache was so full of dirty pages that one had to be written early.
pub(crate) fn cache_spills(connection: &Connection) -> i32 {
    let (mut current, mut highest) = (0, 0);
    // SAFETY: as above. A failed call leaves the count at 0, which says "no spill".
    unsafe {
        ffi::sqlite3_db_status(
            connection.handle(),
            ffi::SQLITE_DBSTATUS_CACHE_SPILL,
            &raw mut current,
            &raw mut highest,
            0,
        );
    }
    current
}

/// Whether a call on the connection ever ended in an input or output error, on a thread whose `errno`
/// was set before; a full disk is none.
///
/// SQLite keeps `errno` of the latest one, also where no function of the system failed (a file that ends
/// too early). No function ever sets it to 0.
pub(crate) fn met_io_error(connection: &Connection) -> bool {
    // SAFETY: as above. The call only reads what the connection remembers.
    unsafe { ffi::sqlite3_system_errno(connection.handle()) != 0 }
}

/// Makes `errno` of this thread something else than 0; see [`met_io_error`].
pub(crate) fn set_errno() {
    // There is no file without a name, so this fails.
    let _no_file = std::fs::metadata("");
}

/// The absolute path of the database, from SQLite itself; `None` without a file.
pub(crate) fn database_path(connection: &Connection) -> Option<PathBuf> {
    // SAFETY: the handle is valid as above; "main" is a nul-terminated string; the name, where
    // there is one, is nul-terminated, lives as long as the connection and is copied here at once.
    let bytes = unsafe {
        let database = ffi::sqlite3_db_filename(connection.handle(), c"main".as_ptr());
        if database.is_null() || *database == 0 {
            return None;
        }
        CStr::from_ptr(database).to_bytes().to_vec()
    };
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(&bytes)))
}

/// The path of the write-ahead log, from SQLite itself.
pub(crate) fn wal_path(connection: &Connection) -> Option<PathBuf> {
    // SAFETY: the handle is valid as above; "main" is a nul-terminated string; the name that
    // `sqlite3_db_filename` returns, and only such a one, may be given to `sqlite3_filename_wal`,
    // whose result lives as long as the connection and is copied here at once.
    let bytes = unsafe {
        let database = ffi::sqlite3_db_filename(connection.handle(), c"main".as_ptr());
        if database.is_null() || *database == 0 {
            return None;
        }
        let wal = ffi::sqlite3_filename_wal(database);
        if wal.is_null() {
            return None;
        }
        CStr::from_ptr(wal).to_bytes().to_vec()
    };
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(&bytes)))
}

/// Resets every statement that is in the middle of its rows, so that no cursor outlives its
/// transaction. Only a caller who leaks a `Rows` on purpose (`mem::forget`) leaves one.
///
/// Virtual tables have statements of their own on the connection, and keep some at a row between
/// two calls (the blob handles of FTS and R-Tree). They seek anew before they read from those, and
/// so may be reset.
pub(crate) fn reset_statements(connection: &Connection) {
    // SAFETY: the handle is valid as above. `sqlite3_next_stmt` walks the list of statements of
    // this connection: resetting one does not unlink it, and unlinks another only where that
    // belongs to a cursor that the reset closes; the next is looked up after that. No `Statement`
    // is borrowed from the connection here, because its caller owns it exclusively.
    unsafe {
        let mut statement = ffi::sqlite3_next_stmt(connection.handle(), ptr::null_mut());
        while !statement.is_null() {
            if ffi::sqlite3_stmt_busy(statement) != 0 {
                // The code repeats how the last step ended; there is nothing to do about it here.
                ffi::sqlite3_reset(statement);
            }
            statement = ffi::sqlite3_next_stmt(connection.handle(), statement);
        }
    }
}

/// Closes `connection`.
///
/// A statement that a caller leaked (`mem::forget`) keeps it open until the process ends, without a
/// lock. The statement cannot be finalized here: SQLite lists it among those of virtual tables,
/// which finalize theirs themselves, and does not tell them apart.
pub(crate) fn close(connection: Connection) {
    if let Err((connection, error)) = connection.close() {
        reset_statements(&connection);
        if !connection.is_autocommit() {
            // Fails only where the transaction is gone already.
            connection.execute_batch("ROLLBACK").ok();
        }
        tracing::warn!(%error, "a leaked statement keeps a connection open");
        // With the hooks that SQLite may still call.
        std::mem::forget(connection);
    }
}

/// Rows that the last statement of this connection changed.
///
/// # Safety
///
/// As [`rusqlite::functions::Context::get_connection`]: `connection` must not be used after the
/// SQL function that it was taken in has returned.
pub(crate) fn context_changes(context: &rusqlite::functions::Context<'_>) -> (i64, i64) {
    // SAFETY: the connection is used only within this call, which is inside the SQL function.
    let connection = unsafe { context.get_connection() };
    connection.map_or((0, 0), |connection| {
        (connection.changes().cast_signed(), connection.total_changes().cast_signed())
    })
}

/// A connection that can sync each piece of what it writes into the database.
#[derive(Debug)]
pub(crate) struct Copier {
    // Dropped, and so closed, before the functions that it calls.
    connection: Connection,
    methods: Option<Box<Methods>>,
}

/// What SQLite calls, and what that was before.
#[derive(Debug)]
#[repr(C)]
struct Methods {
    ours: ffi::sqlite3_io_methods,
    below: ffi::sqlite3_io_methods,
    /// While what is written is counted and synced piece by piece.
    pieces: Mutex<Option<Pieces>>,
    /// Pages written then.
    written: Arc<AtomicU64>,
}

impl Methods {
    fn pieces(&self) -> MutexGuard<'_, Option<Pieces>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Copier {
    /// Takes the place of the functions of `connection`'s database file; counts pages in `written`.
    pub(crate) fn new(connection: Connection, written: Arc<AtomicU64>) -> Self {
        let mut file: *mut ffi::sqlite3_file = ptr::null_mut();
        // SAFETY: the handle is valid as above. SQLite writes the address of the file, which it keeps
        // for as long as the connection, and nobody else uses the file meanwhile: the connection is
        // used by one thread at a time. The functions are copied; ours begin with the same table, and
        // stay where they are until after the connection has closed the file.
        let methods = unsafe {
            let operation = ffi::SQLITE_FCNTL_FILE_POINTER;
            let into = (&raw mut file).cast();
            let code =
                ffi::sqlite3_file_control(connection.handle(), c"main".as_ptr(), operation, into);
            if code != ffi::SQLITE_OK || file.is_null() || (*file).pMethods.is_null() {
                None // synced at the end alone
            } else {
                let below = *(*file).pMethods;
                let ours = ffi::sqlite3_io_methods { xWrite: Some(write_in_pieces), ..below };
                let pieces = Mutex::default();
                let methods = Box::new(Methods { ours, below, pieces, written });
                (*file).pMethods = (&raw const *methods).cast();
                Some(methods)
            }
        };
        Self { connection, methods }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Whether writes are counted, and synced piece by piece, from now on.
    pub(crate) fn sync_pieces(&self, wanted: bool) {
        if let Some(methods) = &self.methods {
            *methods.pieces() = wanted.then(|| Pieces::begin(Instant::now()));
        }
    }
}

/// Writes, and syncs when a piece is full. A failed sync is an error of the write, which ends the
/// checkpoint.
unsafe extern "C" fn write_in_pieces(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    count: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls this with a file whose functions `Copier::new` replaced, so that its table is
    // the first field of `Methods`, which lives. What it hands over is passed on unchanged.
    unsafe {
        let methods = &*(*file).pMethods.cast::<Methods>();
        let (Some(write), Some(sync)) = (methods.below.xWrite, methods.below.xSync) else {
            return ffi::SQLITE_IOERR;
        };
        let code = write(file, bytes, count, offset);
        let mut pieces = methods.pieces();
        let (ffi::SQLITE_OK, Some(pieces)) = (code, &mut *pieces) else { return code };
        methods.written.fetch_add(1, Relaxed);
        if !pieces.written() {
            return code;
        }
        let began = Instant::now();
        let code = sync(file, ffi::SQLITE_SYNC_NORMAL);
        pieces.synced(began, Instant::now());
        code
    }
}

/// Whether the page cache holds the page of the file that is at this offset. Asked of the cache: a
/// read that must not wait may still start the reading.
#[cfg(all(test, target_os = "linux"))]
pub(crate) fn is_cached(path: &std::path::Path, offset: u32) -> std::io::Result<bool> {
    use std::os::fd::AsRawFd;

    use nix::libc;
    let file = std::fs::File::open(path)?;
    let mut resident = 0_u8;
    // SAFETY: one page of the file, which is longer, is mapped where the system likes, is not touched,
    // and is unmapped again; the answer for one page is one byte, which outlives the call.
    unsafe {
        let page = libc::mmap(
            ptr::null_mut(),
            1,
            libc::PROT_NONE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            offset.into(),
        );
        assert_ne!(page, libc::MAP_FAILED);
        assert_eq!(libc::mincore(page, 1, &raw mut resident), 0);
        assert_eq!(libc::munmap(page, 1), 0);
    }
    Ok(resident & 1 == 1)
}
