//! The files of a disk with a write-back cache: what is written is in the cache, what was flushed
//! is durable, and a power cut takes away what was not.
//!
//! Invariants:
//! 1. A page reaches the durable side only by a flush of its file that began after the write, or
//!    by chance at a power cut, as a real cache writes out what it likes when it likes.
//! 2. After a flush that was made to fail, the pages it should have covered count as clean and are
//!    not durable: a second flush succeeds and saves nothing. Operating systems behave so.
//! 3. After a power cut every operation fails until [`Cache::restore_power`].
//! 4. Names are durable at once.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::fault::{Fault, Kind, Operation};

/// Unit of what is flushed, in bytes.
pub(crate) const PAGE: usize = 4096;

/// Unit of what a device writes whole, in bytes.
const SECTOR: usize = 512;

/// The folder that holds all others.
pub(crate) const ROOT: u64 = 1;

/// What survives a power cut of that which was written and not flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Survivors {
    /// Nothing.
    None,
    /// Each page by the toss of a coin.
    Pages,
    /// Each sector by the toss of a coin, so that pages are torn.
    Sectors,
}

/// Why an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    InputOutput,
    NoSpace,
    Missing,
}

/// One file: what its readers see, and what is durable of it.
#[derive(Debug, Default)]
struct Content {
    seen: Vec<u8>,
    durable: Vec<u8>,
    durable_length: usize,
    /// Pages written and not flushed.
    dirty: BTreeSet<usize>,
    /// Pages that a failed flush left behind: clean, and not durable.
    lost: BTreeSet<usize>,
}

/// The files of one disk.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// Files and folders, by the folder that they are in and their name there.
    names: BTreeMap<(u64, String), u64>,
    folders: BTreeSet<u64>,
    contents: BTreeMap<u64, Content>,
    next_inode: u64,
    has_power: bool,
    cut_at: Option<(Operation, u64)>,
    /// The power goes at this flush after an injected fault.
    cut_after_fault: Option<u64>,
    fault: Option<Fault>,
    /// How often `fault` has struck.
    faults: u64,
}

/// A flush that was begun: the pages it has to cover.
#[derive(Debug)]
pub(crate) struct Flushing {
    inode: u64,
    pages: Vec<usize>,
    length: usize,
}

impl Cache {
    pub(crate) fn new() -> Self {
        let folders = BTreeSet::from([ROOT]);
        Self { folders, next_inode: ROOT + 1, has_power: true, ..Self::default() }
    }

    /// Creates an empty file, or finds the one of this name.
    pub(crate) fn create(&mut self, folder: u64, name: &str) -> u64 {
        if let Some(inode) = self.find(folder, name) {
            return inode;
        }
        let inode = self.name(folder, name);
        self.contents.insert(inode, Content::default());
        inode
    }

    pub(crate) fn create_folder(&mut self, folder: u64, name: &str) -> Result<u64, Refusal> {
        self.need_power()?;
        let inode = self.name(folder, name);
        self.folders.insert(inode);
        Ok(inode)
    }

    /// Gives a new inode this name.
    fn name(&mut self, folder: u64, name: &str) -> u64 {
        let inode = self.next_inode;
        self.next_inode += 1;
        self.names.insert((folder, name.to_owned()), inode);
        inode
    }

    pub(crate) fn find(&self, folder: u64, name: &str) -> Option<u64> {
        self.names.get(&(folder, name.to_owned())).copied()
    }

    pub(crate) fn is_folder(&self, inode: u64) -> bool {
        self.folders.contains(&inode)
    }

    /// What lies in a folder.
    pub(crate) fn names_in(&self, folder: u64) -> impl Iterator<Item = (&str, u64)> {
        let all = self.names.iter().filter(move |((parent, _), _)| *parent == folder);
        all.map(|((_, name), &inode)| (name.as_str(), inode))
    }

    pub(crate) fn name_of(&self, inode: u64) -> Option<&str> {
        let named = self.names.iter().find(|&(_, &known)| known == inode);
        named.map(|((_, name), _)| name.as_str())
    }

    /// Takes the name away; whoever has the file open goes on with it.
    pub(crate) fn remove(&mut self, folder: u64, name: &str) -> Result<(), Refusal> {
        self.need_power()?;
        self.names.remove(&(folder, name.to_owned())).map(|_| ()).ok_or(Refusal::Missing)
    }

