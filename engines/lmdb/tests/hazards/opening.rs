//! Opening what is not there, not a database, or open already.

use groupcommit_lmdb::{Database, Error, heed::types::Bytes};

use crate::Scratch;

#[test]
fn a_database_is_not_opened_twice_in_one_process() {
    let test = Scratch::new(&Database::options());
    let error = Database::open(&test.path).unwrap_err();
    assert!(matches!(error, Error::AlreadyOpen(_)), "{error:?}");
    test.db.close().unwrap();
    Database::open(&test.path).unwrap();
}

#[test]
fn another_file_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data.mdb");
    std::fs::write(&data, "not a database ".repeat(2_000)).unwrap();
    let error = Database::open(folder.path()).unwrap_err();
    assert!(matches!(error, Error::NotADatabase { .. }), "{error:?}");
    assert_eq!(std::fs::read(&data).unwrap(), "not a database ".repeat(2_000).as_bytes());
}

#[test]
fn what_is_missing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let error = Database::open(folder.path().join("a/b")).unwrap_err();
    assert!(matches!(error, Error::FolderMissing(_)), "{error:?}");
    let path = folder.path().join("absent");
    let error = Database::options().create(false).open(&path).unwrap_err();
    assert!(matches!(error, Error::Missing(_)), "{error:?}");
    assert!(!path.exists());
}

#[test]
fn a_data_file_without_a_folder_is_opened_as_such() {
    let test = Scratch::new(&Database::options());
    let table = test.db.table::<Bytes, Bytes>("t").unwrap();
    test.db.transact(move |tx| table.put(tx, b"k", b"v")).unwrap();
    test.db.close().unwrap();
    let file = test.path.join("data.mdb");
    let db = Database::open(&file).unwrap();
    let table = db.table::<Bytes, Bytes>("t").unwrap();
    let value = db.read(|tx| Ok::<_, Error>(table.get(tx, b"k").unwrap().map(<[u8]>::to_vec)));
    assert_eq!(value.unwrap(), Some(b"v".to_vec()));
}
