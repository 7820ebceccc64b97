//! One attempt at a group: statements that travel, and the answers to them, in order.
//!
//! ```text
//!   BEGIN  xid  m0 m0  m1  m2 m2 m2 ...        sent without waiting for an answer
//!                                        answers ──► all good ──► COMMIT ──► results delivered
//!                                              └──► one failed ──► ROLLBACK, and who it was
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

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use groupcommit_core::block_on;
use tokio_postgres::{
    Error as ServerError,
    error::{Severity, SqlState},
};

use crate::{
    Error, Statement, StatementResult,
    session::{Answer, Sent, Session, barrier, is_lost},
    statement,
};

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

pub(crate) struct Execution {
    pub(crate) session: Session,
    sent: VecDeque<InFlight>,
    has_begun: bool,
    number_sql: Arc<str>,
    xid: String,
    current: Current,
    /// The answers that the running closure waits for.
    answers_now: Vec<StatementResult>,
    /// What plans came to, by member.
    plans: HashMap<usize, Vec<StatementResult>>,
    fault: Option<Fault>,
    /// A statement may have changed what is checked at a commit.
    pub(crate) has_defined: bool,
}

/// The member for which statements are sent now.
#[derive(Debug, Default)]
struct Current {
    member: usize,
    /// It has sent something.
    is_touched: bool,
    /// A statement of it may have changed what is checked at a commit.
    has_defined: bool,
}

impl Execution {
    pub(crate) fn new(session: Session) -> Self {
        Self {
            session,
            sent: VecDeque::new(),
            has_begun: false,
            number_sql: "SELECT pg_current_xact_id()::text".into(),
            xid: String::new(),
            current: Current::default(),
            answers_now: Vec::new(),
            plans: HashMap::new(),
            fault: None,
            has_defined: false,
        }
    }

    /// From here on everything is sent for `member`.
    pub(crate) fn begin_member(&mut self, member: usize) {
        self.current = Current { member, ..Current::default() };
    }

    pub(crate) fn is_touched(&self) -> bool {
        self.current.is_touched
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    pub(crate) fn take_fault(&mut self) -> Option<Fault> {
        self.fault.take()
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

    /// Sends the statements of a plan, whose results are delivered after the commit.
    pub(crate) fn send_plan(&mut self, plan: &Arc<[Statement]>) -> Result<(), Error> {
        self.send(plan, true)?;
        self.plans.entry(self.current.member).or_default();
        Ok(())
    }

    /// Sends statements and waits for their answers, and so for all before them.
    pub(crate) fn run_now(
        &mut self,
        plan: &Arc<[Statement]>,
    ) -> Result<Vec<StatementResult>, Error> {
        self.send(plan, false)?;
        if self.wait_all() {
            return Ok(std::mem::take(&mut self.answers_now));
        }
        self.answers_now.clear();
        Err(self.fault_as_seen_by_the_member())
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
        }
        self.has_defined |= self.current.has_defined;
        self.begin()?;
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
                InFlight::Command(sent) => (None, sent.wait()),
                InFlight::Number(sent) => (None, sent.wait().map(|xid| self.xid = xid)),
                InFlight::Statement { member, is_planned, sent } => {
                    let answer = sent.wait().map(|result| {
                        if is_planned {
                            self.plans.entry(member).or_default().push(result);
                        } else {
                            self.answers_now.push(result);
                        }
                    });
                    (Some(member), answer)
                }
                InFlight::Fence { member, sent } => (Some(member), sent.wait()),
            };
            if let Err(error) = answer {
                // What follows fails because of this, and says nothing.
                self.sent.clear();
                let fault = fault_of(member, error);
                if matches!(fault, Fault::Stale | Fault::Member { .. }) {
                    self.session.forget_prepared();
                }
                self.fault = Some(fault);
                return false;
            }
        }
        true
    }

    /// Has the server check now what it would check at the commit, where there is such a thing, so
    /// that the member is to blame for what it left.
    pub(crate) fn send_fence(&mut self) {
        if self.current.has_defined {
            self.look_for_deferred();
        }
        if self.fault.is_some() {
            return;
        }
        if let Some(deferred) = &self.session.server.deferred {
            let sql = format!("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS {deferred} DEFERRED");
            let sent = self.session.send_command(sql);
            self.sent.push_back(InFlight::Fence { member: self.current.member, sent });
        }
    }

    /// Asks what is checked at the commit only, since the member may have changed that.
    fn look_for_deferred(&mut self) {
        if self.wait_all()
            && let Err(error) = self.session.look_for_deferred()
        {
            self.fault = Some(fault_of(None, error));
        }
    }

    /// Marks where the member begins.
    pub(crate) fn send_savepoint(&mut self) -> Result<(), Error> {
        self.begin()?;
        self.send_command("SAVEPOINT groupcommit");
        Ok(())
    }

    /// The member stays.
    pub(crate) fn send_release(&mut self) {
        self.send_command("RELEASE SAVEPOINT groupcommit");
    }

    fn send_command(&mut self, sql: &str) {
        self.sent.push_back(InFlight::Command(self.session.send_command(sql)));
    }

    /// Undoes the member back to where it began.
    pub(crate) fn undo_member(&mut self) -> bool {
        self.sent.clear();
        self.send_command("ROLLBACK TO SAVEPOINT groupcommit; RELEASE SAVEPOINT groupcommit");
        if self.current.has_defined {
            self.look_for_deferred();
        }
        self.wait_all()
    }

    /// Undoes everything; says whether the connection is good for more.
    pub(crate) fn roll_back(&mut self) -> bool {
        self.sent.clear();
        !self.has_begun || self.session.send_command("ROLLBACK").wait().is_ok()
    }

    /// Commits.
    pub(crate) fn commit(&mut self) -> Result<(), Fault> {
        let mode = &self.session.server.synchronous_commit;
        let warnings_before = self.session.warnings();
        // In one message: where the transaction has failed the first command does, and the second
        // is not looked at. And no member can have turned durability down.
        let commit = format!("SET LOCAL synchronous_commit = {mode}; COMMIT");
        let doubt = |xid: &String, error| Fault::Doubt { xid: xid.clone(), error };
        if let Err(error) = self.session.send_command(commit).wait() {
            let severity =
                error.as_db_error().and_then(tokio_postgres::error::DbError::parsed_severity);
            return Err(match (severity, error.code()) {
                (Some(Severity::Error), Some(code)) if is_transient(code) => Fault::Again(error),
                (Some(Severity::Error), _) => Fault::Refused(error),
                _ => doubt(&self.xid, error),
            });
        }
        // A warning may say that the wait for replicas was cancelled, in any language.
        if self.session.server.is_replicated && self.session.warnings() != warnings_before {
            block_on(barrier(&self.session.client, mode))
                .map_err(|error| doubt(&self.xid, error))?;
        }
        Ok(())
    }
}

fn is_transient(code: &SqlState) -> bool {
    matches!(*code, SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED)
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
