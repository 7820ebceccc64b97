//! What the closure of an exclusive is given.

use std::{path::Path, sync::Arc};

use groupcommit_core::{Cause, Failure, Rejected, Unknown};
use heed::{CommitOrAbort, CompactionOption, MdbError};

use crate::{
    Error, Transaction,
    environment::{Environment, Undone},
};

/// The environment, alone: no transaction of this database runs meanwhile.
pub struct Exclusive {
    pub(crate) environment: Environment,
    /// Why it is not known whether a commit happened.
    pub(crate) doubt: Option<Cause>,
}

impl std::fmt::Debug for Exclusive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exclusive").finish_non_exhaustive()
    }
}

impl Exclusive {
    /// Opens a table, creating it if it is missing; `None` is the unnamed one, in which LMDB keeps
    /// the names of the others.
    ///
    /// # Errors
    ///
    /// What LMDB says, for example that there are more tables than
    /// [`Options::tables_max`](crate::Options::tables_max).
    pub fn table<KC: 'static, DC: 'static>(
        &mut self,
        name: Option<&str>,
    ) -> Result<heed::Database<'static, KC, DC>, Error> {
        let environment = &self.environment;
        loop {
            let txn = environment.begin()?.into_txn();
            let opened = environment.env.create_databases_and_commit(txn, |opener, txn| {
                opener.create_database::<KC, DC>(txn, name).map(CommitOrAbort::<_, ()>::Commit)
            });
            match opened {
                Ok(CommitOrAbort::Commit(table)) => return Ok(table),
                Ok(CommitOrAbort::Abort(())) => return Err(Error::Broken),
                Err(heed::Error::Mdb(MdbError::MapFull)) if environment.grow()? => {}
                Err(source) => return Err(environment.error("open a table of", source)),
            }
        }
    }

    /// Runs a transaction and commits it if `run` returns a value; it may run more than once, while
    /// the map grows. Durable once the exclusive is.
    ///
    /// # Errors
    ///
    /// The [`Failure`] that it came to.
    pub fn transact<T, E>(
        &mut self,
        mut run: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, Failure<E>> {
        let rejected = |error: Error| Failure::Rejected(Rejected::Engine(Arc::new(error)));
        loop {
            let mut tx = self.environment.begin().map_err(rejected)?;
            let ran = run(&mut tx);
            let has_written = tx.end_member();
            let ran = match ran {
                Ok(value) => match self.environment.commit(tx.into_txn()) {
                    Ok(Ok(())) => return Ok(value),
                    Ok(Err(Undone::Broken)) => None,
                    Ok(Err(Undone::Refused(source))) => {
                        return Err(rejected(self.environment.error("commit to", source)));
                    }
                    Err(cause) => {
                        self.doubt = Some(cause.clone());
                        return Err(Failure::Unknown(Unknown::new(cause)));
                    }
                },
                Err(error) => {
                    let is_broken = has_written && tx.is_broken();
                    drop(tx);
                    if !is_broken {
                        return Err(Failure::Rejected(Rejected::Caller(error)));
                    }
                    Some(error)
                }
            };
            match (self.environment.grow(), ran) {
                (Ok(true), _) => {}
                (_, Some(error)) => return Err(Failure::Rejected(Rejected::Caller(error))),
                (grown, None) => return Err(rejected(grown.err().unwrap_or(Error::Broken))),
            }
        }
    }

    /// Frees the reader slots of processes that are gone, and returns how many there were.
    ///
    /// # Errors
    ///
    /// What LMDB says.
    pub fn clear_stale_readers(&mut self) -> Result<usize, Error> {
        let environment = &self.environment;
        environment
            .env
            .clear_stale_readers()
            .map_err(|source| environment.error("clear the stale readers of", source))
    }

    /// Writes a copy of the environment to the file `path`, without free pages if `compact`.
    ///
    /// # Errors
    ///
    /// What LMDB says.
    pub fn copy_to(&mut self, path: impl AsRef<Path>, compact: bool) -> Result<(), Error> {
        let option = if compact { CompactionOption::Enabled } else { CompactionOption::Disabled };
        let environment = &self.environment;
        let copied = environment.env.copy_to_path(path, option);
        copied.map(drop).map_err(|source| environment.error("copy", source))
    }
}
