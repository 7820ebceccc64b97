//! Settings under which a ticket could be wrong are refused by name.

use groupcommit_rocksdb::{Database, Error, rocksdb};
use rocksdb::{DBRecoveryMode, Options};

fn refused(change: impl FnOnce(&mut Options)) -> &'static str {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    change(&mut options);
    match Database::options().rocksdb(options).open(folder.path().join("store")).unwrap_err() {
        Error::Setting { setting, .. } => setting,
        other => panic!("{other}"),
    }
}

#[test]
fn what_would_make_a_ticket_lie_is_refused() {
    assert_eq!(refused(|o| o.set_manual_wal_flush(true)), "manual_wal_flush");
    assert_eq!(refused(|o| o.set_unordered_write(true)), "unordered_write");
    assert_eq!(refused(|o| o.set_inplace_update_support(true)), "inplace_update_support");
    let skipping = DBRecoveryMode::SkipAnyCorruptedRecord;
    assert_eq!(refused(|o| o.set_wal_recovery_mode(skipping)), "wal_recovery_mode");
    let tolerant = DBRecoveryMode::TolerateCorruptedTailRecords;
    assert_eq!(refused(|o| o.set_wal_recovery_mode(tolerant)), "wal_recovery_mode");
    assert_eq!(refused(|o| o.set_recycle_log_file_num(4)), "recycle_log_file_num");
    let late = refused(|o| {
        *o = o.get_options_from_string("avoid_flush_during_recovery=true").unwrap();
    });
    assert_eq!(late, "avoid_flush_during_recovery");
    let backwards = |a: &[u8], b: &[u8]| b.cmp(a);
    assert_eq!(refused(|o| o.set_comparator("backwards", Box::new(backwards))), "comparator");
}

#[test]
fn a_family_of_its_own_options_is_held_to_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut options = Options::default();
    options.set_inplace_update_support(true);
    let opened = Database::options().column_family("other", options.clone()).open(&path);
    assert!(matches!(opened, Err(Error::Setting { setting: "inplace_update_support", .. })));
    let db = Database::open(&path).unwrap();
    db.exclusive(move |exclusive| exclusive.create_column_family("other", &options)).unwrap_err();
    let names = db.exclusive(|exclusive| Ok::<_, Error>(exclusive.column_families())).unwrap();
    assert_eq!(names, ["default"]);
}

#[test]
fn strict_recovery_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let mut strict = Options::default();
    strict.set_wal_recovery_mode(DBRecoveryMode::AbsoluteConsistency);
    Database::options().rocksdb(strict).open(folder.path().join("b")).unwrap();
}
