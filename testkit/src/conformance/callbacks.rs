//! Promise 10: a callback is called once, on success and on failure.

use std::sync::mpsc;

use groupcommit_core::{Failure, Rejected};

use super::{Scratch, Stop, Subject, keys, put_number};

/// Every callback is called once, in submission order, with what became of its transaction.
pub fn each_is_called_once_in_order_whatever_the_outcome<S: Subject>() {
    let test = Scratch::<S>::new();
    let (called, calls) = mpsc::channel();
    for key in 0..300_u64 {
        let called = called.clone();
        test.db.submit_then(
            move |tx| {
                put_number::<S>(tx, key, key)?;
                match key % 10 {
                    3 => Err(Stop::<S::Error>::Asked(key)),
                    7 => panic!("{key} was asked to panic"),
                    _ => Ok(key),
                }
            },
            move |result| {
                let kind = match result {
                    Ok(value) if value == key => "committed",
                    Err(Failure::Rejected(Rejected::Caller(Stop::Asked(at)))) if at == key => {
                        "failed"
                    }
                    Err(Failure::Rejected(Rejected::Panicked(_))) => "panicked",
                    _ => "something else",
                };
                called.send((key, kind)).unwrap();
            },
        );
    }
    drop(called);
    // Ends when every callback is gone, called or not.
    let calls: Vec<_> = calls.iter().collect();
    let expected: Vec<_> = (0..300)
        .map(|key| match key % 10 {
            3 => (key, "failed"),
            7 => (key, "panicked"),
            _ => (key, "committed"),
        })
        .collect();
    assert_eq!(calls, expected);
    assert_eq!(keys::<S>(&test.db).len(), 240);
}
