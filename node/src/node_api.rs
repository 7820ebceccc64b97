//! Values of JavaScript and of the database, through Node-API. All `unsafe` of this crate is here.
//!
//! A whole call goes over in one array each way, since each crossing costs more than what it carries.
#![expect(unsafe_code, reason = "Node-API is a C interface; each block says why it is sound")]

use std::ptr;

use groupcommit_bindings::groupcommit::sql::Value;
use napi::{
    Error, JsValue, Result, Status,
    bindgen_prelude::{FromNapiValue, FunctionCallContext, ToNapiValue},
    sys,
};

/// The largest integer that a number of JavaScript's holds exactly.
const SAFE_MAX: i64 = (1 << 53) - 1;

fn check(status: sys::napi_status) -> Result<()> {
    if status == sys::Status::napi_ok {
        return Ok(());
    }
    Err(Error::from_status(Status::from(status)))
}

/// A value of JavaScript, valid until the call that it came from returns.
#[derive(Clone, Copy)]
pub(crate) struct Handle(sys::napi_value);

impl Handle {
    pub(crate) fn of<'env>(value: &impl JsValue<'env>) -> Self {
        Self(value.raw())
    }

    pub(crate) fn raw(self) -> sys::napi_value {
        self.0
    }
}

impl FromNapiValue for Handle {
    unsafe fn from_napi_value(_: sys::napi_env, value: sys::napi_value) -> Result<Self> {
        Ok(Self(value))
    }
}

impl ToNapiValue for Handle {
    unsafe fn to_napi_value(_: sys::napi_env, handle: Self) -> Result<sys::napi_value> {
        Ok(handle.0)
    }
}

/// An array of JavaScript's that is read from its start to its end.
pub(crate) struct Items {
    env: sys::napi_env,
    array: sys::napi_value,
    next: u32,
    len: u32,
}

impl FromNapiValue for Items {
    unsafe fn from_napi_value(env: sys::napi_env, array: sys::napi_value) -> Result<Self> {
        let mut len = 0;
        // SAFETY: Node calls with a valid environment and value; the length outlives the call.
        check(unsafe { sys::napi_get_array_length(env, array, &raw mut len) })?;
        Ok(Self { env, array, next: 0, len })
    }
}

impl Items {
    /// Whether all were read.
    pub(crate) fn is_empty(&self) -> bool {
        self.next == self.len
    }

    fn take(&mut self) -> Result<sys::napi_value> {
        let mut item = ptr::null_mut();
        // SAFETY: the array is valid for the call that it came from, which `Items` does not outlive:
        // nothing stores one. Node answers with `undefined` behind the end.
        check(unsafe { sys::napi_get_element(self.env, self.array, self.next, &raw mut item) })?;
        self.next += 1;
        Ok(item)
    }

    /// A count, or the number of a statement.
    pub(crate) fn number(&mut self) -> Result<u32> {
        let item = self.take()?;
        let mut number = 0;
        // SAFETY: as above.
        check(unsafe { sys::napi_get_value_uint32(self.env, item, &raw mut number) })?;
        Ok(number)
    }

    /// A parameter.
    pub(crate) fn value(&mut self) -> Result<Value> {
        let item = self.take()?;
        Given(self.env).value(item)
    }
}

/// Reads values that a call was given, inside that call.
#[derive(Clone, Copy)]
pub(crate) struct Given(sys::napi_env);

impl Given {
    /// The parameter at a place among the arguments of a call.
    pub(crate) fn argument(call: &FunctionCallContext<'_>, place: usize) -> Result<Value> {
        let Handle(item) = call.get(place)?;
        Self(call.env.raw()).value(item)
    }

    fn value(self, item: sys::napi_value) -> Result<Value> {
        let mut kind = 0;
        // SAFETY: Node calls with a valid environment and valid values, and this does not outlive the call.
        check(unsafe { sys::napi_typeof(self.0, item, &raw mut kind) })?;
        Ok(match kind {
            sys::ValueType::napi_number => number_of(self.double(item)?),
            sys::ValueType::napi_string => Value::Text(self.text(item)?),
            sys::ValueType::napi_null => Value::Null,
            sys::ValueType::napi_boolean => Value::Bool(self.boolean(item)?),
            sys::ValueType::napi_bigint => Value::Int(self.integer(item)?),
            _ => Value::Bytes(self.bytes(item)?),
        })
    }

    fn double(self, item: sys::napi_value) -> Result<f64> {
        let mut value = 0.0;
        // SAFETY: as above.
        check(unsafe { sys::napi_get_value_double(self.0, item, &raw mut value) })?;
        Ok(value)
    }

    fn boolean(self, item: sys::napi_value) -> Result<bool> {
        let mut value = false;
        // SAFETY: as above.
        check(unsafe { sys::napi_get_value_bool(self.0, item, &raw mut value) })?;
        Ok(value)
    }

