//! Servers and statements under which a ticket would lie.

use groupcommit_mysql::{Database, Error, Failure, NotRun, Rejected, Statement, Value, Warning};
use groupcommit_testkit::servers::mysql::Kind;

use crate::{
    server::{ids, insert, open, start},
    together::{code, in_one_group},
};

#[test]
fn a_server_that_does_not_flush_is_refused_and_torn_pages_are_warned_of() {
    let servers = start(Kind::Single);
    let open = || Database::open(&servers.url());
    let db = open().unwrap();
    assert_eq!(db.warnings(), []);
    for (setting, value) in [("innodb_flush_log_at_trx_commit", "2"), ("read_only", "1")] {
        let set = |value: &str| servers.sql(&format!("SET GLOBAL {setting} = {value}")).unwrap();
        set(value);
        match open() {
            Err(Error::Setting { name, value: found, .. }) => {
                assert_eq!((name, found.as_str()), (setting, value));
            }
            Err(Error::ReadOnly(_)) => assert_eq!(setting, "read_only"),
            other => panic!("{other:?}"),
        }
        set(if setting == "read_only" { "0" } else { "1" });
    }
    drop(db);
    servers.crash_and_restart(&["log_bin=log", "innodb_doublewrite=OFF"]).unwrap();
    let refused = open();
    assert!(matches!(refused, Err(Error::Setting { name: "sync_binlog", .. })), "{refused:?}");
    servers.sql("SET GLOBAL sync_binlog = 1").unwrap();
    assert_eq!(open().unwrap().warnings(), [Warning::TornPages]);
}

#[test]
fn a_server_that_becomes_read_only_at_a_commit_has_rolled_back_and_takes_more_when_it_may() {
    let servers = start(Kind::Single);
    // Whom the option does not except.
    let host = "app@'127.0.0.1'";
    servers.sql(&format!("CREATE USER {host}; GRANT ALL ON test.* TO {host}")).unwrap();
    servers.sql("CREATE TABLE test.t (id BIGINT PRIMARY KEY, v TEXT NOT NULL)").unwrap();
    let url = servers.url().replace("root@", "app@");
    let db = Database::options().reconnect_timeout(std::time::Duration::ZERO).open(&url).unwrap();
    let (started, has_started) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let held = db.submit(move |tx| {
        tx.run(&[insert(1)])?;
        // Where it runs again there is nobody to tell.
        started.send(()).ok();
        released.recv().ok();
        Ok::<_, Error>(())
    });
    has_started.recv().unwrap();
    servers.sql("SET GLOBAL read_only = 1").unwrap();
    drop(release);
    let not_run = held.wait();
    assert!(matches!(not_run, Err(Failure::NotRun(NotRun::Unavailable(_)))), "{not_run:?}");
    servers.sql("SET GLOBAL read_only = 0").unwrap();
    db.submit_statements(vec![insert(2)]).wait().unwrap();
    assert_eq!(ids(&db), [2]);
}

#[test]
fn what_would_end_the_transaction_of_others_is_refused() {
    let db = open();
    db.exclusive(|alone| alone.batch("CREATE PROCEDURE ends() COMMIT")).unwrap();
    for sql in [
        "COMMIT",
        "ROLLBACK",
        "/* x */ SET autocommit = 1",
        "SAVEPOINT a",
        "CREATE TABLE u (a INT)",
        "TRUNCATE t",
        "LOCK TABLES t WRITE",
        "CALL ends()",
        "/*! COMMIT */",
        "BEGIN NOT ATOMIC COMMIT; END",
        "EXECUTE IMMEDIATE 'COMMIT'",
    ] {
        let plan = vec![insert(1), Statement::new(sql, [])];
        let refused = db.submit_statements(plan).wait();
        assert!(
            matches!(
                refused,
                Err(Failure::Rejected(Rejected::Caller(
                    Error::Forbidden(_) | Error::Several | Error::Server(_)
                )))
            ),
            "{sql}: {refused:?}"
        );
    }
    assert_eq!(ids(&db), [0_i64; 0]);
    let read = db.read(&Statement::new("SELECT 1 FROM groupcommit_outcome WHERE position > 0", []));
    assert_eq!(read.unwrap().rows, [] as [Vec<Value>; 0]); // nothing was ever committed
}

