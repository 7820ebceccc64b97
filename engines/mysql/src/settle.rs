//! What became of a commit whose answer did not come: the record says it, and from then on it stays
//! so, whether the old connection is still being served or not (see [`record`](crate::record)).
//!
//! 1. The answer is believed only when the transaction that asked is committed. That makes durable
//!    what it saw, too.
//! 2. It comes from the table that the group wrote to, or there is none: the pipeline's first row
//!    must be in it.
//! 3. In a cluster the asking transaction is certified against the one that is asked about.

use std::time::Duration;

use groupcommit_core::Settled;
use groupcommit_remote::{Protocol as _, Purpose, Trouble, chain};
use groupcommit_statement::{StatementResult, Value};

use crate::{
    MySql,
    record::{Key, TABLE},
    session::{Failed, NO_TABLE, Session, code, is_lost},
};

/// Asks over `session` first, where there is one, and again with growing pauses, until there is an
/// answer or the time is over.
pub(crate) fn settle(
    protocol: &MySql,
    mut session: Option<&mut Session>,
    key: Key,
    within: Duration,
) -> Result<Settled, String> {
    groupcommit_remote::settle(within, |_| {
        if let Some(session) = session.take() {
            match ask(session, key) {
                Err(Trouble::Passing(why)) => {
                    tracing::debug!(why, "the outcome is asked for again");
                }
                other => return other.map(Some),
            }
        }
        let connected = protocol.connect(Purpose::Ask);
        let mut session = connected.map_err(|error| Trouble::Passing(chain(&error)))?;
        ask(&mut session, key).map(Some)
    })
}

fn ask(session: &mut Session, key: Key) -> Result<Settled, Trouble> {
    let mut answer = StatementResult::default();
    let asked = session.run_now(key.ask().as_bytes(), |index, result| {
        if index == 2 {
            answer = result;
        }
    });
    if let Err(Failed { error, .. }) = asked {
        if !is_lost(&error) {
            drop(session.run_now(b"ROLLBACK", |_, _| {}));
        }
        if code(&error) == Some(NO_TABLE) {
            return Err(Trouble::Final(format!("the table `{TABLE}` is gone")));
        }
        return Err(Trouble::Passing(error.to_string()));
    }
    let states: Vec<&str> = answer
        .rows
        .iter()
        .filter_map(|row| match row.first() {
            Some(Value::Text(state)) => Some(state.as_str()),
            _ => None,
        })
        .collect();
    match states[..] {
        ["open", "committed"] => Ok(Settled::Committed),
        ["open", "void"] => Ok(Settled::RolledBack),
        _ => Err(Trouble::Final(format!(
            "the table `{TABLE}` is not the one that it was recorded in, or was emptied since"
        ))),
    }
}
