//! The settings that durability rests on: what is refused, and why.

use crate::{Error, families::Family, ffi};

/// RocksDB's number of `kPointInTimeRecovery`.
const POINT_IN_TIME: i32 = 2;
/// RocksDB's number of `kAbsoluteConsistency`.
const ABSOLUTE_CONSISTENCY: i32 = 1;

/// Refuses options under which a resolved ticket could be wrong.
pub(crate) fn check(options: &rocksdb::Options) -> Result<(), Error> {
    let settings = ffi::settings(options);
    let refuse = |setting, reason| Err(Error::Setting { setting, reason });
    if settings.manual_wal_flush {
        return refuse(
            "manual_wal_flush",
            "commits would stay in a buffer of the process, and even its end would lose them; \
             leave it off, transactions share their writes anyway",
        );
    }
    if settings.unordered_write {
        return refuse(
            "unordered_write",
            "a reader could see a later transaction without an earlier one; leave it off",
        );
    }
    if settings.inplace_update_support {
        return refuse(
            "inplace_update_support",
            "snapshots would change while they are read; leave it off",
        );
    }
    if settings.avoid_flush_during_recovery {
        return refuse(
            "avoid_flush_during_recovery",
            "what an earlier process left in the log could be read before it is durable; leave it \
             off, so that opening flushes it",
        );
    }
    if !matches!(settings.wal_recovery_mode, POINT_IN_TIME | ABSOLUTE_CONSISTENCY) {
        return refuse(
            "wal_recovery_mode",
            "recovery could skip a transaction and keep a later one; use PointInTime, or \
             AbsoluteConsistency",
        );
    }
    if settings.recycle_log_file_num > 0 {
        return refuse(
            "recycle_log_file_num",
            "a log in a file that was used before is as long as it ever was, so that one cut short \
             is not noticed, and recovery could go on behind the gap; leave it at 0",
        );
    }
    Ok(())
}

/// Refuses an order of keys in which ranges cannot be checked before they are written.
pub(crate) fn check_families(families: &[Family]) -> Result<(), Error> {
    if families.iter().all(|family| family.is_bytewise) {
        return Ok(());
    }
    Err(Error::Setting {
        setting: "comparator",
        reason: "a range that ends before it begins must be refused before it is written, and \
                 only the order of bytes is known here; use the default one",
    })
}
