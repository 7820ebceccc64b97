//! Parameters and rows, with the types that `sqlite3` has.

use std::sync::Arc;

use groupcommit_bindings::groupcommit::sql::{Statement, StatementResult, Value};
use pyo3::{
    exceptions::{PyOverflowError, PyTypeError, PyValueError},
    prelude::*,
    types::{
        PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyMemoryView,
        PyString, PyTuple,
    },
};

use crate::errors;

/// Statements as they are given: each is SQL, or a tuple of SQL and parameters.
#[derive(Default)]
pub(crate) struct Parser {
    /// The text before: most transactions of a program have the same few.
    last: Option<(Py<PyString>, Arc<str>)>,
}

impl Parser {
    /// One statement.
    pub(crate) fn statement(
        &mut self,
        sql: &Bound<'_, PyAny>,
        params: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Statement> {
        let Ok(sql) = sql.cast::<PyString>() else {
            return Err(PyTypeError::new_err(format!("SQL must be str, not {}", type_name(sql))));
        };
        let text = match &self.last {
            Some((last, text)) if last.is(sql) => text.clone(),
            _ => {
                let text: Arc<str> = sql.to_str()?.into();
                self.last = Some((sql.clone().unbind(), text.clone()));
                text
            }
        };
        let Some(params) = params.filter(|params| !params.is_none()) else {
            return Ok(Statement::new(text, []));
        };
        if let Ok(params) = params.cast::<PyTuple>() {
            Ok(Statement::new(text, in_turn(params.iter(), params.len())?))
        } else if let Ok(params) = params.cast::<PyList>() {
            Ok(Statement::new(text, in_turn(params.iter(), params.len())?))
        } else if params.is_instance_of::<PyString>() || params.is_instance_of::<PyBytes>() {
            let found = type_name(params);
            Err(PyTypeError::new_err(format!(
                "parameters must be a tuple, list or dict, not {found}"
            )))
        } else if let Ok(params) = params.cast::<PyMapping>() {
            // A copy: another thread may change what was given.
            let params = params.items()?;
            let pairs: Vec<(String, Bound<'_, PyAny>)> = params.extract()?;
            let params = pairs.into_iter().map(|(name, value)| {
                let value = value_of(&value, &name)?;
                Ok((name, value))
            });
            Ok(Statement::named(text, params.collect::<PyResult<Vec<_>>>()?))
        } else {
            let params = params.try_iter()?.collect::<PyResult<Vec<_>>>()?;
            let count = params.len();
            Ok(Statement::new(text, in_turn(params.into_iter(), count)?))
        }
    }

    /// One statement as one object.
    fn one(&mut self, given: &Bound<'_, PyAny>) -> PyResult<Statement> {
        let Ok(pair) = given.cast::<PyTuple>() else { return self.statement(given, None) };
        match pair.len() {
            1 => self.statement(&pair.get_item(0)?, None),
            2 => self.statement(&pair.get_item(0)?, Some(&pair.get_item(1)?)),
            count => Err(PyValueError::new_err(format!(
                "a statement is SQL or a tuple of SQL and parameters, not a tuple of {count}"
            ))),
        }
    }

    /// The statements of one transaction, given as a list.
    pub(crate) fn statements(&mut self, given: &Bound<'_, PyAny>) -> PyResult<Vec<Statement>> {
        if given.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("a transaction is a list of statements, not a str"));
        }
        given.try_iter()?.map(|statement| self.one(&statement?)).collect()
    }

    /// One transaction among many, which is a list, or the one statement that it has; and whether it is
    /// the latter.
    pub(crate) fn transaction(
        &mut self,
        given: &Bound<'_, PyAny>,
    ) -> PyResult<(Vec<Statement>, bool)> {
        let is_single = given.is_instance_of::<PyString>()
            || given.cast::<PyTuple>().is_ok_and(|pair| {
                pair.get_borrowed_item(0).is_ok_and(|first| first.is_instance_of::<PyString>())
            });
        let statements = if is_single { vec![self.one(given)?] } else { self.statements(given)? };
        Ok((statements, is_single))
    }
}

fn in_turn<'py>(
    params: impl Iterator<Item = Bound<'py, PyAny>>,
    count: usize,
) -> PyResult<Vec<Value>> {
    let mut values = Vec::with_capacity(count);
    for param in params {
        values.push(value_of(&param, &(values.len() + 1))?);
    }
    Ok(values)
}

