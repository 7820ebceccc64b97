//! The functions that `lib/` calls. Every call that is answered later takes the number under which its
//! answer is delivered.

use std::{cell::RefCell, rc::Rc, time::Duration};

use groupcommit_bindings::{
    Chunks, Database, Repeatable, Settings, first_row_async,
    groupcommit::{
        Terms,
        sql::{self, Statement},
    },
};
use napi::{
    Env, Result,
    bindgen_prelude::{Buffer, Function, FunctionCallContext, Object, ToNapiValue},
};
use napi_derive::napi;

use crate::{
    delivery::{Answer, Chunk, answer, unavailable},
    driver::Driver,
    node_api::{Array, Given, Handle, Items, Maker},
    read,
    statements::Statements,
    stats::Stats,
    threads::blocking,
};

/// What a database is opened with; see `OpenOptions` in `index.d.ts`.
#[napi(object, object_to_js = false)]
#[expect(missing_docs, reason = "documented for those who set them")]
pub struct OpenOptions {
    pub create: Option<bool>,
    pub convert_to_wal: Option<bool>,
    pub busy_timeout: Option<u32>,
    pub readers: Option<u32>,
    pub max_transactions: Option<u32>,
    pub max_bytes: Option<u32>,
}

impl From<OpenOptions> for Settings {
    fn from(options: OpenOptions) -> Self {
        let usual = Self::default();
        let size = |number: Option<u32>| number.map(|number| number as usize);
        Self {
            create: options.create.unwrap_or(usual.create),
            convert_to_wal: options.convert_to_wal.unwrap_or(usual.convert_to_wal),
            busy_timeout: options.busy_timeout.map(|ms| Duration::from_millis(ms.into())),
            readers: size(options.readers),
            transactions_max: size(options.max_transactions),
            bytes_max: size(options.max_bytes),
        }
    }
}

/// A connection that is not open yet: an object of functions. `settle` is called with what
/// [`Delivery`](crate::delivery::Delivery) makes.
///
/// # Errors
///
/// Node's.
#[napi(js_name = "connection")]
pub fn new_connection<'env>(
    env: &'env Env,
    settle: Function<'_, (), ()>,
    bigints: bool,
) -> Result<Object<'env>> {
    let connection = Rc::new(Connection {
        driver: Driver::new(*env, &settle, bigints)?,
        statements: RefCell::default(),
    });
    let mut object = Methods { env, object: Object::new(env)?, connection };
    object.add("open", Connection::open)?;
    object.add("close", Connection::close)?;
    object.add("prepare", |it, call| Ok(it.statements.borrow_mut().prepare(call.get(0)?)))?;
    object.add("forget", |it, _| {
        it.statements.borrow_mut().forget();
        Ok(())
    })?;
    object.add("submit", |it, call| {
        let transactions = it.statements.borrow().transactions(call.get(0)?)?;
        it.driver.submit(*call.env, transactions, terms(call.get(1)?))
    })?;
    object.add("cancel", |it, call| {
        it.driver.cancel(call.get(0)?);
        Ok(())
    })?;
    object.add("once", Connection::once)?;
    object.add("outcomeOf", |it, call| {
        let (database, token) = (it.driver.sql()?.clone(), call.get::<Buffer>(1)?.to_vec());
        it.spawn(call, async move { answer(database.outcome_of(&token).await) })
    })?;
    object.add("exclusive", |it, call| {
        let statements = it.statements.borrow().transaction(&mut call.get(1)?)?;
        let database = it.driver.sql()?.clone();
        it.block(call, move || answer(database.exclusive(statements)))
    })?;
    object.add("get", |it, call| {
        let (statement, database) = it.reading(call)?;
        it.spawn(call, async move {
            answer(first_row_async(&database, statement).await.map(|result| vec![result]))
        })
    })?;
    object.add("all", |it, call| {
        let (statement, database) = it.reading(call)?;
        it.spawn(call, async move {
            answer(database.read_async(&statement).await.map(|result| vec![result]))
        })
    })?;
    object.add("readDurable", |it, call| {
        let (statement, database) = it.reading(call)?;
        it.block(call, move || answer(database.read_durable(&statement).map(|result| vec![result])))
    })?;
    object.add("readSync", Connection::read_sync)?;
    let shared = object.connection.clone();
    object.add("rows", move |_, call| rows(&shared, *call.env, call.get(0)?))?;
    object.add("flush", |it, call| {
        let database = it.driver.sql()?.clone();
        it.block(call, move || answer(database.flush()))
    })?;
    object.add("stats", |it, _| Ok(Stats::from(it.driver.sql()?.stats())))?;
    object.add("warnings", |it, _| Ok(it.driver.sql()?.warnings()))?;
    object.add("engine", |it, _| Ok(it.driver.sql()?.engine().name()))?;
    Ok(object.object)
}

