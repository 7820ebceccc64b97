//! How many pages a checkpoint beside the commits writes between two syncs: a pure rule.

use std::time::Instant;

/// Pages between two syncs at least.
const LENGTH_MIN: u32 = 32;

/// Pages between two syncs at most.
const LENGTH_MAX: u32 = 1_024;

/// The pages that a checkpoint writes between two syncs. Few, so that a flush of the log never waits long
/// behind a sync. More on disks where every sync is slow, or the checkpoint would spend its time syncing.
#[derive(Debug)]
pub(crate) struct Pieces {
    /// Pages of a piece.
    length: u32,
    /// Pages since the last sync.
    written: u32,
    /// When the last sync ended.
    since: Instant,
}

impl Pieces {
    pub(crate) fn begin(now: Instant) -> Self {
        Self { length: LENGTH_MIN, written: 0, since: now }
    }

    /// A page was written. Whether the piece is complete.
    pub(crate) fn written(&mut self) -> bool {
        self.written += 1;
        self.written >= self.length
    }

    /// A piece was synced, between these times.
    pub(crate) fn synced(&mut self, began: Instant, now: Instant) {
        let (writing, syncing) = (began - self.since, now - began);
        if syncing > 4 * writing {
            self.length = (2 * self.length).min(LENGTH_MAX);
        } else if syncing < writing {
            self.length = (self.length / 2).max(LENGTH_MIN);
        }
        (self.written, self.since) = (0, now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Pages of a piece in the end, where a page takes 10 µs to write and a sync so long.
    fn length(sync_us: u64) -> u32 {
        let mut now = Instant::now();
        let mut pieces = Pieces::begin(now);
        for _ in 0..20 {
            loop {
                now += Duration::from_micros(10);
                if pieces.written() {
                    break;
                }
            }
            let began = now;
            now += Duration::from_micros(sync_us);
            pieces.synced(began, now);
        }
        pieces.length
    }

    #[test]
    fn pieces_are_short_where_a_sync_is_and_long_where_it_is_not() {
        assert_eq!(length(100), LENGTH_MIN);
        assert_eq!(length(1_000), LENGTH_MIN);
        assert_eq!(length(5_000), 128);
        assert_eq!(length(1_000_000), LENGTH_MAX);
    }

    #[test]
    fn a_disk_that_was_slow_for_a_while_leaves_no_long_pieces() {
        let mut now = Instant::now();
        let mut pieces = Pieces::begin(now);
        for sync_ms in [100; 5].into_iter().chain([0; 5]) {
            let began = now;
            now += Duration::from_millis(sync_ms);
            pieces.synced(began, now);
            now += Duration::from_millis(1);
        }
        assert_eq!(pieces.length, LENGTH_MIN);
    }
}
