//! Where a URL may say that the server is.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use groupcommit_postgres::{Database, Error};
use groupcommit_testkit::servers::postgres::Kind;

use crate::server::{ids, insert, schema, shared, start};

fn writes_and_reads(url: &str) {
    let db = Database::open(url).unwrap_or_else(|error| panic!("{url}: {error:?}"));
    db.submit_statements(vec![insert(1)]).wait().unwrap();
    assert_eq!(ids(&db), [1], "{url}");
    db.close().unwrap();
}

#[test]
fn a_socket_in_a_folder_is_reached_by_its_path() {
    let folder = shared().folder().display().to_string().replace('/', "%2F");
    writes_and_reads(&schema().replace("127.0.0.1", &folder));
    // There is nothing to encrypt, whatever the URL says.
    for rest in ["sslmode=require", "sslrootcert=/no/such/file"] {
        writes_and_reads(&format!("{}&{rest}", schema().replace("127.0.0.1", &folder)));
    }
    // The other form of a URL.
    let url = schema();
    let (_, path) = url.rsplit_once("%3D").unwrap();
    writes_and_reads(&format!(
        "host={} port={} user=postgres dbname=postgres options='-c search_path={path}'",
        shared().folder().display(),
        shared().port()
    ));
}

#[test]
fn an_address_of_ipv6_is_reached() {
    if let Err(error) = TcpListener::bind("[::1]:0") {
        eprintln!("skipped: the test of IPv6, which this machine does not have: {error}");
        return;
    }
    let servers = start(Kind::Single);
    servers.sql("ALTER SYSTEM SET listen_addresses = '127.0.0.1, ::1'").unwrap();
    servers.crash_and_restart().unwrap();
    let url = servers.url().replace("127.0.0.1", "[::1]");
    let db = Database::open(&url).unwrap();
    db.exclusive(|alone| alone.batch("CREATE TABLE t (id bigint PRIMARY KEY, v text NOT NULL)"))
        .unwrap();
    writes_and_reads(&url);
}

#[test]
fn a_host_that_accepts_and_says_nothing_does_not_take_up_the_time_of_the_next() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let server = format!("127.0.0.1:{}", shared().port());
    let hosts = format!("127.0.0.1:{port},{server}");
    writes_and_reads(&format!("{}&connect_timeout=1", schema().replace(&server, &hosts)));
}

#[test]
fn of_several_hosts_the_one_that_takes_writes_is_found_and_a_replica_alone_is_refused() {
    let servers = start(Kind::Replicated);
    let [primary, replica, _] = servers.ports()[..] else { panic!("{servers:?}") };
    servers.sql("CREATE TABLE t (id bigint PRIMARY KEY, v text NOT NULL)").unwrap();
    let url = |hosts: &str| {
        format!("postgres://postgres@{hosts}/postgres?target_session_attrs=read-write")
    };
    writes_and_reads(&url(&format!("127.0.0.1:{replica},127.0.0.1:{primary}")));
    servers.sql("DELETE FROM t").unwrap();
    writes_and_reads(&url(&format!("127.0.0.1:{primary}")));
    let since = Instant::now();
    let patient = Duration::from_mins(2);
    let refused = Database::options()
        .reconnect_timeout(patient)
        .open(&url(&format!("127.0.0.1:{replica}")))
        .unwrap_err();
    assert!(matches!(refused, Error::Connect { .. }), "{refused:?}");
    assert!(refused.to_string().ends_with("takes no writes; connect to the primary"), "{refused}");
    assert!(since.elapsed() < patient / 2);
    // That a replica is no primary is no news where something is wrong with the other.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for ports in [[nobody, replica], [replica, nobody]] {
        let hosts = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
        let refused = Database::open(&url(&hosts)).unwrap_err().to_string();
        let expected = format!("127.0.0.1:{nobody}/postgres: nothing listens there");
        assert!(refused.contains(&expected), "{refused}");
    }
}

#[test]
fn who_is_not_let_in_is_told_what_to_do() {
    let url = shared().url();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (url, remedy) in [
        (url.replace("postgres@", "nobody_of_that_name@"), "check the user and password"),
        (url.clone() + "_that_is_not", "the database does not exist"),
        (url.replace(&shared().port().to_string(), &nobody.to_string()), "nothing listens there"),
        (format!("postgres://postgres@%2Fno%2Fsuch%2Ffolder/{nobody}"), "nothing listens there"),
        (format!("{url}?sslmode=require"), "turn its `ssl` on, or add `sslmode=disable`"),
        (
            format!("{url}?target_session_attrs=read-only"),
            "remove `target_session_attrs=read-only`",
        ),
    ] {
        let refused = Database::open(&url).unwrap_err();
        assert!(matches!(refused, Error::Connect { .. }), "{url}: {refused:?}");
        assert!(refused.to_string().contains(remedy), "{url}: {refused}");
    }
}
