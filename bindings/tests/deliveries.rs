//! Outcomes on their way to an event loop, with a loop that is a channel.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    convert::Infallible,
    sync::{Arc, mpsc},
    task::{Wake, Waker},
};

use groupcommit_bindings::{
    Chunks, Database, Delivered, Deliveries, Description, ROWS_AT_ONCE, Repeatable, Settings,
    block_on, first_row, first_row_async,
    groupcommit::{
        Failure, NotRun,
        sql::{Kind, Statement, Value},
    },
};

struct Bell(mpsc::SyncSender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // Full: there is a wake-up that nobody has seen yet.
        let _is_first = self.0.try_send(());
    }
}

fn bell() -> (Waker, mpsc::Receiver<()>) {
    let (sender, receiver) = mpsc::sync_channel(1);
    (Waker::from(Arc::new(Bell(sender))), receiver)
}

fn opened(settings: Settings) -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let database = Database::open(path.to_str().unwrap(), &settings).unwrap();
    let create = Statement::new("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)", []);
    database.usable().unwrap().transact(vec![create]).unwrap();
    (folder, database)
}

fn insert(id: i64) -> Statement {
    Statement::named(
        "INSERT INTO t VALUES (:id, $name) RETURNING id",
        [("id".into(), id.into()), ("name".into(), "a".into()), ("other".into(), Value::Null)],
    )
}

#[test]
fn every_outcome_is_delivered_once_also_where_admission_has_no_room() {
    let narrow = Settings { transactions_max: Some(3), ..Settings::default() };
    let (_folder, database) = opened(narrow);
    let (waker, bell) = bell();
    let mut deliveries: Deliveries<i64, ()> = Deliveries::new(waker);
    for id in 0..500 {
        deliveries.transact(database.usable().unwrap(), vec![insert(id % 400)], id);
    }
    let mut seen = Vec::new();
    while !deliveries.is_empty() {
        bell.recv().unwrap();
        for (key, delivered) in deliveries.take() {
            let Delivered::Outcome(outcome) = delivered else { unreachable!() };
            match outcome {
                Ok(results) => assert_eq!(results[0].rows, [[Value::Int(key)]]),
                Err(failure) => {
                    assert!(key >= 400, "{failure:?}");
                    let said = Description::of(&failure);
                    assert_eq!(said.kind, Some(Kind::Unique));
                    assert_eq!(said.message, "UNIQUE constraint failed: t.id");
                }
            }
            seen.push(key);
        }
    }
    assert_eq!(seen, (0..500).collect::<Vec<_>>(), "in the order of submission");
    database.close().unwrap();
}

#[test]
fn a_transaction_that_is_not_begun_can_be_withdrawn() {
    let narrow = Settings { transactions_max: Some(3), ..Settings::default() };
    let (_folder, database) = opened(narrow);
    let (waker, bell) = bell();
    let mut deliveries: Deliveries<i64, ()> = Deliveries::new(waker);
    let (begun, begins) = mpsc::channel();
    let (go_on, waits) = mpsc::channel();
    let sqlite = database.usable().unwrap().as_sqlite().unwrap();
    // It keeps all others queued, or waiting for admission.
    let _busy = sqlite.submit(move |_| {
        begun.send(()).unwrap();
        waits.recv().unwrap();
        Ok::<(), Infallible>(())
    });
    begins.recv().unwrap();
    for id in 0..6 {
        deliveries.transact(database.usable().unwrap(), vec![insert(id)], id);
    }
    [1, 4].iter().for_each(|id| deliveries.cancel(id));
    go_on.send(()).unwrap();
    let mut seen = Vec::new();
    while !deliveries.is_empty() {
        bell.recv().unwrap();
        for (key, delivered) in deliveries.take() {
            let Delivered::Outcome(outcome) = delivered else { unreachable!() };
            let is_withdrawn = matches!(outcome, Err(Failure::NotRun(NotRun::Cancelled)));
            assert_eq!(is_withdrawn, [1, 4].contains(&key), "{key}: {outcome:?}");
            seen.push(key);
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
    database.close().unwrap();
}

#[test]
fn other_work_is_delivered_beside_transactions() {
    let (_folder, database) = opened(Settings::default());
    let (waker, bell) = bell();
    let mut deliveries: Deliveries<&str, Value> = Deliveries::new(waker);
    let sql = database.usable().unwrap().clone();
    deliveries.spawn("at once", std::future::ready(Value::Null));
    deliveries.transact(&sql, vec![insert(7)], "insert");
    let mut answers = Vec::new();
    while !deliveries.is_empty() {
        bell.recv().unwrap();
        answers.extend(deliveries.take());
    }
    deliveries.spawn("read", async move {
        let read = Statement::new("SELECT id FROM t", []);
        first_row_async(&sql, read).await.unwrap().rows.remove(0).remove(0)
    });
    while !deliveries.is_empty() {
        bell.recv().unwrap();
        answers.extend(deliveries.take());
    }
    let named: Vec<_> = answers.iter().map(|(key, _)| *key).collect();
    assert_eq!(named, ["at once", "insert", "read"]);
    assert!(matches!(answers[2].1, Delivered::Answer(Value::Int(7))));
}

#[test]
fn a_named_parameter_that_is_not_given_is_an_error() {
    let (_folder, database) = opened(Settings::default());
    let statement =
        Statement::named("INSERT INTO t VALUES (:id, :name)", [("id".into(), 1.into())]);
    let failure = database.usable().unwrap().transact(vec![statement]).unwrap_err();
    let said = Description::of(&failure);
    assert_eq!(said.kind_name().as_deref(), Some("parameters"));
    assert!(said.message.contains(":name"), "{}", said.message);
}

#[test]
fn rows_come_in_pieces_or_as_the_first_alone() {
    let (_folder, database) = opened(Settings::default());
    let sql = database.usable().unwrap();
    let count = 2 * ROWS_AT_ONCE + 7;
    let many = (0..i64::try_from(count).unwrap()).map(|id| vec![insert(id)]);
    assert!(sql.submit_many(many).wait().iter().all(Result::is_ok));
    let read = Statement::new("SELECT id, name FROM t ORDER BY id", []);
    let chunks = Chunks::new(sql.clone(), read.clone());
    let mut rows = Vec::new();
    loop {
        let (columns, more) = block_on(chunks.next()).unwrap();
        if more.is_empty() {
            break;
        }
        assert_eq!(columns, ["id", "name"]);
        assert!(more.len() <= ROWS_AT_ONCE);
        rows.extend(more);
    }
    assert_eq!(rows.len(), count);
    assert_eq!(first_row(sql, &read).unwrap().rows, rows[..1]);

    let stopped = Chunks::new(sql.clone(), read);
    assert!(!block_on(stopped.next()).unwrap().1.is_empty());
    stopped.close();
    assert!(block_on(stopped.next()).unwrap().1.is_empty());
    database.close().unwrap();
}

#[test]
fn a_token_keeps_the_results() {
    let (_folder, database) = opened(Settings::default());
    let sql = database.usable().unwrap();
    let run = |id| block_on(Repeatable::run(sql, b"order 7", vec![insert(id)]));
    let first = run(1).unwrap();
    let again = run(1).unwrap();
    assert!(!first.is_repeated && again.is_repeated);
    assert_eq!(again.results, first.results);
    assert_eq!(again.results[0].rows, [[Value::Int(1)]]);
    let reused = Description::of_once(&run(2).unwrap_err());
    assert_eq!(reused.message, "the token belongs to another transaction");
}
