//! The suites that every engine, and every engine for a remote database, passes.

use groupcommit_mysql::{MySql, mysql_async};
use groupcommit_testkit::{
    remote::{Remote, Sql, map::Map},
    servers::proxy::Proxy,
};

use crate::server::{self, at, database_through, shared};

pub(crate) struct Engine;

impl Remote for Engine {
    type Protocol = MySql;

    const SQL: Sql = Sql {
        insert: "INSERT INTO t VALUES (?, ?)",
        add: "UPDATE t SET v = v + 1 WHERE id = ?",
        numbers: "SELECT seq AS n FROM seq_1_to_100000 WHERE seq <= ?",
        create_map: "CREATE TABLE kv (k BIGINT UNSIGNED PRIMARY KEY, v LONGBLOB)",
        put: "INSERT INTO kv VALUES (?, ?) ON DUPLICATE KEY UPDATE v = VALUES(v)",
        get: "SELECT v FROM kv WHERE k = ?",
        delete: "DELETE FROM kv WHERE k = ?",
        all: "SELECT CAST(k AS CHAR), v FROM kv ORDER BY kv.k",
        duplicate: "1062",
    };

    fn port() -> u16 {
        shared().port(0)
    }

    fn url_through(port: u16) -> String {
        database_through(shared(), &at(port))
    }

    fn proxy(port: u16) -> Proxy {
        server::proxy(port)
    }

    fn connections(url: &str) -> usize {
        let name = url.rsplit('/').next().unwrap();
        let sql = "SELECT count(*) FROM information_schema.processlist WHERE db";
        shared().sql(&format!("{sql} = '{name}'")).unwrap().trim().parse().unwrap()
    }

    fn after_cuts(url: &str) {
        server::has_a_short_record(shared(), url);
    }

    fn code(error: &mysql_async::Error) -> String {
        match error {
            mysql_async::Error::Server(said) => said.code.to_string(),
            other => panic!("{other:?}"),
        }
    }
}

groupcommit_testkit::conformance!(Map<Engine>);
groupcommit_testkit::remote!(Engine);
