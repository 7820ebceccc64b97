//! Running a program: on a reading connection, as a member of a group, or on the writing connection
//! alone.
//!
//! As a member, the program's own `BEGIN` and `COMMIT` only mark what the member is anyway: one
//! transaction. Whatever a member cannot do ends it with [`Stop::NeedsSlot`], without effect, and the
//! program runs again with the writing connection to itself, where everything means what it means in
//! SQLite.

use std::sync::Arc;

use groupcommit::sqlite::{
    Parameters, Transaction,
    rusqlite::{self, Connection, ErrorCode, Row},
    step_on,
};

use crate::{
    error::{Failed, SqlError, is_denied},
    memory::Memory,
    program::{Args, Condition, Program, Statement},
    protocol::{Col, CursorEntry, Description, Outcome, Param, StmtResult},
    sql::Kind,
    value::{Decimal, Value},
};

/// Why a program ended early. Nothing of it is kept.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It needs the writing connection alone.
    NeedsSlot,
    /// Its own `ROLLBACK` undid what it had done.
    RolledBack(Run),
    /// Its rows do not fit into a response.
    TooLarge,
    /// Its rows do not fit into memory, beside those of all others.
    NoMemory,
    /// Nobody takes its rows any more.
    Abandoned,
    /// SQLite refused a savepoint.
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Stop {
    /// What the program came to; `None` when it has to run in another place.
    pub(crate) fn settle(self) -> Result<Option<Run>, Failed> {
        match self {
            Self::RolledBack(run) => Ok(Some(run)),
            Self::TooLarge => Err(Failed::Request(too_large())),
            Self::NoMemory => {
                Err(Failed::NotRun("the responses under way take all memory; send it again".into()))
            }
            Self::NeedsSlot | Self::Abandoned | Self::Sqlite(_) => Ok(None),
        }
    }
}

/// Where statements run.
trait Ground {
    fn step(
        &self,
        sql: &str,
        bind: impl FnOnce(&mut Parameters<'_, '_>) -> Result<(), Fault>,
        each: impl FnMut(&rusqlite::Statement<'_>, Option<&Row<'_>>) -> Result<(), Fault>,
    ) -> Result<(), Fault>;
    fn total_changes(&self) -> u64;
    fn changes(&self) -> u64;
    fn last_insert_rowid(&self) -> i64;
}

impl Ground for Transaction<'_> {
    fn step(
        &self,
        sql: &str,
        bind: impl FnOnce(&mut Parameters<'_, '_>) -> Result<(), Fault>,
        each: impl FnMut(&rusqlite::Statement<'_>, Option<&Row<'_>>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.step(sql, bind, each)
    }
    fn total_changes(&self) -> u64 {
        self.total_changes()
    }
    fn changes(&self) -> u64 {
        self.changes()
    }
    fn last_insert_rowid(&self) -> i64 {
        self.last_insert_rowid()
    }
}

impl Ground for Connection {
    fn step(
        &self,
        sql: &str,
        bind: impl FnOnce(&mut Parameters<'_, '_>) -> Result<(), Fault>,
        each: impl FnMut(&rusqlite::Statement<'_>, Option<&Row<'_>>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        step_on(self, sql, bind, each)
    }
    fn total_changes(&self) -> u64 {
        self.total_changes()
    }
    fn changes(&self) -> u64 {
        self.changes()
    }
    fn last_insert_rowid(&self) -> i64 {
        self.last_insert_rowid()
    }
}

/// Room for rows in a response.
#[derive(Debug)]
pub(crate) struct Room {
    /// What is left, in bytes.
    bytes: usize,
    /// What rows take.
    pub(crate) memory: Memory,
}

impl Room {
    pub(crate) fn new(bytes: usize, memory: Memory) -> Self {
        Self { bytes, memory }
    }

    /// As much as is left, for a program that may run more than once.
    pub(crate) fn again(&self) -> Self {
        Self { bytes: self.bytes, memory: self.memory.none() }
    }

    /// What a program has left of it.
    pub(crate) fn take_over(&mut self, left: Self) {
        self.bytes = left.bytes;
        self.memory.merge(left.memory);
    }

