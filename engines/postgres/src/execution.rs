//! One attempt at a group: statements that travel, and the answers to them, in order.
//!
//! ```text
//!   BEGIN  xid  m0 m0  m1  m2 m2 m2 ...        sent without waiting for an answer
//!                                        answers ──► all good ──► COMMIT ──► results delivered
//!                                              └──► one failed ──► ROLLBACK, and who it was
//!
//!   ... SAVEPOINT  m7 m7  RELEASE  m8 ...      of one that is expected to fail, sent in the same way
//!                                        answers ──► m7 failed ──► ROLLBACK TO SAVEPOINT, m8 again
//! ```
//!
//! `COMMIT` waits for the answers, for three reasons: when the connection is lost at the commit, the
//! results are here and the transaction's number is known, so the outcome can be settled; nothing is
//! ever committed that a member should not have done; and a `COMMIT` of a transaction that has
//! failed, which the server acknowledges like any other, is never sent.
//!
//! Invariants:
//! 1. Answers are taken in the order in which the statements were sent.
//! 2. Once there is a fault, nothing more is sent but what undoes it.
//! 3. A member's savepoint is released behind all that was sent for it. So when it fails, its own
//!    savepoint is the innermost one: whatever was sent behind it failed as well.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use tokio_postgres::{
    Error as ServerError,
    error::{Severity, SqlState},
};

use crate::{
    Error, Postgres, Statement, StatementResult,
    session::{Answer, HAS_TEMPORARY, HEAR_OF_WAITS, RESET, Sent, Session, is_lost},
    statement,
};

/// Statements that are handed to the connection before they are sent off: enough to be worth a call
/// of the system, and few beside a large group, so that the server begins while the rest is written.
const SENT_AT_ONCE: usize = 32;

/// Why an attempt cannot go on.
#[derive(Debug)]
pub(crate) enum Fault {
    /// This member failed; with the error, unless its closure was given it.
    Member { member: usize, error: Option<Error> },
    /// The server asks for the transaction to be run again.
    Again(ServerError),
    /// What was prepared does not fit the schema any more.
    Stale,
    /// The connection is gone, and no commit was sent.
    Lost(Option<ServerError>),
    /// The server refused the commit.
    Refused(ServerError),
    /// A member created a temporary table, so it has to run alone.
    Temporary,
    /// The connection was lost after the commit was sent.
    Doubt { xid: String, error: ServerError },
}

enum InFlight {
    Command(Sent<Answer<()>>),
    /// The transaction's number.
    Number(Sent<Answer<String>>),
    Statement {
        member: usize,
        is_planned: bool,
        sent: Sent<Answer<StatementResult>>,
    },
    /// What was left to the commit to check is checked for this member alone.
    Fence {
        member: usize,
        sent: Sent<Answer<()>>,
    },
}

/// One attempt at a group.
#[expect(clippy::struct_excessive_bools, reason = "each is a separate fact")]
pub struct Execution {
    pub(crate) session: Session,
    sent: VecDeque<InFlight>,
    /// Statements that may not be on their way yet.
    unsent: usize,
    has_begun: bool,
    number_sql: Arc<str>,
    xid: String,
    current: Current,
    /// The answers that the running closure waits for.
    answers_now: Vec<StatementResult>,
    /// What plans came to, by member.
    plans: HashMap<usize, Vec<StatementResult>>,
    /// Members that have a savepoint, in order; some are released.
    guarded: Vec<usize>,
    fault: Option<Fault>,
    /// A statement may have changed what is checked at a commit.
    pub(crate) has_defined: bool,
    /// Some member was undone.
    pub(crate) has_undone: bool,
    /// Only one member runs, which may create temporary tables.
    is_for_one: bool,
}

/// The member for which statements are sent now.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Current {
    member: usize,
    /// It has sent something.
    is_touched: bool,
    /// It gets a savepoint with its first statement, to be undone alone.
    is_guarded: bool,
    /// A statement of it may have changed what is checked at a commit.
    has_defined: bool,
    /// A statement of it may have changed settings.
    has_set: bool,
}

impl Execution {
    pub(crate) fn new(session: Session, is_for_one: bool) -> Self {
        Self {
            session,
            sent: VecDeque::new(),
            unsent: 0,
            has_begun: false,
            number_sql: "SELECT pg_current_xact_id()::text".into(),
            xid: String::new(),
            current: Current::default(),
            answers_now: Vec::new(),
            plans: HashMap::new(),
            guarded: Vec::new(),
            fault: None,
            has_defined: false,
            has_undone: false,
            is_for_one,
        }
    }

