//! How long a flush takes on a given folder: the figure that everything else is to be read against.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::statistics::percentile;

const BLOCK_BYTES: usize = 4096;
const BLOCKS: u64 = 256;
const SAMPLES_MAX: u64 = 256;
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// Times of `fdatasync` (of the system's full flush, where it has another) after a write of 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FlushTimes {
    /// The block lay in a file written and flushed before: only data has to reach the disk.
    pub overwrite_us: FlushPercentiles,
    /// The block was appended: the file's new size has to reach the disk too.
    pub extend_us: FlushPercentiles,
}

/// Percentiles over the flushes of one kind, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FlushPercentiles {
    /// Flushes timed; fewer on a slow disk.
    pub samples: usize,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    #[serde(default = "crate::statistics::unknown")]
    pub p99: f64,
}

/// Measures the flush in `folder`, for at most about two seconds, and leaves nothing behind.
///
/// # Errors
/// When a file cannot be written or flushed there.
pub fn measure_flush(folder: &Path) -> Result<FlushTimes, LabError> {
    let scratch = tempfile::Builder::new()
        .prefix("groupcommit-flush-")
        .tempdir_in(folder)
        .map_err(LabError::io("create a folder in", folder))?;
    let measure = || {
        let file = new_file(&scratch.path().join("overwrite"))?;
        file.write_all_at(&vec![0; BLOCK_BYTES * usize::try_from(BLOCKS).unwrap_or(1)], 0)?;
        file.sync_all()?;
        let overwrite_us = flush_blocks(&file, |sample| sample % BLOCKS)?;
        let file = new_file(&scratch.path().join("extend"))?;
        file.sync_all()?;
        let extend_us = flush_blocks(&file, |sample| sample)?;
        Ok(FlushTimes { overwrite_us, extend_us })
    };
    measure().map_err(LabError::io("write and flush a file in", folder))
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Writes a block at a time where `block` says and times the flush alone.
fn flush_blocks(file: &File, block: impl Fn(u64) -> u64) -> io::Result<FlushPercentiles> {
    let began = Instant::now();
    let mut times_us = Vec::new();
    for sample in 0..SAMPLES_MAX {
        let content = [u8::try_from(sample % 255 + 1).unwrap_or(1); BLOCK_BYTES];
        file.write_all_at(&content, block(sample) * BLOCK_BYTES as u64)?;
        let before = Instant::now();
        file.sync_data()?;
        times_us.push(before.elapsed().as_secs_f64() * 1e6);
        if began.elapsed() > TIME_LIMIT {
            break;
        }
    }
    times_us.sort_by(f64::total_cmp);
    let at = |quantile| percentile(&times_us, quantile).unwrap_or_default();
    Ok(FlushPercentiles { samples: times_us.len(), p50: at(0.5), p99: at(0.99) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_measured_and_left_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        let times = measure_flush(folder.path()).expect("measures");
        for percentiles in [times.overwrite_us, times.extend_us] {
            assert!(percentiles.samples > 0);
            assert!(percentiles.p50 > 0.0 && percentiles.p50 <= percentiles.p99);
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("lists").count(), 0);
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = measure_flush(Path::new("/nonexistent/here")).expect_err("no such folder");
        assert!(error.to_string().contains("/nonexistent/here"));
    }
}