fn value_of(param: &Bound<'_, PyAny>, place: &impl std::fmt::Display) -> PyResult<Value> {
    if let Ok(text) = param.cast::<PyString>() {
        Ok(Value::Text(text.to_str()?.to_owned()))
    } else if param.is_none() {
        Ok(Value::Null)
    } else if let Ok(number) = param.cast::<PyInt>() {
        if let Ok(truth) = number.cast::<PyBool>() {
            return Ok(Value::Bool(truth.is_true()));
        }
        let too_large = |_| {
            PyOverflowError::new_err(format!(
                "parameter {place}: the integer needs more than 64 bits"
            ))
        };
        number.extract().map(Value::Int).map_err(too_large)
    } else if let Ok(number) = param.cast::<PyFloat>() {
        Ok(Value::Float(number.value()))
    } else if let Ok(bytes) = param.cast::<PyBytes>() {
        Ok(Value::Bytes(bytes.as_bytes().to_vec()))
    } else if param.is_instance_of::<PyByteArray>() || param.is_instance_of::<PyMemoryView>() {
        let bytes = param.py().get_type::<PyBytes>().call1((param,))?;
        Ok(Value::Bytes(bytes.extract()?))
    } else {
        let found = type_name(param);
        let message = format!(
            "parameter {place}: type {found} is not supported; use None, int, float, str or bytes"
        );
        Err(errors::programming(param.py(), &message))
    }
}

fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

/// A value as an object.
pub(crate) fn object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Value::Int(value) => value.into_pyobject(py)?.into_any(),
        Value::Float(value) => value.into_pyobject(py)?.into_any(),
        Value::Text(value) => value.into_pyobject(py)?.into_any(),
        Value::Bytes(value) => PyBytes::new(py, value).into_any(),
        _ => py.None().into_bound(py),
    })
}

/// How rows become objects: tuples, or dictionaries by the names of the columns.
pub(crate) enum RowShape<'py> {
    Tuple,
    Dict(Vec<Bound<'py, PyString>>),
}

impl<'py> RowShape<'py> {
    pub(crate) fn new(py: Python<'py>, columns: &[String], named: bool) -> Self {
        if named {
            Self::Dict(columns.iter().map(|name| PyString::new(py, name)).collect())
        } else {
            Self::Tuple
        }
    }

    pub(crate) fn row(&self, py: Python<'py>, row: &[Value]) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Tuple => {
                let values = row.iter().map(|value| object(py, value));
                Ok(PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)?.into_any())
            }
            Self::Dict(names) => {
                let dict = PyDict::new(py);
                for (name, value) in names.iter().zip(row) {
                    dict.set_item(name, object(py, value)?)?;
                }
                Ok(dict.into_any())
            }
        }
    }

    pub(crate) fn rows(
        &self,
        py: Python<'py>,
        rows: &[Vec<Value>],
    ) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        rows.iter().try_for_each(|row| list.append(self.row(py, row)?))?;
        Ok(list)
    }
}

/// What one statement of a committed transaction returned.
#[pyclass(frozen, module = "groupcommit")]
pub(crate) struct Result(pub(crate) StatementResult);

#[pymethods]
impl Result {
    /// Rows that the statement inserted, updated or deleted.
    #[getter]
    fn rowcount(&self) -> u64 {
        self.0.rows_affected
    }

    /// The number of the row inserted last, if one was.
    #[getter]
    fn lastrowid(&self) -> Option<i64> {
        self.0.last_insert_id
    }

    /// The names of the columns, for a statement that returns rows.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.0.columns)
    }

    /// The rows, as a new list of tuples.
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        RowShape::Tuple.rows(py, &self.0.rows)
    }

    /// Always "committed".
    #[classattr]
    fn outcome() -> &'static str {
        "committed"
    }

    fn __repr__(&self) -> String {
        let StatementResult { rows_affected, last_insert_id, rows, .. } = &self.0;
        let lastrowid = last_insert_id.map_or_else(|| "None".to_owned(), |id| id.to_string());
        format!("<Result rowcount={rows_affected} lastrowid={lastrowid} rows={}>", rows.len())
    }
}
