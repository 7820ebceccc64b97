//! A file system that is really full: ext4 with so many blocks left, for every number of blocks
//! from none to more than a case needs. So the space runs out at every write in turn.

use std::{
    fs::{self, File},
    path::Path,
};

use anyhow::{Context, Result};
use nix::{
    fcntl::{FallocateFlags, fallocate},
    sys::statvfs::statvfs,
};

use crate::{
    case::{Case, Expected},
    disk::Survivors,
    medium::{Kind, Medium},
    row::Row,
    subject::Subject,
};

const IMAGE_BYTES: u64 = 24 << 20;

/// Blocks that are left at most, more than a case writes.
const BLOCKS_MAX: u64 = 160;

pub(crate) fn sweep<S: Subject>(parent: &Path, stride: u64) -> Result<Row> {
    let mut row =
        Row { what: "ENOSPC on a full ext4, until there is space".to_owned(), ..Row::default() };
    let expected = if S::OUTLIVES_FULL_DISKS { Expected::Service } else { Expected::Either };
    let mut medium = Medium::with_size(Kind::Shutdown, parent, IMAGE_BYTES)?;
    for blocks in (0..BLOCKS_MAX).step_by(usize::try_from(stride)?) {
        let folder = medium.path().join(format!("left-{blocks}"));
        fs::create_dir(&folder)?;
        let mut case = Case::<S>::begin(&folder)?;
        let filler = medium.path().join("filler");
        fill(&filler, blocks)?;
        case.work();
        fs::remove_file(&filler)?;
        case.expect_refusal_or_service(expected);
        medium.switch().cut()?;
        case.close();
        medium.cycle_power(Survivors::None, blocks)?;
        // That it was removed may have been taken back.
        let _gone_before = fs::remove_file(&filler);
        case.open_again(&folder).with_context(|| format!("{blocks} blocks left"))?;
        case.judge()?;
        case.expect_service();
        case.close();
        row.count(&case.told());
        fs::remove_dir_all(&folder)?;
    }
    Ok(row)
}

/// Takes all but `left` blocks of the file system.
fn fill(path: &Path, left: u64) -> Result<()> {
    let file = File::create(path)?;
    let flags = FallocateFlags::empty();
    loop {
        // What was freed just now may still be on its way to the free blocks.
        file.sync_all()?;
        let found = statvfs(path)?;
        let mut blocks = found.blocks_available().saturating_sub(left);
        // Some of the last are kept for the file system's own needs.
        loop {
            if blocks == 0 {
                return Ok(());
            }
            let (begin, length) = (file.metadata()?.len(), blocks * found.fragment_size());
            match fallocate(&file, flags, begin.cast_signed(), length.cast_signed()) {
                Ok(()) => break,
                Err(nix::Error::ENOSPC) => blocks /= 2,
                Err(error) => return Err(error).context("cannot fill the file system"),
            }
        }
    }
}