    /// From here on everything is sent for `member`, behind a savepoint if it `is_guarded`.
    pub(crate) fn begin_member(&mut self, member: usize, is_guarded: bool) {
        self.current = Current { member, is_guarded, ..Current::default() };
    }

    pub(crate) fn is_touched(&self) -> bool {
        self.current.is_touched
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    pub(crate) fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    pub(crate) fn take_fault(&mut self) -> Option<Fault> {
        self.fault.take()
    }

    /// The running member failed by itself: that is the fault, unless there is one before it.
    pub(crate) fn blame_current(&mut self) {
        if self.wait_all() {
            self.fault = Some(Fault::Member { member: self.current.member, error: None });
        }
    }

    /// What the plans came to.
    pub(crate) fn take_plans(&mut self) -> HashMap<usize, Vec<StatementResult>> {
        std::mem::take(&mut self.plans)
    }

    /// Whether the member was a plan, which is forgotten.
    pub(crate) fn drop_plan(&mut self, member: usize) -> bool {
        self.plans.remove(&member).is_some()
    }

    fn begin(&mut self) -> Result<(), Error> {
        if self.has_begun {
            return Ok(());
        }
        // Prepared before the transaction, the first time.
        let sql = self.number_sql.clone();
        match self.session.prepare(&sql)? {
            Ok(_) => {}
            Err(error) => {
                self.fault = Some(Fault::Lost(Some(error)));
                return Err(Error::Interrupted);
            }
        }
        self.has_begun = true;
        self.sent.push_back(InFlight::Command(self.session.send_command("BEGIN")));
        let number = self.session.send_question(&sql)?;
        self.sent.push_back(InFlight::Number(number));
        Ok(())
    }

    /// The error that the running member is given: its own once, and else that it is interrupted.
    fn fault_as_seen_by_the_member(&mut self) -> Error {
        match &mut self.fault {
            Some(Fault::Member { member, error }) if *member == self.current.member => {
                error.take().unwrap_or(Error::Aborted)
            }
            _ => Error::Interrupted,
        }
    }

    fn send(&mut self, plan: &Arc<[Statement]>, is_planned: bool) -> Result<(), Error> {
        if self.fault.is_some() {
            return Err(self.fault_as_seen_by_the_member());
        }
        for statement in plan.iter() {
            statement::check(statement.sql())?;
            self.current.has_defined |= statement::is_definition(statement.sql());
            self.current.has_set |= statement::may_set(statement.sql());
        }
        self.has_defined |= self.current.has_defined;
        self.begin()?;
        let member = self.current.member;
        if self.current.is_guarded && self.guarded.last() != Some(&member) {
            self.guarded.push(member);
            self.send_command("SAVEPOINT groupcommit");
        }
        for (index, statement) in plan.iter().enumerate() {
            // The answer would come behind all others, and those have to be taken first.
            if !self.session.has_prepared(statement.sql()) && !self.wait_all() {
                return Err(self.fault_as_seen_by_the_member());
            }
            let prepared = match self.session.prepare(statement.sql())? {
                Ok(prepared) => prepared,
                Err(error) => return Err(self.not_prepared(error)),
            };
            let (expected, given) = (prepared.params().len(), statement.params().len());
            if expected != given {
                return Err(Error::Parameters { expected, given });
            }
            self.current.is_touched = true;
            let sent = self.session.send(prepared, plan, index);
            self.unsent += 1;
            if self.unsent >= SENT_AT_ONCE {
                self.unsent = 0;
                self.session.turn();
            }
            self.sent.push_back(InFlight::Statement {
                member: self.current.member,
                is_planned,
                sent,
            });
        }
        Ok(())
    }

    /// A statement could not be prepared, which ends the server's transaction.
    fn not_prepared(&mut self, error: ServerError) -> Error {
        self.current.is_touched = true;
        self.fault = Some(fault_of(Some(self.current.member), error));
        self.fault_as_seen_by_the_member()
    }

    /// Takes the answers to all that was sent; says whether all is well.
    pub(crate) fn wait_all(&mut self) -> bool {
        if self.fault.is_some() {
            return false;
        }
        while let Some(next) = self.sent.pop_front() {
            let (member, answer) = match next {
                InFlight::Command(sent) => (None, sent.wait(&self.session)),
                InFlight::Number(sent) => {
                    (None, sent.wait(&self.session).map(|xid| self.xid = xid))
                }
                InFlight::Statement { member, is_planned, sent } => {
                    let answer = sent.wait(&self.session).map(|result| {
                        if is_planned {
                            self.plans.entry(member).or_default().push(result);
                        } else {
                            self.answers_now.push(result);
                        }
                    });
                    (Some(member), answer)
                }
                InFlight::Fence { member, sent } => (Some(member), sent.wait(&self.session)),
            };
            if let Err(error) = answer {
                // What follows fails because of this, and says nothing.
                self.sent.clear();
                let fault = fault_of(member, error);
                if is_of_schema(&fault) {
                    self.session.texts.forget();
                }
                self.fault = Some(fault);
                return false;
            }
        }
        true
    }

    /// Puts settings back that the member may have changed, for its transaction or for all that
    /// follow: who comes next finds them as on a new connection.
    pub(crate) fn reset_settings(&mut self) {
        let may_have_set = self.current.has_set || self.session.server.has_setting_functions;
        if may_have_set && self.fault.is_none() {
            self.send_command(RESET);
        }
    }

    /// Has the server check now what it would check at the commit, where there is such a thing, so
    /// that the member is to blame for what it left.
    pub(crate) fn send_fence(&mut self) {
        if self.current.has_defined {
            self.look_again();
        }
        if self.fault.is_some() {
            return;
        }
        let deferred = self.session.server.deferred.clone();
        // A block of code or a function may have deferred those that are checked at once otherwise:
        // for itself, and for all behind it.
        let may_have_deferred =
            self.current.has_defined || self.session.server.has_deferring_functions;
        if deferred.is_some() || may_have_deferred {
            let sent = self.session.send_command("SET CONSTRAINTS ALL IMMEDIATE");
            self.sent.push_back(InFlight::Fence { member: self.current.member, sent });
        }
        if let Some(deferred) = deferred {
            // No member is to blame where somebody else has dropped one meanwhile: a new connection
            // finds out which there are.
            self.send_command(&format!("SET CONSTRAINTS {deferred} DEFERRED"));
        }
    }

    /// Asks what the member may have changed for those behind it.
    fn look_again(&mut self) {
        if self.wait_all() {
            match self.session.look_again() {
                Ok(true) if !self.is_for_one => self.fault = Some(Fault::Temporary),
                Ok(_) => {}
                Err(error) => self.fault = Some(fault_of(None, error)),
            }
        }
    }

    /// The running member stays, as far as is known by now.
    pub(crate) fn release_current(&mut self) {
        if self.fault.is_none() && self.is_guarded(self.current.member) {
            self.send_command("RELEASE SAVEPOINT groupcommit");
        }
    }

    /// Whether the member has a savepoint.
    pub(crate) fn is_guarded(&self, member: usize) -> bool {
        self.guarded.binary_search(&member).is_ok()
    }

    fn send_command(&mut self, sql: &str) {
        self.sent.push_back(InFlight::Command(self.session.send_command(sql)));
    }

    /// Undoes the member that failed back to its savepoint, and forgets all that was sent behind it,
    /// none of which was run. Says whether that went well.
    pub(crate) fn undo(&mut self, member: usize) -> bool {
        self.sent.clear();
        self.plans.retain(|&other, _| other < member);
        self.guarded.retain(|&other| other < member);
        self.has_undone = true;
        self.send_command("ROLLBACK TO SAVEPOINT groupcommit; RELEASE SAVEPOINT groupcommit");
        if self.has_defined {
            self.look_again();
        }
        self.wait_all()
    }

    /// Undoes everything; says whether the connection is good for more.
    pub(crate) fn roll_back(&mut self) -> bool {
        self.sent.clear();
        !self.has_begun || self.session.send_command("ROLLBACK").wait(&self.session).is_ok()
    }

    /// Commits, and says whether the connection may serve another transaction: not with temporary
    /// tables.
    pub(crate) fn commit(&mut self) -> Result<bool, Fault> {
        let mode = &self.session.server.synchronous_commit;
        let cancelled_before = self.session.cancelled_waits();
        // A function may have created a temporary table, which the server alone knows. In a group that
        // has to fail, and does before the commit.
        let question = if self.is_for_one {
            format!("SELECT {HAS_TEMPORARY}")
        } else {
            format!("SELECT 1 / CASE WHEN {HAS_TEMPORARY} THEN 0 ELSE 1 END")
        };
        // In one message: where the transaction has failed the first command does, and the others
        // are not looked at. And no member can have turned durability down.
        let commit =
            format!("{HEAR_OF_WAITS}; SET LOCAL synchronous_commit = {mode}; {question}; COMMIT");
        let doubt = |xid: &String, error| Fault::Doubt { xid: xid.clone(), error };
        let committed = self.session.send_asking(commit).wait(&self.session);
        let has_temporary =
            committed.map_err(|error| {
                let severity =
                    error.as_db_error().and_then(tokio_postgres::error::DbError::parsed_severity);
                match (severity, error.code()) {
                    (Some(Severity::Error), Some(code)) if !leaves_open(code) => {
                        if is_transient(code) { Fault::Again(error) } else { Fault::Refused(error) }
                    }
                    _ => doubt(&self.xid, error),
                }
            })?;
        // Somebody cancelled the wait for replicas: it is committed, and perhaps nowhere but here.
        if self.session.cancelled_waits() != cancelled_before {
            tracing::warn!(xid = %self.xid, "somebody cancelled a commit's wait for replicas");
            self.session
                .block_on(self.session.barrier())
                .map_err(|error| doubt(&self.xid, error))?;
        }
        Ok(!has_temporary)
    }
}

impl groupcommit_remote::Execution<Postgres> for Execution {
    fn send_plan(&mut self, plan: &Arc<[Statement]>) -> Result<(), Error> {
        self.send(plan, true)?;
        self.plans.entry(self.current.member).or_default();
        Ok(())
    }