#[test]
fn a_statement_is_refused_that_is_more_than_one_or_has_other_parameters() {
    let db = open();
    let refused = |statement: Statement| match db.submit_statements(vec![statement]).wait() {
        Err(Failure::Rejected(Rejected::Caller(error))) => error,
        other => panic!("{other:?}"),
    };
    let two = refused(Statement::new("DO 1; INSERT INTO t VALUES (1, 'a')", []));
    assert!(matches!(two, Error::Several), "{two:?}");
    let open = refused(Statement::new("SELECT 'a", []));
    assert!(matches!(open, Error::Unfinished("'")), "{open:?}");
    let missing = refused(Statement::new("SELECT ?", []));
    assert!(matches!(missing, Error::Parameters { expected: 1, given: 0 }), "{missing:?}");
    let none = refused(Statement::new("SELECT ?", [f64::NAN.into()]));
    assert!(matches!(none, Error::Value(_)), "{none:?}");
    let large = refused(Statement::new("SELECT ?", ["x".repeat(17 << 20).into()]));
    assert!(matches!(large, Error::TooLarge { .. }), "{large:?}");
    assert_eq!(ids(&db), [0_i64; 0]);
}

#[test]
fn a_colon_is_no_parameter() {
    let db = open();
    let select = |sql: &str, params: Vec<Value>| {
        let (first, asked, last) = in_one_group(&db, || {
            let id = i64::try_from(sql.len()).unwrap();
            let [first, last] = [id, -id].map(insert).map(|plan| db.submit_statements(vec![plan]));
            (first, db.submit_statements(vec![Statement::new(sql, params)]), last)
        });
        first.wait().unwrap();
        last.wait().unwrap();
        asked.wait()
    };
    let differs = select("SELECT ?-':a' AS d", vec![1.into()]).unwrap();
    assert_eq!(differs[0].rows, [[Value::Float(1.0)]]);
    assert_eq!(code(select("SELECT :a, ?", vec![1.into()])), 1064); // a syntax error
    assert_eq!(db.stats().reruns, 0);
}

#[test]
fn a_server_that_prepares_no_more_statements_runs_them() {
    let servers = start(Kind::Single);
    let db = Database::open(&servers.url()).unwrap();
    db.exclusive(|alone| alone.batch("CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT NOT NULL)"))
        .unwrap();
    servers.sql("SET GLOBAL max_prepared_stmt_count = 0").unwrap();
    db.submit_statements(vec![insert(1)]).wait().unwrap();
    assert_eq!(ids(&db), [1]);
}

#[test]
fn what_has_statements_of_its_own_is_made_alone() {
    let db = open();
    let trigger = "CREATE TRIGGER louder BEFORE INSERT ON t FOR EACH ROW \
                   BEGIN SET NEW.v = UPPER(NEW.v); SET NEW.v = CONCAT(NEW.v, '!'); END";
    let make =
        move |sql: &'static str| db.exclusive(move |alone| alone.run(&Statement::new(sql, [])));
    make(trigger).unwrap();
    let two = make("INSERT INTO t VALUES (1, 'a'); INSERT INTO t VALUES (2, 'b')");
    assert!(matches!(two, Err(Failure::Rejected(Rejected::Caller(Error::Several)))), "{two:?}");
    make("INSERT INTO t VALUES (3, 'c')").unwrap();
    let found = make("SELECT * FROM t").unwrap();
    assert_eq!(found.rows, [[Value::Int(3), "C!".into()]]);
}