    fn take(&mut self, row: &[Value]) -> Result<(), Stop> {
        let bytes = row.iter().map(Value::wire_bytes).sum();
        self.bytes = self.bytes.checked_sub(bytes).ok_or(Stop::TooLarge)?;
        // As values, and then as text.
        if self.memory.grow(2 * bytes) { Ok(()) } else { Err(Stop::NoMemory) }
    }
}

/// How a statement ended early.
enum Fault {
    Sqlite(rusqlite::Error),
    Bind(SqlError),
    Stop(Stop),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Fault {
    /// The error of the step, unless the whole program ends.
    fn into_error(self) -> Result<SqlError, Stop> {
        match self {
            Self::Sqlite(error) => Ok(error.into()),
            Self::Bind(error) => Ok(error),
            Self::Stop(stop) => Err(stop),
        }
    }
}

/// Whether a program only reads, as SQLite sees it.
pub(crate) fn only_reads(connection: &Connection, program: &Program) -> bool {
    let statements = program.steps.iter().filter_map(|step| step.statement.as_ref().ok());
    let mut reads = statements.filter(|statement| statement.kind == Kind::Read);
    // One that cannot be prepared fails in its turn.
    reads.all(|one| connection.prepare_cached(&one.sql).map_or(true, |one| one.readonly()))
}

/// Runs a program that only reads, in the snapshot of a reading connection.
pub(crate) fn read(connection: &Connection, program: &Program, room: Room) -> Result<Run, Stop> {
    let mut run = Run::new(room);
    let mut autocommit = true;
    for step in &program.steps {
        let Some(statement) = run.next(&step.condition, &step.statement, autocommit) else {
            continue;
        };
        let outcome = match statement.kind {
            Kind::Begin | Kind::Commit | Kind::Rollback => mark(statement.kind, &mut autocommit),
            _ => {
                let mut result = StmtResult::default();
                let ran = collect(connection, statement, &mut result, &mut run.room);
                ended(ran, result)?
            }
        };
        run.outcomes.push(outcome);
    }
    Ok(run)
}

/// As [`read`], handing out entries of a cursor one by one.
pub(crate) fn read_entries(
    connection: &Connection,
    program: &Program,
    room: &Room,
    entry: &mut dyn FnMut(CursorEntry, Memory) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut run = Run::new(room.again());
    let mut autocommit = true;
    for (step, one) in program.steps.iter().enumerate() {
        let before = run.outcomes.len();
        let outcome = match run.next(&one.condition, &one.statement, autocommit) {
            None => run.outcomes[before].clone(),
            Some(statement)
                if matches!(statement.kind, Kind::Begin | Kind::Commit | Kind::Rollback) =>
            {
                run.push(mark(statement.kind, &mut autocommit))
            }
            Some(statement) => {
                let mut part = |part| {
                    // Each row has the whole room: those before it have left.
                    let mut room = room.again();
                    let part = match part {
                        Part::Cols(cols) => CursorEntry::StepBegin { step, cols },
                        Part::Row(row) => {
                            room.take(&row).map_err(Fault::Stop)?;
                            CursorEntry::Row { row }
                        }
                    };
                    entry(part, room.memory).map_err(Fault::Stop)
                };
                let ran = run_statement(connection, statement, &mut part);
                match ran.map_err(Fault::into_error) {
                    Ok(_) => {
                        run.push(Outcome::Done(StmtResult::default()));
                        let end =
                            CursorEntry::StepEnd { affected_row_count: 0, last_insert_rowid: None };
                        entry(end, room.memory.none())?;
                        continue;
                    }
                    Err(Ok(error)) => run.push(Outcome::Failed(error)),
                    Err(Err(stop)) => return Err(stop),
                }
            }
        };
        entries_of(step, outcome, &mut |part| entry(part, room.memory.none()))?;
    }
    Ok(())
}

/// The entries of a cursor that a step's outcome stands for.
pub(crate) fn entries_of<E>(
    step: usize,
    outcome: Outcome,
    entry: &mut dyn FnMut(CursorEntry) -> Result<(), E>,
) -> Result<(), E> {
    match outcome {
        Outcome::Skipped => Ok(()),
        Outcome::Failed(error) => entry(CursorEntry::StepError { step, error }),
        Outcome::Done(result) => {
            entry(CursorEntry::StepBegin { step, cols: result.cols })?;
            result.rows.into_iter().try_for_each(|row| entry(CursorEntry::Row { row }))?;
            entry(CursorEntry::StepEnd {
                affected_row_count: result.affected_row_count,
                last_insert_rowid: result.last_insert_rowid,
            })
        }
    }
}

/// Runs a program as one transaction, the member of a group.
pub(crate) fn member(tx: &Transaction<'_>, program: &Program, room: Room) -> Result<Run, Stop> {
    let mut run = Run::new(room);
    run.outcomes.reserve(program.steps.len());
    let mut autocommit = true;
    let mut wrote = false;
    let mut is_undone = false;
    for step in &program.steps {
        let Some(statement) = run.next(&step.condition, &step.statement, autocommit) else {
            continue;
        };
        let outcome = match statement.kind {
            Kind::Begin if autocommit && wrote => return Err(Stop::NeedsSlot),
            Kind::Rollback if !autocommit => {
                autocommit = true;
                is_undone = true;
                Outcome::Done(StmtResult::default())
            }
            Kind::Begin | Kind::Commit | Kind::Rollback => mark(statement.kind, &mut autocommit),
            // What was undone can still be seen here.
            _ if is_undone => return Err(Stop::NeedsSlot),
            Kind::Alone => return Err(Stop::NeedsSlot),
            Kind::Read | Kind::Write => {
                let mut result = StmtResult::default();
                let ran = collect(tx, statement, &mut result, &mut run.room);
                wrote |= !matches!(ran, Ok(true));
                match &ran {
                    // SQLite's own rules for what the statement may do to the rest apply then.
                    Err(Fault::Sqlite(error)) if is_denied(error) || tx.is_autocommit() => {
                        return Err(Stop::NeedsSlot);
                    }
                    _ => ended(ran, result)?,
                }
            }
        };
        run.outcomes.push(outcome);
    }
    match (autocommit, is_undone) {
        (false, _) => Err(Stop::NeedsSlot),
        (true, true) => Err(Stop::RolledBack(run)),
        (true, false) => Ok(run),
    }
}

/// A program that has the writing connection alone.
#[derive(Debug)]
pub(crate) struct Alone {
    program: Arc<Program>,
    run: Run,
}

/// How far a program came on the writing connection.
#[derive(Debug)]
pub(crate) enum Progress {
    Ended(Run),
    /// It goes on in another slot: it has committed something that is not durable yet, and its next
    /// statement begins a transaction that would keep it from being flushed.
    Paused(Alone),
    /// A statement was interrupted.
    Interrupted,
}

impl Alone {
    pub(crate) fn new(program: Arc<Program>, room: Room) -> Self {
        Self { program, run: Run::new(room) }
    }

