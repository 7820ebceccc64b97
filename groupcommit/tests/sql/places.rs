//! The databases that the suite is run on: each test has one of its own.

use groupcommit::sql::{Database, Engine, Statement, Value};

/// A database of its own for one test.
pub(crate) struct Place {
    pub(crate) db: Database,
    pub(crate) engine: Engine,
    pub(crate) url: String,
    /// Removes the files.
    _folder: Option<tempfile::TempDir>,
}

/// Runs each test on every engine that the program is built with and that is there.
macro_rules! on_every_engine {
    ($($name:ident),+ $(,)?) => {
        #[cfg(feature = "sqlite")]
        mod sqlite {
            $(#[test]
            fn $name() {
                super::$name(&crate::places::sqlite());
            })+
        }

        #[cfg(feature = "mysql")]
        mod mysql {
            $(#[test]
            fn $name() {
                if let Some(place) = crate::places::mysql::place() {
                    super::$name(&place);
                }
            })+
        }

        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[test]
            fn $name() {
                if let Some(place) = crate::places::postgres() {
                    super::$name(&place);
                }
            })+
        }
    };
}
pub(crate) use on_every_engine;

#[cfg(feature = "sqlite")]
pub(crate) fn sqlite() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("app.db").display());
    Place::open(url, Engine::Sqlite, Some(folder))
}

#[cfg(feature = "mysql")]
pub(crate) mod mysql {
    use std::sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    };

    use groupcommit_testkit::servers::{
        Life,
        mysql::{Kind, Servers, start},
        or_skip,
    };

    use super::{Engine, Place};

    /// The server that the tests share; `None` where there is none.
    pub(crate) fn shared() -> Option<&'static Servers> {
        static SHARED: OnceLock<Option<Servers>> = OnceLock::new();
        SHARED.get_or_init(|| or_skip(start(Kind::Single, Life::Process))).as_ref()
    }

    /// A new schema.
    pub(crate) fn place() -> Option<Place> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let servers = shared()?;
        let name = format!("sql_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        servers.sql(&format!("CREATE DATABASE {name}")).unwrap();
        let url = format!("mysql://root@127.0.0.1:{}/{name}", servers.port(0));
        Some(Place::open(url, Engine::Mysql, None))
    }
}

#[cfg(feature = "postgres")]
pub(crate) use servers::postgres;

#[cfg(feature = "postgres")]
pub(crate) mod servers {
    use std::sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    };

    use groupcommit_testkit::servers::{
        Life, or_skip,
        postgres::{Kind, Servers, start},
    };

    use super::{Engine, Place};

    /// The server that the tests share; `None` where there is none.
    pub(crate) fn shared() -> Option<&'static Servers> {
        static SHARED: OnceLock<Option<Servers>> = OnceLock::new();
        SHARED.get_or_init(|| or_skip(start(Kind::Single, Life::Process))).as_ref()
    }

    /// A new schema's URL.
    pub(crate) fn schema() -> Option<String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let servers = shared()?;
        let name = format!("sql_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        servers.sql(&format!("CREATE SCHEMA {name}")).unwrap();
        Some(format!("{}?options=-c%20search_path%3D{name}", servers.url()))
    }

    pub(crate) fn postgres() -> Option<Place> {
        Some(Place::open(schema()?, Engine::Postgres, None))
    }
}

impl Place {
    fn open(url: String, engine: Engine, folder: Option<tempfile::TempDir>) -> Self {
        let db = Database::connect(&url).unwrap();
        assert_eq!(db.engine(), engine);
        Self { db, engine, url, _folder: folder }
    }

    /// A statement whose placeholders are written `{1}`, `{2}`.
    pub(crate) fn statement<const N: usize>(&self, sql: &str, params: [Value; N]) -> Statement {
        let written = (1..=N).fold(sql.to_owned(), |sql, number| {
            sql.replace(&format!("{{{number}}}"), &self.engine.placeholder(number))
        });
        Statement::new(written, params)
    }

    pub(crate) fn run(&self, sql: &str) {
        // Alone: MySQL commits whatever was open before it defines anything.
        self.db.exclusive(vec![Statement::new(sql, [])]).unwrap();
    }

    pub(crate) fn table(&self) {
        self.run("CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT NOT NULL)");
    }

    pub(crate) fn insert(&self, id: i64) -> Statement {
        self.statement(
            "INSERT INTO t (id, v) VALUES ({1}, {2})",
            [id.into(), format!("row {id}").into()],
        )
    }

    pub(crate) fn ids(&self) -> Vec<i64> {
        let rows = self.db.read(&Statement::new("SELECT id FROM t ORDER BY id", [])).unwrap().rows;
        rows.into_iter()
            .map(|row| match row[..] {
                [Value::Int(id)] => id,
                ref other => panic!("{other:?} is no id"),
            })
            .collect()
    }
}
