//! Promise 13: a transaction with a token takes effect once, however often it is submitted.

use std::{path::Path, time::Duration};

use groupcommit_core::{
    Failure, KeepTokens, Once, OnceError, Rejected, Submit, Token, TokenLimits, TokenRecord,
};

use super::{Done, Stop, Subject, put_number};

/// An engine that keeps tokens.
pub trait KeepsTokens: Subject<Database: Submit<Engine: KeepTokens>> {
    /// As [`Subject::open`], with room for tokens.
    fn open_with(path: &Path, limits: TokenLimits) -> Self::Database;
}

type Outcome<S> = Result<Once, Failure<OnceError<Stop<<S as Subject>::Error>>>>;

/// Puts `key`, and fails if asked to.
fn put<S: KeepsTokens>(
    db: &S::Database,
    id: &str,
    fingerprint: &str,
    key: u64,
    fails: bool,
) -> Outcome<S> {
    let token = Token::new(id.as_bytes(), fingerprint.as_bytes());
    let once = db.once(token, move |tx| -> Done<S, Vec<u8>> {
        put_number::<S>(tx, key, 1)?;
        if fails { Err(Stop::Asked(key)) } else { Ok(key.to_string().into_bytes()) }
    });
    db.transact(once)
}

fn kept<S: KeepsTokens>(db: &S::Database, id: &str) -> Option<TokenRecord> {
    db.outcome_of(id.as_bytes()).wait().unwrap()
}

/// The numbers under which something was put, of 0 to 99.
fn keys<S: KeepsTokens>(db: &S::Database) -> Vec<u64> {
    let there = |tx: &mut super::Transaction<'_, S>| -> Done<S, Vec<u64>> {
        let mut keys = Vec::new();
        for key in 0..100 {
            if S::get(tx, key)?.is_some() {
                keys.push(key);
            }
        }
        Ok(keys)
    };
    db.transact(there).unwrap()
}

/// The database is opened anew in between, as after a crash.
pub fn submitted_again_it_gets_the_same_result_and_does_not_run<S: KeepsTokens>() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.db");
    for is_repeated in [false, true] {
        let db = S::open_with(&path, TokenLimits::default());
        for is_repeated in [is_repeated, true] {
            let once = put::<S>(&db, "a", "x", 7, false).unwrap();
            assert_eq!(once, Once { result: b"7".to_vec(), is_repeated });
        }
        assert_eq!(kept::<S>(&db, "a").unwrap().result, b"7");
        assert_eq!((kept::<S>(&db, "b"), keys::<S>(&db)), (None, vec![7]));
        db.close_any().unwrap();
    }
}

/// Nor does another request under the id of one that is there.
pub fn one_that_is_rejected_leaves_no_token<S: KeepsTokens>() {
    let folder = tempfile::tempdir().unwrap();
    let db = S::open_with(&folder.path().join("test.db"), TokenLimits::default());
    let rejected = put::<S>(&db, "a", "x", 1, true);
    assert!(matches!(rejected, Err(Failure::Rejected(Rejected::Caller(OnceError::Caller(_))))));
    assert_eq!((kept::<S>(&db, "a"), keys::<S>(&db)), (None, vec![]));
    assert!(!put::<S>(&db, "a", "x", 1, false).unwrap().is_repeated);
    let reused = put::<S>(&db, "a", "y", 2, false);
    assert!(matches!(reused, Err(Failure::Rejected(Rejected::Caller(OnceError::Reused)))));
    assert_eq!(keys::<S>(&db), [1]);
    db.close_any().unwrap();
}

/// Young ones are kept, and old ones make room.
pub fn tokens_are_bounded<S: KeepsTokens>() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.db");
    let db = S::open_with(&path, TokenLimits { lifetime: Duration::from_hours(1), tokens: 3 });
    for key in 0..3 {
        put::<S>(&db, &key.to_string(), "x", key, false).unwrap();
    }
    let full = put::<S>(&db, "more", "x", 3, false);
    assert!(matches!(full, Err(Failure::Rejected(Rejected::Caller(OnceError::Full)))));
    assert_eq!(keys::<S>(&db), [0, 1, 2]);
    db.close_any().unwrap();
    drop(db);
    let db = S::open_with(&path, TokenLimits { lifetime: Duration::ZERO, tokens: 3 });
    for key in 3..9 {
        put::<S>(&db, &key.to_string(), "x", key, false).unwrap();
    }
    assert_eq!(keys::<S>(&db), (0..9).collect::<Vec<_>>());
    assert!(kept::<S>(&db, "0").is_none() && kept::<S>(&db, "8").is_some());
    db.close_any().unwrap();
}

/// A database that was not opened for it says what to do.
pub fn where_none_are_kept_a_transaction_with_one_is_rejected<S: KeepsTokens>() {
    let folder = tempfile::tempdir().unwrap();
    let db = S::open(&folder.path().join("test.db"));
    let refused = put::<S>(&db, "a", "x", 1, false);
    let Err(Failure::Rejected(Rejected::Caller(OnceError::Engine(cause)))) = refused else {
        panic!("it was not refused")
    };
    assert!(cause.to_string().contains("Options::tokens"), "{cause}");
    assert_eq!(keys::<S>(&db), []);
    db.close_any().unwrap();
}