    fn integer(self, item: sys::napi_value) -> Result<i64> {
        let (mut value, mut is_exact) = (0, false);
        // SAFETY: as above.
        check(unsafe {
            sys::napi_get_value_bigint_int64(self.0, item, &raw mut value, &raw mut is_exact)
        })?;
        if is_exact { Ok(value) } else { Err(Error::from_status(Status::BigintExpected)) }
    }

    fn text(self, item: sys::napi_value) -> Result<String> {
        let mut length = 0;
        // SAFETY: as above; without a buffer, only the length in bytes is asked for.
        check(unsafe {
            sys::napi_get_value_string_utf8(self.0, item, ptr::null_mut(), 0, &raw mut length)
        })?;
        let mut bytes = Vec::<u8>::with_capacity(length + 1);
        // SAFETY: the buffer has room for the text and the nul behind it, which Node writes; `length`
        // is then how many bytes it wrote before that.
        unsafe {
            check(sys::napi_get_value_string_utf8(
                self.0,
                item,
                bytes.as_mut_ptr().cast(),
                length + 1,
                &raw mut length,
            ))?;
            bytes.set_len(length);
        }
        String::from_utf8(bytes).map_err(|_| Error::from_status(Status::StringExpected))
    }

    fn bytes(self, item: sys::napi_value) -> Result<Vec<u8>> {
        let (mut data, mut length) = (ptr::null_mut(), 0);
        // SAFETY: as above. The bytes are valid until JavaScript runs again, and are copied here.
        unsafe {
            check(sys::napi_get_buffer_info(self.0, item, &raw mut data, &raw mut length))?;
            if length == 0 {
                return Ok(Vec::new());
            }
            Ok(std::slice::from_raw_parts(data.cast::<u8>(), length).to_vec())
        }
    }
}

/// Whole numbers are integers, as far as both sides hold them exactly.
fn number_of(number: f64) -> Value {
    let is_negative_zero = number == 0.0 && number.is_sign_negative();
    if number.fract() == 0.0 && number.abs() <= SAFE_MAX as f64 && !is_negative_zero {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole, and small enough")]
        Value::Int(number as i64)
    } else {
        Value::Float(number)
    }
}

/// How JavaScript is told of a database's values.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Style {
    /// Every integer is a `BigInt`, not only those that a number does not hold.
    pub(crate) bigints: bool,
    /// Codes of errors are SQLite's.
    pub(crate) is_sqlite: bool,
}

impl Style {
    /// The integer as a number, unless it has to be a `BigInt`.
    pub(crate) fn number(self, integer: i64) -> Option<f64> {
        let is_safe = (-SAFE_MAX..=SAFE_MAX).contains(&integer);
        (is_safe && !self.bigints).then_some(integer as f64)
    }
}

/// Makes values of JavaScript's, inside one call.
#[derive(Clone, Copy)]
pub(crate) struct Maker {
    env: sys::napi_env,
    pub(crate) style: Style,
}

impl Maker {
    pub(crate) fn new(env: sys::napi_env, style: Style) -> Self {
        Self { env, style }
    }

    pub(crate) fn value(self, value: &Value) -> Result<Handle> {
        match value {
            Value::Bool(value) => self.boolean(*value),
            Value::Int(value) => self.integer(*value),
            Value::Float(value) => self.double(*value),
            Value::Text(value) => self.text(value),
            Value::Bytes(value) => self.bytes(value),
            _ => self.null(),
        }
    }

    pub(crate) fn integer(self, integer: i64) -> Result<Handle> {
        if let Some(number) = self.style.number(integer) {
            return self.double(number);
        }
        let mut made = ptr::null_mut();
        // SAFETY: a `Maker` lives no longer than the call it was made in, for which its environment
        // is valid; the place for the result outlives the call.
        check(unsafe { sys::napi_create_bigint_int64(self.env, integer, &raw mut made) })?;
        Ok(Handle(made))
    }

    pub(crate) fn double(self, number: f64) -> Result<Handle> {
        let mut made = ptr::null_mut();
        // SAFETY: as above.
        check(unsafe { sys::napi_create_double(self.env, number, &raw mut made) })?;
        Ok(Handle(made))
    }

    pub(crate) fn boolean(self, value: bool) -> Result<Handle> {
        let mut made = ptr::null_mut();
        // SAFETY: as above.
        check(unsafe { sys::napi_get_boolean(self.env, value, &raw mut made) })?;
        Ok(Handle(made))
    }

    pub(crate) fn null(self) -> Result<Handle> {
        let mut made = ptr::null_mut();
        // SAFETY: as above.
        check(unsafe { sys::napi_get_null(self.env, &raw mut made) })?;
        Ok(Handle(made))
    }

