//! The suites that every engine, and every engine for a remote database, passes.

use groupcommit_postgres::{Postgres, tokio_postgres};
use groupcommit_testkit::{
    remote::{Remote, Sql, map::Map},
    servers::proxy::Proxy,
};

use crate::server::{self, schema_through, shared};

pub(crate) struct Engine;

/// The name of a schema of these tests, which is that of its connections too.
fn name_in(url: &str) -> &str {
    url.split("application_name=").nth(1).unwrap().split('&').next().unwrap()
}

impl Remote for Engine {
    type Protocol = Postgres;

    const SQL: Sql = Sql {
        insert: "INSERT INTO t VALUES ($1, $2)",
        add: "UPDATE t SET v = (v::int + 1)::text WHERE id = $1",
        numbers: "SELECT n::int8 FROM generate_series(1, $1::int8) AS n",
        create_map: "CREATE TABLE kv (k numeric PRIMARY KEY, v bytea)",
        put: "INSERT INTO kv VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = excluded.v",
        get: "SELECT v FROM kv WHERE k = $1",
        delete: "DELETE FROM kv WHERE k = $1",
        all: "SELECT k::text, v FROM kv ORDER BY kv.k",
        duplicate: "23505",
    };

    fn port() -> u16 {
        shared().port()
    }

    fn url_through(port: u16) -> String {
        let url = schema_through(shared(), port);
        let name = url.rsplit("%3D").next().unwrap();
        // A deadlock is found soon.
        url.replace("?options=", &format!("?application_name={name}&options="))
            + "%20-c%20deadlock_timeout%3D5ms"
    }

    fn proxy(port: u16) -> Proxy {
        server::proxy(port)
    }

    fn connections(url: &str) -> usize {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name";
        shared().sql(&format!("{sql} = '{}'", name_in(url))).unwrap().trim().parse().unwrap()
    }

    fn code(error: &tokio_postgres::Error) -> String {
        error.code().unwrap().code().to_owned()
    }
}

groupcommit_testkit::conformance!(Map<Engine>);
groupcommit_testkit::remote!(Engine);
