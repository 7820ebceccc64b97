//! Other writers of the same rows: what the server asks to be run again is.

use std::{sync::mpsc, thread, time::Duration};

use groupcommit_mysql::{
    Database, Error, Experiments as _, Formation, Statement, StatementResult, Ticket, Value,
};
use groupcommit_testkit::servers::mysql::Kind;

use crate::{
    server::{database, ids, insert, shared, start},
    together::{code, in_one_group},
};

fn add(id: i64) -> Statement {
    Statement::new("UPDATE t SET v = v + 1 WHERE id = ?", [id.into()])
}

/// Databases at the same time, one for each URL, each with so many transactions in flight that count
/// up, and return what they counted.
pub(crate) fn count_together(urls: [&str; 2], plans: &[Vec<i64>; 2], rounds: usize) -> Vec<i64> {
    let count = |url: &str, rows: &[i64]| {
        let db = Database::open(url).unwrap();
        let mut counted = Vec::new();
        let look = Statement::new("SELECT CAST(v AS SIGNED) FROM t WHERE id = 1", []);
        let plan: Vec<Statement> =
            rows.iter().map(|id| add(*id)).chain(std::iter::once(look)).collect();
        for _ in 0..rounds {
            let tickets: Vec<_> = (0..5).map(|_| db.submit_statements(plan.clone())).collect();
            for ticket in tickets {
                match ticket.wait().unwrap().pop().unwrap().rows[0][0] {
                    Value::Int(number) => counted.push(number),
                    ref other => panic!("{other:?}"),
                }
            }
        }
        counted
    };
    let mut counted = thread::scope(|scope| {
        let threads = [0, 1].map(|index| {
            let (url, rows) = (urls[index], &plans[index]);
            scope.spawn(move || count(url, rows))
        });
        threads.map(|thread| thread.join().unwrap()).concat()
    });
    counted.sort_unstable();
    counted
}

pub(crate) fn zeroes(url: &str) -> Database {
    let zero = |id: i64| Statement::new("INSERT INTO t VALUES (?, '0')", [id.into()]);
    let db = Database::open(url).unwrap();
    db.submit_statements(vec![zero(1), zero(2)]).wait().unwrap();
    db
}

