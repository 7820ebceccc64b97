//! Transactions as plain data.

use std::ops::Bound::{Excluded, Included, Unbounded};

use groupcommit_lmdb::{Database, Operation, OperationResult};

use crate::Scratch;

#[test]
fn operations_run_in_turn_and_say_what_they_did() {
    let test = Scratch::new(&Database::options());
    let table = test.db.main_table();
    let put = |key: &str| Operation::put(table, key, format!("value of {key}"));
    let done = test.db.submit_operations(vec![
        put("a"),
        put("b"),
        put("c"),
        put("d"),
        Operation::delete(table, "a"),
        Operation::delete(table, "absent"),
        Operation::delete_range(table, Included(b"b".to_vec()), Excluded(b"d".to_vec())),
        Operation::swap(table, "d", Some(b"value of d".to_vec()), Some(b"new".to_vec())),
        Operation::swap(table, "d", Some(b"value of d".to_vec()), Some(b"newer".to_vec())),
        Operation::swap(table, "e", None, Some(b"first".to_vec())),
        Operation::swap(table, "e", Some(b"first".to_vec()), None),
    ]);
    let done = done.wait().unwrap();
    assert_eq!(
        done,
        [
            OperationResult::Put,
            OperationResult::Put,
            OperationResult::Put,
            OperationResult::Put,
            OperationResult::Deleted(1),
            OperationResult::Deleted(0),
            OperationResult::Deleted(2),
            OperationResult::Swapped,
            OperationResult::Differed(Some(b"new".to_vec())),
            OperationResult::Swapped,
            OperationResult::Swapped,
        ]
    );
    assert_eq!(test.rows(), 1);
    let all = test.db.submit_operations(vec![Operation::delete_range(table, Unbounded, Unbounded)]);
    assert_eq!(all.wait().unwrap(), [OperationResult::Deleted(1)]);
}

#[test]
fn of_one_that_fails_nothing_stays() {
    let test = Scratch::new(&Database::options());
    let table = test.db.main_table();
    let too_long = vec![b'k'; 10_000];
    let failed = test.db.submit_operations(vec![
        Operation::put(table, "a", "1"),
        Operation::put(table, too_long, "2"),
    ]);
    let other = test.db.submit_operations(vec![Operation::put(table, "b", "1")]);
    failed.wait().unwrap_err();
    other.wait().unwrap();
    assert_eq!(test.rows(), 1);
}
