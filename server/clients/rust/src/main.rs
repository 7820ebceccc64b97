//! The crate `libsql`, remote only: `groupcommit-clients example` and `groupcommit-clients URL`.

use libsql::{Builder, Connection, TransactionBehavior, Value, params};

mod example;

type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

#[tokio::main]
async fn main() -> Result {
    match std::env::args().nth(1).as_deref() {
        Some("example") => example::run().await,
        Some(url) => use_everything(url).await,
        None => Err("give the server's URL".into()),
    }
}

async fn count(db: &Connection) -> Result<i64> {
    let mut rows = db.query("SELECT count(*) FROM t", ()).await?;
    Ok(rows.next().await?.ok_or("no row")?.get(0)?)
}

async fn use_everything(url: &str) -> Result {
    let server = Builder::new_remote(url.to_owned(), String::new()).build().await?;
    let db = server.connect()?;
    db.execute_batch("DROP TABLE IF EXISTS t; CREATE TABLE t (id INTEGER PRIMARY KEY, v UNIQUE);").await?;

    assert_eq!(db.execute("INSERT INTO t (v) VALUES (?1)", ["a"]).await?, 1);
    assert_eq!(db.last_insert_rowid(), 1);
    for value in [
        Value::Null,
        Value::Integer(i64::MAX),
        Value::Integer(i64::MIN),
        Value::Real(1.5),
        Value::Text("ü\"\n".into()),
        Value::Blob(vec![0, 255, 7]),
    ] {
        let mut rows = db.query("SELECT :v", libsql::named_params! {":v": value.clone()}).await?;
        assert_eq!(rows.next().await?.ok_or("no row")?.get_value(0)?, value);
    }

    let error = db.execute("INSERT INTO t (v) VALUES ('a')", ()).await.unwrap_err().to_string();
    assert!(error.contains("UNIQUE constraint failed: t.v"), "{error}");
    assert!(error.contains("SQLITE_CONSTRAINT"), "{error}");
    assert!(db.execute("INSERT INTO nowhere VALUES (1)", ()).await.is_err());

    db.execute_transactional_batch("INSERT INTO t (v) VALUES ('b'); INSERT INTO t (v) VALUES ('c');").await?;
    let failing = "INSERT INTO t (v) VALUES ('d'); INSERT INTO t (v) VALUES ('a');";
    assert!(db.execute_transactional_batch(failing).await.is_err());
    assert_eq!(count(&db).await?, 3);

    for behavior in [TransactionBehavior::Immediate, TransactionBehavior::Deferred] {
        let tx = db.transaction_with_behavior(behavior).await?;
        tx.execute("INSERT INTO t (v) VALUES (?1)", params!["d"]).await?;
        tx.rollback().await?;
    }
    assert_eq!(count(&db).await?, 3);
    let tx = db.transaction().await?;
    tx.execute("INSERT INTO t (v) VALUES (?1)", params!["d"]).await?;
    assert_eq!(count(&tx).await?, 4);
    tx.commit().await?;
    assert_eq!(count(&db).await?, 4);
    let tx = db.transaction_with_behavior(TransactionBehavior::ReadOnly).await?;
    assert_eq!(count(&tx).await?, 4);
    tx.commit().await?;

    let statement = db.prepare("INSERT INTO t (v) VALUES (?1)").await?;
    statement.execute(["e"]).await?;
    let many = "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i FROM n";
    let mut rows = db.query(many, ()).await?;
    let mut read = 0;
    while rows.next().await?.is_some() {
        read += 1;
    }
    assert_eq!(read, 20_000);

    let workers: Vec<_> = (0..50_i64)
        .map(|number| {
            let own = server.connect();
            tokio::spawn(async move { own?.execute("INSERT INTO t (v) VALUES (?1)", [number]).await })
        })
        .collect();
    for worker in workers {
        worker.await??;
    }
    assert_eq!(count(&db).await?, 55);
    Ok(())
}
