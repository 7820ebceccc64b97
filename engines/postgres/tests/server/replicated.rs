//! A primary whose commits wait for one of two replicas.

use groupcommit_postgres::Database;
use groupcommit_testkit::servers::postgres::Kind;

use crate::server::{ids, insert, schema_through, start};

#[test]
fn a_commit_is_on_a_replica_when_its_ticket_resolves() {
    let servers = start(Kind::Replicated);
    let url = schema_through(&servers, servers.port());
    let db = Database::open(&url).unwrap();
    assert_eq!(db.warnings(), []);
    for id in 0..50 {
        db.submit_statements(vec![insert(id)]).wait().unwrap();
        // The position of the log behind the commit is flushed on one replica at least.
        let flushed = servers.sql(
            "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum' \
             AND flush_lsn >= (SELECT max(commit_lsn) FROM \
             (SELECT pg_current_wal_flush_lsn() AS commit_lsn) AS now)",
        );
        assert_ne!(flushed.unwrap().trim(), "0", "after {id}");
    }
    assert_eq!(ids(&db), (0..50).collect::<Vec<_>>());
    db.close().unwrap();
    servers.stop().unwrap();
}
