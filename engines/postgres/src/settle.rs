//! What became of a commit whose connection was lost: the server's own record says it.
//!
//! 1. A transaction's number means something only within one cluster and one timeline: after a
//!    failover the new primary gives the same numbers to other transactions. So these are compared.
//!    After a crash the server itself gives a number again of which its log had nothing yet. So after
//!    one its last checkpoint must say that the number was in the log.
//! 2. `in progress` is asked again: the old connection's process may still be flushing, or waiting
//!    for a replica. Only a process that waits for its client, who is gone, is ended.
//! 3. `committed` is believed once a barrier behind it is durable: a crash, or somebody who cancelled
//!    the wait for replicas, may have left a commit that is nowhere else yet. Replicas that stay away
//!    leave it unsettled when the time is over.

use std::{fmt, time::Duration};

use groupcommit_core::Settled;
use groupcommit_remote::{Trouble, chain};
use tokio_postgres::{Client, error::SqlState};

use crate::{
    Error, Postgres,
    session::{History, Process, Server, Session},
};

/// The least time that a barrier is given.
const BARRIER_MIN: Duration = Duration::from_secs(1);

/// A commit that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    pub(crate) xid: String,
    pub(crate) history: Box<History>,
}

impl Commit {
    /// The transaction's number, as `pg_xact_status` takes it.
    #[must_use]
    pub fn xid(&self) -> &str {
        &self.xid
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transaction {}", self.xid)
    }
}

/// Finds out, for at most `within`, what became of a commit. `server` is that of its connection,
/// where that was lost just now.
pub(crate) fn settle(
    protocol: &Postgres,
    commit: &Commit,
    server: Option<&Server>,
    within: Duration,
) -> Result<Settled, String> {
    groupcommit_remote::settle(within, |left| ask(protocol, commit, server, left))
}

fn ask(
    protocol: &Postgres,
    commit: &Commit,
    old: Option<&Server>,
    left: Duration,
) -> Result<Option<Settled>, Trouble> {
    let Commit { xid, history } = commit;
    let session = protocol.connect().map_err(|error| Trouble::Passing(chain(&error)))?;
    let (before, now) = (&history.cluster, &session.server.history.cluster);
    if now != before {
        return Err(Trouble::Final(format!(
            "the server is another one now, or was restored or promoted since ({before} before, {now} now)"
        )));
    }
    let sql = "SELECT pg_xact_status($1::text::xid8)";
    let row = match session.block_on(session.client.query_one(sql, &[xid])) {
        Ok(row) => row,
        // There was no such transaction yet: a crash has lost all that the log had of it.
        Err(error) if error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE) => {
            return Ok(Some(Settled::RolledBack));
        }
        Err(error) => return Err(Trouble::Passing(chain(&error))),
    };
    let status: Option<String> =
        row.try_get(0).map_err(|error| Trouble::Final(error.to_string()))?;
    match status.as_deref() {
        Some("committed") if !is_of_this_history(&session, history, xid)? => {
            Ok(Some(Settled::RolledBack))
        }
        Some("committed") => {
            confirm(protocol, &session, left.max(BARRIER_MIN))?;
            Ok(Some(Settled::Committed))
        }
        Some("aborted") => Ok(Some(Settled::RolledBack)),
        Some(_) => {
            if let Some(old) = old {
                end(&session, old, "AND state LIKE 'idle in transaction%'");
            }
            Ok(None)
        }
        None => Err(Trouble::Final("the server no longer knows that transaction".to_owned())),
    }
}

/// Whether the number, which the server says is committed, is still that of the transaction that it
/// was given to before.
///
/// The checkpoint that ends the recovery from a crash is one of the kind for which writing stops, and
/// holds the next number to give away: beyond it the log had none.
fn is_of_this_history(session: &Session, history: &History, xid: &str) -> Result<bool, Trouble> {
    if session.server.history.reset == history.reset {
        return Ok(true);
    }
    let sql = "SELECT CASE WHEN redo_lsn = checkpoint_lsn \
        AND current_setting('wal_level') <> 'minimal' \
        AND checkpoint_time >= date_trunc('second', $2::text::timestamptz) \
        AND pg_postmaster_start_time() < (SELECT stats_reset FROM pg_stat_archiver) \
        THEN split_part(next_xid, ':', 1)::numeric * 4294967296 \
        + split_part(next_xid, ':', 2)::numeric > $1::text::numeric END \
        FROM pg_control_checkpoint()";
    let row = session
        .block_on(session.client.query_one(sql, &[&xid, &history.began]))
        .map_err(|error| Trouble::Passing(chain(&error)))?;
    match row.try_get(0).map_err(|error| Trouble::Final(error.to_string()))? {
        Some(was_in_the_log) => Ok(was_in_the_log),
        None => Err(Trouble::Final(
            "the server has crashed since, and may have given the number to another transaction, \
             which it says is committed"
                .to_owned(),
        )),
    }
}

/// Waits until what is committed is durable wherever it should be, but no longer than `within`.
fn confirm(protocol: &Postgres, session: &Session, within: Duration) -> Result<(), Trouble> {
    let barrier = session.barrier();
    let waited = session.block_on(async {
        match tokio::time::timeout(within, barrier).await {
            Ok(confirmed) => confirmed.map(|()| true).map_err(Error::Server),
            Err(_) => Ok(false),
        }
    });
    match waited {
        Ok(true) => Ok(()),
        Ok(false) => {
            // The server would go on waiting for them.
            drop(end_process(protocol, &session.server));
            Err(Trouble::Passing(format!(
                "it is committed on the server, and the replicas did not confirm it within {within:?}"
            )))
        }
        Err(error) => Err(Trouble::Passing(chain(&error))),
    }
}

/// Ends the process of a lost connection over which no commit was sent, so that it keeps no locks,
/// and returns the connection that took. Where it cannot be done the process ends by itself once it
/// notices.
pub(crate) fn end_process(protocol: &Postgres, old: &Server) -> Option<Session> {
    match protocol.connect() {
        Ok(session) => {
            end(&session, old, "");
            Some(session)
        }
        Err(error) => {
            tracing::debug!(%error, "a lost connection's process was left alone");
            None
        }
    }
}

fn end(session: &Session, old: &Server, condition: &str) {
    session.block_on(end_async(&session.client, &old.process, condition));
}

/// Ends a process of the server, if `condition` holds.
pub(crate) async fn end_async(client: &Client, old: &Process, condition: &str) {
    let sql = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE pid = $1::text::int4 AND backend_start::text = $2 {condition}"
    );
    let ended = client.query(&sql, &[&old.pid, &old.began]).await;
    if let Err(error) = ended {
        tracing::debug!(%error, "a lost connection's process was left alone");
    }
}
