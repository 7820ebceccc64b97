//! One attempt at a group: its statements, joined into as few texts as may be, and what each came to.
//!
//! ```text
//!   START TRANSACTION; SAVEPOINT groupcommit; m0; m1; m1; m2 ...     one text, one round trip
//!                                   └─ all good ──► record; RELEASE SAVEPOINT groupcommit; COMMIT
//!                                   └─ m1 fails ──► the texts behind m1, in another round trip
//! ```
//!
//! The server runs nothing of a text behind the statement that fails. A failed statement has no
//! effect, so a member that fails at its first leaves nothing to undo, and the others go on behind
//! it. One that fails later is undone to its savepoint; savepoints are set for closures, and for
//! everyone once a plan without one had to be undone, for which all was rolled back.
//!
//! `COMMIT` waits for the answers: when the connection is lost at the commit, the results are here.
//!
//! Invariants:
//! 1. Nothing is committed behind a savepoint that is not there any more: a transaction that the
//!    server rolled back or committed by itself is noticed at the next words about that savepoint,
//!    which go ahead of the `COMMIT`, and of everything behind a failure. In a cluster a commit is
//!    believed when its record is there.
//! 2. Once there is a fault, nothing more is sent but what undoes it.
//! 3. What failed is decided when the transaction is committed, since it failed because of what is
//!    in that.

use std::{collections::HashMap, sync::Arc};

use groupcommit_statement::{Statement, StatementResult};
use mysql_async::Error as ServerError;

use crate::{
    Error, MySql,
    record::Key,
    session::{
        Failed, LOCK_WAIT, NO_SAVEPOINT, STOPPED, Session, code, is_lost, is_prevented,
        is_transient,
    },
};

/// A text is sent when it is so long, in bytes.
const TEXT_BYTES: usize = 256 << 10;

/// How many statements the text behind a failure holds. It doubles with each that is good, so that
/// many failures do not have the same statements sent again and again.
const BEHIND_FAILURE: usize = 16;

/// Why an attempt cannot go on.
#[derive(Debug)]
pub(crate) enum Fault {
    /// A plan has to be undone that has no savepoint: all are to have one.
    Undone,
    /// The server rolled the transaction back, and it is to be run again.
    Again(ServerError),
    /// The connection is gone, and no commit was sent.
    Lost(Option<ServerError>),
    /// The server refused the record of the commit.
    Refused(ServerError),
    /// Something ended the transaction before its commit.
    Ended,
    /// A commit was sent, and it failed or its answer did not come.
    Doubt(ServerError),
    /// A commit was acknowledged, and is not there.
    Unrecorded,
}

/// What a statement of a text is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Command,
    Statement { member: usize, is_planned: bool },
}

/// One statement of a text.
#[derive(Debug)]
struct Part {
    purpose: Purpose,
    text: Vec<u8>,
}

impl Part {
    fn command(text: &str) -> Self {
        Self { purpose: Purpose::Command, text: format!("{text}\n;").into_bytes() }
    }
}

/// One attempt at a group.
pub struct Execution {
    pub(crate) session: Session,
    protocol: MySql,
    has_begun: bool,
    /// Each member gets a savepoint.
    savepoints: bool,
    /// What waits to be sent.
    parts: Vec<Part>,
    parts_bytes: usize,
    /// How many statements go into one text.
    parts_max: usize,
    current: Current,
    /// The answers that the running closure waits for.
    answers_now: Vec<StatementResult>,
    /// What plans came to, by member.
    plans: HashMap<usize, Vec<StatementResult>>,
    /// Plans that failed.
    failed: HashMap<usize, Error>,
    fault: Option<Fault>,
}

/// The member for which statements are sent now.
#[derive(Debug, Default)]
struct Current {
    member: usize,
    /// It has sent something.
    is_touched: bool,
    /// It can be undone alone.
    has_savepoint: bool,
}

