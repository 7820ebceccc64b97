//! RocksDB's C interface, where the `rocksdb` crate has no call: settings as they are set, and the
//! indexed write batch (`rocksdb/utilities/write_batch_with_index.h`) with cursors over it.

#![expect(unsafe_code, reason = "calls into C; each block says why it is sound")]

use std::{
    ffi::{CStr, c_char},
    marker::PhantomData,
    ptr::{self, NonNull},
};

use librocksdb_sys as sys;
use rocksdb::{AsColumnFamilyRef, AsRawPtr, DB};

/// The settings that durability rests on; the crate can set them but not read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "settings, by RocksDB's own names")]
pub(crate) struct Settings {
    pub(crate) manual_wal_flush: bool,
    pub(crate) unordered_write: bool,
    pub(crate) inplace_update_support: bool,
    pub(crate) avoid_flush_during_recovery: bool,
    pub(crate) wal_recovery_mode: i32,
    pub(crate) recycle_log_file_num: usize,
}

/// What `options` is set to.
pub(crate) fn settings(options: &rocksdb::Options) -> Settings {
    // SAFETY: the pointer is valid while `options` is borrowed, and the getters only read.
    unsafe {
        let options = options.as_raw_ptr();
        Settings {
            manual_wal_flush: sys::rocksdb_options_get_manual_wal_flush(options) != 0,
            unordered_write: sys::rocksdb_options_get_unordered_write(options) != 0,
            inplace_update_support: sys::rocksdb_options_get_inplace_update_support(options) != 0,
            avoid_flush_during_recovery: sys::rocksdb_options_get_avoid_flush_during_recovery(
                options,
            ) != 0,
            wal_recovery_mode: sys::rocksdb_options_get_wal_recovery_mode(options),
            recycle_log_file_num: sys::rocksdb_options_get_recycle_log_file_num(options),
        }
    }
}

/// A write batch that can be read, alone or over the database.
#[derive(Debug)]
pub(crate) struct IndexedBatch {
    raw: NonNull<sys::rocksdb_writebatch_wi_t>,
}

impl IndexedBatch {
    /// An empty batch in which a later write of a key hides an earlier one. `None` when there is no
    /// memory for it.
    pub(crate) fn new() -> Option<Self> {
        // SAFETY: takes two numbers and returns a batch that is ours to destroy.
        let raw = unsafe { sys::rocksdb_writebatch_wi_create(0, 1) };
        NonNull::new(raw).map(|raw| Self { raw })
    }

    pub(crate) fn put(&mut self, family: &impl AsColumnFamilyRef, key: &[u8], value: &[u8]) {
        // SAFETY: batch and family are alive, and the batch copies key and value.
        unsafe {
            sys::rocksdb_writebatch_wi_put_cf(
                self.raw.as_ptr(),
                family.inner(),
                chars(key),
                key.len(),
                chars(value),
                value.len(),
            );
        }
    }

    pub(crate) fn delete(&mut self, family: &impl AsColumnFamilyRef, key: &[u8]) {
        // SAFETY: batch and family are alive, and the batch copies the key.
        unsafe {
            sys::rocksdb_writebatch_wi_delete_cf(
                self.raw.as_ptr(),
                family.inner(),
                chars(key),
                key.len(),
            );
        }
    }

    pub(crate) fn merge(&mut self, family: &impl AsColumnFamilyRef, key: &[u8], operand: &[u8]) {
        // SAFETY: batch and family are alive, and the batch copies key and operand.
        unsafe {
            sys::rocksdb_writebatch_wi_merge_cf(
                self.raw.as_ptr(),
                family.inner(),
                chars(key),
                key.len(),
                chars(operand),
                operand.len(),
            );
        }
    }

    /// Remembers this point, on top of those remembered before.
    pub(crate) fn set_save_point(&mut self) {
        // SAFETY: the batch is alive.
        unsafe { sys::rocksdb_writebatch_wi_set_save_point(self.raw.as_ptr()) }
    }

    /// Goes back to the point remembered last, and forgets it.
    pub(crate) fn roll_back_to_save_point(&mut self) -> Result<(), String> {
        // SAFETY: the batch is alive; the error is ours to free, which `checked` does.
        unsafe {
            checked(|error| {
                sys::rocksdb_writebatch_wi_rollback_to_save_point(self.raw.as_ptr(), error);
            })
        }
    }

