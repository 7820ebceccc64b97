//! What the closure of an exclusive is given.

use std::{path::Path, sync::Arc};

use rocksdb::{WaitForCompactOptions, checkpoint::Checkpoint};

use groupcommit_core::Clock;

use crate::{
    Error, Transaction, engine,
    families::{self, Family},
    log::{Log, Mark},
    place::Handle,
    settings,
    store::Store,
    view::Ground,
};

/// The database alone, between groups: its column families, its files, and what RocksDB says of
/// itself.
pub struct Exclusive {
    db: Arc<Handle>,
    store: Arc<Store>,
    families: Vec<Family>,
    clock: Arc<dyn Clock>,
    /// A write that failed, after which nothing more may be promised.
    failed: Option<Error>,
}

impl std::fmt::Debug for Exclusive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exclusive").finish_non_exhaustive()
    }
}

impl Exclusive {
    pub(crate) fn new(
        db: Arc<Handle>,
        store: Arc<Store>,
        families: Vec<Family>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { db, store, families, clock, failed: None }
    }

    /// The column families as they are now.
    pub(crate) fn end(self) -> Result<Vec<Family>, Error> {
        self.failed.map_or(Ok(self.families), Err)
    }

    /// Runs a transaction here and now, and writes what it did if it returns a value.
    ///
    /// # Durability
    ///
    /// It is durable when the exclusive itself has returned `Ok`.
    ///
    /// # Errors
    ///
    /// What `transaction` returns; [`Error::Stopped`]; [`Error::WriteFailed`] when RocksDB could not write it, and the
    /// database then accepts nothing more.
    pub fn transact<T, E: From<Error>>(
        &mut self,
        transaction: impl FnOnce(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        if self.failed.is_some() {
            return Err(Error::WriteFailed.into());
        }
        self.store.expect_to_write(&self.db)?;
        let mut log = Log::default();
        let ground = Ground::new(&self.db, &self.families);
        let mut tx = Transaction::new(ground, &mut log, &*self.clock);
        let value = transaction(&mut tx)?;
        let end = tx.log().end();
        let written = engine::write(&self.store, &mut tx, Mark::default(), end);
        drop(tx);
        match written {
            Ok(_) => Ok(value),
            Err(error) => {
                self.failed = Some(error);
                Err(Error::WriteFailed.into())
            }
        }
    }

    /// Creates a column family. To keep its options, name it with them whenever the database is
    /// opened ([`Options::column_family`](crate::Options::column_family)).
    ///
    /// # Errors
    ///
    /// What RocksDB says, or [`Error::Setting`].
    pub fn create_column_family(
        &mut self,
        name: &str,
        options: &rocksdb::Options,
    ) -> Result<(), Error> {
        settings::check(options)?;
        self.db.create_cf(name, options).map_err(self.store.failed("create a column family in"))?;
        self.families = families::families(self.store.path())?;
        if let Err(refused) = settings::check_families(&self.families) {
            self.drop_column_family(name)?;
            return Err(refused);
        }
        Ok(())
    }

    /// Drops a column family with all that is in it.
    ///
    /// # Errors
    ///
    /// What RocksDB says.
    pub fn drop_column_family(&mut self, name: &str) -> Result<(), Error> {
        self.db.drop_cf(name).map_err(self.store.failed("drop a column family of"))?;
        self.families.retain(|family| family.name != name);
        Ok(())
    }

    /// The names of the column families; the default one is the first.
    #[must_use]
    pub fn column_families(&self) -> Vec<String> {
        self.families.iter().map(|family| family.name.clone()).collect()
    }

    /// Compacts a column family as a whole.
    ///
    /// # Errors
    ///
    /// [`Error::NoColumnFamily`].
    pub fn compact(&mut self, family: &str) -> Result<(), Error> {
        let family =
            self.db.cf_handle(family).ok_or_else(|| Error::NoColumnFamily(family.to_owned()))?;
        self.db.compact_range_cf(&family, None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    /// Takes in table files made with [`rocksdb::SstFileWriter`].
    ///
    /// # Errors
    ///
    /// [`Error::NoColumnFamily`], or what RocksDB says.
    pub fn ingest<P: AsRef<Path>>(&mut self, family: &str, files: Vec<P>) -> Result<(), Error> {
        let family =
            self.db.cf_handle(family).ok_or_else(|| Error::NoColumnFamily(family.to_owned()))?;
        self.db
            .ingest_external_file_cf(&family, files)
            .map_err(self.store.failed("take table files into"))
    }

    /// Makes a copy of the database in a folder that does not exist yet, with hard links where the
    /// file system allows.
    ///
    /// # Errors
    ///
    /// What RocksDB says.
    pub fn checkpoint(&mut self, folder: impl AsRef<Path>) -> Result<(), Error> {
        Checkpoint::new(&self.db)
            .and_then(|checkpoint| checkpoint.create_checkpoint(folder))
            .map_err(self.store.failed("make a checkpoint of"))
    }

    /// Writes what is in memory into table files.
    ///
    /// # Errors
    ///
    /// What RocksDB says.
    pub fn flush_memtables(&mut self) -> Result<(), Error> {
        self.store.flush_memtables(&self.db)
    }

    /// Waits until RocksDB has nothing left to flush or compact.
    ///
    /// # Errors
    ///
    /// What RocksDB says.
    pub fn wait_for_compaction(&mut self) -> Result<(), Error> {
        self.db
            .wait_for_compact(&WaitForCompactOptions::default())
            .map_err(self.store.failed("wait for the compaction of"))
    }

    /// What RocksDB says of itself, by the name of a property such as `rocksdb.stats`.
    ///
    /// # Errors
    ///
    /// What RocksDB says.
    pub fn property(&self, name: &str) -> Result<Option<String>, Error> {
        self.db.property_value(name).map_err(self.store.failed("read a property of"))
    }
}
