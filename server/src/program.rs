//! A program: the statements of one request with their conditions, ready to be run anywhere.

use std::{collections::HashMap, sync::Arc};

use crate::{
    error::{Refusal, SqlError},
    protocol::{self, BatchCond, CondType, NamedArg, SqlText},
    sql::{self, Kind},
    value::Value,
};

/// The statements of an `execute`, a `batch`, a `sequence` or a cursor.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) condition: Condition,
    /// An error is that of the step, found before anything is run.
    pub(crate) statement: Result<Statement, SqlError>,
}

#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) sql: Arc<str>,
    pub(crate) kind: Kind,
    pub(crate) args: Args,
    pub(crate) want_rows: bool,
}

#[derive(Debug)]
pub(crate) enum Args {
    Positional(Vec<Value>),
    Named(Vec<NamedArg>),
}

/// When a step runs. Each refers to earlier steps only.
#[derive(Debug)]
pub(crate) enum Condition {
    Always,
    Ok(usize),
    Not(Box<Condition>),
    And(Vec<Condition>),
    Or(Vec<Condition>),
    IsAutocommit,
}

/// SQL texts that a client has stored under a number.
pub(crate) type StoredSql = HashMap<i32, Arc<str>>;

impl Program {
    pub(crate) fn of_stmt(stmt: protocol::Stmt, stored: &StoredSql) -> Self {
        let statement = Statement::new(stmt, stored, None);
        Self { steps: vec![Step { condition: Condition::Always, statement }] }
    }

    pub(crate) fn of_batch(batch: protocol::Batch, stored: &StoredSql) -> Result<Self, Refusal> {
        let mut steps = Vec::with_capacity(batch.steps.len());
        for (number, step) in batch.steps.into_iter().enumerate() {
            let condition = step.condition.map(|condition| Condition::new(condition, number));
            let before = steps.last().and_then(|step: &Step| step.statement.as_ref().ok());
            let statement = Statement::new(step.stmt, stored, before);
            let condition = condition.transpose()?.unwrap_or(Condition::Always);
            steps.push(Step { condition, statement });
        }
        Ok(Self { steps })
    }

    /// Statements that run in turn until one fails.
    pub(crate) fn of_sequence(text: &str) -> Result<Self, SqlError> {
        let statement = |text: &str| {
            let (kind, sql) = sql::classify(text)?;
            let args = Args::Positional(Vec::new());
            Ok(Statement { sql: sql.into(), kind, args, want_rows: false })
        };
        let step = |(number, text): (usize, &str)| Step {
            condition: number.checked_sub(1).map_or(Condition::Always, Condition::Ok),
            statement: statement(text),
        };
        Ok(Self { steps: sql::split(text)?.into_iter().enumerate().map(step).collect() })
    }

    fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.steps.iter().filter_map(|step| Some(step.statement.as_ref().ok()?.kind))
    }

    /// Whether it may be one that only reads: not certain before SQLite has seen it.
    pub(crate) fn may_only_read(&self) -> bool {
        self.kinds().all(|kind| !matches!(kind, Kind::Write | Kind::Alone))
            && !self.leaves_transaction_open()
    }

    /// Whether it certainly needs the writing connection alone.
    pub(crate) fn needs_slot(&self) -> bool {
        self.leaves_transaction_open() || self.kinds().any(|kind| kind == Kind::Alone)
    }

    /// Whether it begins a transaction and has no statement that could end it.
    pub(crate) fn leaves_transaction_open(&self) -> bool {
        self.kinds().any(|kind| kind == Kind::Begin)
            && !self.kinds().any(|kind| matches!(kind, Kind::Commit | Kind::Rollback))
    }

    /// Memory that it holds, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let values = |args: &Args| match args {
            Args::Positional(values) => values.iter().map(Value::wire_bytes).sum::<usize>(),
            Args::Named(values) => values.iter().map(|named| named.value.wire_bytes()).sum(),
        };
        let statement = |step: &Step| {
            step.statement.as_ref().map_or(0, |one| one.sql.len() + values(&one.args))
        };
        self.steps.iter().map(|step| size_of::<Step>() + statement(step)).sum()
    }
}

impl Statement {
    /// `before` is the one before it, often with the same text.
    fn new(
        stmt: protocol::Stmt,
        stored: &StoredSql,
        before: Option<&Self>,
    ) -> Result<Self, SqlError> {
        let positional = stmt.args.unwrap_or_default();
        let named = stmt.named_args.unwrap_or_default();
        let args = match (positional.is_empty(), named.is_empty()) {
            (_, true) => Args::Positional(positional),
            (true, false) => Args::Named(named),
            (false, false) => {
                let message = "a statement takes positional or named arguments, not both";
                return Err(SqlError::new("ARGS_BOTH_POSITIONAL_AND_NAMED", message));
            }
        };
        let text = text_of(stmt.sql.as_ref(), stmt.sql_id, stored)?;
        let want_rows = stmt.want_rows.unwrap_or(true);
        match before {
            Some(Self { sql, kind, .. }) if sql == text => {
                Ok(Self { sql: sql.clone(), kind: *kind, args, want_rows })
            }
            _ => {
                let (kind, sql) = sql::classify(sql::single(text)?)?;
                let sql = if *sql == **text { text.clone() } else { sql.into() };
                Ok(Self { sql, kind, args, want_rows })
            }
        }
    }
}

