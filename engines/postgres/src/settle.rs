//! What became of a commit whose connection was lost: the server's own record says it.
//!
//! 1. A transaction's number means something only within one cluster and one timeline: after a
//!    failover the new primary gives the same numbers to other transactions. So these are compared.
//! 2. `in progress` is asked again: the old connection's process may still be flushing, or waiting
//!    for a replica. Only a process that waits for its client, who is gone, is ended.
//! 3. `committed` is believed once a barrier behind it is durable: a crash, or somebody who cancelled
//!    the wait for replicas, may have left a commit that is nowhere else yet.

use std::{
    thread,
    time::{Duration, Instant},
};

use groupcommit_core::block_on;

use crate::{
    error::Unsettled,
    session::{Connector, Server, Session, barrier, pause},
};

/// What became of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It is in the database, and durable.
    Committed,
    /// It is not, and never will be.
    RolledBack,
}

/// Finds out, for at most `within`.
pub(crate) fn settle(
    connector: &Connector,
    server: &Server,
    xid: &str,
    within: Duration,
) -> Result<Settled, Unsettled> {
    settle_within(connector, &server.cluster, Some(server), xid, within)
}

/// As [`settle`], for an outcome that was left open before.
pub(crate) fn settle_later(
    connector: &Connector,
    open: &Unsettled,
    within: Duration,
) -> Result<Settled, Unsettled> {
    settle_within(connector, &open.cluster, None, &open.xid, within)
}

/// Asks again, with pauses that grow, until there is an answer that stays or the time is over.
fn settle_within(
    connector: &Connector,
    cluster: &str,
    server: Option<&Server>,
    xid: &str,
    within: Duration,
) -> Result<Settled, Unsettled> {
    let unsettled = |why| Unsettled { xid: xid.to_owned(), cluster: cluster.to_owned(), why };
    let until = Instant::now() + within;
    let mut attempts = 0;
    loop {
        let why = match ask(connector, cluster, server, xid) {
            Ok(Asked::Settled(settled)) => return Ok(settled),
            Ok(Asked::Later) => "it is still in progress".to_owned(),
            Err(Trouble::Final(why)) => return Err(unsettled(why)),
            Err(Trouble::Passing(why)) => why,
        };
        if Instant::now() >= until {
            return Err(unsettled(why));
        }
        thread::sleep(pause(attempts));
        attempts += 1;
    }
}

enum Asked {
    Settled(Settled),
    Later,
}

enum Trouble {
    Passing(String),
    Final(String),
}

fn ask(
    connector: &Connector,
    cluster: &str,
    old: Option<&Server>,
    xid: &str,
) -> Result<Asked, Trouble> {
    let session =
        connector.connect().map_err(|error| Trouble::Passing(crate::error::chain(&error)))?;
    if session.server.cluster != cluster {
        return Err(Trouble::Final(format!(
            "the server is another one now, or was restored or promoted since ({} before, {} now)",
            cluster, session.server.cluster
        )));
    }
    let sql = "SELECT pg_xact_status($1::text::xid8)";
    let row = block_on(session.client.query_one(sql, &[&xid]))
        .map_err(|error| Trouble::Passing(error.to_string()))?;
    let status: Option<String> =
        row.try_get(0).map_err(|error| Trouble::Final(error.to_string()))?;
    match status.as_deref() {
        Some("committed") => {
            block_on(barrier(&session.client, &session.server.synchronous_commit))
                .map_err(|error| Trouble::Passing(error.to_string()))?;
            Ok(Asked::Settled(Settled::Committed))
        }
        Some("aborted") => Ok(Asked::Settled(Settled::RolledBack)),
        Some(_) => {
            if let Some(old) = old {
                end(&session, old, "AND state LIKE 'idle in transaction%'");
            }
            Ok(Asked::Later)
        }
        None => Err(Trouble::Final("the server no longer knows that transaction".to_owned())),
    }
}

/// Ends the process of a lost connection over which no commit was sent, so that it keeps no locks.
/// Where that cannot be done it ends by itself once it notices.
pub(crate) fn end_process(connector: &Connector, old: &Server) {
    match connector.connect() {
        Ok(session) => end(&session, old, ""),
        Err(error) => tracing::debug!(%error, "a lost connection's process was left alone"),
    }
}

fn end(session: &Session, old: &Server, condition: &str) {
    let sql = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE pid = $1::text::int4 AND backend_start::text = $2 {condition}"
    );
    if let Err(error) = block_on(session.client.query(&sql, &[&old.process.0, &old.process.1])) {
        tracing::debug!(%error, "a lost connection's process was left alone");
    }
}