    /// Waits for the answers to everything sent before, too.
    fn run_now(&mut self, plan: &Arc<[Statement]>) -> Result<Vec<StatementResult>, Error> {
        self.send(plan, false)?;
        if self.wait_all() {
            return Ok(std::mem::take(&mut self.answers_now));
        }
        self.answers_now.clear();
        Err(self.fault_as_seen_by_the_member())
    }
}

/// Whether what was prepared may be to blame, since it does not know of a change of the schema.
fn is_of_schema(fault: &Fault) -> bool {
    match fault {
        Fault::Stale => true,
        // "Syntax error or access rule violation": what is not there, or of another type.
        Fault::Member { error: Some(Error::Server(error)), .. } => {
            error.code().is_some_and(|code| code.code().starts_with("42"))
        }
        _ => false,
    }
}

/// Whether the statement was stopped because of the time that it took, and would take again.
pub(crate) fn is_of_time(error: &Error) -> bool {
    let Error::Server(error) = error else { return false };
    let codes = [SqlState::LOCK_NOT_AVAILABLE, SqlState::QUERY_CANCELED];
    error.code().is_some_and(|code| codes.contains(code))
}

fn is_transient(code: &SqlState) -> bool {
    matches!(*code, SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED)
}

/// Whether an error of a commit says that it may have happened: the standard's "statement completion
/// unknown", and its class "connection exception", with "transaction resolution unknown". PostgreSQL
/// itself never says so; servers that speak its protocol do.
fn leaves_open(code: &SqlState) -> bool {
    *code == SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN || code.code().starts_with("08")
}

fn fault_of(member: Option<usize>, error: ServerError) -> Fault {
    let Some(said) = error.as_db_error() else { return Fault::Lost(Some(error)) };
    let code = said.code();
    let is_stale = *code == SqlState::INVALID_SQL_STATEMENT_NAME
        || (*code == SqlState::FEATURE_NOT_SUPPORTED
            && said.routine() == Some("RevalidateCachedQuery"));
    match member {
        _ if is_lost(&error) => Fault::Lost(Some(error)),
        _ if is_transient(code) => Fault::Again(error),
        _ if is_stale => Fault::Stale,
        Some(member) => Fault::Member { member, error: Some(Error::Server(error)) },
        None => Fault::Lost(Some(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_of_which_the_server_knows_no_end_is_not_taken_for_rolled_back() {
        for code in ["40003", "08007", "08006", "08000"] {
            assert!(leaves_open(&SqlState::from_code(code)), "{code}");
        }
        // A deferred constraint, a conflict, a full disk.
        for code in ["23505", "40001", "40P01", "53100", "57014"] {
            assert!(!leaves_open(&SqlState::from_code(code)), "{code}");
        }
    }
}