impl Execution {
    pub(crate) fn new(session: Session, protocol: MySql, savepoints: bool) -> Self {
        Self {
            session,
            protocol,
            has_begun: false,
            savepoints,
            parts: Vec::new(),
            parts_bytes: 0,
            parts_max: usize::MAX,
            current: Current::default(),
            answers_now: Vec::new(),
            plans: HashMap::new(),
            failed: HashMap::new(),
            fault: None,
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

    pub(crate) fn has_fault(&self) -> bool {
        self.fault.is_some()
    }

    pub(crate) fn take_fault(&mut self) -> Fault {
        self.fault.take().unwrap_or(Fault::Lost(None))
    }

    /// What the plans came to.
    pub(crate) fn take_plans(
        &mut self,
    ) -> impl Iterator<Item = (usize, Result<Vec<StatementResult>, Error>)> + use<> {
        let good =
            std::mem::take(&mut self.plans).into_iter().map(|(member, all)| (member, Ok(all)));
        let failed = std::mem::take(&mut self.failed).into_iter();
        good.chain(failed.map(|(member, error)| (member, Err(error))))
    }

    fn text_bytes_max(&self) -> usize {
        TEXT_BYTES.min(self.session.server.bytes_max / 2)
    }

    /// Puts statements in line.
    fn add(&mut self, plan: &[Statement], is_planned: bool) -> Result<(), Error> {
        if self.fault.is_some() {
            return Err(Error::Interrupted);
        }
        let member = self.current.member;
        let mut parts = Vec::with_capacity(plan.len());
        for statement in plan {
            let template = self.protocol.template_now(&mut self.session, statement.sql());
            let template = template.map_err(|error| self.overcome_unknown(error))?;
            template.is_shared()?;
            let mut text = Vec::new();
            template.render(statement.params(), &mut text)?;
            let (bytes, bytes_max) = (text.len(), self.session.server.bytes_max);
            if bytes + TEXT_BYTES.min(bytes_max / 2) >= bytes_max {
                return Err(Error::TooLarge { bytes, bytes_max });
            }
            parts.push(Part { purpose: Purpose::Statement { member, is_planned }, text });
        }
        if !self.has_begun {
            self.has_begun = true;
            self.command("START TRANSACTION");
            // The first stays until the commit; the second is what is asked after in between.
            self.command("SAVEPOINT groupcommit");
            self.command("SAVEPOINT groupcommit_check");
        }
        if !self.current.has_savepoint && (self.savepoints || !is_planned) {
            self.current.has_savepoint = true;
            self.command("SAVEPOINT member");
            if !is_planned {
                self.command("SAVEPOINT groupcommit_check");
            }
        }
        self.current.is_touched |= !parts.is_empty();
        self.parts_bytes += parts.iter().map(|part| part.text.len()).sum::<usize>();
        self.parts.append(&mut parts);
        Ok(())
    }

    /// The server was asked about a statement, and that failed: what the member is told.
    fn overcome_unknown(&mut self, error: Error) -> Error {
        self.fault = Some(match error {
            Error::Lost(_) => Fault::Lost(None),
            // It had to wait for a table whose definition changes, in a deadlock: all is rolled back.
            Error::Server(error) if is_transient(&error) && !self.is_of_statement(&error) => {
                Fault::Again(error)
            }
            other => return other,
        });
        Error::Interrupted
    }

    /// Whether it is the statement's own failure and only that is undone, though others had a part
    /// in it: it waited for a lock for too long, or was stopped by hand. Its member fails alone, as
    /// it would if it ran alone; the others do not wait as long once more. Where the server is set to
    /// roll everything back, the words about the savepoint that follow find that out.
    fn is_of_statement(&self, error: &ServerError) -> bool {
        let code = code(error);
        // A node of a cluster stops statements for the sake of other nodes' transactions.
        code == Some(LOCK_WAIT) || (code == Some(STOPPED) && !self.session.server.is_clustered)
    }

    fn command(&mut self, text: &str) {
        let part = Part::command(text);
        self.parts_bytes += part.text.len();
        self.parts.push(part);
    }

    /// Sends what waits, and what is left of it behind each statement that fails. Returns the error
    /// of the running closure's own statement.
    pub(crate) fn send_all(&mut self) -> Option<Error> {
        let mut waiting = std::mem::take(&mut self.parts);
        self.parts_bytes = 0;
        while self.fault.is_none() && !waiting.is_empty() {
            let (count, length) = self.one_text(&waiting);
            let mut text = Vec::with_capacity(length);
            waiting[..count].iter().for_each(|part| text.extend_from_slice(&part.text));
            let (plans, now) = (&mut self.plans, &mut self.answers_now);
            let sent = self.session.run_now(&text, |index, result| {
                match waiting.get(index).map(|part| part.purpose) {
                    Some(Purpose::Statement { member, is_planned: true }) => {
                        plans.entry(member).or_default().push(result);
                    }
                    Some(Purpose::Statement { .. }) => now.push(result),
                    Some(Purpose::Command) | None => {}
                }
            });
            match sent {
                Ok(()) => {
                    self.parts_max = self.parts_max.saturating_mul(2);
                    waiting.drain(..count);
                }
                Err(Failed { done, error }) => {
                    let purpose = waiting.get(done).map(|part| part.purpose);
                    waiting.drain(..=done.min(waiting.len() - 1));
                    let own = self.overcome(purpose, error, &mut waiting);
                    if own.is_some() {
                        return own;
                    }
                }
            }
        }
        None
    }

    /// How many of the parts go into the next text, and how long that is.
    fn one_text(&self, waiting: &[Part]) -> (usize, usize) {
        let (mut count, mut length) = (0, 0);
        let count_max = self.parts_max.max(1);
        for part in waiting {
            if count > 0 && (count >= count_max || length + part.text.len() > self.text_bytes_max())
            {
                break;
            }
            count += 1;
            length += part.text.len();
        }
        (count, length)
    }

    /// Draws the conclusion from a statement that failed, and sees to what is sent next.
    fn overcome(
        &mut self,
        purpose: Option<Purpose>,
        error: ServerError,
        waiting: &mut Vec<Part>,
    ) -> Option<Error> {
        let fault = match purpose {
            _ if is_lost(&error) => Fault::Lost(Some(error)),
            Some(Purpose::Command) | None if is_transient(&error) => Fault::Again(error),
            _ if is_transient(&error) && !self.is_of_statement(&error) => Fault::Again(error),
            Some(Purpose::Statement { is_planned: false, .. }) => {
                // It is told, and may go on in the same transaction, if that is still the same. What
                // waits are its own statements.
                waiting.clear();
                self.command("RELEASE SAVEPOINT groupcommit_check");
                self.command("SAVEPOINT groupcommit_check");
                return Some(Error::Server(error));
            }
            Some(Purpose::Statement { member, is_planned: true }) => {
                let has_done = self.plans.get(&member).is_some_and(|results| !results.is_empty());
                if has_done && !self.savepoints {
                    Fault::Undone
                } else {
                    let of_others = |part: &Part| !matches!(part.purpose, Purpose::Statement { member: other, .. } if other == member);
                    waiting.retain(of_others);
                    // Either fails if the transaction is not the same any more.
                    let words: &[&str] = if self.savepoints {
                        &["ROLLBACK TO SAVEPOINT member", "SAVEPOINT groupcommit_check"]
                    } else {
                        &["RELEASE SAVEPOINT groupcommit_check", "SAVEPOINT groupcommit_check"]
                    };
                    waiting.splice(0..0, words.iter().map(|word| Part::command(word)));
                    self.plans.remove(&member);
                    self.failed.insert(member, Error::Server(error));
                    self.parts_max = BEHIND_FAILURE;
                    return None;
                }
            }
            // Words about a savepoint follow a failure: it took the transaction with it.
            Some(Purpose::Command) | None if code(&error) == Some(NO_SAVEPOINT) => {
                Fault::Again(error)
            }
            Some(Purpose::Command) | None => Fault::Lost(Some(error)),
        };
        self.fault = Some(fault);
        None
    }

    /// Undoes the running member back to where it began.
    pub(crate) fn undo_member(&mut self) {
        let member = self.current.member;
        self.parts.retain(|part| !matches!(part.purpose, Purpose::Statement { member: other, .. } if other == member));
        self.plans.remove(&member);
        self.command("ROLLBACK TO SAVEPOINT member");
        self.command("SAVEPOINT groupcommit_check");
    }

    /// Undoes everything; says whether the connection is good for more.
    pub(crate) fn roll_back(&mut self) -> bool {
        self.parts.clear();
        !self.has_begun || self.session.run_now(b"ROLLBACK", |_, _| {}).is_ok()
    }

    /// Commits, with the group's record where there is one: its key, and positions whose rows are
    /// needed no more.
    pub(crate) fn commit(&mut self, record: Option<(Key, &[u64])>) -> Result<(), Fault> {
        let (mut text, mut before) = (String::new(), 1);
        if let Some((key, previous)) = record {
            text += &key.commit(previous);
            before += 1 + usize::from(!previous.is_empty());
        }
        // Behind the record, so that both are in the transaction that the members are in.
        text += "RELEASE SAVEPOINT groupcommit\n;COMMIT";
        // A node that rolls a transaction back between two statements of one text may say nothing of
        // it and acknowledge a commit of nothing. So the record is looked at, not the answer.
        let look = record.filter(|_| self.session.server.is_clustered);
        if let Some((key, _)) = look {
            text += &key.look();
        }
        let mut found = look.is_none();
        let sent = self.session.run_now(text.as_bytes(), |index, result| {
            found |= index == before + 1 && !result.rows.is_empty();
        });
        match sent {
            Ok(()) if found => Ok(()),
            Ok(()) => Err(Fault::Unrecorded),
            // The answer to the statement that failed says that those behind it were not run.
            Err(Failed { done, error }) if done < before && !is_lost(&error) => {
                Err(match code(&error) {
                    Some(NO_SAVEPOINT) if self.session.server.is_clustered => Fault::Again(error),
                    Some(NO_SAVEPOINT) => Fault::Ended,
                    _ if is_transient(&error) => Fault::Again(error),
                    _ => Fault::Refused(error),
                })
            }
            // Became read-only meanwhile: what it does not run it rolls back.
            Err(Failed { done, error }) if done <= before && is_prevented(&error) => {
                Err(Fault::Lost(Some(error)))
            }
            Err(Failed { error, .. }) => Err(Fault::Doubt(error)),
        }
    }
}

impl groupcommit_remote::Execution<MySql> for Execution {
    fn send_plan(&mut self, plan: &Arc<[Statement]>) -> Result<(), Error> {
        self.add(plan, true)?;
        self.plans.entry(self.current.member).or_default();
        if self.parts_bytes >= self.text_bytes_max() {
            self.send_all();
        }
        Ok(())
    }

    /// Waits for the answers to everything sent before, too.
    fn run_now(&mut self, plan: &Arc<[Statement]>) -> Result<Vec<StatementResult>, Error> {
        self.answers_now.clear();
        self.add(plan, false)?;
        match self.send_all() {
            _ if self.fault.is_some() => Err(Error::Interrupted),
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut self.answers_now)),
        }
    }
}
