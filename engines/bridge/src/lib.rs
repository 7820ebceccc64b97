//! A bounded bridge: a blocking database client behind an asynchronous interface.
//!
//! ```text
//!  callers ──► admission ──► queue ──► a few threads, each with a connection ──► answers
//!              bounded                 of its own, made when it is first needed
//! ```
//!
//! A bridge that gives each request a thread and a connection falls over under load: ten thousand
//! requests at once are ten thousand connections. This one has a fixed number of both; who does not
//! get one waits for it without a thread, and behind a bound of those that wait, callers wait for
//! admission, or are refused, as they choose.
//!
//! # Examples
//!
//! ```
//! use groupcommit_bridge::{Bridge, Connect, Limits};
//!
//! struct Client; // any client whose calls block
//!
//! struct Server;
//!
//! impl Connect for Server {
//!     type Connection = Client;
//!     type Error = std::io::Error;
//!
//!     fn connect(&self) -> std::io::Result<Client> {
//!         Ok(Client)
//!     }
//! }
//!
//! let bridge = Bridge::new(Server, Limits { connections: 4, ..Limits::default() });
//! let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! let answer = runtime.block_on(bridge.call(|_client| 42))?;
//! assert_eq!(answer, 42);
//! bridge.close();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bridge;
mod connect;
mod queue;
mod worker;

pub use bridge::{Bridge, Failure, Limits, Stats};
pub use connect::{Connect, connect_with};