    pub(crate) fn text(self, text: &str) -> Result<Handle> {
        let (start, length) = (text.as_ptr().cast(), text.len().cast_signed());
        let mut made = ptr::null_mut();
        // SAFETY: as above; Node copies the text. ASCII is the same in both, and copied faster.
        check(unsafe {
            if text.is_ascii() {
                sys::napi_create_string_latin1(self.env, start, length, &raw mut made)
            } else {
                sys::napi_create_string_utf8(self.env, start, length, &raw mut made)
            }
        })?;
        Ok(Handle(made))
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<Handle> {
        let mut made = ptr::null_mut();
        // SAFETY: as above; Node copies the bytes.
        check(unsafe {
            sys::napi_create_buffer_copy(
                self.env,
                bytes.len(),
                bytes.as_ptr().cast(),
                ptr::null_mut(),
                &raw mut made,
            )
        })?;
        Ok(Handle(made))
    }

    pub(crate) fn array(self, len: usize) -> Result<Array> {
        let mut made = ptr::null_mut();
        // SAFETY: as above.
        check(unsafe { sys::napi_create_array_with_length(self.env, len, &raw mut made) })?;
        Ok(Array { env: self.env, made, next: 0 })
    }

    pub(crate) fn texts(self, texts: &[String]) -> Result<Handle> {
        let mut array = self.array(texts.len())?;
        texts.iter().try_for_each(|text| array.push(self.text(text)?))?;
        Ok(array.finish())
    }

    /// The values of all rows, one after the other.
    pub(crate) fn rows(self, columns: usize, rows: &[Vec<Value>]) -> Result<Handle> {
        let mut array = self.array(columns * rows.len())?;
        rows.iter().flatten().try_for_each(|value| array.push(self.value(value)?))?;
        Ok(array.finish())
    }

    pub(crate) fn only(self, item: Handle) -> Result<Handle> {
        let mut array = self.array(1)?;
        array.push(item)?;
        Ok(array.finish())
    }

    pub(crate) fn pair(self, first: Handle, second: Handle) -> Result<Handle> {
        let mut array = self.array(2)?;
        array.push(first)?;
        array.push(second)?;
        Ok(array.finish())
    }

    /// A `Float64Array`.
    pub(crate) fn doubles(self, doubles: &[f64]) -> Result<Handle> {
        let (mut data, mut buffer, mut made) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        // SAFETY: as above. Node makes the buffer as long as what is copied into it, aligned for
        // every type; nothing else knows of it yet.
        unsafe {
            let bytes = size_of_val(doubles);
            check(sys::napi_create_arraybuffer(self.env, bytes, &raw mut data, &raw mut buffer))?;
            if !doubles.is_empty() {
                ptr::copy_nonoverlapping(doubles.as_ptr(), data.cast(), doubles.len());
            }
            check(sys::napi_create_typedarray(
                self.env,
                sys::TypedarrayType::float64_array,
                doubles.len(),
                buffer,
                0,
                &raw mut made,
            ))?;
        }
        Ok(Handle(made))
    }
}

/// An array of JavaScript's that is filled from its start.
pub(crate) struct Array {
    env: sys::napi_env,
    made: sys::napi_value,
    next: u32,
}

/// One of JavaScript's own: what it holds is overwritten.
impl FromNapiValue for Array {
    unsafe fn from_napi_value(env: sys::napi_env, made: sys::napi_value) -> Result<Self> {
        Ok(Self { env, made, next: 0 })
    }
}

impl Array {
    pub(crate) fn push(&mut self, item: Handle) -> Result<()> {
        // SAFETY: both are values of the call that this was made in, which it does not outlive.
        check(unsafe { sys::napi_set_element(self.env, self.made, self.next, item.0) })?;
        self.next += 1;
        Ok(())
    }

    pub(crate) fn finish(self) -> Handle {
        Handle(self.made)
    }
}

/// Tells JavaScript's collector of memory that is held for one of its objects, or no longer.
pub(crate) fn hold_memory(env: napi::Env, bytes: i64) {
    let mut held = 0;
    // SAFETY: called on the thread of the environment. Nothing depends on whether it succeeds.
    let _status = unsafe { sys::napi_adjust_external_memory(env.raw(), bytes, &raw mut held) };
}

/// Whether Node's event loop goes on for as long as `function` may be called.
pub(crate) fn keep_loop_alive(env: napi::Env, function: sys::napi_threadsafe_function, keep: bool) {
    // SAFETY: called on the thread of the environment, with a function that its owner has not released
    // yet. The only failures are those of an environment that ends, whose loop does not go on anyway.
    let _status = unsafe {
        if keep {
            sys::napi_ref_threadsafe_function(env.raw(), function)
        } else {
            sys::napi_unref_threadsafe_function(env.raw(), function)
        }
    };
}
