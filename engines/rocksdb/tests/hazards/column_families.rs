//! Transactions over several column families.

use groupcommit_rocksdb::{Database, Error, Failure, Rejected, Write, WriteResult, rocksdb};

fn options() -> rocksdb::Options {
    rocksdb::Options::default()
}

#[test]
fn a_transaction_over_families_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = Database::options().column_family("names", options()).open(&path).unwrap();
    let failed = db.transact(|tx| {
        tx.put("1", "a")?;
        tx.put_cf("names", "a", "1")?;
        tx.put_cf("missing", "a", "1")
    });
    assert!(matches!(
        failed,
        Err(Failure::Rejected(Rejected::Caller(Error::NoColumnFamily(name)))) if name == "missing"
    ));
    let seen = db.transact(|tx| {
        assert_eq!((tx.get("1")?, tx.get_cf("names", "a")?), (None, None));
        tx.put("2", "b")?;
        tx.put_cf("names", "b", "2")?;
        tx.get_cf("names", "b")
    });
    assert_eq!(seen.unwrap(), Some(b"2".to_vec()));
    db.close().unwrap();

    // Found again without being named.
    let db = Database::open(&path).unwrap();
    let found = db.read(|snapshot| {
        let names = snapshot.column_family("names")?;
        Ok::<_, Error>(snapshot.get_cf(&names, "b").unwrap())
    });
    assert_eq!(found.unwrap(), Some(b"2".to_vec()));
}

#[test]
fn families_come_and_go_between_groups() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("store")).unwrap();
    for _ in 0..2 {
        db.exclusive(|exclusive| exclusive.create_column_family("x", &options())).unwrap();
        assert_eq!(db.transact(|tx| tx.get_cf("x", "k")).unwrap(), None);
        db.transact(|tx| tx.put_cf("x", "k", "v")).unwrap();
        db.exclusive(|exclusive| exclusive.drop_column_family("x")).unwrap();
        db.transact(|tx| tx.put_cf("x", "k", "v")).unwrap_err();
    }
}

#[test]
fn plain_data_is_all_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::options()
        .column_family("x", options())
        .open(folder.path().join("store"))
        .unwrap();
    let swap = |expected: Option<&str>, new: &str| {
        let expected = expected.map(|text| text.as_bytes().to_vec());
        Write::compare_and_swap("k", expected, Some(new.as_bytes().to_vec())).in_family("x")
    };
    let done = db.submit_writes(vec![Write::put("a", "1"), swap(None, "1")]).wait().unwrap();
    assert_eq!(done, [WriteResult::Done, WriteResult::Swapped]);
    let failed = db.submit_writes(vec![Write::delete("a"), swap(Some("0"), "2")]).wait();
    match failed {
        Err(Failure::Rejected(Rejected::Caller(Error::Mismatch { index: 1, found }))) => {
            assert_eq!(found, Some(b"1".to_vec()));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(crate::value(&db, "a"), Some(b"1".to_vec()));
    db.submit_writes(vec![swap(Some("1"), "2"), Write::delete_range("a", "b")]).wait().unwrap();
    assert_eq!(crate::value(&db, "a"), None);
}
