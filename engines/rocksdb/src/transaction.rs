//! What a transaction's closure is given.

use std::sync::Arc;

use groupcommit_core::Clock;

use crate::{
    Error, Write, WriteResult,
    families::DEFAULT,
    ffi::Cursor,
    log::{Kind, Log, Mark, Operation},
    view::{Ground, View, native},
};

/// The transaction that a closure runs in: it reads the database with every earlier transaction's
/// writes, and its own, over it.
///
/// The methods are RocksDB's, and those that end in `_cf` take the name of a column family. There
/// is no commit and no rollback: the closure's result says which. [`savepoint`](Self::savepoint)
/// undoes a part.
pub struct Transaction<'g> {
    ground: Ground<'g>,
    log: &'g mut Log,
    view: Option<View>,
    clock: &'g dyn Clock,
    start: Mark,
    deadline_ns: Option<u64>,
    is_late: bool,
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

impl<'g> Transaction<'g> {
    pub(crate) fn new(ground: Ground<'g>, log: &'g mut Log, clock: &'g dyn Clock) -> Self {
        Self {
            ground,
            log,
            view: None,
            clock,
            start: Mark::default(),
            deadline_ns: None,
            is_late: false,
        }
    }

    /// The value of a key, if it has one.
    ///
    /// # Errors
    ///
    /// What RocksDB says, or [`Error::DeadlinePassed`].
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.get_at(0, key.as_ref())
    }

    /// As [`get`](Self::get), of a column family.
    ///
    /// # Errors
    ///
    /// As there, or [`Error::NoColumnFamily`].
    pub fn get_cf(
        &mut self,
        family: &str,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.get_at(self.ground.family(family)?, key.as_ref())
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    ///
    /// [`Error::TooLong`] or [`Error::DeadlinePassed`].
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.note(Kind::Put, 0, key.as_ref(), value.as_ref())
    }

    /// As [`put`](Self::put), of a column family.
    ///
    /// # Errors
    ///
    /// As there, or [`Error::NoColumnFamily`].
    pub fn put_cf(
        &mut self,
        family: &str,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.note(Kind::Put, self.ground.family(family)?, key.as_ref(), value.as_ref())
    }

    /// Deletes a key, if it is there.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<(), Error> {
        self.note(Kind::Delete, 0, key.as_ref(), &[])
    }

    /// As [`delete`](Self::delete), of a column family.
    ///
    /// # Errors
    ///
    /// As there, or [`Error::NoColumnFamily`].
    pub fn delete_cf(&mut self, family: &str, key: impl AsRef<[u8]>) -> Result<(), Error> {
        self.note(Kind::Delete, self.ground.family(family)?, key.as_ref(), &[])
    }

    /// Deletes every key from `from` up to but without `to`, as one mark in the database. A read
    /// that follows in the same transaction goes through the range key by key.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put), or [`Error::ReversedRange`] or [`Error::NoRangeDeletion`].
    pub fn delete_range(
        &mut self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.delete_range_cf(DEFAULT, from, to)
    }

    /// As [`delete_range`](Self::delete_range), of a column family.
    ///
    /// # Errors
    ///
    /// As there, or [`Error::NoColumnFamily`].
    pub fn delete_range_cf(
        &mut self,
        family: &str,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let number = self.ground.family(family)?;
        // RocksDB finds out about either only when the write is in its log already.
        if !self.ground.families[number].has_range_deletion {
            return Err(Error::NoRangeDeletion(family.to_owned()));
        }
        if from > to {
            return Err(Error::ReversedRange);
        }
        self.note(Kind::DeleteRange, number, from, to)
    }

    /// Merges `operand` into the value of a key by the database's merge operator.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put), or [`Error::NoMergeOperator`].
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<(), Error> {
        self.merge_cf(DEFAULT, key, operand)
    }

    /// As [`merge`](Self::merge), of a column family.
    ///
    /// # Errors
    ///
    /// As there, or [`Error::NoColumnFamily`].
    pub fn merge_cf(
        &mut self,
        family: &str,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        let number = self.ground.family(family)?;
        // RocksDB finds out only when the write is in its log already.
        if !self.ground.families[number].has_merge_operator {
            return Err(Error::NoMergeOperator(family.to_owned()));
        }
        self.note(Kind::Merge, number, key.as_ref(), operand.as_ref())
    }

    /// Sets a key to `new`, or deletes it, if it has the value `expected` (`None`: has none), and
    /// says whether it had.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get) and [`put`](Self::put).
    pub fn compare_and_swap(
        &mut self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool, Error> {
        self.compare_and_swap_cf(DEFAULT, key, expected, new)
    }

    /// As [`compare_and_swap`](Self::compare_and_swap), of a column family.
    ///
    /// # Errors
    ///
    /// As there, or [`Error::NoColumnFamily`].
    pub fn compare_and_swap_cf(
        &mut self,
        family: &str,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool, Error> {
        let (family, key) = (self.ground.family(family)?, key.as_ref());
        if self.get_at(family, key)?.as_deref() != expected {
            return Ok(false);
        }
        match new {
            Some(value) => self.note(Kind::Put, family, key, value)?,
            None => self.note(Kind::Delete, family, key, &[])?,
        }
        Ok(true)
    }

    /// The entries from `from` on, up to but without `to` (`None`: to the last), by key.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn range(
        &mut self,
        from: impl AsRef<[u8]>,
        to: Option<&[u8]>,
    ) -> Result<Entries<'_>, Error> {
        self.range_cf(DEFAULT, from, to)
    }

    /// As [`range`](Self::range), of a column family.
    ///
    /// # Errors
    ///
    /// As there, or [`Error::NoColumnFamily`].
    pub fn range_cf(
        &mut self,
        family: &str,
        from: impl AsRef<[u8]>,
        to: Option<&[u8]>,
    ) -> Result<Entries<'_>, Error> {
        self.check_deadline()?;
        let family = self.ground.handle(self.ground.family(family)?)?;
        let db = self.ground.db;
        let view = self.up_to_date_view()?;
        let mut cursor = view.cursor(db, &family);
        cursor.seek(from.as_ref());
        Ok(Entries { cursor, to: to.map(<[u8]>::to_vec), moved: false })
    }

    /// Runs `inner` so that its effects can be undone without ending the transaction: they are
    /// kept when it returns a value, and undone when it returns an error. Nests.
    ///
    /// # Errors
    ///
    /// What `inner` returns.
    pub fn savepoint<T, E>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let mark = self.log.end();
        if let Some(view) = &mut self.view {
            if view.follow(self.log, mark, &mut self.ground).is_ok() {
                view.remember();
            } else {
                self.view = None;
            }
        }
        let result = inner(self);
        if result.is_err() {
            self.cut(mark);
        }
        result
    }

    /// Runs plain data: each write in turn, all or none.
    ///
    /// # Errors
    ///
    /// What the first write that fails came to; [`Error::Mismatch`] for a compare-and-swap that
    /// found another value than it expected.
    pub fn run(&mut self, writes: &[Write]) -> Result<Vec<WriteResult>, Error> {
        writes.iter().enumerate().map(|(index, write)| write.run(self, index)).collect()
    }

    pub(crate) fn begin_member(&mut self, deadline_ns: Option<u64>) -> Mark {
        self.start = self.log.end();
        self.deadline_ns = deadline_ns;
        self.is_late = false;
        self.start
    }

    /// Whether the member that has just run came to know that it was late.
    pub(crate) fn end_member(&mut self) -> bool {
        self.deadline_ns = None;
        self.is_late
    }

    /// Strikes out what was noted after `mark`.
    pub(crate) fn cut(&mut self, mark: Mark) {
        self.log.cut(mark);
        if self.view.as_mut().is_some_and(|view| !view.cut(mark)) {
            self.view = None;
        }
    }

    /// What is noted, with what is needed to write it.
    pub(crate) fn noted(&mut self) -> (&Log, &mut Ground<'g>) {
        (self.log, &mut self.ground)
    }

    /// Forgets the notes, which are written or given up.
    pub(crate) fn clear(&mut self) {
        self.log.clear();
        self.view = None;
    }

    pub(crate) fn log(&self) -> &Log {
        self.log
    }

    pub(crate) fn get_at(&mut self, family: usize, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.check_deadline()?;
        let db = self.ground.db;
        if self.log.is_empty() {
            let found = if family == 0 {
                db.get(key)
            } else {
                db.get_cf(&self.ground.handle(family)?, key)
            };
            return found.map_err(|source| Error::InTransaction { doing: "read a key", source });
        }
        let family = self.ground.handle(family)?;
        self.up_to_date_view()?.get(db, &family, key)
    }

    fn note(&mut self, kind: Kind, family: usize, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.check_deadline()?;
        let bytes = key.len().max(value.len());
        if u32::try_from(bytes).is_err() {
            return Err(Error::TooLong { bytes });
        }
        self.log.push(Operation { kind, family, key, value });
        Ok(())
    }

    fn up_to_date_view(&mut self) -> Result<&View, Error> {
        let mut view = match self.view.take() {
            Some(view) => view,
            None => View::new()?,
        };
        // Where this member begins is where a failure of it goes back to.
        view.follow(self.log, self.start, &mut self.ground)?;
        if view.is_at(self.start) {
            view.remember();
        }
        view.follow(self.log, self.log.end(), &mut self.ground)?;
        Ok(self.view.insert(view))
    }

    fn check_deadline(&mut self) -> Result<(), Error> {
        if self.deadline_ns.is_some_and(|deadline_ns| self.clock.now_ns() >= deadline_ns) {
            self.is_late = true;
        }
        if self.is_late { Err(Error::DeadlinePassed) } else { Ok(()) }
    }
}

/// The entries of a range, by key.
#[derive(Debug)]
pub struct Entries<'a> {
    cursor: Cursor<'a>,
    to: Option<Vec<u8>>,
    /// The cursor stands on an entry that was given out.
    moved: bool,
}

impl Iterator for Entries<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if std::mem::take(&mut self.moved) {
            self.cursor.advance();
        }
        match self.cursor.entry().map_err(native("read a range")) {
            Err(error) => Some(Err(error)),
            Ok(None) => None,
            Ok(Some((key, _))) if self.to.as_deref().is_some_and(|to| key >= to) => None,
            Ok(Some((key, value))) => {
                self.moved = true;
                Some(Ok((key.to_vec(), value.to_vec())))
            }
        }
    }
}

/// The name of a column family in plain data; `None` is the default one.
pub(crate) type FamilyName = Option<Arc<str>>;

/// The family that plain data means.
pub(crate) fn family_of(name: &FamilyName) -> &str {
    name.as_deref().unwrap_or(DEFAULT)
}
