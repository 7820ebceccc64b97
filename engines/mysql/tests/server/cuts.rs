//! Connections that are lost at a commit: what is particular to MySQL's record.

use groupcommit_mysql::{Database, Error, Failure, Rejected, Statement, Warning};
use groupcommit_testkit::servers::{mysql::Kind, proxy::Cut};

use crate::server::{at, database_through, ids, insert, proxy, shared, start};

#[test]
fn the_record_is_removed_also_where_the_last_commit_took_the_connection_with_it() {
    let proxy = proxy(shared().port(0));
    let url = database_through(shared(), &at(proxy.port));
    let name = url.rsplit('/').next().unwrap();
    let db = Database::open(&url).unwrap();
    proxy.cut_next(Cut::After);
    db.submit_statements(vec![insert(1)]).wait().unwrap();
    db.close().unwrap();
    let left = format!("SELECT count(*) FROM {name}.groupcommit_outcome");
    assert_eq!(shared().sql(&left).unwrap().trim(), "0");
}

#[test]
fn a_crash_of_the_server_between_two_groups_costs_a_connection() {
    let servers = start(Kind::Single);
    let db = Database::open(&database_through(&servers, &at(servers.port(0)))).unwrap();
    for id in 0..3 {
        db.submit_statements(vec![insert(id)]).wait().unwrap();
        servers.crash_and_restart(&[]).unwrap();
    }
    assert_eq!(ids(&db), [0, 1, 2]);
}

#[test]
fn without_its_table_a_lost_commit_stays_unknown_and_is_said_to() {
    let proxy = proxy(shared().port(0));
    let url = database_through(shared(), &at(proxy.port));
    let name = url.rsplit('/').next().unwrap();
    shared()
        .sql(&format!(
            "CREATE USER {name}@'%'; GRANT SELECT, INSERT, UPDATE, DELETE ON {name}.t TO {name}@'%'"
        ))
        .unwrap();
    let url = url.replace("root@", &format!("{name}@"));
    let db = Database::open(&url).unwrap();
    assert_eq!(db.warnings(), [Warning::NoRecord]);
    db.submit_statements(vec![insert(1)]).wait().unwrap();
    assert_eq!(ids(&db), [1]);
    let all = Statement::new("SELECT 1", []);
    let refused = db.read_durable(&all);
    assert!(
        matches!(refused, Err(Failure::Rejected(Rejected::Caller(Error::NoRecord)))),
        "{refused:?}"
    );
    proxy.cut_next(Cut::After);
    let unknown = match db.submit_statements(vec![insert(2)]).wait() {
        Err(Failure::Unknown(unknown)) => unknown,
        other => panic!("{other:?}"),
    };
    let again = Database::open(&url).unwrap();
    assert!(matches!(again.resolve(&unknown), Err(Error::Unsettled(_))));
    assert_eq!(ids(&again), [1, 2]);
}