    /// Goes on; `committed` tells whether something was committed in this slot.
    pub(crate) fn go_on(mut self, connection: &Connection, committed: &mut bool) -> Progress {
        let program = self.program.clone();
        for step in &program.steps[self.run.outcomes.len()..] {
            let was_autocommit = connection.is_autocommit();
            let next = self.run.next(&step.condition, &step.statement, was_autocommit);
            let Some(statement) = next else { continue };
            let mut result = StmtResult::default();
            let ran = collect(connection, statement, &mut result, &mut self.run.room);
            let wrote = !matches!(ran, Ok(true));
            match (was_autocommit, connection.is_autocommit()) {
                (true, false) if *committed => {
                    // Nothing is in the transaction yet.
                    roll_back(connection);
                    return Progress::Paused(self);
                }
                (false, true) => *committed = true,
                (true, true) => *committed |= wrote,
                _ => {}
            }
            if let Err(Fault::Sqlite(error)) = &ran
                && error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
            {
                return Progress::Interrupted;
            }
            let outcome = ended(ran, result).unwrap_or_else(|stop| {
                roll_back(connection);
                Outcome::Failed(stop.settle().map_or_else(Failed::into_error, |_| too_large()))
            });
            self.run.outcomes.push(outcome);
        }
        Progress::Ended(self.run)
    }
}

/// Ends an open transaction. It fails only where SQLite has ended it already.
pub(crate) fn roll_back(connection: &Connection) {
    if !connection.is_autocommit()
        && let Err(error) = connection.execute_batch("ROLLBACK")
    {
        tracing::warn!(%error, "could not roll a client's transaction back");
    }
}

pub(crate) fn too_large() -> SqlError {
    SqlError::new(
        "RESPONSE_TOO_LARGE",
        "the rows do not fit into a response, and nothing was written; use a cursor or LIMIT",
    )
}

/// What SQLite says of a statement without running it.
pub(crate) fn describe(connection: &Connection, sql: &str) -> Result<Description, SqlError> {
    let statement = connection.prepare(sql)?;
    let param = |index| Param { name: statement.parameter_name(index).map(str::to_owned) };
    Ok(Description {
        params: (1..=statement.parameter_count()).map(param).collect(),
        cols: cols(&statement),
        is_explain: statement.is_explain() != 0,
        is_readonly: statement.readonly(),
    })
}

/// What a program came to, so far.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) room: Room,
}

impl Run {
    fn new(room: Room) -> Self {
        Self { outcomes: Vec::new(), room }
    }

