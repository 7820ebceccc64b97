//! Reads over a bounded number of connections.

use groupcommit_postgres::{Database, Error, Failure, Rejected, Statement};

use crate::server::{insert, schema, shared};

fn numbers(to: i64) -> Statement {
    Statement::new("SELECT n::int8 FROM generate_series(1, $1::int8) AS n", [to.into()])
}

#[test]
fn a_read_writes_nothing_and_goes_on_after_its_connection_was_ended() {
    let url = format!("{}&application_name=ended_readers", schema());
    let db = Database::options().readers(1).open(&url).unwrap();
    db.submit_statements(vec![insert(1)]).wait().unwrap();
    let refused = db.read(&insert(2));
    match refused {
        Err(Failure::Rejected(Rejected::Caller(Error::Server(error)))) => {
            assert_eq!(error.code().unwrap().code(), "25006");
        }
        other => panic!("{other:?}"),
    }
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE application_name = 'ended_readers'";
    assert_eq!(shared().sql(end).unwrap().trim(), "2");
    assert_eq!(db.read(&numbers(5)).unwrap().rows.len(), 5);
    db.submit_statements(vec![insert(3)]).wait().unwrap();
    assert_eq!(crate::server::ids(&db), [1, 3]);
}

/// Waits until the server runs so many statements that hold this.
fn until_run(mark: &str, expected: usize) {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%{mark}%' \
         AND pid <> pg_backend_pid()"
    );
    let since = std::time::Instant::now();
    while shared().sql(&sql).unwrap().trim() != expected.to_string() {
        assert!(since.elapsed() < std::time::Duration::from_mins(1), "never {expected} of {mark}");
    }
}

#[test]
fn a_read_that_is_given_up_ends_on_the_server() {
    let url = format!("{}&application_name=given_up", schema());
    let db = Database::options().readers(1).open(&url).unwrap();
    db.read(&numbers(1)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Before its first row, and behind it.
    let sleeps = Statement::new("SELECT 'mark_one', pg_sleep(600)", []);
    let floods = "SELECT 'mark_two', repeat('x', 1000), generate_series(1, 2000000000)";
    let floods = Statement::new(floods, []);
    runtime.block_on(async {
        tokio::select! {
            read = db.read_async(&sleeps) => panic!("{read:?}"),
            () = async { tokio::task::spawn_blocking(|| until_run("mark_one", 1)).await.unwrap() } => {}
        }
        assert_eq!(db.read_async(&numbers(3)).await.unwrap().rows.len(), 3);
        let mut rows = db.read_rows(&floods).await.unwrap();
        rows.next().await.unwrap().unwrap();
        drop(rows);
        assert_eq!(db.read_async(&numbers(3)).await.unwrap().rows.len(), 3);
    });
    until_run("mark_one", 0);
    until_run("mark_two", 0);
    let sleeps_three =
        |seconds: f64| Statement::new("SELECT 'mark_three', pg_sleep($1)", [seconds.into()]);
    db.read(&sleeps_three(0.0)).unwrap(); // prepares it
    db.read(&numbers(1)).unwrap();
    // Neighbours that share the connection keep it until they have all.
    let neighbour = runtime.block_on(db.read_rows(&numbers(200_000))).unwrap();
    let given_up = std::thread::scope(|scope| {
        let (db, url) = (&db, "SELECT 'mark_three', pg_sleep(600)");
        scope
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let read = Statement::new(url, []);
                let mut read = Box::pin(db.read_rows(&read));
                runtime.block_on(async {
                    // Sent, behind the other's rows.
                    for _ in 0..3 {
                        let polled = std::future::poll_fn(|cx| {
                            std::task::Poll::Ready(Future::poll(read.as_mut(), cx).is_ready())
                        });
                        polled.await;
                    }
                });
                drop(read);
            })
            .join()
            .is_ok()
    });
    assert!(given_up);
    let mut neighbour = neighbour;
    let mut count = 0;
    while runtime.block_on(neighbour.next()).unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 200_000);
    drop(neighbour);
    assert_eq!(db.read(&numbers(3)).unwrap().rows.len(), 3);
    until_run("mark_three", 0);
    // And the number of connections is what it was: one reads, one writes.
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'given_up'";
    let since = std::time::Instant::now();
    while shared().sql(sql).unwrap().trim() != "2" {
        assert!(since.elapsed() < std::time::Duration::from_mins(1));
    }
}
