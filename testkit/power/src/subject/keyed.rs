//! The transactions on a key-value engine, and what is found of them: the same for each.
//!
//! | table | key | value |
//! |---|---|---|
//! | `head` | nothing but a letter | number of the last transaction |
//! | `tx` | number | how many items, how long each |
//! | `item` | index, number | the content |
//! | `account` | account | balance |
//! | `of_failed` | a letter | what a transaction wrote that failed |
//!
//! Numbers are big-endian, so that the order of the keys is theirs.

use anyhow::{Context, Result};

use crate::plan::{ACCOUNTS, Found, Planned};

/// A table, a column family, or whatever an engine calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Head,
    Tx,
    Item,
    Account,
    OfFailed,
}

/// All of them, each at the place of its number.
pub(super) const TABLES: [Table; 5] =
    [Table::Head, Table::Tx, Table::Item, Table::Account, Table::OfFailed];

impl Table {
    pub(super) fn name(self) -> &'static str {
        ["head", "tx", "item", "account", "of_failed"][self as usize]
    }
}

/// The only key of the tables that have one row.
const KEY: &[u8] = b"k";

/// Inside a transaction.
pub(super) trait Rows {
    type Error;

    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error>;

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), Self::Error>;
}

/// Does what a transaction does.
pub(super) fn apply<R: Rows>(rows: &mut R, planned: Planned) -> Result<(), R::Error> {
    let number = planned.number.to_be_bytes();
    let sizes = [planned.items.to_be_bytes(), planned.bytes.to_be_bytes()].concat();
    rows.put(Table::Tx, &number, &sizes)?;
    for index in 0..planned.items {
        let key = [&index.to_be_bytes()[..], &number].concat();
        rows.put(Table::Item, &key, &planned.item(index))?;
    }
    let (from, to, amount) = planned.transfer();
    for (account, amount) in [(from, -amount), (to, amount)] {
        let key = (account as u64).to_be_bytes();
        // A balance of another length would not add up afterwards, and so be found.
        let balance = rows.get(Table::Account, &key)?.and_then(|value| value.try_into().ok());
        let balance = balance.map_or(0, i64::from_be_bytes) + amount;
        rows.put(Table::Account, &key, &balance.to_be_bytes())?;
    }
    rows.put(Table::Head, KEY, &number)
}

/// Writes what must never be found.
pub(super) fn apply_failing<R: Rows>(rows: &mut R) -> Result<(), R::Error> {
    rows.put(Table::OfFailed, KEY, b"written before it failed")?;
    rows.put(Table::Head, KEY, &u64::MAX.to_be_bytes())
}

/// Notes an entry.
///
/// # Errors
///
/// When it is none that a transaction writes.
pub(super) fn take(found: &mut Found, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
    let damaged = || format!("damaged: {} {key:?}", table.name());
    match table {
        Table::Head => found.head = number(value).with_context(damaged)?,
        Table::Tx => {
            let (items, bytes) = value.split_at_checked(4).with_context(damaged)?;
            let (items, bytes) = (short(items), short(bytes));
            let (items, bytes) = items.zip(bytes).with_context(damaged)?;
            let number = number(key).with_context(damaged)?;
            found.transactions.push(Planned { number, items, bytes });
        }
        Table::Item => {
            let (index, of) = key.split_at_checked(4).with_context(damaged)?;
            let (index, of) = short(index).zip(number(of)).with_context(damaged)?;
            found.items.push((of, index, value.to_vec()));
        }
        Table::Account => {
            let account = number(key).and_then(|account| usize::try_from(account).ok());
            let account = account.filter(|account| *account < ACCOUNTS).with_context(damaged)?;
            found.balances[account] = number(value).with_context(damaged)?.cast_signed();
        }
        Table::OfFailed => found.of_failed += 1,
    }
    Ok(())
}

/// The head, of its table's row.
pub(super) fn head(read: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> u64 {
    read(KEY).and_then(|value| number(&value)).unwrap_or(0)
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_be_bytes)
}

fn short(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, convert::Infallible};

    use super::*;
    use crate::verify::{self, Promised};

    #[derive(Default)]
    struct Map([BTreeMap<Vec<u8>, Vec<u8>>; TABLES.len()]);

    impl Rows for Map {
        type Error = Infallible;

        fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Infallible> {
            Ok(self.0[table as usize].get(key).cloned())
        }

        fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), Infallible> {
            self.0[table as usize].insert(key.to_vec(), value.to_vec());
            Ok(())
        }
    }

    fn found(map: &Map) -> Result<Found> {
        let mut found = Found::default();
        for table in TABLES {
            for (key, value) in &map.0[table as usize] {
                take(&mut found, table, key, value)?;
            }
        }
        Ok(found)
    }

    fn written() -> Map {
        let mut map = Map::default();
        for number in 1..=300 {
            let items = u32::try_from(number % 4).unwrap_or(0);
            apply(&mut map, Planned { number, items, bytes: 9 }).unwrap();
        }
        map
    }

    #[test]
    fn what_was_written_is_found_whole() {
        let found = found(&written()).unwrap();
        assert_eq!((found.transactions.len(), found.head), (300, 300));
        assert!(verify::judge(&found, &Promised::default()).is_none());
    }

    #[test]
    fn what_failed_and_what_is_missing_is_found() {
        let mut failed = written();
        apply_failing(&mut failed).unwrap();
        let mut without_item = written();
        without_item.0[Table::Item as usize].pop_last();
        for map in [failed, without_item] {
            assert!(verify::judge(&found(&map).unwrap(), &Promised::default()).partial > 0);
        }
        let mut damaged = written();
        damaged.put(Table::Tx, b"1", b"").unwrap();
        assert!(found(&damaged).is_err());
    }
}
