//! What became of a commit whose answer did not come: the record says it, and from then on it stays
//! so, whether the old connection is still being served or not (see [`record`](crate::record)).
//!
//! 1. The answer is believed only when the transaction that asked is committed. That makes durable
//!    what it saw, too.
//! 2. It comes from the table that the group wrote to, or there is none: the pipeline's first row
//!    must be in it.
//! 3. In a cluster the asking transaction is certified against the one that is asked about.

use std::{ops::ControlFlow, time::Duration};

use groupcommit_core::Settled;
use groupcommit_remote::insist;
use groupcommit_statement::{StatementResult, Value};

use crate::{
    error::{Unsettled, chain},
    record::{Key, TABLE},
    session::{Connector, Failed, NO_TABLE, Session, Use, code, is_lost},
};

/// Asks, over `session` first where there is one, and again with pauses that grow, until there is an
/// answer or the time is over.
pub(crate) fn settle(
    connector: &Connector,
    session: Option<&mut Session>,
    key: Key,
    within: Duration,
) -> Result<Settled, Unsettled> {
    let unsettled = |why| Unsettled { key: Some(key), why };
    if let Some(session) = session {
        match ask(session, key) {
            Ok(settled) => return Ok(settled),
            Err(Trouble::Final(why)) => return Err(unsettled(why)),
            Err(Trouble::Passing(why)) => tracing::debug!(why, "asked in vain"),
        }
    }
    let asked = insist(within, |_| {
        let asked = match connector.connect(Use::Ask) {
            Ok(mut session) => ask(&mut session, key),
            Err(error) => Err(Trouble::Passing(chain(&error))),
        };
        match asked {
            Ok(settled) => ControlFlow::Break(Ok(settled)),
            Err(Trouble::Final(why)) => ControlFlow::Break(Err(unsettled(why))),
            Err(Trouble::Passing(why)) => ControlFlow::Continue(why),
        }
    });
    asked.unwrap_or_else(|why| Err(unsettled(why)))
}

enum Trouble {
    Passing(String),
    Final(String),
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
