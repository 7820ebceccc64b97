//! A slower disk, simulated: every flush that SQLite does takes so much longer.
//!
//! SQLite reaches the disk through a *VFS*, a table of functions. [`FlushDelay`] registers, as the
//! default of the process, a copy of the VFS that was the default before. Its `xOpen` opens files
//! as before and then gives them a copy of their table of methods in which `xSync` sleeps after the
//! real sync; its `xDelete` sleeps when it is told to sync the folder. Nothing else changes, and
//! every connection that is opened meanwhile takes part, whoever opens it: the conditions that use
//! SQLite directly, and groupcommit's own connections when they checkpoint. What groupcommit
//! flushes itself, through a descriptor of its own, is delayed by
//! `groupcommit::sqlite::Options::flush_delay`.
//!
//! 1. The tables live as long as the process, since a connection may outlive the delay it was
//!    opened under. There is one for each delay and kind of file, however often it is used.
//! 2. The default is put back when the [`FlushDelay`] is dropped. Delays are not nested, and one
//!    process measures one thing at a time.
#![expect(unsafe_code, reason = "SQLite's C interface; each block says why it is sound")]

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rusqlite::ffi;

/// While it lives, flushes of connections opened by this process are delayed.
#[derive(Debug)]
pub(crate) struct FlushDelay {
    /// `None` for a delay of zero, which changes nothing.
    previous: Option<VfsPointer>,
}

/// A VFS, which SQLite passes to each of its functions: the copy, and what only ours has.
#[repr(C)]
struct DelayedVfs {
    vfs: ffi::sqlite3_vfs,
    original: *mut ffi::sqlite3_vfs,
    delay: Duration,
}

/// A file's methods, to which the file points: the copy, and what only ours has.
#[repr(C)]
struct DelayedMethods {
    methods: ffi::sqlite3_io_methods,
    original: *const ffi::sqlite3_io_methods,
    delay: Duration,
}

#[derive(Debug, Clone, Copy)]
struct VfsPointer(*mut ffi::sqlite3_vfs);

// SAFETY: points to a VFS that is registered with SQLite and lives as long as the process; SQLite
// itself uses it from every thread.
unsafe impl Send for VfsPointer {}

#[derive(Debug, Clone, Copy)]
struct MethodsPointer(*const ffi::sqlite3_io_methods);

// SAFETY: points to a table that is never changed or freed once it is made.
unsafe impl Send for MethodsPointer {}

/// The copies made so far, by delay.
static VFS: Mutex<BTreeMap<Duration, VfsPointer>> = Mutex::new(BTreeMap::new());

/// The copies made so far, by the address of the original and the delay.
static METHODS: Mutex<BTreeMap<(usize, Duration), MethodsPointer>> = Mutex::new(BTreeMap::new());

impl FlushDelay {
    /// Delays flushes from now on; does nothing for a `delay` of zero. `None` when SQLite refuses.
    pub(crate) fn begin(delay: Duration) -> Option<Self> {
        if delay.is_zero() {
            return Some(Self { previous: None });
        }
        // SAFETY: SQLite is asked for its default VFS; it initializes itself first if it must.
        let previous = VfsPointer(unsafe { ffi::sqlite3_vfs_find(ptr::null()) });
        if previous.0.is_null() {
            return None;
        }
        let mut known = VFS.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = *known.entry(delay).or_insert_with(|| {
            // SAFETY: the default VFS is registered and stays so; copying its table of plain data
            // and function pointers leaves it as it is.
            let mut vfs = unsafe { ptr::read(previous.0) };
            let name = CString::new(format!("flush-delay-{}ns", delay.as_nanos()));
            vfs.zName = name.unwrap_or_default().into_raw();
            vfs.pNext = ptr::null_mut();
            vfs.xOpen = Some(open);
            vfs.xDelete = Some(delete);
            let ours = Box::leak(Box::new(DelayedVfs { vfs, original: previous.0, delay }));
            VfsPointer(ptr::from_mut(ours).cast())
        });
        drop(known);
        // SAFETY: `ours` begins with a whole `sqlite3_vfs`, whose name is a leaked string, and is
        // never moved or freed. SQLite allows a VFS to be registered again, to make it the default.
        let code = unsafe { ffi::sqlite3_vfs_register(ours.0, 1) };
        (code == ffi::SQLITE_OK).then_some(Self { previous: Some(previous) })
    }
}

impl Drop for FlushDelay {
    fn drop(&mut self) {
        if let Some(previous) = self.previous {
            // SAFETY: it was the default before, and so is a registered VFS.
            unsafe { ffi::sqlite3_vfs_register(previous.0, 1) };
        }
    }
}

/// The methods that sleep after syncing, for files with the methods `original`.
///
/// # Safety
/// `original` points to a table that lives as long as the process, as those of SQLite's own VFS do.
unsafe fn delayed(
    original: *const ffi::sqlite3_io_methods,
    delay: Duration,
) -> *const ffi::sqlite3_io_methods {
    let mut known = METHODS.lock().unwrap_or_else(PoisonError::into_inner);
    let ours = known.entry((original.addr(), delay)).or_insert_with(|| {
        // SAFETY: a valid table, by the caller's promise; it is plain data and function pointers.
        let mut methods = unsafe { ptr::read(original) };
        methods.xSync = Some(sync);
        let ours = Box::leak(Box::new(DelayedMethods { methods, original, delay }));
        MethodsPointer(ptr::from_mut(ours).cast_const().cast())
    });
    ours.0
}

/// `xOpen`: opens the file as the original does, then puts the sleeping methods in place.
unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes the VFS that it was given, which begins a `DelayedVfs` that is never
    // freed, and arguments that are as good for the original, for a file of the original's size.
    unsafe {
        let ours = vfs.cast::<DelayedVfs>();
        let original = (*ours).original;
        let Some(open) = (*original).xOpen else { return ffi::SQLITE_ERROR };
        let code = open(original, name, file, flags, out_flags);
        // SQLite's own methods live as long as the process, and its own VFS never compares them.
        if code == ffi::SQLITE_OK && !(*file).pMethods.is_null() {
            (*file).pMethods = delayed((*file).pMethods, (*ours).delay);
        }
        code
    }
}

/// `xDelete`: as the original, but flushing the folder takes longer.
unsafe extern "C" fn delete(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync_folder: c_int,
) -> c_int {
    // SAFETY: as in `open`.
    unsafe {
        let ours = vfs.cast::<DelayedVfs>();
        let original = (*ours).original;
        let Some(delete) = (*original).xDelete else { return ffi::SQLITE_ERROR };
        let code = delete(original, name, sync_folder);
        if sync_folder != 0 {
            thread::sleep((*ours).delay);
        }
        code
    }
}

/// `xSync`: as the original, but takes longer.
unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: this function is reached only through a table made by `delayed`, to which the file
    // points until it is closed, and which begins a `DelayedMethods` that is never freed.
    unsafe {
        let ours = (*file).pMethods.cast::<DelayedMethods>();
        let Some(sync) = (*(*ours).original).xSync else { return ffi::SQLITE_ERROR };
        let code = sync(file, flags);
        thread::sleep((*ours).delay);
        code
    }
}
