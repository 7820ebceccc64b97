//! One attempt at a group: its members in one transaction, optimistically, and the conclusion from
//! what failed.
//!
//! ```text
//!   all together ──► one fails ──► again, that one behind a savepoint ──► committed without it
//!                         └──► others fail, one after the other: again with half of the members;
//!                              with 50 and fewer, every one behind a savepoint
//! ```
//!
//! Savepoints are kept few: above 64 in one transaction they slow every session of the server down.
//! The number of members that run without them is remembered from one transaction to the next: where
//! many fail, the next begins with savepoints.

use std::{collections::HashMap, sync::Arc};

use groupcommit_core::{Group, Ran, Settled};
use groupcommit_remote::{
    Attempt, Member, Members, Obstacle, Setback, Sizes, Unsettled, deliver, reject, run_member,
};

use crate::{
    Error, Postgres, StatementResult,
    execution::{Execution, Fault, is_of_time},
    settle::{self, Commit},
};

/// Members that share a transaction when each is behind a savepoint.
const SAVEPOINTS_MAX: usize = 50;

/// How many members are sent behind one that failed, among others that may, before the answers are
/// waited for. It doubles each time that all is well.
const BEHIND_FAILURE: usize = 4;

type Writer = groupcommit_remote::Writer<Postgres>;

/// What is remembered from one group to the next.
#[derive(Debug)]
pub struct Memory {
    /// How many members go into a transaction without savepoints, by those that fail. At the minimum
    /// every member gets a savepoint.
    unguarded: Sizes,
}

impl Default for Memory {
    fn default() -> Self {
        Self { unguarded: Sizes::new(SAVEPOINTS_MAX) }
    }
}

impl Memory {
    pub(crate) fn members_max(&self) -> usize {
        self.unguarded.now()
    }
}

/// Runs `members`, and more of the group, in one transaction. Returns how many commits that took.
pub(crate) fn attempt(attempt: Attempt<'_, Postgres>) -> Result<u64, Setback<Postgres>> {
    let Attempt { writer, session, group, members, failures } = attempt;
    let all_guarded = writer.memory.unguarded.now() <= SAVEPOINTS_MAX;
    let mut execution = Execution::new(session, members.is_for_one());
    let ran = run_members(&mut execution, group, members, all_guarded);
    let outcome = match ran {
        Ok(()) if !execution.has_begun() => Ok((0, true)),
        Ok(()) => execution.commit().map(|may_go_on| (1, may_go_on)),
        Err(fault) => Err(fault),
    };
    match outcome {
        Ok((commits, may_go_on)) => {
            if !execution.has_undone {
                let unguarded = &mut writer.memory.unguarded;
                unguarded.committed(unguarded.now());
            }
            deliver_all(group, execution.take_plans());
            if may_go_on {
                writer.session = Some(execution.session);
            }
            Ok(commits)
        }
        Err(fault) => {
            let overcome = overcome(writer, execution, group, members, fault);
            if matches!(overcome, Err(Setback::Member)) && failures > 0 {
                writer.memory.unguarded.conflict(members.len());
            }
            overcome
        }
    }
}

/// Keeps the connection of an attempt that was rolled back, unless what it knows of the schema was.
fn keep_undone(writer: &mut Writer, execution: Execution) {
    if !execution.has_defined {
        writer.session = Some(execution.session);
    }
}