/// The text that a request gives itself or by its number.
pub(crate) fn text_of<'a>(
    sql: Option<&'a SqlText>,
    sql_id: Option<i32>,
    stored: &'a StoredSql,
) -> Result<&'a Arc<str>, SqlError> {
    match (sql, sql_id) {
        (Some(sql), None) => Ok(&sql.0),
        (None, Some(id)) => stored.get(&id).ok_or_else(|| {
            SqlError::new("SQL_NOT_STORED", format!("no SQL text is stored under the number {id}"))
        }),
        _ => Err(SqlError::new("SQL_NO_STATEMENT", "give either `sql` or `sql_id`")),
    }
}

impl Condition {
    fn new(wire: BatchCond, number: usize) -> Result<Self, Refusal> {
        let malformed = |message: String| Refusal::bad_request("INVALID_CONDITION", message);
        let step = || match wire.step {
            Some(step) if step < number => Ok(step),
            Some(step) => Err(malformed(format!(
                "the condition of step {number} refers to step {step}, which does not come before it"
            ))),
            None => Err(malformed(format!("a condition of step {number} lacks the field `step`"))),
        };
        match wire.r#type {
            CondType::Ok => Ok(Self::Ok(step()?)),
            CondType::Error => Ok(Self::Not(Box::new(Self::Ok(step()?)))),
            CondType::IsAutocommit => Ok(Self::IsAutocommit),
            CondType::Not => match wire.cond {
                Some(inner) => Ok(Self::Not(Box::new(Self::new(*inner, number)?))),
                None => Err(malformed(format!("a condition of step {number} lacks `cond`"))),
            },
            CondType::And | CondType::Or => {
                let inner = wire.conds.unwrap_or_default().into_iter();
                let inner =
                    inner.map(|inner| Self::new(inner, number)).collect::<Result<_, _>>()?;
                Ok(match wire.r#type {
                    CondType::And => Self::And(inner),
                    _ => Self::Or(inner),
                })
            }
        }
    }

    /// Whether it holds after the steps of which `succeeded` tells.
    pub(crate) fn holds(&self, succeeded: &impl Fn(usize) -> bool, autocommit: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Ok(step) => succeeded(*step),
            Self::Not(inner) => !inner.holds(succeeded, autocommit),
            Self::And(all) => all.iter().all(|inner| inner.holds(succeeded, autocommit)),
            Self::Or(any) => any.iter().any(|inner| inner.holds(succeeded, autocommit)),
            Self::IsAutocommit => autocommit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(json: &str) -> Result<Program, Refusal> {
        Program::of_batch(serde_json::from_str(json).unwrap(), &StoredSql::new())
    }

    #[test]
    fn a_condition_refers_to_earlier_steps_only() {
        let json = |condition: &str| {
            format!(
                r#"{{"steps":[{{"stmt":{{"sql":"BEGIN"}},"condition":null}},
                   {{"stmt":{{"sql":"SELECT 1","args":null}},"condition":{condition}}}]}}"#
            )
        };
        assert!(batch(&json(r#"{"type":"and","conds":[{"type":"ok","step":0}]}"#)).is_ok());
        for condition in [
            r#"{"type":"ok","step":1}"#,
            r#"{"type":"error","step":7}"#,
            r#"{"type":"not","cond":{"type":"ok"}}"#,
            r#"{"type":"not"}"#,
        ] {
            let refusal = batch(&json(condition)).unwrap_err();
            assert_eq!(refusal.code, "INVALID_CONDITION", "{condition}");
        }
    }

    #[test]
    fn a_transaction_that_stays_open_needs_the_connection_alone() {
        let sequence = |text| Program::of_sequence(text).unwrap();
        assert!(sequence("BEGIN; INSERT INTO t VALUES (1)").needs_slot());
        assert!(sequence("SAVEPOINT a; SELECT 1").needs_slot());
        assert!(!sequence("BEGIN; INSERT INTO t VALUES (1); COMMIT").needs_slot());
        assert!(sequence("BEGIN; SELECT 1; COMMIT").may_only_read());
        assert!(!sequence("BEGIN; SELECT 1; DELETE FROM t; COMMIT").may_only_read());
    }
}
