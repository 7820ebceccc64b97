//! What one call of JavaScript is told: everything that has come of the work since the last.

use std::{convert::Infallible, sync::Arc};

use groupcommit_bindings::{
    Delivered, Description, OpenError, Repeatable,
    groupcommit::{
        Failure, NotRun, OnceError, Outcome, TokenRecord, bridge,
        sql::{Error, StatementResult, StatementsFailure, Value},
        sqlite::code_name,
    },
    kept_results,
};
use napi::{Result, bindgen_prelude::ToNapiValue, sys};

use crate::node_api::{Handle, Maker, Style};

/// Makes what JavaScript is told of other work than transactions, on its thread.
pub(crate) type Answer = Box<dyn FnOnce(Maker) -> Result<Handle> + Send>;

/// What has come of the work with these numbers.
#[derive(Default)]
pub(crate) struct Delivery {
    pub(crate) delivered: Vec<(u32, Delivered<Answer>)>,
    pub(crate) style: Style,
}

impl Delivery {
    /// `[plain, others]`. A transaction of one statement without rows is three doubles in `plain`: its
    /// number, the rows affected, and the id of the row inserted last or NaN. All else is two items in
    /// `others`: its number, and what it is told.
    fn make(self, make: Maker) -> Result<Handle> {
        let mut plain = Vec::with_capacity(3 * self.delivered.len());
        let mut others = make.array(0)?;
        for (number, delivered) in self.delivered {
            let told = match delivered {
                Delivered::Outcome(Ok(results)) => {
                    if let Some([rows, id]) = plain_result(&results, self.style) {
                        plain.extend([f64::from(number), rows, id]);
                        continue;
                    }
                    results.tell(make)?
                }
                Delivered::Outcome(Err(failure)) => failure.tell(make)?,
                Delivered::Answer(answer) => answer(make)?,
            };
            others.push(make.double(f64::from(number))?)?;
            others.push(told)?;
        }
        let mut delivery = make.array(2)?;
        delivery.push(make.doubles(&plain)?)?;
        delivery.push(others.finish())?;
        Ok(delivery.finish())
    }
}

/// The result of a single statement without rows, where doubles hold it.
fn plain_result(results: &[StatementResult], style: Style) -> Option<[f64; 2]> {
    let [result] = results else { return None };
    if !result.columns.is_empty() {
        return None;
    }
    let id = match result.last_insert_id {
        Some(id) => style.number(id)?,
        None => f64::NAN,
    };
    Some([result.rows_affected as f64, id])
}

impl ToNapiValue for Delivery {
    #[expect(unsafe_code, reason = "the trait says so; there is nothing unsafe in it")]
    unsafe fn to_napi_value(env: sys::napi_env, delivery: Self) -> Result<sys::napi_value> {
        let style = delivery.style;
        Ok(delivery.make(Maker::new(env, style))?.raw())
    }
}

/// What JavaScript can be told.
pub(crate) trait Tell {
    fn tell(&self, make: Maker) -> Result<Handle>;
}

/// The answer that tells a result.
pub(crate) fn answer<T, E>(result: std::result::Result<T, E>) -> Answer
where
    T: Tell + Send + 'static,
    E: Tell + Send + 'static,
{
    Box::new(move |make| match result {
        Ok(value) => value.tell(make),
        Err(error) => error.tell(make),
    })
}

/// The answer to a call that no thread ran.
pub(crate) fn unavailable(failure: bridge::Failure<Infallible>) -> Answer {
    answer::<(), StatementsFailure>(Err(Failure::NotRun(NotRun::Unavailable(Arc::new(failure)))))
}

impl Tell for () {
    fn tell(&self, make: Maker) -> Result<Handle> {
        make.null()
    }
}

/// Four items a statement: rows affected, the id of the row inserted last or null, the names of the
/// columns, and the values of all rows, one after the other.
impl Tell for Vec<StatementResult> {
    fn tell(&self, make: Maker) -> Result<Handle> {
        let mut told = make.array(4 * self.len())?;
        for result in self {
            told.push(make.double(result.rows_affected as f64)?)?;
            told.push(match result.last_insert_id {
                Some(id) => make.integer(id)?,
                None => make.null()?,
            })?;
            told.push(make.texts(&result.columns)?)?;
            told.push(make.rows(result.columns.len(), &result.rows)?)?;
        }
        Ok(told.finish())
    }
}

/// Some rows of a read: the names of the columns, and the rows.
pub(crate) struct Chunk(pub(crate) (Vec<String>, Vec<Vec<Value>>));

impl Tell for Chunk {
    fn tell(&self, make: Maker) -> Result<Handle> {
        let (columns, rows) = &self.0;
        make.pair(make.texts(columns)?, make.rows(columns.len(), rows)?)
    }
}

/// Whether it had been committed before, and its results.
impl Tell for Repeatable {
    fn tell(&self, make: Maker) -> Result<Handle> {
        make.pair(make.boolean(self.is_repeated)?, self.results.tell(make)?)
    }
}

/// When it was committed, in seconds since 1970, and its results.
impl Tell for Option<TokenRecord> {
    fn tell(&self, make: Maker) -> Result<Handle> {
        match self {
            None => make.null(),
            Some(record) => make
                .pair(make.double(record.created_unix_s as f64)?, kept_results(record).tell(make)?),
        }
    }
}

/// The outcome as a word, and with it the sentence, the kind, the code and the reason, or nulls.
impl Tell for Description {
    fn tell(&self, make: Maker) -> Result<Handle> {
        let mut told = make.array(5)?;
        told.push(make.text(self.outcome.as_str())?)?;
        told.push(make.text(&self.message)?)?;
        let code = self.code.as_deref().map(|code| match code.parse() {
            Ok(number) if make.style.is_sqlite => code_name(number),
            _ => code,
        });
        for text in [self.kind_name().as_deref(), code, self.reason] {
            told.push(match text {
                Some(text) => make.text(text)?,
                None => make.null()?,
            })?;
        }
        Ok(told.finish())
    }
}

impl Tell for Failure<Error> {
    fn tell(&self, make: Maker) -> Result<Handle> {
        Description::of(self).tell(make)
    }
}

impl Tell for Failure<OnceError<Error>> {
    fn tell(&self, make: Maker) -> Result<Handle> {
        Description::of_once(self).tell(make)
    }
}

impl Tell for Failure<OnceError<Infallible>> {
    fn tell(&self, make: Maker) -> Result<Handle> {
        Description::of_any(self, |_| None).tell(make)
    }
}

impl Tell for Error {
    fn tell(&self, make: Maker) -> Result<Handle> {
        Description::of_error(self).tell(make)
    }
}

impl Tell for OpenError {
    fn tell(&self, make: Maker) -> Result<Handle> {
        if let Self::Engine(error) = self {
            return error.tell(make);
        }
        let description = Description {
            outcome: Outcome::Rejected,
            message: self.to_string(),
            kind: None,
            code: None,
            reason: None,
        };
        description.tell(make)
    }
}