    /// The statement of the next step; `None` after its outcome was noted without running it.
    fn next<'a>(
        &mut self,
        condition: &Condition,
        statement: &'a Result<Statement, SqlError>,
        autocommit: bool,
    ) -> Option<&'a Statement> {
        let succeeded = |step: usize| matches!(self.outcomes[step], Outcome::Done(_));
        if !condition.holds(&succeeded, autocommit) {
            self.outcomes.push(Outcome::Skipped);
            return None;
        }
        statement.as_ref().map_err(|error| self.outcomes.push(Outcome::Failed(error.clone()))).ok()
    }

    fn push(&mut self, outcome: Outcome) -> Outcome {
        self.outcomes.push(outcome.clone());
        outcome
    }
}

/// Marks the beginning or the end of a transaction that the engine begins and ends itself.
fn mark(kind: Kind, autocommit: &mut bool) -> Outcome {
    let refused = match (kind, *autocommit) {
        (Kind::Begin, false) => "cannot start a transaction within a transaction",
        (Kind::Commit, true) => "cannot commit - no transaction is active",
        (Kind::Rollback, true) => "cannot rollback - no transaction is active",
        _ => {
            *autocommit = kind != Kind::Begin;
            return Outcome::Done(StmtResult::default());
        }
    };
    Outcome::Failed(SqlError::sqlite(refused))
}

fn ended(ran: Result<bool, Fault>, result: StmtResult) -> Result<Outcome, Stop> {
    match ran {
        Ok(_) => Ok(Outcome::Done(result)),
        Err(fault) => fault.into_error().map(Outcome::Failed),
    }
}

/// A part of what a statement returns.
enum Part {
    Cols(Vec<Col>),
    Row(Vec<Value>),
}

/// Runs a statement and collects its rows; says whether it only read.
fn collect(
    ground: &impl Ground,
    statement: &Statement,
    result: &mut StmtResult,
    room: &mut Room,
) -> Result<bool, Fault> {
    let before = ground.total_changes();
    let only_read = run_statement(ground, statement, &mut |part| {
        match part {
            Part::Cols(cols) => result.cols = cols,
            Part::Row(row) => {
                room.take(&row).map_err(Fault::Stop)?;
                result.rows.push(row);
            }
        }
        Ok(())
    })?;
    result.rows_read = result.rows.len() as u64;
    if ground.total_changes() != before {
        result.affected_row_count = ground.changes();
        result.rows_written = result.affected_row_count;
        let rowid = ground.last_insert_rowid();
        result.last_insert_rowid = (rowid != 0).then_some(Decimal(rowid));
    }
    Ok(only_read)
}

/// Runs one statement; says whether it only read.
fn run_statement(
    ground: &impl Ground,
    statement: &Statement,
    part: &mut dyn FnMut(Part) -> Result<(), Fault>,
) -> Result<bool, Fault> {
    let mut only_read = false;
    let mut is_first = true;
    ground.step(
        &statement.sql,
        |parameters| bind(parameters, &statement.args),
        |prepared, row| {
            // Only now: the first step may have prepared the statement anew for a changed schema.
            if std::mem::take(&mut is_first) && prepared.column_count() > 0 {
                part(Part::Cols(cols(prepared)))?;
            }
            let Some(row) = row else {
                only_read = prepared.readonly();
                return Ok(());
            };
            if statement.want_rows {
                let value = |column| row.get_ref(column).map(Value::from);
                let columns = 0..prepared.column_count();
                part(Part::Row(columns.map(value).collect::<rusqlite::Result<_>>()?))?;
            }
            Ok(())
        },
    )?;
    Ok(only_read)
}

fn cols(statement: &rusqlite::Statement<'_>) -> Vec<Col> {
    let col = |column: rusqlite::Column<'_>| Col {
        name: column.name().to_owned(),
        decltype: column.decl_type().map(str::to_owned),
    };
    statement.columns().map(col).collect()
}

fn bind(parameters: &mut Parameters<'_, '_>, args: &Args) -> Result<(), Fault> {
    let count = parameters.count();
    let invalid = |message: String| Fault::Bind(SqlError::new("ARGS_INVALID", message));
    match args {
        Args::Positional(values) if values.len() != count => Err(invalid(format!(
            "the statement has {count} parameters, but {} arguments were given",
            values.len()
        ))),
        Args::Positional(values) => {
            for (index, value) in values.iter().enumerate() {
                parameters.bind(index + 1, value)?;
            }
            Ok(())
        }
        Args::Named(values) => {
            for index in 1..=count {
                let name = parameters.name(index).unwrap_or_default();
                let is_named = |given: &str| given == name || name.get(1..) == Some(given);
                let value = values.iter().find(|named| is_named(&named.name));
                let Some(value) = value else {
                    return Err(invalid(format!("no argument is named `{name}`")));
                };
                parameters.bind(index, &value.value)?;
            }
            Ok(())
        }
    }
}
