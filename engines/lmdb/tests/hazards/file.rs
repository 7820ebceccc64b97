//! The data file is deleted or replaced under an open database.

use groupcommit_lmdb::{Database, Error, Failure};

use crate::Scratch;

#[test]
fn nothing_is_acknowledged_into_a_file_that_is_gone() {
    for replace in [false, true] {
        let test = Scratch::new(&Database::options());
        test.db.transact(|tx| tx.main_table().put(tx, b"1", b"")).unwrap();
        let file = test.path.join("data.mdb");
        let copy = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        if replace {
            std::fs::write(&file, copy).unwrap();
        }
        let result = test.db.transact(|tx| tx.main_table().put(tx, b"2", b""));
        let Err(Failure::Unknown(unknown)) = result else { panic!("acknowledged: {result:?}") };
        let error: &Error = unknown.cause().downcast_ref().unwrap();
        assert!(matches!(error, Error::Replaced(_)), "{error:?}");
    }
}
