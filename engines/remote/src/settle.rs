//! Asking what became of a commit whose answer did not arrive.

use std::{ops::ControlFlow, time::Duration};

use groupcommit_core::Settled;

use crate::insist;

/// Why a question about a commit has no answer.
#[derive(Debug)]
pub enum Trouble {
    /// Asking again may help.
    Passing(String),
    /// No later question can be answered either.
    Final(String),
}

/// Asks until there is a final answer or the time is over, with growing pauses, and at least once.
/// `ask` is told how much of the time is left, and answers `None` while the commit is in progress.
///
/// # Errors
///
/// Why there is no answer.
pub fn settle(
    within: Duration,
    mut ask: impl FnMut(Duration) -> Result<Option<Settled>, Trouble>,
) -> Result<Settled, String> {
    let asked = insist(within, |left| match ask(left) {
        Ok(Some(settled)) => ControlFlow::Break(Ok(settled)),
        Ok(None) => ControlFlow::Continue("it is still in progress".to_owned()),
        Err(Trouble::Final(why)) => ControlFlow::Break(Err(why)),
        Err(Trouble::Passing(why)) => ControlFlow::Continue(why),
    });
    asked.unwrap_or_else(Err)
}