/// Without one where it is not a number.
fn terms(deadline_ms: Option<f64>) -> Terms {
    match deadline_ms.map(|ms| Duration::try_from_secs_f64(ms / 1_000.0)) {
        Some(Ok(deadline)) => Terms::new().deadline(deadline),
        _ => Terms::new(),
    }
}

struct Methods<'env> {
    env: &'env Env,
    object: Object<'env>,
    connection: Rc<Connection>,
}

impl Methods<'_> {
    fn add<R: ToNapiValue>(
        &mut self,
        name: &'static str,
        method: impl Fn(&Connection, &FunctionCallContext<'_>) -> Result<R> + 'static,
    ) -> Result<()> {
        let connection = self.connection.clone();
        let function: Function<'_, (), R> =
            self.env.create_function_from_closure(name, move |call| method(&connection, &call))?;
        self.object.set(name, function)
    }
}

/// One database, as one thread of JavaScript's has it open.
struct Connection {
    driver: Rc<Driver>,
    statements: RefCell<Statements>,
}

impl Connection {
    fn spawn(
        &self,
        call: &FunctionCallContext<'_>,
        work: impl Future<Output = Answer> + Send + 'static,
    ) -> Result<()> {
        self.driver.spawn(*call.env, call.get(0)?, work);
        Ok(())
    }

    fn block(
        &self,
        call: &FunctionCallContext<'_>,
        work: impl FnOnce() -> Answer + Send + 'static,
    ) -> Result<()> {
        self.spawn(call, async move { blocking(work).await.unwrap_or_else(unavailable) })
    }

    fn open(&self, call: &FunctionCallContext<'_>) -> Result<()> {
        let (target, options): (String, OpenOptions) = (call.get(1)?, call.get(2)?);
        let slot = self.driver.database.clone();
        self.block(call, move || {
            let opened = Database::open(&target, &options.into());
            answer(opened.map(|database| {
                // It is empty: a connection is opened once.
                let _none_before = slot.set(database);
            }))
        })
    }

    fn close(&self, call: &FunctionCallContext<'_>) -> Result<()> {
        let slot = self.driver.database.clone();
        self.block(call, move || answer(slot.get().map_or(Ok(()), Database::close)))
    }

    fn once(&self, call: &FunctionCallContext<'_>) -> Result<()> {
        let token: Buffer = call.get(1)?;
        let token = token.to_vec();
        let statements = self.statements.borrow().transaction(&mut call.get(2)?)?;
        let database = self.driver.sql()?.with(terms(call.get(3)?));
        self.spawn(
            call,
            async move { answer(Repeatable::run(&database, &token, statements).await) },
        )
    }

    /// Reads on this thread. Its arguments: the number of the text with two switches below it, the array
    /// that the values of the rows are put into, and the parameters.
    fn read_sync(&self, call: &FunctionCallContext<'_>) -> Result<Handle> {
        let (what, values): (u32, Array) = (call.get(0)?, call.get(1)?);
        let (is_named, first_alone) = (what & 2 != 0, what & 1 != 0);
        let statements = self.statements.borrow();
        let text = statements.text(what >> 2)?;
        let mut places = 2..call.length();
        let count = places.len() >> u32::from(is_named);
        let statement = text
            .with(count, is_named, || Given::argument(call, places.next().unwrap_or(usize::MAX)))?;
        let database = self.driver.sql()?;
        let make = Maker::new(call.env.raw(), self.driver.style_of(database));
        read::now(database, &statement, first_alone, &text.columns, values, make)
    }

    /// The statement of a read, and what to read from.
    fn reading(&self, call: &FunctionCallContext<'_>) -> Result<(Statement, sql::Database)> {
        let statement = self.statements.borrow().statement(&mut call.get(1)?)?;
        Ok((statement, self.driver.sql()?.clone()))
    }
}

/// A read a piece at a time: the functions `next(number)` and `close()`.
fn rows(connection: &Rc<Connection>, env: Env, mut items: Items) -> Result<Handle> {
    let statement = connection.statements.borrow().statement(&mut items)?;
    let chunks = Chunks::new(connection.driver.sql()?.clone(), statement);
    let mut object =
        Methods { env: &env, object: Object::new(&env)?, connection: connection.clone() };
    let rows = chunks.clone();
    object.add("next", move |it, call| {
        let rows = rows.clone();
        it.spawn(call, async move { answer(rows.next().await.map(Chunk)) })
    })?;
    object.add("close", move |_, _| {
        chunks.close();
        Ok(())
    })?;
    Ok(Handle::of(&object.object))
}
