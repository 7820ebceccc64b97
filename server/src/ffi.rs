//! The one call of SQLite's C interface that `rusqlite` does not offer. All `unsafe` of this crate is
//! here.
#![expect(unsafe_code, reason = "SQLite's C interface; the block says why it is sound")]

use std::ffi::CStr;

use groupcommit::sqlite::rusqlite::ffi;

/// Whether `sql` ends with a complete statement, as SQLite itself sees it: not inside a string, a
/// comment or the body of a trigger.
pub(crate) fn is_complete(sql: &CStr) -> bool {
    // SAFETY: the text is nul-terminated and outlives the call, which only reads it.
    unsafe { ffi::sqlite3_complete(sql.as_ptr()) != 0 }
}