    /// Moves a name, over what had the new one before.
    pub(crate) fn rename(&mut self, from: (u64, &str), to: (u64, &str)) -> Result<(), Refusal> {
        self.need_power()?;
        let moved = self.names.remove(&(from.0, from.1.to_owned())).ok_or(Refusal::Missing)?;
        self.names.insert((to.0, to.1.to_owned()), moved);
        Ok(())
    }

    pub(crate) fn length(&self, inode: u64) -> Option<u64> {
        self.contents.get(&inode).map(|content| content.seen.len() as u64)
    }

    pub(crate) fn has_power(&self) -> bool {
        self.has_power
    }

    /// Faults that were injected by what was set last.
    pub(crate) fn faults(&self) -> u64 {
        self.faults
    }

    /// Makes operations fail from now on, in place of what was set before.
    pub(crate) fn inject(&mut self, fault: Option<Fault>) {
        (self.fault, self.faults) = (fault, 0);
    }

    /// Cuts the power at the `number`th operation of this sort from now.
    pub(crate) fn cut_at(&mut self, operation: Operation, number: u64) {
        self.cut_at = Some((operation, number));
    }

    /// Cuts the power at the `number`th flush after an injected fault.
    pub(crate) fn cut_after_fault(&mut self, number: u64) {
        self.cut_after_fault = Some(number);
    }

    pub(crate) fn cut(&mut self) {
        self.has_power = false;
        (self.cut_at, self.cut_after_fault) = (None, None);
    }

    pub(crate) fn read(&self, inode: u64, offset: usize, size: usize) -> Result<&[u8], Refusal> {
        self.need_power()?;
        let content = self.contents.get(&inode).ok_or(Refusal::Missing)?;
        let begin = offset.min(content.seen.len());
        let end = offset.saturating_add(size).min(content.seen.len());
        Ok(&content.seen[begin..end])
    }

    /// Writes into the cache; returns how much of it.
    pub(crate) fn write(
        &mut self,
        inode: u64,
        offset: usize,
        data: &[u8],
    ) -> Result<usize, Refusal> {
        let length = match self.disturbed(inode, Operation::Write, offset)? {
            None => data.len(),
            Some(Kind::InputOutput) => return Err(Refusal::InputOutput),
            Some(Kind::NoSpace) => return Err(Refusal::NoSpace),
            Some(Kind::Short) => data.len() / 2,
        };
        if length == 0 && !data.is_empty() {
            return Err(Refusal::NoSpace);
        }
        let content = self.contents.get_mut(&inode).ok_or(Refusal::Missing)?;
        let end = offset + length;
        if content.seen.len() < end {
            content.seen.resize(end, 0);
        }
        content.seen[offset..end].copy_from_slice(&data[..length]);
        for page in offset / PAGE..end.div_ceil(PAGE) {
            content.dirty.insert(page);
            content.lost.remove(&page);
        }
        Ok(length)
    }

    pub(crate) fn set_length(&mut self, inode: u64, length: usize) -> Result<(), Refusal> {
        self.need_power()?;
        let content = self.contents.get_mut(&inode).ok_or(Refusal::Missing)?;
        // The page at the new end, or at the old; beyond it is nothing but zeros.
        content.dirty.insert(length.min(content.seen.len()) / PAGE);
        content.seen.resize(length, 0);
        Ok(())
    }

    /// Begins a flush: what was written before it is what it covers.
    pub(crate) fn begin_flush(&mut self, inode: u64) -> Result<Flushing, Refusal> {
        let disturbed = self.disturbed(inode, Operation::Flush, 0)?;
        let content = self.contents.get_mut(&inode).ok_or(Refusal::Missing)?;
        if let Some(kind) = disturbed {
            content.lost.append(&mut content.dirty);
            return Err(match kind {
                Kind::NoSpace => Refusal::NoSpace,
                Kind::InputOutput | Kind::Short => Refusal::InputOutput,
            });
        }
        let pages = content.dirty.iter().copied().collect();
        Ok(Flushing { inode, pages, length: content.seen.len() })
    }

    pub(crate) fn end_flush(&mut self, flushing: &Flushing) -> Result<(), Refusal> {
        self.need_power()?;
        let content = self.contents.get_mut(&flushing.inode).ok_or(Refusal::Missing)?;
        content.durable_length = flushing.length;
        for &page in &flushing.pages {
            // What was written since is written out with it, which a cache may do at any time.
            if content.dirty.remove(&page) {
                content.make_durable(page * PAGE, PAGE);
            }
        }
        Ok(())
    }

