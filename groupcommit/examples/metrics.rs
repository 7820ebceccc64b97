//! What a service exports: the `metrics` facade for its exporter, a snapshot for everything else.
//!
//! The recorder here collects in memory and is printed at the end in the text format that
//! Prometheus reads. A service installs an exporter of its choice instead, before it opens a
//! database.
//!
//! ```text
//! cargo run --example metrics -- DATABASE
//! ```

use groupcommit::sqlite::Database;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("give the path of a database, for example app.db")?;
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install()?;

    let db = Database::open(path)?;
    db.transact(|tx| tx.execute("CREATE TABLE readings (value REAL)", ()))?;
    let tickets: Vec<_> = (0..1_000)
        .map(|n| db.submit(move |tx| tx.execute("INSERT INTO readings VALUES (?1)", [n])))
        .collect();
    for ticket in tickets {
        ticket.wait()?;
    }
    db.flush()?;

    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let key = key.key();
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}={:?}", label.key(), label.value())).collect();
        let labels = labels.join(",");
        match value {
            DebugValue::Counter(count) => println!("{}{{{labels}}} {count}", key.name()),
            DebugValue::Gauge(level) => println!("{}{{{labels}}} {level}", key.name()),
            DebugValue::Histogram(values) => {
                let sum: f64 = values.iter().map(|value| value.into_inner()).sum();
                println!("{}_count{{{labels}}} {}", key.name(), values.len());
                println!("{}_sum{{{labels}}} {sum}", key.name());
            }
        }
    }

    let stats = db.stats();
    println!(
        "# {} transactions committed in {} flushes; groups of {:.1} on average, {} at most",
        stats.committed, stats.flushes, stats.group_transactions.mean, stats.group_transactions.max,
    );
    println!("# write-ahead log: {} bytes", db.wal().bytes);
    db.close()?;
    Ok(())
}
