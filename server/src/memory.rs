//! The memory that requests and responses take together, and its bound.

use std::sync::{
    Arc,
    atomic::{AtomicIsize, Ordering::Relaxed},
};

use bytes::Bytes;

/// Memory in use, in bytes; it is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Memory {
    /// What all have left; negative where more is taken than there is.
    left: Arc<AtomicIsize>,
    bytes: usize,
}

impl Memory {
    /// None yet, of as much as this.
    pub(crate) fn of(bytes_max: usize) -> Self {
        Self { left: Arc::new(AtomicIsize::new(signed(bytes_max))), bytes: 0 }
    }

    /// None yet, of the same.
    pub(crate) fn none(&self) -> Self {
        Self { left: self.left.clone(), bytes: 0 }
    }

    /// What it has taken.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more; false when there is not so much.
    #[must_use]
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let left = self.left.fetch_sub(signed(bytes), Relaxed);
        self.bytes += bytes;
        let is_there = left >= signed(bytes);
        if !is_there {
            self.resize(self.bytes - bytes);
        }
        is_there
    }

    /// Takes so much in all, whether it is there or not: it is in use already.
    pub(crate) fn resize(&mut self, bytes: usize) {
        self.left.fetch_add(signed(self.bytes) - signed(bytes), Relaxed);
        self.bytes = bytes;
    }

    /// Takes over what `other` has taken.
    pub(crate) fn merge(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// `text` as bytes that are counted for as long as anybody holds them.
    pub(crate) fn hold(mut self, text: Vec<u8>) -> Bytes {
        struct Held(Vec<u8>, #[expect(dead_code, reason = "held, not read")] Memory);
        impl AsRef<[u8]> for Held {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        if text.len() < SMALL {
            return text.into();
        }
        self.resize(text.capacity());
        Bytes::from_owner(Held(text, self))
    }
}

/// Responses shorter than this are not counted: their number is bounded by that of connections.
const SMALL: usize = 4 << 10;

impl Drop for Memory {
    fn drop(&mut self) {
        self.resize(0);
    }
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_free_again() {
        let all = Memory::of(10_000);
        let mut one = all.none();
        assert!(one.grow(6_000));
        let mut other = all.none();
        assert!(!other.grow(5_000));
        assert!(other.grow(4_000));
        one.merge(other);
        let held = one.hold(vec![0; 8_000]);
        assert!(!all.none().grow(2_001));
        assert!(all.none().grow(2_000));
        drop(held);
        assert!(all.none().grow(10_000));
    }
}
