//! Promise 13: a transaction with a token takes effect once, however often it is submitted.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use groupcommit_sqlite::{
    Database, Failure, Once, OnceError, Rejected, Token, TokenLimits, Transaction, rusqlite,
};

type Outcome = Result<Once, Failure<OnceError<rusqlite::Error>>>;

fn open(folder: &Path, limits: TokenLimits) -> Database {
    let db = Database::options()
        .tokens(limits)
        .open(folder.join("app.db"))
        .expect("a database of its own");
    db.transact(|tx| tx.execute("CREATE TABLE IF NOT EXISTS t (id INTEGER)", ()))
        .expect("a database of its own");
    db
}

fn token(id: &str) -> Token {
    Token::new(id.as_bytes(), b"the request".as_slice())
}

/// Inserts a row, and returns how often it ran.
fn insert(
    runs: &Arc<AtomicU64>,
) -> impl FnMut(&mut Transaction<'_>) -> rusqlite::Result<Vec<u8>> + Send + 'static + use<> {
    let runs = runs.clone();
    move |tx| {
        tx.execute("INSERT INTO t VALUES (1)", ())?;
        Ok((runs.fetch_add(1, Ordering::SeqCst) + 1).to_string().into_bytes())
    }
}

fn rows(db: &Database) -> i64 {
    db.read(|conn| conn.query_row("SELECT count(*) FROM t", (), |row| row.get(0)))
        .expect("a database of its own")
}

fn tokens(db: &Database) -> i64 {
    let sql = "SELECT count(*) FROM _groupcommit_tokens";
    db.read(|conn| conn.query_row(sql, (), |row| row.get(0))).expect("a database of its own")
}

fn rejected(outcome: Outcome) -> OnceError<rusqlite::Error> {
    match outcome {
        Err(Failure::Rejected(Rejected::Caller(error))) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn submitted_again_it_gets_the_same_result_and_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Arc::new(AtomicU64::new(0));
    {
        let db = open(folder.path(), TokenLimits::default());
        // Many at once, most of them in the same group as the first.
        let tickets: Vec<_> =
            (0..50).map(|_| db.submit(db.once(token("a"), insert(&runs)))).collect();
        for (number, ticket) in tickets.into_iter().enumerate() {
            let once = ticket.wait().unwrap();
            assert_eq!((once.is_repeated, once.result), (number > 0, b"1".to_vec()));
        }
        // Without `close`, as after a crash.
    }
    let db = open(folder.path(), TokenLimits::default());
    let once = db.transact(db.once(token("a"), insert(&runs))).unwrap();
    assert_eq!(once, Once { result: b"1".to_vec(), is_repeated: true });
    assert_eq!((rows(&db), runs.load(Ordering::SeqCst), tokens(&db)), (1, 1, 1));
    let record = db.outcome_of(b"a".as_slice()).wait().unwrap().unwrap();
    assert_eq!((record.token, record.result), (token("a"), b"1".to_vec()));
    assert_eq!(db.outcome_of(b"b".as_slice()).wait().unwrap(), None);
}

#[test]
fn what_is_asked_before_any_token_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), TokenLimits::default());
    assert_eq!(db.outcome_of(b"a".as_slice()).wait().unwrap(), None);
}

#[test]
fn another_request_under_the_same_id_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), TokenLimits::default());
    let runs = Arc::new(AtomicU64::new(0));
    db.transact(db.once(token("a"), insert(&runs))).unwrap();
    let other = Token::new(b"a".as_slice(), b"another request".as_slice());
    let refused = rejected(db.transact(db.once(other, insert(&runs))));
    assert!(matches!(refused, OnceError::Reused), "{refused:?}");
    assert_eq!(rows(&db), 1);
}

#[test]
fn one_that_is_rejected_leaves_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), TokenLimits::default());
    let runs = Arc::new(AtomicU64::new(0));
    let failing = db.once(token("a"), |tx: &mut Transaction<'_>| {
        tx.execute("INSERT INTO t VALUES (1)", ())?;
        Err::<Vec<u8>, _>(rusqlite::Error::InvalidQuery)
    });
    assert!(matches!(rejected(db.transact(failing)), OnceError::Caller(_)));
    assert_eq!(db.outcome_of(b"a".as_slice()).wait().unwrap(), None);
    assert!(!db.transact(db.once(token("a"), insert(&runs))).unwrap().is_repeated);
    assert_eq!(rows(&db), 1);
}

#[test]
fn the_table_is_bounded_and_young_tokens_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let limits = TokenLimits { lifetime: Duration::from_hours(1), tokens: 10 };
    let db = open(folder.path(), limits);
    let runs = Arc::new(AtomicU64::new(0));
    for number in 0..10 {
        db.transact(db.once(token(&number.to_string()), insert(&runs))).unwrap();
    }
    let refused = rejected(db.transact(db.once(token("one more"), insert(&runs))));
    assert!(matches!(refused, OnceError::Full), "{refused:?}");
    assert_eq!((rows(&db), tokens(&db)), (10, 10));
    assert!(db.transact(db.once(token("0"), insert(&runs))).unwrap().is_repeated);
}

#[test]
fn old_tokens_go_and_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let limits = TokenLimits { lifetime: Duration::ZERO, tokens: 10 };
    let db = open(folder.path(), limits);
    let runs = Arc::new(AtomicU64::new(0));
    for number in 0..3_000 {
        drop(db.submit(db.once(token(&number.to_string()), insert(&runs))));
    }
    db.flush().unwrap();
    assert_eq!(rows(&db), 3_000);
    assert!(tokens(&db) <= 10);
}