/// Ends an attempt that met with a fault.
fn overcome(
    writer: &mut Writer,
    mut execution: Execution,
    group: &mut Group<Writer>,
    members: &mut Members,
    fault: Fault,
) -> Result<u64, Setback<Postgres>> {
    let lost = |error| Setback::Obstacle(Obstacle::Lost, Error::Lost(error));
    match fault {
        Fault::Doubt { xid, error } => {
            tracing::warn!(%xid, %error, "the connection was lost at a commit");
            let server = execution.session.server.clone();
            let plans = execution.take_plans();
            drop(execution);
            let commit = Commit { xid, history: Box::new(server.history.clone()) };
            let settled =
                settle::settle(&writer.protocol, &commit, Some(&server), writer.settle_timeout);
            match settled {
                Ok(Settled::Committed) => {
                    deliver_all(group, plans);
                    Ok(1)
                }
                Ok(Settled::RolledBack) => Err(lost(Some(error))),
                Err(why) => {
                    let unsettled = Error::Unsettled(Unsettled { commit, why });
                    Err(Setback::Fatal(Arc::new(unsettled)))
                }
            }
        }
        Fault::Lost(error) => {
            let server = execution.session.server.clone();
            drop(execution);
            writer.session = settle::end_process(&writer.protocol, &server);
            Err(lost(error))
        }
        Fault::Member { member, error } => {
            let is_plan = execution.drop_plan(member);
            if execution.roll_back() {
                keep_undone(writer, execution);
            }
            let is_first = members.first().is_some_and(|first| first.index == member);
            if is_first || error.as_ref().is_some_and(is_of_time) {
                // Nobody was before it, so this is its result; or it would hold everybody up once
                // more.
                tell(group, member, is_plan, error);
                members.remove(member);
            } else {
                members.mark_failed(member);
            }
            Err(Setback::Member)
        }
        Fault::Again(error) | Fault::Refused(error) if !execution.roll_back() => {
            Err(lost(Some(error)))
        }
        Fault::Again(error) => {
            keep_undone(writer, execution);
            Err(Setback::Obstacle(Obstacle::Conflict, Error::Server(error)))
        }
        Fault::Refused(error) => {
            keep_undone(writer, execution);
            Err(Setback::Obstacle(Obstacle::Refused, Error::Server(error)))
        }
        // It runs again with fewer members, in the end alone.
        Fault::Temporary => {
            if execution.roll_back() {
                keep_undone(writer, execution);
            }
            Err(Setback::Obstacle(Obstacle::Refused, Error::Interrupted))
        }
        // With the connection goes what the client has prepared for itself, which may be gone from
        // the server as well.
        Fault::Stale => {
            execution.roll_back();
            Err(Setback::Obstacle(Obstacle::Lost, Error::Aborted))
        }
    }
}

/// Runs the members in turn, up to the answer to the last of them. Those that fail behind a savepoint
/// are undone on the way.
fn run_members(
    execution: &mut Execution,
    group: &mut Group<Writer>,
    members: &mut Members,
    all_guarded: bool,
) -> Result<(), Fault> {
    let (mut unanswered, mut unanswered_max) = (0, usize::MAX);
    loop {
        let next = members.next(group);
        let mut waits = next.is_none();
        if let Some(member) = next {
            send_member(execution, group, member, all_guarded || member.has_failed);
            unanswered += 1;
            // What failed before is likely to do it again, and then all behind it is sent in vain.
            waits |= member.has_failed || unanswered >= unanswered_max;
        }
        if waits && execution.wait_all() {
            if next.is_none() {
                return Ok(());
            }
            (unanswered, unanswered_max) = (0, unanswered_max.saturating_mul(2));
        }
        match execution.take_fault() {
            None => {}
            Some(Fault::Member { member, error }) if execution.is_guarded(member) => {
                let is_plan = execution.drop_plan(member);
                if !execution.undo(member) {
                    return Err(execution.take_fault().unwrap_or(Fault::Lost(None)));
                }
                tell(group, member, is_plan, error);
                members.go_back_behind(member);
                if all_guarded {
                    (unanswered, unanswered_max) = (0, BEHIND_FAILURE);
                }
            }
            Some(fault) => return Err(fault),
        }
    }
}

/// Runs one member, and has the server check what it left.
fn send_member(
    execution: &mut Execution,
    group: &mut Group<Writer>,
    member: Member,
    is_guarded: bool,
) {
    execution.begin_member(member.index, is_guarded);
    if run_member(execution, group, member) == Ran::Completed {
        if execution.is_touched() {
            execution.send_fence();
            execution.reset_settings();
        }
        execution.release_current();
        if let Some(Fault::Member { member: blamed, error: None }) = execution.fault()
            && *blamed == member.index
        {
            // Its closure made nothing of the error, but the server does.
            reject(group, member.index, Error::Aborted);
        }
    } else if execution.is_touched() {
        execution.blame_current();
    }
}

/// Tells a member that it was rolled back, unless its closure was given the `error`.
fn tell(group: &mut Group<Writer>, member: usize, is_plan: bool, error: Option<Error>) {
    match error {
        Some(error) if is_plan => deliver(group, member, Err(error)),
        Some(error) => reject(group, member, error),
        None => {}
    }
}

/// Gives the plans their results.
fn deliver_all(group: &mut Group<Writer>, plans: HashMap<usize, Vec<StatementResult>>) {
    for (member, results) in plans {
        deliver(group, member, Ok(results));
    }
}
