//! The [`Cache`] as a file system in user space: plain files in folders.

use std::{
    ffi::OsStr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::{
    IMAGE, SWITCH,
    cache::{Cache, Refusal},
};

/// How long the kernel may keep names and sizes: only the kernel changes them while it is mounted.
const KNOWN: Duration = Duration::from_mins(1);

/// Blocks that the file system says it has.
const BLOCKS: u64 = 1 << 20;

/// What the threads that serve it share with the one that is told what to do.
#[derive(Debug)]
pub(super) struct Shared {
    cache: Mutex<Cache>,
    /// How long a flush takes.
    pub(super) flush_us: AtomicU64,
}

impl Shared {
    pub(super) fn new() -> Self {
        Self { cache: Mutex::new(Cache::new()), flush_us: AtomicU64::new(0) }
    }

    pub(super) fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Served(pub(super) Arc<Shared>);

impl From<Refusal> for Errno {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::InputOutput => Self::EIO,
            Refusal::NoSpace => Self::ENOSPC,
            Refusal::Missing => Self::ENOENT,
        }
    }
}

fn attributes(inode: u64, length: Option<u64>) -> FileAttr {
    let is_folder = length.is_none();
    let length = length.unwrap_or(0);
    FileAttr {
        ino: INodeNo(inode),
        size: length,
        blocks: length.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: if is_folder { FileType::Directory } else { FileType::RegularFile },
        perm: if is_folder { 0o755 } else { 0o644 },
        nlink: if is_folder { 2 } else { 1 },
        uid: 0,
        gid: 0,
        rdev: 0,
        flags: 0,
        blksize: 4096,
    }
}

fn bytes(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn end(done: Result<(), Refusal>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(refusal) => reply.error(refusal.into()),
    }
}

impl Served {
    fn attributes(&self, inode: INodeNo) -> Result<FileAttr, Errno> {
        let cache = self.0.cache();
        let length = cache.length(inode.0);
        let is_there = length.is_some() || cache.is_folder(inode.0);
        if is_there { Ok(attributes(inode.0, length)) } else { Err(Errno::ENOENT) }
    }

    fn flush(&self, inode: INodeNo) -> Result<(), Refusal> {
        let flushing = self.0.cache().begin_flush(inode.0)?;
        let us = self.0.flush_us.load(Relaxed);
        if us > 0 {
            thread::sleep(Duration::from_micros(us));
        }
        self.0.cache().end_flush(&flushing)
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = name.to_str().and_then(|name| self.0.cache().find(folder.0, name));
        match found.ok_or(Errno::ENOENT).and_then(|inode| self.attributes(INodeNo(inode))) {
            Ok(attributes) => reply.entry(&KNOWN, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Ok(attributes) => reply.attr(&KNOWN, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let done = size.map_or(Ok(()), |size| self.0.cache().set_length(inode.0, bytes(size)));
        match done.map_err(Errno::from).and_then(|()| self.attributes(inode)) {
            Ok(attributes) => reply.attr(&KNOWN, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(&self, _: &Request, folder: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let Some(name) = name.to_str() else { return reply.error(Errno::EINVAL) };
        let created = self.0.cache().create_folder(folder.0, name);
        match created {
            Ok(inode) => reply.entry(&KNOWN, &attributes(inode, None), Generation(0)),
            Err(refusal) => reply.error(refusal.into()),
        }
    }

    fn unlink(&self, _: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        end(self.0.cache().remove(folder.0, name.to_str().unwrap_or_default()), reply);
    }

    fn rename(
        &self,
        _: &Request,
        from: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (Some(name), Some(new_name), true) =
            (name.to_str(), new_name.to_str(), flags.is_empty())
        else {
            return reply.error(Errno::EINVAL);
        };
        end(self.0.cache().rename((from.0, name), (to.0, new_name)), reply);
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let is_image = self.0.cache().name_of(inode.0).is_some_and(|name| name.ends_with(IMAGE));
        let flags =
            if is_image { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::FOPEN_KEEP_CACHE };
        reply.opened(FileHandle(0), flags);
    }

    fn create(
        &self,
        _: &Request,
        folder: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let Some(name) = name.to_str() else { return reply.error(Errno::EINVAL) };
        let mut cache = self.0.cache();
        if name == SWITCH {
            cache.cut();
        }
        let inode = cache.create(folder.0, name);
        let attributes = attributes(inode, Some(cache.length(inode).unwrap_or(0)));
        reply.created(&KNOWN, &attributes, Generation(0), FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.0.cache().read(inode.0, bytes(offset), bytes(size.into())) {
            Ok(data) => reply.data(data),
            Err(refusal) => reply.error(refusal.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.0.cache().write(inode.0, bytes(offset), data) {
            Ok(written) => reply.written(u32::try_from(written).unwrap_or(u32::MAX)),
            Err(refusal) => reply.error(refusal.into()),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok(); // a close, which makes nothing durable
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        end(self.flush(inode), reply);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok(); // names are durable at once
    }

    fn readdir(
        &self,
        _: &Request,
        folder: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let cache = self.0.cache();
        for (n, (name, inode)) in cache.names_in(folder.0).enumerate().skip(bytes(offset)) {
            let kind =
                if cache.is_folder(inode) { FileType::Directory } else { FileType::RegularFile };
            if reply.add(INodeNo(inode), n as u64 + 1, kind, name) {
                break;
            }
        }
        drop(cache);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(BLOCKS, BLOCKS, BLOCKS, BLOCKS, BLOCKS, 4096, 255, 4096);
    }
}
