//! Loading many rows: one statement for all, durable at the end, with progress on the way.
//!
//! ```text
//! cargo run --release --example bulk_load -- DATABASE ROWS
//! ```

use groupcommit::sqlite::{Database, Value};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("give the path of a database, for example app.db")?;
    let rows: i64 = arguments.next().ok_or("give a number of rows")?.parse()?;

    let db = Database::open(path)?;
    db.transact(|tx| tx.execute("CREATE TABLE IF NOT EXISTS points (id INTEGER, name TEXT)", ()))?;

    let points = (0..rows).map(|id| vec![Value::from(id), Value::from(format!("point {id}"))]);
    let loaded = db.load("INSERT INTO points VALUES (?1, ?2)", points, |progress| {
        println!("{} rows durable after {:.1?}", progress.rows_durable, progress.elapsed);
    })?;
    println!("loaded {loaded} rows");
    db.close()?;
    Ok(())
}
