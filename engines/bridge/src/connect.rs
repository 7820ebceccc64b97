//! How connections are made.

use std::{error::Error, fmt};

/// Makes the connections of a bridge, and says which of them are of no use any more: what a pool of
/// connections in the manner of `r2d2` calls its manager.
///
/// A connection is made, used and dropped on one thread, so it need not be [`Send`].
pub trait Connect: Send + Sync + 'static {
    /// A connection.
    type Connection: 'static;
    /// Why none could be made.
    type Error: Error + Send + Sync + 'static;

    /// Makes a connection.
    ///
    /// # Errors
    ///
    /// Why there is none. The call that needed it is told so; the next tries again.
    fn connect(&self) -> Result<Self::Connection, Self::Error>;

    /// Whether the connection is of no use any more: asked after every call, so it should look at
    /// what the client knows already, and not ask the server. The next call then gets a new one.
    fn is_broken(&self, _connection: &mut Self::Connection) -> bool {
        false
    }
}

/// Makes connections with a closure, and takes each to be whole for as long as the other says so.
pub fn connect_with<C: 'static, E: Error + Send + Sync + 'static>(
    connect: impl Fn() -> Result<C, E> + Send + Sync + 'static,
    is_broken: impl Fn(&mut C) -> bool + Send + Sync + 'static,
) -> impl Connect<Connection = C, Error = E> {
    Closures { connect, is_broken }
}

struct Closures<M, B> {
    connect: M,
    is_broken: B,
}

impl<M, B> fmt::Debug for Closures<M, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closures").finish_non_exhaustive()
    }
}

impl<C, E, M, B> Connect for Closures<M, B>
where
    C: 'static,
    E: Error + Send + Sync + 'static,
    M: Fn() -> Result<C, E> + Send + Sync + 'static,
    B: Fn(&mut C) -> bool + Send + Sync + 'static,
{
    type Connection = C;
    type Error = E;

    fn connect(&self) -> Result<C, E> {
        (self.connect)()
    }

    fn is_broken(&self, connection: &mut C) -> bool {
        (self.is_broken)(connection)
    }
}
