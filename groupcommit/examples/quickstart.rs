//! A table, a hundred transactions at once, and a look at what is on disk.
//!
//! ```text
//! cargo run --example quickstart -- DATABASE
//! ```

use groupcommit::sqlite::Database;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("give the path of a database, for example app.db")?;
    // readme: begin
    let db = Database::open(path)?;
    db.transact(|tx| tx.execute("CREATE TABLE IF NOT EXISTS visits (page TEXT)", ()))?;
    let ticket = db.submit(|tx| tx.execute("INSERT INTO visits VALUES (?1)", ["/"])); // returns at once
    ticket.wait()?; // committed and flushed
    // readme: end
    let tickets: Vec<_> = (1..100)
        .map(|n| {
            let page = format!("/page/{n}");
            db.submit(move |tx| tx.execute("INSERT INTO visits VALUES (?1)", [&page]))
        })
        .collect(); // submitted, each a transaction of its own
    for ticket in tickets {
        ticket.wait()?;
    }
    let visits: i64 =
        db.read(|conn| conn.query_row("SELECT count(*) FROM visits", (), |row| row.get(0)))?;
    println!("{visits} visits, in {} flushes", db.stats().flushes);
    db.close()?;
    Ok(())
}
