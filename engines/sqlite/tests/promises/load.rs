//! Bulk load: everything durable at its end, and a prefix of whole chunks when it stops.

use groupcommit_sqlite::{Failure, Rejected, Value};

use crate::common::{Scratch, neighbour};

const INSERT: &str = "INSERT INTO t (id, v) VALUES (?1, ?2)";

fn row(id: i64) -> Vec<Value> {
    vec![id.into(), format!("row {id}").into()]
}

#[test]
fn every_row_is_there_and_progress_counts_durable_ones() {
    let scratch = Scratch::with_table();
    let mut reported = Vec::new();
    let loaded = scratch.db.load(INSERT, (0..25_000).map(row), |progress| {
        reported.push(progress.rows_durable);
    });
    assert_eq!(loaded.unwrap(), 25_000);
    assert!(reported.is_sorted() && reported.len() >= 3, "{reported:?}");
    assert_eq!(reported.last(), Some(&25_000));
    assert_eq!(scratch.ids(), (0..25_000).collect::<Vec<i64>>());
}

#[test]
fn one_that_stops_says_where_and_leaves_no_hole() {
    let scratch = Scratch::with_table();
    // The second chunk meets a duplicate; a third would have no objection.
    let ids = (0..15_000).chain([3]).chain(20_000..40_000);
    let error = scratch.db.load(INSERT, ids.map(row), |_| {}).unwrap_err();
    assert!(matches!(error.failure, Failure::Rejected(Rejected::Caller(_))), "{error:?}");
    let durable = i64::try_from(error.rows_durable).unwrap();
    assert!(durable > 0 && durable <= 15_000, "{durable}");
    assert_eq!(scratch.ids(), (0..durable).collect::<Vec<i64>>());
}

#[test]
fn other_transactions_go_on_between_its_chunks() {
    let scratch = Scratch::with_table();
    let db = scratch.db.clone();
    let mut tickets = Vec::new();
    let loaded = scratch.db.load(INSERT, (0..50_000).map(row), |progress| {
        let id = 1_000_000 + i64::try_from(progress.rows_durable).unwrap();
        tickets.push(neighbour(&db, id));
    });
    assert_eq!(loaded.unwrap(), 50_000);
    let others = tickets.len();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    assert_eq!(scratch.ids().len(), 50_000 + others);
}

#[test]
fn nothing_to_load_is_no_error() {
    let scratch = Scratch::with_table();
    assert_eq!(scratch.db.load(INSERT, std::iter::empty(), |_| {}).unwrap(), 0);
}
