//! What callers of every engine's database submit with, written once.
//!
//! An engine's crate has a `Database` with a method `pipeline`, and `submit_surface!` gives it the
//! methods that are the same everywhere, with that crate's own types in their signatures. [`Submit`]
//! is the same surface as a trait, for code that is written once for all engines.

use std::{error::Error, future::Future};

use crate::{Failure, Refused, Stats, Terms, Ticket};

/// A database of any engine, as far as all are the same; for code that is written once for all of
/// them. Each method is the database's own of that name.
pub trait Submit: Clone + Send + Sync + 'static {
    /// What a transaction's closure is given.
    type Transaction<'g>;

    /// Submits a transaction and returns its ticket at once; see the database's own `submit`.
    fn submit_with<T, E, F>(&self, terms: Terms, transaction: F) -> Ticket<T, E>
    where
        F: FnMut(&mut Self::Transaction<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static;

    /// As [`submit_with`](Self::submit_with), waiting for admission without blocking.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready submits nothing.
    fn submit_async_with<T, E, F>(
        &self,
        terms: Terms,
        transaction: F,
    ) -> impl Future<Output = Ticket<T, E>> + Send
    where
        F: FnMut(&mut Self::Transaction<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static;

    /// As [`submit_with`](Self::submit_with), but refuses instead of waiting for room.
    ///
    /// # Errors
    ///
    /// Why it was not admitted, with the closure.
    fn try_submit_with<T, E, F>(
        &self,
        terms: Terms,
        transaction: F,
    ) -> Result<Ticket<T, E>, Refused<F>>
    where
        F: FnMut(&mut Self::Transaction<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static;

    /// Runs a transaction and blocks until it is durable.
    ///
    /// # Errors
    ///
    /// The [`Failure`] that it came to.
    fn transact_with<T, E, F>(&self, terms: Terms, transaction: F) -> Result<T, Failure<E>>
    where
        F: FnMut(&mut Self::Transaction<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static;

    /// As [`submit_with`](Self::submit_with), with a callback in place of a ticket.
    fn submit_then_with<T, E, F>(
        &self,
        terms: Terms,
        transaction: F,
        callback: impl FnOnce(Result<T, Failure<E>>) + Send + 'static,
    ) where
        F: FnMut(&mut Self::Transaction<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static;

    /// Blocks until everything submitted before this call is resolved.
    ///
    /// # Errors
    ///
    /// When a flush failed, now or before.
    fn flush_all(&self) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// Stops admission, drains, and closes the database.
    ///
    /// # Errors
    ///
    /// When a flush or a commit had failed.
    fn close_all(&self) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// What the database has done since it was opened.
    fn statistics(&self) -> Stats;
}

/// Gives an engine's `Database` what callers submit with: its methods, the `Submission` they go
/// through, and [`Submit`].
///
/// REQUIRES in the scope of the call: `Transaction` and `Error` of the engine's crate; `Database`
/// with the methods `pipeline(&self) -> &Pipeline<_>` and `close(&self) -> Result<(), Error>`. The
/// attributes given to it are added to the documentation of `submit`.
#[doc(hidden)]
#[macro_export]
macro_rules! submit_surface {
    ($(#[$submit_doc:meta])*) => {
        impl Database {
            /// Submits a transaction and returns its ticket at once.
            ///
            /// Only while admission is full ([`Limits`]($crate::Limits)) does it block until there
            /// is room. Inside a transaction of the same database it may be called, but its ticket
            /// must not be waited for there: the transaction would wait for its own group. In async
            /// code use [`submit_async`](Self::submit_async), which waits without blocking, or
            /// [`try_submit`](Self::try_submit), which refuses.
            ///
            /// # Durability
            ///
            /// The ticket resolves to the closure's value once the transaction is committed and
            /// flushed. The closure may run more than once; its effect lands exactly once.
            $(#[$submit_doc])*
            pub fn submit<T, E, F>(&self, transaction: F) -> $crate::Ticket<T, E>
            where
                F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
                T: Send + 'static,
                E: Send + 'static,
            {
                self.submission().submit(transaction)
            }

            /// As [`submit`](Self::submit), waiting for admission without blocking. A deadline does
            /// not end that wait, which has no clock of its own; dropping the future does.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future before it is ready submits nothing.
            pub async fn submit_async<T, E, F>(&self, transaction: F) -> $crate::Ticket<T, E>
            where
                F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
                T: Send + 'static,
                E: Send + 'static,
            {
                self.submission().submit_async(transaction).await
            }

            /// As [`submit`](Self::submit), but refuses instead of waiting for room.
            ///
            /// # Errors
            ///
            /// [`NotRun::Overloaded`]($crate::NotRun::Overloaded) when admission is full,
            /// [`NotRun::Closed`]($crate::NotRun::Closed) or
            /// [`NotRun::Failed`]($crate::NotRun::Failed) when nothing is admitted any more; the
            /// closure comes back with it.
            pub fn try_submit<T, E, F>(
                &self,
                transaction: F,
            ) -> Result<$crate::Ticket<T, E>, $crate::Refused<F>>
            where
                F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
                T: Send + 'static,
                E: Send + 'static,
            {
                self.submission().try_submit(transaction)
            }

            /// Runs a transaction and blocks until it is durable. On an idle database everything
            /// happens on the caller's thread.
            ///
            /// # Errors
            ///
            /// The [`Failure`]($crate::Failure) that the transaction came to;
            /// [`NotRun::Reentrant`]($crate::NotRun::Reentrant) when called from inside a
            /// transaction of the same database.
            pub fn transact<T, E, F>(&self, transaction: F) -> Result<T, $crate::Failure<E>>
            where
                F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
                T: Send + 'static,
                E: Send + 'static,
            {
                self.submission().transact(transaction)
            }

            /// As [`submit`](Self::submit), with a callback in place of a ticket. It is called
            /// exactly once, with the result, on a thread of the pool; callbacks of one database
            /// are called in submission order, one at a time (one that was not admitted does not
            /// wait for those before it). A slow one delays no commit; it should not block on a
            /// database itself. It may submit more, but does not wait for room: while admission is
            /// full, that is [`NotRun::Overloaded`]($crate::NotRun::Overloaded), since the room may
            /// be its own.
            pub fn submit_then<T, E, F>(
                &self,
                transaction: F,
                callback: impl FnOnce(Result<T, $crate::Failure<E>>) + Send + 'static,
            ) where
                F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
                T: Send + 'static,
                E: Send + 'static,
            {
                self.submission().submit_then(transaction, callback);
            }

            /// A transaction that is submitted with a deadline or with its memory accounted for.
            pub fn submission(&self) -> Submission<'_> {
                Submission { database: self, terms: $crate::Terms::default() }
            }

            /// Blocks until everything submitted before this call is resolved.
            ///
            /// # Errors
            ///
            /// [`Failure::Unknown`]($crate::Failure::Unknown) or
            /// [`NotRun::Failed`]($crate::NotRun::Failed) when a flush failed, now or before.
            pub fn flush(&self) -> Result<(), $crate::Failure<Error>> {
                self.pipeline().flush(false)
            }

            /// What the database has done since it was opened.
            #[must_use]
            pub fn stats(&self) -> $crate::Stats {
                self.pipeline().stats()
            }
        }

        /// A transaction about to be submitted, with what is said of it besides its closure.
        #[derive(Debug, Clone, Copy)]
        #[must_use = "nothing is submitted before one of its methods is given a transaction"]
        pub struct Submission<'a> {
            database: &'a Database,
            terms: $crate::Terms,
        }

        impl Submission<'_> {
            /// The transaction is not run, or is stopped where its engine can stop it and rolled
            /// back, once this time has passed since its submission; its ticket then resolves to
            /// [`NotRun::DeadlinePassed`]($crate::NotRun::DeadlinePassed) when its turn comes.
            pub fn deadline(mut self, deadline: std::time::Duration) -> Self {
                self.terms.deadline = Some(deadline);
                self
            }

            /// Memory in bytes that the transaction holds behind pointers, counted against
            /// [`Limits::bytes`]($crate::Limits::bytes). The closure's own size is counted anyway.
            pub fn bytes(mut self, bytes: usize) -> Self {
                self.terms.bytes = bytes;
                self
            }

            /// See [`Database::submit`].
            pub fn submit<T, E, F>(self, transaction: F) -> $crate::Ticket<T, E>
            where
                F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
                T: Send + 'static,
                E: Send + 'static,
            {
                self.database.pipeline().submit(self.terms, transaction)
            }

            /// See [`Database::submit_async`].
            ///
            /// # Cancel safety
            ///
            /// Dropping the future before it is ready submits nothing.
            pub async fn submit_async<T, E, F>(self, transaction: F) -> $crate::Ticket<T, E>
            where
                F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
                T: Send + 'static,
                E: Send + 'static,
            {
                self.database.pipeline().submit_async(self.terms, transaction).await
            }

            /// See [`Database::try_submit`].
            ///
            /// # Errors
            ///
            /// As there.
            pub fn try_submit<T, E, F>(
                self,
                transaction: F,
            ) -> Result<$crate::Ticket<T, E>, $crate::Refused<F>>
            where
                F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
                T: Send + 'static,
                E: Send + 'static,
            {
                self.database.pipeline().try_submit(self.terms, transaction)
            }

            /// See [`Database::transact`].
            ///
            /// # Errors
            ///
            /// As there.
            pub fn transact<T, E, F>(self, transaction: F) -> Result<T, $crate::Failure<E>>
            where
                F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
                T: Send + 'static,
                E: Send + 'static,
            {
                self.database.pipeline().transact(self.terms, transaction)
            }

            /// See [`Database::submit_then`].
            pub fn submit_then<T, E, F>(
                self,
                transaction: F,
                callback: impl FnOnce(Result<T, $crate::Failure<E>>) + Send + 'static,
            ) where
                F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
                T: Send + 'static,
                E: Send + 'static,
            {
                self.database.pipeline().submit_then(self.terms, transaction, callback);
            }
        }

        impl $crate::Submit for Database {
            type Transaction<'g> = Transaction<'g>;

            fn submit_with<T, E, F>(&self, terms: $crate::Terms, transaction: F) -> $crate::Ticket<T, E>
            where
                F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
                T: Send + 'static,
                E: Send + 'static,
            {
                Submission { database: self, terms }.submit(transaction)
            }

            async fn submit_async_with<T, E, F>(
                &self,
                terms: $crate::Terms,
                transaction: F,
            ) -> $crate::Ticket<T, E>
            where
                F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
                T: Send + 'static,
                E: Send + 'static,
            {
                Submission { database: self, terms }.submit_async(transaction).await
            }

            fn try_submit_with<T, E, F>(
                &self,
                terms: $crate::Terms,
                transaction: F,
            ) -> Result<$crate::Ticket<T, E>, $crate::Refused<F>>
            where
                F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
                T: Send + 'static,
                E: Send + 'static,
            {
                Submission { database: self, terms }.try_submit(transaction)
            }

            fn transact_with<T, E, F>(
                &self,
                terms: $crate::Terms,
                transaction: F,
            ) -> Result<T, $crate::Failure<E>>
            where
                F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
                T: Send + 'static,
                E: Send + 'static,
            {
                Submission { database: self, terms }.transact(transaction)
            }

            fn submit_then_with<T, E, F>(
                &self,
                terms: $crate::Terms,
                transaction: F,
                callback: impl FnOnce(Result<T, $crate::Failure<E>>) + Send + 'static,
            ) where
                F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
                T: Send + 'static,
                E: Send + 'static,
            {
                Submission { database: self, terms }.submit_then(transaction, callback);
            }

            fn flush_all(&self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
                Ok(self.flush()?)
            }

            fn close_all(&self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
                Ok(self.close()?)
            }

            fn statistics(&self) -> $crate::Stats {
                self.stats()
            }
        }
    };
}
