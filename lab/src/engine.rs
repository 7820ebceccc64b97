//! The databases that experiments run on.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;

use crate::error::LabError;

/// A database that experiments run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, ValueEnum, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Engine {
    /// SQLite: always built in
    #[default]
    Sqlite,
    /// LMDB: with the feature `lmdb`
    Lmdb,
    /// RocksDB: with the feature `rocksdb`
    Rocksdb,
    /// PostgreSQL: with the feature `postgres`, on the server given by --url
    Postgres,
    /// MySQL or MariaDB: with the feature `mysql`, on the server given by --url
    Mysql,
}

impl Engine {
    /// The name in options and records.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The name in headings.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Lmdb => "LMDB",
            Self::Rocksdb => "RocksDB",
            Self::Postgres => "PostgreSQL",
            Self::Mysql => "MySQL or MariaDB",
        }
    }

    /// Whether this program was built with it.
    #[must_use]
    pub fn is_built_in(self) -> bool {
        match self {
            Self::Sqlite => true,
            Self::Lmdb => cfg!(feature = "lmdb"),
            Self::Rocksdb => cfg!(feature = "rocksdb"),
            Self::Postgres => cfg!(feature = "postgres"),
            Self::Mysql => cfg!(feature = "mysql"),
        }
    }

    /// Whether it stores values under keys and has no SQL.
    #[must_use]
    pub fn is_keyed(self) -> bool {
        matches!(self, Self::Lmdb | Self::Rocksdb)
    }

    /// Whether its databases are on a server.
    #[must_use]
    pub fn is_server(self) -> bool {
        matches!(self, Self::Postgres | Self::Mysql)
    }

    /// The engine of a server's URL.
    ///
    /// # Errors
    /// When it is not the URL of a server.
    pub fn of_url(url: &str) -> Result<Self, LabError> {
        match groupcommit::sql::Engine::of_url(url) {
            Ok(groupcommit::sql::Engine::Postgres) => Ok(Self::Postgres),
            Ok(groupcommit::sql::Engine::Mysql) => Ok(Self::Mysql),
            Ok(_) => Err(LabError::Options(
                "--url is for servers; SQLite is measured without it, in the folder --dir"
                    .to_owned(),
            )),
            Err(error) => Err(LabError::Options(format!("--url: {error}: {}", error.cause()))),
        }
    }

    /// Refuses an engine that this program was built without.
    pub(crate) fn check(self) -> Result<(), LabError> {
        if self.is_built_in() {
            return Ok(());
        }
        Err(LabError::Options(format!(
            "this program was built without {}; build it with `cargo build --release -p groupcommit-lab \
             --features {self}`",
            self.title()
        )))
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        ValueEnum::from_str(name, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_parse_back_and_one_that_is_missing_says_how_to_get_it() {
        for &engine in Engine::value_variants() {
            assert_eq!(engine.name().parse(), Ok(engine));
            match engine.check() {
                Ok(()) => assert!(engine.is_built_in()),
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.contains(&format!("--features {engine}")), "{error}");
                }
            }
        }
        "oracle".parse::<Engine>().expect_err("not an engine");
    }

    #[test]
    fn a_url_that_is_refused_is_not_repeated_with_its_password() {
        for url in [
            "oracle://me:secret@host/db",
            "oracle:me:secret@host",
            "lmdb://me:secret@host",
            "sqlite:secret.db",
            "secret.db",
        ] {
            let refused = Engine::of_url(url).expect_err(url).to_string();
            assert!(refused.contains("--url"), "{refused}");
            assert!(!refused.contains("me:secret"), "{refused}");
        }
    }
}
