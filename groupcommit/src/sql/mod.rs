//! One way to open a database that speaks SQL, whichever it is: by a URL.
//!
//! Moving from a file to a server, and from a server to a cluster, then changes the URL, and the
//! SQL where the databases differ; statements, values, results and errors are the same types.
//!
//! | URL | engine | feature | placeholders |
//! |---|---|---|---|
//! | `sqlite:app.db`, `sqlite:///var/lib/app.db` | SQLite | `sqlite` | `?1`, `?2` |
//! | `postgres://user:password@host:port/database` | PostgreSQL | `postgres` | `$1`, `$2` |
//! | `mysql://user:password@host:port,host:port/database`, `mariadb://...` | MySQL, MariaDB, Galera | `mysql` | `?` |
//!
//! Statements go to the database as they are: nothing is rewritten, so each is written with the
//! placeholders and in the dialect of its database; [`Engine::placeholder`] gives the former.
//!
//! # Examples
//!
//! ```
//! # #[cfg(feature = "sqlite")] {
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("sqlite:{}", folder.path().join("app.db").display());
//! use groupcommit::sql::{Database, Statement};
//!
//! let db = Database::connect(&url)?; // or "postgres://app@db.example.org/app"
//! db.exclusive(vec![Statement::new("CREATE TABLE stock (item TEXT PRIMARY KEY, amount BIGINT)", [])])?;
//!
//! let insert = format!("INSERT INTO stock VALUES ({}, {})", db.engine().placeholder(1), db.engine().placeholder(2));
//! let ticket = db.submit(vec![Statement::new(insert, ["nail".into(), 1_000.into()])]);
//! let results = ticket.wait()?; // committed and durable; or `.await`
//! assert_eq!(results[0].rows_affected, 1);
//!
//! let stock = db.read(&Statement::new("SELECT amount FROM stock", []))?;
//! assert_eq!(stock.rows, [[1_000.into()]]);
//! db.close()?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Durability
//!
//! What a ticket promises is what the engine's own promises: see its `Database`.

mod classify;
mod database;
mod error;
mod kind;
#[cfg(feature = "_remote")]
mod remote;
mod rows;
mod speak;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "sqlite")]
mod sqlite_rows;
mod url;

pub use database::{Database, Options};
pub use error::Error;
pub use groupcommit_core::Settled;
pub use groupcommit_statement::{Statement, StatementResult, Value, WrongType};
pub use kind::Kind;
pub use rows::Rows;
pub use url::{Engine, sqlite_path, without_password};

use crate::{Failure, Ticket};

/// The ticket of a transaction of statements.
pub type StatementsTicket = Ticket<Vec<StatementResult>, Error>;

/// What a transaction of statements came to.
pub type StatementsOutcome = Result<Vec<StatementResult>, StatementsFailure>;

/// Why a transaction of statements is not committed.
pub type StatementsFailure = Failure<Error>;