    /// Gives the power back: what was not flushed is gone, but for `survivors`.
    pub(crate) fn restore_power(&mut self, survivors: Survivors, random: &mut fastrand::Rng) {
        let named: BTreeSet<u64> = self.names.values().copied().collect();
        self.contents.retain(|inode, _| named.contains(inode));
        for content in self.contents.values_mut() {
            let dirty = std::mem::take(&mut content.dirty);
            for &page in &dirty {
                // The first page of a device holds ext4's superblock, which it writes outside of its
                // journal and cannot do with when it is torn.
                let survivors = match survivors {
                    Survivors::Sectors if page == 0 => Survivors::Pages,
                    other => other,
                };
                match survivors {
                    Survivors::Pages if random.bool() => content.make_durable(page * PAGE, PAGE),
                    Survivors::None | Survivors::Pages => {}
                    Survivors::Sectors => (0..PAGE / SECTOR)
                        .filter(|_| random.bool())
                        .for_each(|n| content.make_durable(page * PAGE + n * SECTOR, SECTOR)),
                }
            }
            content.seen.resize(content.durable_length, 0);
            let lost = std::mem::take(&mut content.lost);
            for &page in dirty.iter().chain(&lost) {
                content.forget(page);
            }
        }
        (self.has_power, self.fault) = (true, None);
        (self.cut_at, self.cut_after_fault) = (None, None);
    }

    fn need_power(&self) -> Result<(), Refusal> {
        if self.has_power { Ok(()) } else { Err(Refusal::InputOutput) }
    }

    /// Whether this operation is one that fails, and how.
    fn disturbed(
        &mut self,
        inode: u64,
        operation: Operation,
        offset: usize,
    ) -> Result<Option<Kind>, Refusal> {
        self.need_power()?;
        let has_failed = self.faults > 0;
        let counted = self.cut_at.as_mut().filter(|(at, _)| *at == operation).map(|(_, left)| left);
        let since_fault = self.cut_after_fault.as_mut();
        let since_fault = since_fault.filter(|_| has_failed && operation == Operation::Flush);
        for left in counted.into_iter().chain(since_fault) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.cut();
                return Err(Refusal::InputOutput);
            }
        }
        let name = self.name_of(inode).unwrap_or_default().to_owned();
        let kind = self.fault.as_mut().and_then(|fault| fault.strikes(&name, operation, offset));
        self.faults += u64::from(kind.is_some());
        Ok(kind)
    }
}

impl Content {
    fn make_durable(&mut self, begin: usize, length: usize) {
        let end = (begin + length).min(self.seen.len());
        if begin >= end {
            return;
        }
        if self.durable.len() < end {
            // With room to spare: a file that grows is not copied at every flush.
            self.durable.resize(end.max(self.seen.capacity().min(2 * end)), 0);
        }
        self.durable[begin..end].copy_from_slice(&self.seen[begin..end]);
    }

