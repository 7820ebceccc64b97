//! The data of experiment 1: an 8-byte integer key and a 36-character random UUID string a row.
//!
//! 1. The keys are the even numbers from 2 to 2 × rows, ascending, so that row `index` has the key
//!    `2 * (index + 1)` and any run that ends early has written a known prefix.
//! 2. The values depend on the seed and the index alone: the same seed gives the same rows on every
//!    machine.
//! 3. Everything is generated before a clock starts. The values lie in one buffer, so that handing
//!    a row to a transaction costs no allocation.

use std::fmt;

/// Characters of one value, unless another size is asked for: a hyphenated UUID.
pub const VALUE_CHARS: usize = 36;

/// Rows to be written, generated ahead.
pub struct Workload {
    values: String,
    value_bytes: usize,
    rows: usize,
}

impl Workload {
    /// Generates `rows` rows from `seed`.
    #[must_use]
    pub fn generate(rows: usize, seed: u64) -> Self {
        Self::of_bytes(rows, seed, VALUE_CHARS)
    }

    /// As [`Workload::generate`], with values of `value_bytes` bytes: a UUID, cut off or repeated.
    #[must_use]
    pub fn of_bytes(rows: usize, seed: u64, value_bytes: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut values = String::with_capacity(rows * value_bytes);
        let mut text = [0_u8; VALUE_CHARS];
        for _ in 0..rows {
            let bytes = random.u128(..).to_ne_bytes();
            let uuid = uuid::Builder::from_random_bytes(bytes).into_uuid();
            let text = uuid.hyphenated().encode_lower(&mut text);
            values.extend(text.chars().cycle().take(value_bytes));
        }
        Self { values, value_bytes, rows }
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The key of the row at `index`, counted from 0.
    #[must_use]
    pub fn key(index: usize) -> i64 {
        i64::try_from(index).map_or(i64::MAX, |index| index.saturating_add(1).saturating_mul(2))
    }

    /// The value of the row at `index`, counted from 0.
    ///
    /// # Panics
    /// When `index` is not below [`Workload::rows`].
    #[must_use]
    pub fn value(&self, index: usize) -> &str {
        &self.values[index * self.value_bytes..(index + 1) * self.value_bytes]
    }

    /// The sum of the keys of the first `rows` rows: 2 + 4 + ... + 2 × rows.
    #[must_use]
    pub fn key_sum(rows: u64) -> i128 {
        i128::from(rows) * (i128::from(rows) + 1)
    }
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workload").field("rows", &self.rows).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_rows_and_another_seed_others() {
        let one = Workload::generate(500, 7);
        let same = Workload::generate(500, 7);
        let other = Workload::generate(500, 8);
        assert!((0..500).all(|index| one.value(index) == same.value(index)));
        assert!((0..500).all(|index| one.value(index) != other.value(index)));
    }

    #[test]
    fn a_longer_workload_begins_with_the_shorter_one() {
        let short = Workload::generate(10, 1);
        let long = Workload::generate(1_000, 1);
        assert!((0..10).all(|index| short.value(index) == long.value(index)));
    }

    #[test]
    fn values_are_distinct_random_uuids_of_36_characters() {
        let workload = Workload::generate(1_000, 3);
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
        let (short, long) = (Workload::of_bytes(50, 3, 7), Workload::of_bytes(50, 3, 100));
        for index in 0..50 {
            assert_eq!((short.value(index).len(), long.value(index).len()), (7, 100));
            assert!(long.value(index).starts_with(short.value(index)));
        }
    }

    #[test]
    fn keys_are_the_even_numbers_and_their_sum_is_known() {
        let keys: Vec<i64> = (0..1_000).map(Workload::key).collect();
        assert_eq!(&keys[..3], &[2, 4, 6]);
        assert_eq!(keys.last(), Some(&2_000));
        assert_eq!(Workload::key_sum(1_000), keys.iter().map(|&key| i128::from(key)).sum::<i128>());
        assert_eq!(Workload::key_sum(0), 0);
    }
}
