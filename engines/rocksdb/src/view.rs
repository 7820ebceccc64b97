//! What a member reads: the group's notes over the database.
//!
//! RocksDB's indexed write batch holds the notes as far as they were needed. It is made when a
//! member first reads after somebody wrote, and then follows the log.

use std::sync::Arc;

use rocksdb::{BoundColumnFamily, DB};

use crate::{
    Error,
    families::{DEFAULT, Family},
    ffi::{Cursor, IndexedBatch},
    log::{Kind, Log, Mark},
};

/// The database and the handles of its column families, each looked up once a group.
pub(crate) struct Ground<'g> {
    pub(crate) db: &'g DB,
    pub(crate) families: &'g [Family],
    handles: Vec<Option<Arc<BoundColumnFamily<'g>>>>,
}

impl<'g> Ground<'g> {
    pub(crate) fn new(db: &'g DB, families: &'g [Family]) -> Self {
        Self { db, families, handles: Vec::new() }
    }

    /// The number of the family called `name`.
    pub(crate) fn family(&self, name: &str) -> Result<usize, Error> {
        if name == DEFAULT {
            return Ok(0);
        }
        let found = self.families.iter().position(|family| family.name == name);
        found.ok_or_else(|| Error::NoColumnFamily(name.to_owned()))
    }

    pub(crate) fn handle(&mut self, family: usize) -> Result<Arc<BoundColumnFamily<'g>>, Error> {
        if self.handles.len() <= family {
            self.handles.resize(family + 1, None);
        }
        if let Some(handle) = &self.handles[family] {
            return Ok(handle.clone());
        }
        let name = self.families.get(family).map_or(DEFAULT, |family| &family.name);
        let handle =
            self.db.cf_handle(name).ok_or_else(|| Error::NoColumnFamily(name.to_owned()))?;
        self.handles[family] = Some(handle.clone());
        Ok(handle)
    }
}

/// The notes of a log as a batch that can be read.
#[derive(Debug)]
pub(crate) struct View {
    batch: IndexedBatch,
    /// How far it follows the log.
    seen: Mark,
    /// Where the batch remembers a save point, the latest last.
    points: Vec<Mark>,
}

impl View {
    pub(crate) fn new() -> Result<Self, Error> {
        let batch = IndexedBatch::new()
            .ok_or_else(|| native("index a transaction's writes")("no memory".to_owned()))?;
        Ok(Self { batch, seen: Mark::default(), points: Vec::new() })
    }

    /// Follows the log up to `to`.
    pub(crate) fn follow(
        &mut self,
        log: &Log,
        to: Mark,
        ground: &mut Ground<'_>,
    ) -> Result<(), Error> {
        if self.seen >= to {
            return Ok(());
        }
        for operation in log.between(self.seen, to) {
            let family = ground.handle(operation.family)?;
            match operation.kind {
                Kind::Put => self.batch.put(&family, operation.key, operation.value),
                Kind::Delete => self.batch.delete(&family, operation.key),
                Kind::Merge => self.batch.merge(&family, operation.key, operation.value),
                Kind::DeleteRange => {
                    // The indexed batch knows no ranges, so each key is deleted.
                    for key in self.keys(ground.db, &family, operation.key, operation.value)? {
                        self.batch.delete(&family, &key);
                    }
                }
            }
        }
        self.seen = to;
        Ok(())
    }

    /// Whether it follows the log up to `mark` and no further.
    pub(crate) fn is_at(&self, mark: Mark) -> bool {
        self.seen == mark
    }

    /// Remembers the place up to which it follows, to come back to cheaply.
    pub(crate) fn remember(&mut self) {
        if self.points.last() != Some(&self.seen) {
            self.batch.set_save_point();
            self.points.push(self.seen);
        }
    }

    /// Goes back so that it holds nothing noted after `mark`. On `false` it cannot, and must be
    /// made anew.
    #[must_use]
    pub(crate) fn cut(&mut self, mark: Mark) -> bool {
        while self.seen > mark {
            let Some(point) = self.points.pop() else { return false };
            if self.batch.roll_back_to_save_point().is_err() {
                return false;
            }
            self.seen = point;
        }
        true
    }

    pub(crate) fn get(
        &self,
        db: &DB,
        family: &Arc<BoundColumnFamily<'_>>,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, Error> {
        self.batch.get(db, family, key).map_err(native("read a key"))
    }

    pub(crate) fn cursor<'a>(
        &'a self,
        db: &'a DB,
        family: &Arc<BoundColumnFamily<'_>>,
    ) -> Cursor<'a> {
        self.batch.cursor(db, family)
    }

    fn keys(
        &self,
        db: &DB,
        family: &Arc<BoundColumnFamily<'_>>,
        from: &[u8],
        to: &[u8],
    ) -> Result<Vec<Vec<u8>>, Error> {
        let mut keys = Vec::new();
        let mut cursor = self.batch.cursor(db, family);
        cursor.seek(from);
        while let Some((key, _)) = cursor.entry().map_err(native("read a range"))? {
            if key >= to {
                break;
            }
            keys.push(key.to_vec());
            cursor.advance();
        }
        Ok(keys)
    }
}

/// An error of RocksDB's C interface with what it was about.
pub(crate) fn native(doing: &'static str) -> impl Fn(String) -> Error {
    move |message| Error::Native { doing, message }
}