/// Runs statements of a transaction of its own, and keeps their locks until the sender is dropped.
fn holding(db: &Database, statement: Statement) -> (mpsc::Sender<()>, Ticket<(), Error>) {
    let (started, has_started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let ticket = db.submit(move |tx| {
        tx.run(std::slice::from_ref(&statement))?;
        started.send(()).unwrap();
        released.recv().unwrap_err(); // until the other end is dropped
        Ok(())
    });
    has_started.recv().unwrap();
    (release, ticket)
}

/// Asks the server until it has an answer.
fn first_answer(sql: &str) -> String {
    loop {
        let answer = shared().sql(sql).unwrap();
        if !answer.trim().is_empty() {
            return answer.trim().to_owned();
        }
    }
}

/// Members of one group of which the fourth changes a row that another holds.
fn one_that_waits(db: &Database) -> Vec<Ticket<Vec<StatementResult>, Error>> {
    let change = Statement::new("UPDATE t SET v = 'changed' WHERE id = 0", []);
    in_one_group(db, || {
        (0..16_i64)
            .map(|id| if id == 3 { change.clone() } else { insert(id + 100) })
            .map(|statement| db.submit_statements(vec![statement]))
            .collect()
    })
}

/// The fourth came to that error, and the others are committed, in one attempt.
fn fails_alone(db: &Database, tickets: Vec<Ticket<Vec<StatementResult>, Error>>, error: u16) {
    for (id, ticket) in (0..).zip(tickets) {
        let result = ticket.wait();
        if id == 3 {
            assert_eq!(code(result), error);
        } else {
            result.unwrap();
        }
    }
    assert_eq!(db.stats().reruns, 0);
}

const LOCK_WAIT: u16 = 1205;
const STOPPED: u16 = 1317;

#[test]
fn who_waits_for_a_lock_in_vain_fails_alone_and_the_others_wait_once() {
    let servers = start(Kind::Single);
    servers.sql("SET GLOBAL innodb_lock_wait_timeout = 1").unwrap();
    let [db, other] = [(); 2].map(|()| Database::open(&servers.url()).unwrap());
    db.exclusive(|alone| alone.batch("CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT NOT NULL)"))
        .unwrap();
    db.submit_statements(vec![insert(0)]).wait().unwrap();
    let (release, held) =
        holding(&other, Statement::new("UPDATE t SET v = 'held' WHERE id = 0", []));
    fails_alone(&db, one_that_waits(&db), LOCK_WAIT);
    // In a closure, which may go on.
    let goes_on: Ticket<u16, Error> = db.submit(|tx| {
        tx.run(&[insert(1)])?;
        let change = tx.run(&[Statement::new("UPDATE t SET v = 'changed' WHERE id = 0", [])]);
        let Err(Error::Server(groupcommit_mysql::mysql_async::Error::Server(said))) = change else {
            panic!("{change:?}");
        };
        tx.run(&[insert(2)]).map(|_| said.code)
    });
    assert_eq!(goes_on.wait().unwrap(), LOCK_WAIT);
    drop(release);
    held.wait().unwrap();
    assert_eq!(ids(&db)[..3], [0, 1, 2]);
    // Where the server rolls everything back, the others are run again, and are there.
    servers
        .crash_and_restart(&["innodb_rollback_on_timeout=ON", "innodb_lock_wait_timeout=1"])
        .unwrap();
    let (release, held) =
        holding(&other, Statement::new("UPDATE t SET v = 'held' WHERE id = 0", []));
    let [first, waits, last] = in_one_group(&db, || {
        let change = Statement::new("UPDATE t SET v = 'changed' WHERE id = 0", []);
        [insert(3), change, insert(4)].map(|statement| db.submit_statements(vec![statement]))
    });
    first.wait().unwrap();
    assert!(waits.wait().is_err());
    last.wait().unwrap();
    drop(release);
    held.wait().unwrap();
    assert_eq!(ids(&db)[..5], [0, 1, 2, 3, 4]);
}

#[test]
fn a_statement_that_is_stopped_by_hand_is_not_run_again() {
    let url = database();
    let name = url.rsplit('/').next().unwrap();
    let [db, other] = [(); 2].map(|()| Database::open(&url).unwrap());
    db.submit_statements(vec![insert(0)]).wait().unwrap();
    let (release, held) =
        holding(&other, Statement::new("UPDATE t SET v = 'held' WHERE id = 0", []));
    let tickets = one_that_waits(&db);
    let waits = first_answer(&format!(
        "SELECT id FROM information_schema.processlist JOIN information_schema.innodb_trx \
         ON trx_mysql_thread_id = id WHERE db = '{name}' AND trx_state = 'LOCK WAIT'"
    ));
    shared().sql(&format!("KILL QUERY {waits}")).unwrap();
    fails_alone(&db, tickets, STOPPED);
    drop(release);
    held.wait().unwrap();
}

#[test]
fn a_deadlock_with_a_change_of_the_schema_runs_again() {
    let url = database();
    let name = url.rsplit('/').next().unwrap();
    let a = format!("CREATE TABLE {name}.a (id BIGINT PRIMARY KEY)");
    shared().sql(&a).unwrap();
    // However long the first of two takes, the second is in its group.
    let pairs = Formation::Fixed { transactions: 2, delay: Duration::from_secs(5) };
    let db = Database::options().formation(pairs).open(&url).unwrap();
    let (started, has_started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let mut first = Some((started, released));
    let holds: Ticket<(), Error> = db.submit(move |tx| {
        tx.run(&[insert(1)])?;
        if let Some((started, released)) = first.take() {
            started.send(()).unwrap();
            released.recv().unwrap_err();
        }
        Ok(())
    });
    let waits = db.submit_statements(vec![Statement::new("INSERT INTO a VALUES (1)", [])]);
    has_started.recv().unwrap();
    // It has `a`, and waits for `t`; the group has `t`, and the server is asked about `a`.
    let change = format!("USE {name}; RENAME TABLE a TO a2, t TO t2, a2 TO a, t2 TO t");
    let changes = thread::spawn(move || shared().sql(&change));
    first_answer(&format!(
        "SELECT id FROM information_schema.processlist \
         WHERE db = '{name}' AND state LIKE 'Waiting for table metadata%'"
    ));
    drop(release);
    holds.wait().unwrap();
    waits.wait().unwrap();
    changes.join().unwrap().unwrap();
    assert!(db.stats().reruns > 0);
    for ticket in [2, 3].map(|id| db.submit_statements(vec![insert(id)])) {
        ticket.wait().unwrap();
    }
    assert_eq!(ids(&db), [1, 2, 3]);
}
