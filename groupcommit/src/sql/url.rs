//! URLs, and which engine each is for.

use std::{fmt, path::PathBuf, time::Duration};

use super::error::Error;

/// The databases that can be opened by a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Engine {
    /// SQLite.
    Sqlite,
    /// PostgreSQL, and what speaks its protocol and keeps its record of transactions.
    Postgres,
    /// MySQL and MariaDB, and clusters of Galera.
    Mysql,
}

impl Engine {
    /// Whose URL it is.
    ///
    /// # Errors
    ///
    /// When it is none of a database that speaks SQL.
    pub fn of_url(url: &str) -> Result<Self, Error> {
        let scheme = url.split_once(':').map(|(scheme, _)| scheme);
        match scheme.map(str::to_ascii_lowercase).as_deref() {
            Some("sqlite") => Ok(Self::Sqlite),
            Some("postgres" | "postgresql") => Ok(Self::Postgres),
            Some("mysql" | "mariadb") => Ok(Self::Mysql),
            Some("lmdb" | "rocksdb") => Err(Error::url(format!(
                "`{}` is a store of keys and values, which takes no SQL; use its own module",
                without_password(url)
            ))),
            _ => Err(Error::url(format!(
                "`{}` begins with none of sqlite:, postgres://, mysql://",
                without_password(url)
            ))),
        }
    }

    /// Whether its databases are on a server, and so are none of the program's own files.
    #[must_use]
    pub fn is_server(self) -> bool {
        !matches!(self, Self::Sqlite)
    }

    /// Whether this program was built with it.
    #[must_use]
    pub fn is_built_in(self) -> bool {
        match self {
            Self::Sqlite => cfg!(feature = "sqlite"),
            Self::Postgres => cfg!(feature = "postgres"),
            Self::Mysql => cfg!(feature = "mysql"),
        }
    }

