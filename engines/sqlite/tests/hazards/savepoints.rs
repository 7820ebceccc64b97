//! A savepoint that cannot be undone takes its transaction with it.

use groupcommit_sqlite::{Error, rusqlite};

use crate::common::{Done, Scratch, insert, rejected_by_engine};

/// While a cursor is open, an interrupt lasts.
#[test]
fn for_an_interrupt_that_lasts() {
    let test = Scratch::with_table();
    let odd = test.between_neighbours(|db| {
        db.submit(|tx| {
            let mut cursor = tx.prepare("SELECT 1 UNION ALL SELECT 2")?;
            let mut rows = cursor.query(())?;
            rows.next()?;
            tx.savepoint(|tx| {
                insert(tx, 50)?;
                tx.get_interrupt_handle().interrupt();
                Err::<(), _>(rusqlite::Error::InvalidQuery)
            })
            .unwrap_err();
            Done::Ok(())
        })
    });
    assert!(matches!(rejected_by_engine(&odd), Error::SavepointKept), "{odd:?}");
    assert_eq!(test.ids(), [1, 2]);
}