    /// The value of a key in the batch over the database.
    pub(crate) fn get(
        &self,
        db: &DB,
        family: &impl AsColumnFamilyRef,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, String> {
        let options = ReadOptions::new();
        let mut len = 0;
        let mut value = ptr::null_mut();
        // SAFETY: everything is alive and of one database; the error is ours to free.
        unsafe {
            checked(|error| {
                value = sys::rocksdb_writebatch_wi_get_from_batch_and_db_cf(
                    self.raw.as_ptr(),
                    db.as_raw_ptr(),
                    options.0,
                    family.inner(),
                    chars(key),
                    key.len(),
                    &raw mut len,
                    error,
                );
            })?;
        }
        if value.is_null() {
            return Ok(None);
        }
        // SAFETY: `value` points to `len` bytes that are ours to free, and are copied before.
        unsafe {
            let copy = bytes(value, len).to_vec();
            sys::rocksdb_free(value.cast());
            Ok(Some(copy))
        }
    }

    /// A cursor over the batch and the database as both are now.
    pub(crate) fn cursor<'a>(&'a self, db: &'a DB, family: &impl AsColumnFamilyRef) -> Cursor<'a> {
        let options = ReadOptions::new();
        // SAFETY: everything is alive and of one database, and stays so while the cursor lives,
        // which borrows both; the base is handed over to the merged iterator.
        let raw = unsafe {
            let base = sys::rocksdb_create_iterator_cf(db.as_raw_ptr(), options.0, family.inner());
            sys::rocksdb_writebatch_wi_create_iterator_with_base_cf(
                self.raw.as_ptr(),
                base,
                family.inner(),
            )
        };
        Cursor { raw, of: PhantomData }
    }
}

impl Drop for IndexedBatch {
    fn drop(&mut self) {
        // SAFETY: the batch is ours, and nothing borrows it any more.
        unsafe { sys::rocksdb_writebatch_wi_destroy(self.raw.as_ptr()) }
    }
}

/// A key and its value.
pub(crate) type Entry<'a> = (&'a [u8], &'a [u8]);

/// A place among the keys of one column family.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    raw: *mut sys::rocksdb_iterator_t,
    of: PhantomData<&'a IndexedBatch>,
}

impl Cursor<'_> {
    /// Goes to the first key that is not before `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) {
        // SAFETY: the iterator is alive, and copies the key.
        unsafe { sys::rocksdb_iter_seek(self.raw, chars(key), key.len()) }
    }

    /// Goes to the next key.
    ///
    /// REQUIRES: [`Cursor::entry`] gave one.
    pub(crate) fn advance(&mut self) {
        // SAFETY: the iterator is alive and at a key, as required.
        unsafe { sys::rocksdb_iter_next(self.raw) }
    }

    /// The key and value here; `None` past the last.
    pub(crate) fn entry(&self) -> Result<Option<Entry<'_>>, String> {
        // SAFETY: the iterator is alive; key and value stay where they are until it moves, which
        // needs `self` mutably; the error is ours to free, which `checked` does.
        unsafe {
            if sys::rocksdb_iter_valid(self.raw) == 0 {
                checked(|error| sys::rocksdb_iter_get_error(self.raw, error))?;
                return Ok(None);
            }
            let (mut key_len, mut value_len) = (0, 0);
            let key = sys::rocksdb_iter_key(self.raw, &raw mut key_len);
            let value = sys::rocksdb_iter_value(self.raw, &raw mut value_len);
            Ok(Some((bytes(key, key_len), bytes(value, value_len))))
        }
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: the iterator is ours, and nothing borrows it any more.
        unsafe { sys::rocksdb_iter_destroy(self.raw) }
    }
}

/// RocksDB's defaults for reading.
struct ReadOptions(*mut sys::rocksdb_readoptions_t);

impl ReadOptions {
    fn new() -> Self {
        // SAFETY: takes nothing and returns options that are ours to destroy.
        Self(unsafe { sys::rocksdb_readoptions_create() })
    }
}

impl Drop for ReadOptions {
    fn drop(&mut self) {
        // SAFETY: the options are ours; whoever read with them copied them.
        unsafe { sys::rocksdb_readoptions_destroy(self.0) }
    }
}

fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

/// # Safety
///
/// `data` points to `len` bytes that outlive `'a`.
unsafe fn bytes<'a>(data: *const c_char, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: as required of the caller.
    unsafe { std::slice::from_raw_parts(data.cast(), len) }
}

/// Makes a call that reports an error through a pointer.
///
/// # Safety
///
/// The call leaves the pointer alone, or points it to a string allocated by RocksDB.
unsafe fn checked(call: impl FnOnce(*mut *mut c_char)) -> Result<(), String> {
    let mut error: *mut c_char = ptr::null_mut();
    call(&raw mut error);
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: as required of the caller; copied before it is freed.
    unsafe {
        let message = CStr::from_ptr(error).to_string_lossy().into_owned();
        sys::rocksdb_free(error.cast());
        Err(message)
    }
}
