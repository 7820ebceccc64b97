//! The same fault is the same kind of error on every engine, whether the statement or the commit
//! finds it.

use groupcommit::{
    Failure, Rejected,
    sql::{Error, Kind, Statement, StatementsFailure},
};

use crate::places::{Place, on_every_engine};

on_every_engine!(
    constraints_say_which,
    faults_of_the_statement_say_which,
    what_the_commit_finds_is_of_the_same_kind,
    a_write_in_a_read_is_refused,
    an_error_keeps_what_the_database_said,
);

fn kind_of<T: std::fmt::Debug>(result: Result<T, StatementsFailure>) -> Kind {
    let failure = result.unwrap_err();
    assert!(matches!(failure, Failure::Rejected(_)), "{failure:?}");
    Error::of_failure(&failure).unwrap().kind()
}

fn constraints_say_which(place: &Place) {
    place.table();
    place.run("CREATE TABLE c (id BIGINT REFERENCES t (id), n BIGINT NOT NULL CHECK (n > 0))");
    place.db.transact(vec![place.insert(1)]).unwrap();
    if place.engine.name() == "sqlite" {
        // Off in SQLite unless asked for, on every connection.
        place.db.exclusive(vec![Statement::new("PRAGMA foreign_keys = ON", [])]).unwrap();
    }
    for (sql, kind) in [
        ("INSERT INTO t VALUES (1, 'again')", Kind::Unique),
        ("INSERT INTO c VALUES (7, 1)", Kind::ForeignKey),
        ("INSERT INTO c VALUES (1, NULL)", Kind::NotNull),
        ("INSERT INTO c VALUES (1, 0)", Kind::Check),
    ] {
        let refused = place.db.submit(vec![Statement::new(sql, [])]).wait();
        assert_eq!(kind_of(refused), kind, "{sql}");
        assert!(kind.is_constraint() && !kind.may_pass());
    }
}

fn faults_of_the_statement_say_which(place: &Place) {
    place.table();
    for (sql, kind) in [
        ("SELEC 1", Kind::Statement),
        ("INSERT INTO nowhere VALUES (1)", Kind::Statement),
        ("UPDATE t SET nothing = 1", Kind::Statement),
        ("COMMIT", Kind::Forbidden),
        ("INSERT INTO t VALUES (9223372036854775807 + 1, 'a')", Kind::Value),
    ] {
        if place.engine.name() == "sqlite" && kind == Kind::Value {
            continue; // SQLite makes a real of it
        }
        let refused = place.db.submit(vec![Statement::new(sql, [])]).wait();
        assert_eq!(kind_of(refused), kind, "{sql}");
    }
    let few = place.statement("INSERT INTO t VALUES ({1}, {2})", [1.into(), "a".into()]);
    let few = Statement::new(few.sql().clone(), [1.into()]);
    assert_eq!(kind_of(place.db.submit(vec![few.clone()]).wait()), Kind::Parameters);
    assert_eq!(kind_of(place.db.exclusive(vec![few])), Kind::Parameters);
    assert_eq!(kind_of(place.db.read(&Statement::new("SELECT x FROM t", []))), Kind::Statement);
}

fn what_the_commit_finds_is_of_the_same_kind(place: &Place) {
    if place.engine.name() == "mysql" {
        return; // it checks every constraint at once
    }
    place.table();
    place.run("CREATE TABLE c (id BIGINT REFERENCES t (id) DEFERRABLE INITIALLY DEFERRED)");
    if place.engine.name() == "sqlite" {
        place.db.exclusive(vec![Statement::new("PRAGMA foreign_keys = ON", [])]).unwrap();
    }
    let orphan = || vec![Statement::new("INSERT INTO c VALUES (7)", [])];
    let neighbours = [place.db.submit(vec![place.insert(1)]), place.db.submit(orphan())];
    let [neighbour, orphan] = neighbours.map(groupcommit::Ticket::wait);
    neighbour.unwrap();
    assert_eq!(kind_of(orphan), Kind::ForeignKey);
    assert_eq!(place.ids(), [1]);
}

fn a_write_in_a_read_is_refused(place: &Place) {
    place.table();
    assert_eq!(kind_of(place.db.read(&place.insert(1))), Kind::ReadOnly);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let refused = runtime.block_on(place.db.read_async(&place.insert(1)));
    assert_eq!(kind_of(refused), Kind::ReadOnly);
    assert_eq!(place.ids(), [0_i64; 0]);
}

fn an_error_keeps_what_the_database_said(place: &Place) {
    place.table();
    place.db.transact(vec![place.insert(1)]).unwrap();
    let refused = place.db.submit(vec![place.insert(1)]).wait();
    let Err(Failure::Rejected(Rejected::Caller(error))) = refused else {
        panic!("{refused:?}");
    };
    let code = match place.engine.name() {
        "sqlite" => "1555",
        "postgres" => "23505",
        _ => "1062",
    };
    assert_eq!(error.code(), Some(code));
    assert_eq!(error.to_string(), format!("a row with this key is there already (code {code})"));
    let mut said = String::new();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        said.push_str(&cause.to_string());
        source = cause.source();
    }
    assert!(said.to_lowercase().contains("unique") || said.contains("Duplicate"), "{said}");
}
