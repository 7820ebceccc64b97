//! The calls of heed that are `unsafe`, each with the reason why it is sound here.
#![expect(
    unsafe_code,
    reason = "heed leaves two duties to its caller; each call says how they are kept"
)]

use std::path::Path;

use heed::{Env, EnvFlags, EnvOpenOptions, WithoutTls};

/// How an environment is opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) map_bytes: usize,
    pub(crate) tables_max: u32,
    pub(crate) readers_max: u32,
    /// The path is the data file itself, not a folder that holds it.
    pub(crate) is_file: bool,
}

/// Opens the environment at `path` so that a commit leaves its meta page to a later sync.
pub(crate) fn open(path: &Path, shape: Shape) -> heed::Result<Env<WithoutTls>> {
    let mut flags = EnvFlags::NO_META_SYNC;
    flags.set(EnvFlags::NO_SUB_DIR, shape.is_file);
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(shape.map_bytes).max_dbs(shape.tables_max).max_readers(shape.readers_max);
    // SAFETY: the flags do not switch the protection of integrity off (`NO_META_SYNC` can lose the
    // latest commit in a power cut, which the pipeline accounts for); no flag shares a thread's
    // reader slot or drops locks.
    let options = unsafe { options.flags(flags) };
    // SAFETY: the file is mapped read-only and changed by LMDB alone, under its own locks; what else
    // may change it is outside any program's control, as with every mapped file, and documented.
    unsafe { options.open(path) }
}

/// Maps the environment with another size; 0 takes the size that another process has set.
///
/// REQUIRES: no transaction of this process is live.
pub(crate) fn resize(env: &Env<WithoutTls>, map_bytes: usize) -> heed::Result<()> {
    // SAFETY: the caller holds the gate alone, and so no read is live; and it has the execute role
    // without a transaction of its own.
    unsafe { env.resize(map_bytes) }
}