    /// Its name in headings.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
            Self::Mysql => "MySQL or MariaDB",
        }
    }

    /// Its name in lower case, as in its URLs and as a feature.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
        }
    }

    /// How its statements write the parameter of that number, counted from 1. MySQL's has none: its
    /// parameters come in the order in which they stand.
    #[must_use]
    pub fn placeholder(self, number: usize) -> String {
        match self {
            Self::Sqlite => format!("?{number}"),
            Self::Postgres => format!("${number}"),
            Self::Mysql => "?".to_owned(),
        }
    }

    /// How its statements write a name, whatever letters it has.
    #[must_use]
    pub fn quoted(self, name: &str) -> String {
        match self {
            Self::Mysql => format!("`{}`", name.replace('`', "``")),
            Self::Sqlite | Self::Postgres => format!("\"{}\"", name.replace('"', "\"\"")),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A URL as it may be shown: without a password, and without its options.
#[must_use]
pub fn without_password(url: &str) -> String {
    let (before, behind) = url.split_once('?').unwrap_or((url, ""));
    let (scheme, joint, rest) = match (before.split_once("://"), before.split_once(':')) {
        (Some((scheme, rest)), _) => (scheme, "://", rest),
        // The slashes were forgotten.
        (None, Some((scheme, rest))) if url.contains('@') => (scheme, ":", rest),
        _ => return before.to_owned(),
    };
    if let Some((account, place)) = rest.rsplit_once('@') {
        let user = account.split(':').next().unwrap_or_default();
        return format!("{scheme}{joint}{user}@{place}");
    }
    // A password with a question mark in it that is not written `%3F` looks like this.
    let is_account = behind.contains('@') && rest.contains(':');
    let shown = if is_account { rest.split(':').next().unwrap_or_default() } else { rest };
    format!("{scheme}{joint}{shown}")
}

/// The URL as the engine of MySQL knows it, whatever its scheme is called.
#[cfg(feature = "mysql")]
pub(super) fn as_mysql(url: &str) -> String {
    url.split_once(':').map_or_else(|| url.to_owned(), |(_, rest)| format!("mysql:{rest}"))
}

/// The file that a URL of SQLite's names.
///
/// # Errors
///
/// When it names none, or has options that SQLite does not.
pub fn sqlite_path(url: &str) -> Result<PathBuf, Error> {
    parse_sqlite(url).map(|url| url.path)
}

/// What a URL of SQLite says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SqliteUrl {
    pub(super) path: PathBuf,
    pub(super) create: bool,
    pub(super) convert_to_wal: bool,
    pub(super) busy_timeout: Option<Duration>,
}

/// Takes `sqlite:PATH` or `sqlite://PATH` apart, with `?create=false`, `convert_to_wal=true` and
/// `busy_timeout_ms=5000` behind it.
pub(super) fn parse_sqlite(url: &str) -> Result<SqliteUrl, Error> {
    let rest = url.split_once(':').map_or("", |(_, rest)| rest);
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = percent_encoding::percent_decode_str(path)
        .decode_utf8()
        .map_err(|_| Error::url(format!("the path in `{url}` is no text")))?;
    if path.is_empty() {
        return Err(Error::url(format!("`{url}` names no file; write sqlite:PATH")));
    }
    let path = PathBuf::from(path.as_ref());
    let mut parsed = SqliteUrl { path, create: true, convert_to_wal: false, busy_timeout: None };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let wrong =
            || Error::url(format!("`{pair}` in `{url}` is no option and value of SQLite's"));
        match name {
            "create" => parsed.create = value.parse().map_err(|_| wrong())?,
            "convert_to_wal" => parsed.convert_to_wal = value.parse().map_err(|_| wrong())?,
            "busy_timeout_ms" => {
                parsed.busy_timeout =
                    Some(Duration::from_millis(value.parse().map_err(|_| wrong())?));
            }
            _ => return Err(wrong()),
        }
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Kind;

    #[test]
    fn a_url_says_whose_it_is() {
        for (url, engine) in [
            ("sqlite:app.db", Engine::Sqlite),
            ("SQLite:///var/lib/app.db", Engine::Sqlite),
            ("postgres://a@b/c", Engine::Postgres),
            ("postgresql://a@b/c", Engine::Postgres),
            ("mysql://a@b/c", Engine::Mysql),
            ("mariadb://a@b:1,c:2/d", Engine::Mysql),
        ] {
            assert_eq!(Engine::of_url(url).unwrap(), engine, "{url}");
        }
        for url in ["app.db", "", "oracle://a@b/c", "lmdb:folder"] {
            assert_eq!(Engine::of_url(url).unwrap_err().kind(), Kind::Url, "{url}");
        }
    }

    #[test]
    fn no_error_shows_a_password() {
        assert_eq!(without_password("x://me:secret@host/db"), "x://me@host/db");
        assert_eq!(without_password("x://me:se@cret@host"), "x://me@host");
        assert_eq!(without_password("x://me@host/db?password=secret"), "x://me@host/db");
        assert_eq!(without_password("x:me"), "x:me");
        assert_eq!(without_password("x:me:secret@host/db"), "x:me@host/db");
        assert_eq!(without_password("x:me:sec?ret@host/db"), "x:me");
        assert_eq!(without_password("x://me:se?cr@et@host/db"), "x://me");
        assert_eq!(without_password("x://host:1/db?user=me"), "x://host:1/db");
    }

    #[test]
    fn sqlites_urls_have_a_path_and_options() {
        let parsed = |url: &str| parse_sqlite(url).unwrap();
        for (url, path) in [
            ("sqlite:app.db", "app.db"),
            ("sqlite://app.db", "app.db"),
            ("sqlite:///var/lib/app.db", "/var/lib/app.db"),
            ("sqlite:/var/lib/app.db", "/var/lib/app.db"),
            ("sqlite:a%3Fb%20c.db", "a?b c.db"),
        ] {
            assert_eq!(parsed(url).path, PathBuf::from(path), "{url}");
        }
        let all = parsed("sqlite:a.db?create=false&convert_to_wal=true&busy_timeout_ms=250");
        assert!(!all.create && all.convert_to_wal);
        assert_eq!(all.busy_timeout, Some(Duration::from_millis(250)));
        for url in ["sqlite:", "sqlite:?create=true", "sqlite:a?create=maybe", "sqlite:a?mode=ro"] {
            assert_eq!(parse_sqlite(url).unwrap_err().kind(), Kind::Url, "{url}");
        }
    }
}
