//! The entries of RocksDB's benchmarks, generated ahead.

/// Bytes of a key, as in RocksDB's own benchmark.
pub(super) const KEY_BYTES: usize = 16;

/// Values are taken in turn from so many.
const VALUES: usize = 10_000;

/// Keys in ascending and in random order, and values of which half can be compressed.
#[derive(Debug)]
pub(super) struct Entries {
    random: Vec<u64>,
    values: Vec<u8>,
    value_bytes: usize,
}

impl Entries {
    pub(super) fn generate(rows: usize, seed: u64, value_bytes: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let keys = (0..rows).map(|_| random.u64(0..rows as u64)).collect();
        let mut values = vec![0; VALUES * value_bytes];
        for value in values.chunks_mut(value_bytes) {
            let (one, other) = value.split_at_mut(value_bytes.div_ceil(2));
            random.fill(one);
            other.copy_from_slice(&one[..other.len()]);
        }
        Self { random: keys, values, value_bytes }
    }

    /// The number of the key that is random at `index`.
    pub(super) fn random(&self, index: usize) -> u64 {
        self.random[index]
    }

    /// The numbers of the keys that are random below `rows`, each once and in order.
    pub(super) fn distinct(&self, rows: usize) -> Vec<u64> {
        let mut numbers = self.random[..rows].to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    pub(super) fn value(&self, index: usize) -> &[u8] {
        let start = index % VALUES * self.value_bytes;
        &self.values[start..start + self.value_bytes]
    }
}

/// The key of a number: the number, and zeros up to [`KEY_BYTES`].
pub(super) fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'0'; KEY_BYTES];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_entries_and_half_of_a_value_repeats() {
        let (one, same) = (Entries::generate(500, 7, 100), Entries::generate(500, 7, 100));
        assert!((0..500).all(|i| one.random(i) == same.random(i) && one.value(i) == same.value(i)));
        assert_eq!(one.value(3)[..50], one.value(3)[50..]);
        assert_ne!(one.value(3), one.value(4));
        let distinct = one.distinct(500);
        assert!(distinct.is_sorted() && (250..400).contains(&distinct.len()));
        assert!(key(1) < key(256));
    }
}
