//! The data of experiment 1: an 8-byte integer key and a 36-character random UUID string a row; and
//! the operations of its mixed task.
//!
//! 1. The keys of inserted rows are the even numbers from 2 to 2 × rows, ascending, so that row
//!    `index` has the key `2 * (index + 1)` and any run that ends early has written a known prefix.
//! 2. The mixed task reads a random key and writes one, in turn. Keys are uniform in 1 to 2 × rows, as
//!    published; the table holds the even ones, so half of the first reads find nothing, and half of
//!    the first writes insert.
//! 3. Keys and values depend on the seed and the index alone: every condition does the same on every
//!    machine, and the table that results is known.
//! 4. Everything is generated before a clock starts. The values lie in one buffer, so that handing
//!    a row to a transaction costs no allocation.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Characters of one value, unless another size is asked for: a hyphenated UUID.
const VALUE_CHARS: usize = 36;

/// Rows to be written, generated ahead.
pub struct Workload {
    values: String,
    value_bytes: usize,
    rows: usize,
    /// Where they are not the even numbers: those of rows that may be there already.
    keys: Option<Vec<i64>>,
}

impl Workload {
    /// Generates `rows` rows to be inserted, from `seed`, with values of `value_bytes` bytes: a UUID,
    /// cut off or repeated.
    #[must_use]
    pub fn generate(rows: usize, seed: u64, value_bytes: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut values = String::with_capacity(rows * value_bytes);
        let mut text = [0_u8; VALUE_CHARS];
        for _ in 0..rows {
            let bytes = random.u128(..).to_ne_bytes();
            let uuid = uuid::Builder::from_random_bytes(bytes).into_uuid();
            let text = uuid.hyphenated().encode_lower(&mut text);
            values.extend(text.chars().cycle().take(value_bytes));
        }
        Self { values, value_bytes, rows, keys: None }
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The key of the row at `index`, counted from 0.
    #[must_use]
    pub fn key(&self, index: usize) -> i64 {
        self.keys.as_ref().map_or_else(|| even(index), |keys| keys[index])
    }

    /// The value of the row at `index`, counted from 0.
    ///
    /// # Panics
    /// When `index` is not below [`Workload::rows`].
    #[must_use]
    pub fn value(&self, index: usize) -> &str {
        &self.values[index * self.value_bytes..(index + 1) * self.value_bytes]
    }

    /// The sum of the keys of the first `rows` inserted rows: 2 + 4 + ... + 2 × rows.
    #[must_use]
    pub fn key_sum(rows: u64) -> i128 {
        i128::from(rows) * (i128::from(rows) + 1)
    }

    /// The rows of one transaction.
    pub(crate) fn batch(self: &Arc<Self>, rows: Range<usize>) -> Batch {
        Batch { workload: Arc::clone(self), rows }
    }
}

/// The even number at `index`, counted from 0.
fn even(index: usize) -> i64 {
    i64::try_from(index).map_or(i64::MAX, |index| index.saturating_add(1).saturating_mul(2))
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workload").field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// The rows of one transaction.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    workload: Arc<Workload>,
    rows: Range<usize>,
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether its rows may be there already, and are then replaced.
    pub(crate) fn replaces(&self) -> bool {
        self.workload.keys.is_some()
    }

    /// Keys and values.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (i64, &str)> {
        self.rows.clone().map(|index| (self.workload.key(index), self.workload.value(index)))
    }
}

/// The operations of the mixed task: those of even number read, those of odd number write.
#[derive(Debug)]
pub(crate) struct Operations {
    reads: Vec<i64>,
    writes: Arc<Workload>,
}

impl Operations {
    /// `count` operations on a table of `rows` rows, with values of `value_bytes` bytes.
    pub(crate) fn generate(count: usize, rows: usize, seed: u64, value_bytes: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(1));
        let highest = even(rows.saturating_sub(1));
        let (mut reads, mut keys) = (Vec::new(), Vec::new());
        for number in 0..count {
            let keys = if number.is_multiple_of(2) { &mut reads } else { &mut keys };
            keys.push(random.i64(1..=highest));
        }
        let writes = Workload::generate(keys.len(), seed.wrapping_add(2), value_bytes);
        Self { reads, writes: Arc::new(Workload { keys: Some(keys), ..writes }) }
    }

    pub(crate) fn count(&self) -> usize {
        self.reads.len() + self.writes.rows
    }

    /// The key that operation `number` reads, or else what it writes.
    pub(crate) fn get(&self, number: usize) -> Result<i64, Batch> {
        let index = number / 2;
        if number.is_multiple_of(2) {
            Ok(self.reads[index])
        } else {
            Err(self.writes.batch(index..index + 1))
        }
    }

    /// What the first `writes` writes leave behind: for each key they touched, its value.
    pub(crate) fn written(&self, writes: usize) -> HashMap<i64, &str> {
        (0..writes).map(|index| (self.writes.key(index), self.writes.value(index))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_rows_and_another_seed_others() {
        let one = Workload::generate(500, 7, 36);
        let same = Workload::generate(500, 7, 36);
        let other = Workload::generate(500, 8, 36);
        assert!((0..500).all(|index| one.value(index) == same.value(index)));
        assert!((0..500).all(|index| one.value(index) != other.value(index)));
    }

    #[test]
    fn a_longer_workload_begins_with_the_shorter_one() {
        let short = Workload::generate(10, 1, 36);
        let long = Workload::generate(1_000, 1, 36);
        assert!((0..10).all(|index| short.value(index) == long.value(index)));
    }

    #[test]
    fn values_are_distinct_random_uuids_of_36_characters() {
        let workload = Workload::generate(1_000, 3, 36);
        let mut seen = HashSet::new();
        for index in 0..workload.rows() {
            let value = workload.value(index);
            assert_eq!(value.len(), VALUE_CHARS);
            let uuid = uuid::Uuid::parse_str(value).expect("a UUID");
            assert_eq!(uuid.get_version_num(), 4);
            assert!(seen.insert(value));
        }
    }

    #[test]
    fn values_of_another_size_begin_alike() {
        let (short, long) = (Workload::generate(50, 3, 7), Workload::generate(50, 3, 100));
        for index in 0..50 {
            assert_eq!((short.value(index).len(), long.value(index).len()), (7, 100));
            assert!(long.value(index).starts_with(short.value(index)));
        }
    }

    #[test]
    fn keys_are_the_even_numbers_and_their_sum_is_known() {
        let keys: Vec<i64> = (0..1_000).map(even).collect();
        assert_eq!(&keys[..3], &[2, 4, 6]);
        assert_eq!(keys.last(), Some(&2_000));
        assert_eq!(Workload::key_sum(1_000), keys.iter().map(|&key| i128::from(key)).sum::<i128>());
        assert_eq!(Workload::key_sum(0), 0);
    }

    #[test]
    fn operations_are_determined_by_the_seed_and_stay_within_the_keys() {
        let keys = |seed| {
            let operations = Operations::generate(1_000, 50, seed, 36);
            let key = |number| match operations.get(number) {
                Ok(key) => key,
                Err(batch) => batch.rows().next().expect("a row").0,
            };
            (0..operations.count()).map(key).collect::<Vec<_>>()
        };
        let one = keys(7);
        assert_eq!(one, keys(7));
        assert!(one.iter().all(|key| (1..=100).contains(key)));
        assert!(one.iter().any(|key| key % 2 == 1) && one.contains(&100));
        assert_ne!(one, keys(8));
    }
}
