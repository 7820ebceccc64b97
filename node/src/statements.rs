//! Statements as they come from JavaScript: `sql, shape, value...`, where `sql` is the number of a
//! prepared text, and `shape` twice the number of values, and one more where each follows its name.

use std::{cell::RefCell, sync::Arc};

use groupcommit_bindings::groupcommit::sql::{Statement, Value};
use napi::{Error, Result};

use crate::node_api::Items;

/// The texts that JavaScript knows by a number, so that each crosses once.
#[derive(Default)]
pub(crate) struct Statements {
    texts: Vec<Text>,
}

/// The text of a statement.
pub(crate) struct Text {
    sql: Arc<str>,
    /// The names of the columns, as JavaScript was last told them.
    pub(crate) columns: RefCell<Vec<String>>,
}

impl Text {
    /// The statement with the parameters that `next` gives, each after its name where they have names.
    pub(crate) fn with(
        &self,
        count: usize,
        is_named: bool,
        mut next: impl FnMut() -> Result<Value>,
    ) -> Result<Statement> {
        let sql = self.sql.clone();
        if !is_named {
            return Ok(Statement::new(sql, collect(count, next)?));
        }
        let named = collect(count, || {
            let Value::Text(name) = next()? else {
                return Err(Error::from_reason("a name is no text"));
            };
            Ok((name, next()?))
        });
        Ok(Statement::named(sql, named?))
    }
}

impl Statements {
    /// The number of a text.
    pub(crate) fn prepare(&mut self, sql: String) -> u32 {
        self.texts.push(Text { sql: sql.into(), columns: RefCell::default() });
        u32::try_from(self.texts.len() - 1).unwrap_or(u32::MAX)
    }

    /// Forgets all texts; numbers begin anew.
    pub(crate) fn forget(&mut self) {
        self.texts.clear();
    }

    pub(crate) fn text(&self, number: u32) -> Result<&Text> {
        let text = self.texts.get(number as usize);
        text.ok_or_else(|| Error::from_reason("no statement has this number"))
    }

    /// The next statement.
    pub(crate) fn statement(&self, items: &mut Items) -> Result<Statement> {
        let text = self.text(items.number()?)?;
        let shape = items.number()?;
        text.with(shape as usize / 2, shape % 2 == 1, || items.value())
    }

    /// The next transaction: how many statements it has, and the statements.
    pub(crate) fn transaction(&self, items: &mut Items) -> Result<Vec<Statement>> {
        let count = items.number()? as usize;
        collect(count, || self.statement(items))
    }

    /// All transactions to the end, each after its own number.
    pub(crate) fn transactions(&self, mut items: Items) -> Result<Vec<(u32, Vec<Statement>)>> {
        let mut transactions = Vec::new();
        while !items.is_empty() {
            transactions.push((items.number()?, self.transaction(&mut items)?));
        }
        Ok(transactions)
    }
}

fn collect<T>(count: usize, mut next: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        all.push(next()?);
    }
    Ok(all)
}