    fn forget(&mut self, page: usize) {
        let begin = (page * PAGE).min(self.seen.len());
        let end = (begin + PAGE).min(self.seen.len());
        let known = end.min(self.durable.len()).max(begin);
        self.seen[begin..end].fill(0);
        if begin < known {
            self.seen[begin..known].copy_from_slice(&self.durable[begin..known]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flush(cache: &mut Cache, inode: u64) -> Result<(), Refusal> {
        let flushing = cache.begin_flush(inode)?;
        cache.end_flush(&flushing)
    }

    fn cut(cache: &mut Cache, survivors: Survivors) {
        cache.cut();
        cache.restore_power(survivors, &mut fastrand::Rng::with_seed(7));
    }

    #[test]
    fn what_was_flushed_survives_and_what_was_not_is_gone() {
        let mut cache = Cache::new();
        let inode = cache.create(ROOT, "a");
        cache.write(inode, 0, &[1; 2 * PAGE]).unwrap();
        flush(&mut cache, inode).unwrap();
        cache.write(inode, PAGE, &[2; 2 * PAGE]).unwrap();
        assert_eq!(cache.read(inode, 2 * PAGE, 1), Ok(&[2_u8][..]));
        cut(&mut cache, Survivors::None);
        assert_eq!(cache.length(inode), Some(2 * PAGE as u64));
        assert_eq!(cache.read(inode, 0, 3 * PAGE), Ok(&[1; 2 * PAGE][..]));
    }

    #[test]
    fn a_flush_covers_nothing_that_was_written_after_it_began() {
        let mut cache = Cache::new();
        let inode = cache.create(ROOT, "a");
        cache.write(inode, 0, &[1; PAGE]).unwrap();
        let flushing = cache.begin_flush(inode).unwrap();
        cache.write(inode, PAGE, &[2; PAGE]).unwrap();
        cache.end_flush(&flushing).unwrap();
        cut(&mut cache, Survivors::None);
        assert_eq!(cache.length(inode), Some(PAGE as u64));
    }

    #[test]
    fn a_second_flush_after_one_that_failed_succeeds_and_saves_nothing() {
        let mut cache = Cache::new();
        let inode = cache.create(ROOT, "a");
        cache.write(inode, 0, &[1; PAGE]).unwrap();
        flush(&mut cache, inode).unwrap();
        cache.write(inode, 0, &[2; PAGE]).unwrap();
        cache.inject(Some(Fault::once("a", Operation::Flush, 1, Kind::InputOutput)));
        assert_eq!(flush(&mut cache, inode), Err(Refusal::InputOutput));
        flush(&mut cache, inode).unwrap();
        assert_eq!(cache.read(inode, 0, 1), Ok(&[2_u8][..]));
        cut(&mut cache, Survivors::Sectors);
        assert_eq!(cache.read(inode, 0, 1), Ok(&[1_u8][..]));
        assert_eq!(cache.faults(), 1);
    }

    #[test]
    fn sectors_survive_one_by_one() {
        let mut cache = Cache::new();
        let inode = cache.create(ROOT, "a");
        cache.write(inode, 0, &vec![1; 64 * PAGE]).unwrap();
        flush(&mut cache, inode).unwrap();
        cache.write(inode, 0, &vec![2; 64 * PAGE]).unwrap();
        cut(&mut cache, Survivors::Sectors);
        let seen = cache.read(inode, 0, 64 * PAGE).unwrap();
        let new = seen.chunks(SECTOR).filter(|sector| sector[0] == 2).count();
        assert!(seen.chunks(SECTOR).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        assert!((100..400).contains(&new), "{new} of 512 sectors survived");
    }

    #[test]
    fn the_power_goes_some_flushes_after_a_fault() {
        let mut cache = Cache::new();
        let inode = cache.create(ROOT, "a");
        cache.inject(Some(Fault::once("a", Operation::Write, 1, Kind::InputOutput)));
        cache.cut_after_fault(2);
        for _ in 0..5 {
            flush(&mut cache, inode).unwrap();
        }
        assert_eq!(cache.write(inode, 0, &[1]), Err(Refusal::InputOutput));
        flush(&mut cache, inode).unwrap();
        assert_eq!(flush(&mut cache, inode), Err(Refusal::InputOutput));
        assert!(!cache.has_power());
    }

    #[test]
    fn files_are_found_where_they_were_moved_to() {
        let mut cache = Cache::new();
        let folder = cache.create_folder(ROOT, "folder").unwrap();
        let (new, old) = (cache.create(folder, "new"), cache.create(folder, "old"));
        cache.rename((folder, "new"), (folder, "old")).unwrap();
        assert_eq!((cache.find(folder, "new"), cache.find(folder, "old")), (None, Some(new)));
        assert_eq!(cache.names_in(ROOT).collect::<Vec<_>>(), [("folder", folder)]);
        cut(&mut cache, Survivors::None);
        assert_eq!((cache.length(new), cache.length(old)), (Some(0), None));
        cache.remove(folder, "old").unwrap();
        assert_eq!(cache.remove(folder, "old"), Err(Refusal::Missing));
    }

    #[test]
    fn without_power_nothing_is_read_written_or_flushed() {
        let mut cache = Cache::new();
        let inode = cache.create(ROOT, "a");
        cache.cut_at(Operation::Write, 2);
        cache.write(inode, 0, &[1]).unwrap();
        assert_eq!(cache.write(inode, 1, &[1]), Err(Refusal::InputOutput));
        assert_eq!(cache.read(inode, 0, 1), Err(Refusal::InputOutput));
        assert_eq!(flush(&mut cache, inode), Err(Refusal::InputOutput));
    }
}
