//! Promise 13: a transaction with a token takes effect once, however often it is submitted.

use std::time::Duration;

use groupcommit::{
    Failure, NotRun, Once, OnceError, Rejected, Token, TokenLimits,
    sql::{Database, Error, Statement, StatementResult},
};

use crate::places::{Place, on_every_engine};

on_every_engine!(
    submitted_again_it_gets_the_same_result_and_does_not_run,
    another_request_under_the_same_id_is_refused,
    one_that_is_rejected_leaves_no_token,
    the_table_is_bounded_and_young_tokens_are_kept,
    old_tokens_go_and_make_room,
    two_pipelines_run_one_of_two,
    a_server_keeps_them_only_when_asked_to,
);

type Outcome = Result<Once, Failure<OnceError<Error>>>;

fn open(place: &Place, limits: TokenLimits) -> Database {
    Database::options().tokens(limits).connect(&place.url).unwrap()
}

fn transact(db: &Database, id: &str, fingerprint: &str, statements: Vec<Statement>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let token = Token::new(id.as_bytes(), fingerprint.as_bytes());
    let encode = |results: &[StatementResult]| results[0].rows_affected.to_string().into();
    runtime.block_on(db.transact_once(token, statements, encode))
}

/// The result under this id.
fn kept(db: &Database, id: &str) -> Option<Vec<u8>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(db.outcome_of(id.as_bytes())).unwrap().map(|record| record.result)
}

fn submitted_again_it_gets_the_same_result_and_does_not_run(place: &Place) {
    place.table();
    for is_repeated in [false, true] {
        // Opened anew, as after a crash.
        let db = open(place, TokenLimits::default());
        for is_repeated in [is_repeated, true] {
            let once = transact(&db, "a", "x", vec![place.insert(1)]).unwrap();
            assert_eq!(once, Once { result: b"1".to_vec(), is_repeated });
        }
        assert_eq!((kept(&db, "a"), kept(&db, "b")), (Some(b"1".to_vec()), None));
    }
    assert_eq!(place.ids(), [1]);
}

fn another_request_under_the_same_id_is_refused(place: &Place) {
    place.table();
    let db = open(place, TokenLimits::default());
    transact(&db, "a", "x", vec![place.insert(1)]).unwrap();
    let refused = transact(&db, "a", "y", vec![place.insert(2)]);
    assert!(matches!(refused, Err(Failure::Rejected(Rejected::Caller(OnceError::Reused)))));
    assert_eq!(place.ids(), [1]);
}

fn one_that_is_rejected_leaves_no_token(place: &Place) {
    place.table();
    let db = open(place, TokenLimits::default());
    let twice = vec![place.insert(1), place.insert(1)];
    let rejected = transact(&db, "a", "x", twice);
    assert!(matches!(rejected, Err(Failure::Rejected(_))), "{rejected:?}");
    assert_eq!((kept(&db, "a"), place.ids()), (None, vec![]));
    assert!(!transact(&db, "a", "x", vec![place.insert(1)]).unwrap().is_repeated);
    assert_eq!(place.ids(), [1]);
}

fn the_table_is_bounded_and_young_tokens_are_kept(place: &Place) {
    place.table();
    let db = open(place, TokenLimits { lifetime: Duration::from_hours(1), tokens: 3 });
    for id in 0..3 {
        transact(&db, &id.to_string(), "x", vec![place.insert(id)]).unwrap();
    }
    let refused = transact(&db, "more", "x", vec![place.insert(3)]);
    assert!(
        matches!(refused, Err(Failure::Rejected(Rejected::Caller(OnceError::Full)))),
        "{refused:?}"
    );
    assert_eq!(place.ids(), [0, 1, 2]);
    assert!(transact(&db, "0", "x", vec![place.insert(0)]).unwrap().is_repeated);
}

fn old_tokens_go_and_make_room(place: &Place) {
    place.table();
    let db = open(place, TokenLimits { lifetime: Duration::ZERO, tokens: 3 });
    for id in 0..10 {
        transact(&db, &id.to_string(), "x", vec![place.insert(id)]).unwrap();
    }
    let count = Statement::new("SELECT count(*) FROM _groupcommit_tokens", []);
    let count = db.read(&count).unwrap().rows[0][0].as_i64().unwrap();
    assert!((1..=3).contains(&count), "{count}");
    assert_eq!(place.ids().len(), 10);
}

fn two_pipelines_run_one_of_two(place: &Place) {
    place.table();
    let pipelines = [(); 2].map(|()| open(place, TokenLimits::default()));
    let outcomes = std::thread::scope(|scope| {
        let insert = |db| scope.spawn(move || transact(db, "a", "x", vec![place.insert(1)]));
        pipelines.each_ref().map(insert).map(|thread| thread.join().unwrap())
    });
    // One has committed. The other either saw that, or was rejected because it wrote at the same time.
    let ran = outcomes.iter().flatten().filter(|once| !once.is_repeated).count();
    assert_eq!((ran, place.ids()), (1, vec![1]), "{outcomes:?}");
    for db in &pipelines {
        assert!(transact(db, "a", "x", vec![place.insert(1)]).unwrap().is_repeated);
    }
}

fn a_server_keeps_them_only_when_asked_to(place: &Place) {
    place.table();
    let outcome = transact(&place.db, "a", "x", vec![place.insert(1)]);
    if place.engine.name() == "sqlite" {
        assert!(!outcome.unwrap().is_repeated);
    } else {
        assert!(matches!(outcome, Err(Failure::NotRun(NotRun::Unavailable(_)))), "{outcome:?}");
        assert!(place.ids().is_empty());
    }
}
