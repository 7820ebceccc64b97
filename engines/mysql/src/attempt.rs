//! One attempt at a group: its members in one transaction, and the conclusion from what failed.
//!
//! A plan that fails behind its first statement has to be undone, for which there is no savepoint at
//! first: the attempt is made again with savepoints.

use std::sync::Arc;

use groupcommit_core::{Group, Ran, Settled};
use groupcommit_remote::{Attempt, Members, Obstacle, Setback, Unsettled, deliver, run_member};

use crate::{
    Error, MySql,
    execution::{Execution, Fault},
    record::{Commit, Key, TABLE},
    session::{LOCK_WAIT, Server, code, is_lost, is_transient},
    settle,
};

/// Rows of the record that are removed in one statement, which would otherwise be one more for every
/// group.
const ROWS_REMOVED: usize = 16;

type Writer = groupcommit_remote::Writer<MySql>;

/// What is remembered from one group to the next.
#[derive(Debug, Default)]
pub struct Memory {
    /// The position of the last commit that was sent.
    position: u64,
    /// The positions of rows that are not needed any more.
    previous: Vec<u64>,
    /// An outcome is still unknown, and the record is kept for it.
    pub(crate) has_unsettled: bool,
    /// The connection that was lost, until it is known to have ended.
    pub(crate) lost: Option<Server>,
}

/// Runs `members`, and more of the group, in one transaction. Returns how many commits that took.
pub(crate) fn attempt(attempt: Attempt<'_, MySql>) -> Result<u64, Setback<MySql>> {
    let Attempt { writer, session, group, members, failures } = attempt;
    let mut execution = Execution::new(session, writer.protocol.clone(), failures > 0);
    run_members(&mut execution, group, members);
    let fault = if execution.has_fault() {
        execution.take_fault()
    } else {
        // Plans without statements have results too, though nothing was sent.
        let commits = u64::from(execution.has_begun());
        match if commits > 0 { commit(writer, &mut execution) } else { Ok(()) } {
            Ok(()) => {
                deliver_all(group, &mut execution);
                writer.session = Some(execution.session);
                return Ok(commits);
            }
            Err(fault) => fault,
        }
    };
    overcome(writer, execution, group, fault)
}

fn commit(writer: &mut Writer, execution: &mut Execution) -> Result<(), Fault> {
    if !execution.session.server.has_record {
        return execution.commit(None);
    }
    let key = next_key(writer);
    let memory = &mut writer.memory;
    let is_due = memory.previous.len() >= ROWS_REMOVED;
    execution.commit(Some((key, if is_due { &memory.previous } else { &[] })))?;
    if is_due {
        memory.previous.clear();
    }
    memory.previous.push(key.position);
    Ok(())
}

/// The key of the next commit.
fn next_key(writer: &mut Writer) -> Key {
    writer.memory.position += 1;
    last_key(writer)
}

/// The key of the last commit that was sent.
fn last_key(writer: &Writer) -> Key {
    Key { pipeline: writer.protocol.record, position: writer.memory.position }
}

/// Ends an attempt that met with a fault.
fn overcome(
    writer: &mut Writer,
    mut execution: Execution,
    group: &mut Group<Writer>,
    fault: Fault,
) -> Result<u64, Setback<MySql>> {
    let is_over = match &fault {
        Fault::Lost(_) => true,
        Fault::Doubt(error) if is_lost(error) => true,
        _ => !execution.roll_back(),
    };
    if is_over {
        writer.memory.lost = Some(execution.session.server.clone());
    }
    match fault {
        Fault::Doubt(error) => settle_doubt(writer, execution, group, error, is_over),
        Fault::Ended => Err(Setback::Fatal(Arc::new(Error::Ended))),
        Fault::Lost(error) => Err(lost(error)),
        _ if is_over => Err(lost(None)),
        // The table of outcomes may be gone, which a new connection finds out.
        Fault::Refused(error) => Err(Setback::Obstacle(Obstacle::Refused, Error::Server(error))),
        fault => {
            writer.session = Some(execution.session);
            Err(match fault {
                Fault::Again(error) => again(error),
                Fault::Unrecorded => {
                    tracing::debug!("a commit was acknowledged, and is not there");
                    Setback::Obstacle(Obstacle::Conflict, Error::Ended)
                }
                _ => Setback::Member,
            })
        }
    }
}

/// Settles a commit that failed, or whose answer did not arrive, from the record.
fn settle_doubt(
    writer: &mut Writer,
    mut execution: Execution,
    group: &mut Group<Writer>,
    error: mysql_async::Error,
    is_over: bool,
) -> Result<u64, Setback<MySql>> {
    tracing::debug!(%error, "a commit failed, or its answer did not arrive");
    if !execution.session.server.has_record {
        if !is_over && is_transient(&error) {
            // Nothing but the server's word says so.
            writer.session = Some(execution.session);
            return Err(again(error));
        }
        let why = format!("there is no table `{TABLE}`");
        return Err(unsettled(writer, Commit(None), why));
    }
    let key = last_key(writer);
    let session = (!is_over).then_some(&mut execution.session);
    match settle::settle(&writer.protocol, session, key, writer.settle_timeout) {
        Ok(settled) => {
            // The row is there either way.
            writer.memory.previous.push(key.position);
            let is_committed = settled == Settled::Committed;
            if is_committed {
                deliver_all(group, &mut execution);
            }
            if !is_over {
                writer.session = Some(execution.session);
            }
            if is_committed {
                return Ok(1);
            }
            Err(if is_transient(&error) {
                again(error)
            } else if is_over {
                lost(Some(error))
            } else {
                Setback::Obstacle(Obstacle::Refused, Error::Server(error))
            })
        }
        Err(why) => Err(unsettled(writer, Commit(Some(key)), why)),
    }
}

fn unsettled(writer: &mut Writer, commit: Commit, why: String) -> Setback<MySql> {
    writer.memory.has_unsettled = true;
    Setback::Fatal(Arc::new(Error::Unsettled(Unsettled { commit, why })))
}

fn lost(error: Option<mysql_async::Error>) -> Setback<MySql> {
    Setback::Obstacle(Obstacle::Lost, Error::Lost(error))
}

fn again(error: mysql_async::Error) -> Setback<MySql> {
    let is_lock_wait = code(&error) == Some(LOCK_WAIT);
    let obstacle = if is_lock_wait { Obstacle::LockWait } else { Obstacle::Conflict };
    Setback::Obstacle(obstacle, Error::Server(error))
}

/// Runs the members in turn, up to the answer to the last of them or to a fault.
fn run_members(execution: &mut Execution, group: &mut Group<Writer>, members: &mut Members) {
    while !execution.has_fault()
        && let Some(member) = members.next(group)
    {
        execution.begin_member(member.index);
        let ran = run_member(execution, group, member);
        if ran != Ran::Completed && execution.is_touched() && !execution.has_fault() {
            execution.undo_member();
        }
    }
    execution.send_all();
}

/// Gives the plans their results.
fn deliver_all(group: &mut Group<Writer>, execution: &mut Execution) {
    for (member, result) in execution.take_plans() {
        deliver(group, member, result);
    }
}
