//! The figures of the publications, which stand beside ours. They were measured on other machines,
//! so no ratio is made between them and ours.

use crate::report::section::Table;

fn table(caption: &str, columns: &[&'static str], rows: &[&[&str]], notes: &[&str]) -> Table {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    Table {
        caption: caption.to_owned(),
        columns: columns.to_vec(),
        rows: rows.iter().map(|row| owned(row)).collect(),
        notes: owned(notes),
    }
}

/// Datalevin, February 2025: pure write.
pub(super) fn write() -> Table {
    table(
        "Published for this experiment (Datalevin, February 2025; 6 cores of 2016, SATA SSD)",
        &["condition", "rows a transaction", "rows/s", "durable"],
        &[
            &["Datalevin, async", "1", "16,829.2", "yes"],
            &["Datalevin, one commit a call", "1", "a few hundred", "yes"],
            &["SQLite, WAL NORMAL", "1", "18,353", "no"],
            &["SQLite, WAL OFF", "1", "24,987", "no"],
        ],
        &[
            "The publication gives 0.1 ms as the latency of the first line: the completion interval. With \
             1,000 in flight its callers waited about 59 ms (Little's law), which makes about 283 \
             effective rows/s at 1 ms.",
            "There SQLite overtakes at 100 and 1,000 rows a transaction; SQLite's best for the million \
             rows was 6.7 s (WAL, 1,000 rows a transaction), bulk loading without transactions 5.3 s.",
        ],
    )
}

/// Datalevin, February 2025: the mixed task.
pub(super) fn mixed() -> Table {
    table(
        "Published for this experiment (Datalevin, February 2025; 6 cores of 2016, SATA SSD)",
        &["condition", "operations", "wall, s", "CPU, s"],
        &[&["Datalevin, async", "2,000,000", "111.04", "227.89"]],
        &["There it was the only condition whose CPU time exceeded its wall time."],
    )
}

/// Threads and documents a second that RavenDB gave, merged, where both were published.
pub(super) const MERGED_THREADS: f64 = 25.0;
/// See [`MERGED_THREADS`].
pub(super) const MERGED_PER_SECOND: f64 = 1_100.0;

/// RavenDB: transaction merging.
pub(super) fn threads() -> Table {
    table(
        "Published for this experiment (RavenDB)",
        &["condition", "threads", "documents/s"],
        &[
            &["the user's complaint", "not given", "100 to 200"],
            &["before merging", "not given", "400"],
            &["merged", "25", "over 1,100"],
        ],
        &[],
    )
}
