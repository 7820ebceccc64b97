//! Values as they travel: parameters on their way out, columns on their way in.
//!
//! The server says which type each parameter has. What is not of exactly that type goes as text,
//! which the server reads as it would a quoted literal: so a date, a number of any precision or a
//! UUID is given as [`Value::Text`]. Columns come in binary form, and only in the types that
//! [`Value`] has a place for; others are to be cast in the statement, for example `price::text`.

use std::error::Error as StdError;

use bytes::BytesMut;
use groupcommit_statement::Value;
use tokio_postgres::types::{Format, FromSql, IsNull, Kind, ToSql, Type};

/// A value as a parameter.
#[derive(Debug)]
pub(crate) struct Bound<'a>(pub(crate) &'a Value);

/// A value as it stands in a row.
pub(crate) struct Column(pub(crate) Value);

/// Whether columns of this type become values.
pub(crate) fn has_place_for(ty: &Type) -> bool {
    matches!(*ty, Type::BOOL | Type::INT2 | Type::INT4 | Type::INT8 | Type::OID)
        || matches!(*ty, Type::FLOAT4 | Type::FLOAT8 | Type::BYTEA | Type::VOID)
        || is_text(ty)
}

fn binary(value: &Value, ty: &Type, out: &mut BytesMut) -> bool {
    match (value, ty) {
        (Value::Bool(value), &Type::BOOL) => out.extend_from_slice(&[u8::from(*value)]),
        (Value::Int(value), &Type::INT8) => out.extend_from_slice(&value.to_be_bytes()),
        (Value::Int(value), &Type::INT4) => match i32::try_from(*value) {
            Ok(value) => out.extend_from_slice(&value.to_be_bytes()),
            Err(_) => return false, // as text, so that the server says that it is out of range
        },
        (Value::Float(value), &Type::FLOAT8) => out.extend_from_slice(&value.to_be_bytes()),
        (Value::Bytes(value), _) => out.extend_from_slice(value),
        _ => return false,
    }
    true
}

fn is_text(ty: &Type) -> bool {
    matches!(*ty, Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN)
        || matches!(*ty, Type::JSON | Type::JSONB | Type::XML)
        || matches!(ty.kind(), Kind::Enum(_))
}

impl ToSql for Bound<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        if matches!(self.0, Value::Null) {
            return Ok(IsNull::Yes);
        }
        if binary(self.0, ty, out) {
            return Ok(IsNull::No);
        }
        match self.0 {
            Value::Text(text) => out.extend_from_slice(text.as_bytes()),
            Value::Bool(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Value::Int(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Value::Float(value) => out.extend_from_slice(float_text(*value).as_bytes()),
            Value::Null | Value::Bytes(_) => {}
            other => return Err(format!("PostgreSQL has no place for {other:?}").into()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, ty: &Type) -> Format {
        let is_binary = match self.0 {
            Value::Null | Value::Bytes(_) => true,
            Value::Bool(_) => *ty == Type::BOOL,
            Value::Int(value) => {
                *ty == Type::INT8 || (*ty == Type::INT4 && i32::try_from(*value).is_ok())
            }
            Value::Float(_) => *ty == Type::FLOAT8,
            _ => false,
        };
        if is_binary { Format::Binary } else { Format::Text }
    }

    tokio_postgres::types::to_sql_checked!();
}

/// The server's own words for what is no number.
fn float_text(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else {
        value.to_string()
    }
}

/// The first `N` bytes, if there are exactly so many.
fn exactly<const N: usize>(raw: &[u8]) -> Option<[u8; N]> {
    raw.try_into().ok()
}

impl<'a> FromSql<'a> for Column {
    /// Never fails: what the transaction did is about to be committed, and a value that is not as
    /// its type says is handed out as it came.
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        let known = match *ty {
            Type::BOOL => exactly::<1>(raw).map(|[value]| Value::Bool(value != 0)),
            Type::INT2 => exactly(raw).map(|value| Value::Int(i16::from_be_bytes(value).into())),
            Type::INT4 => exactly(raw).map(|value| Value::Int(i32::from_be_bytes(value).into())),
            Type::INT8 => exactly(raw).map(|value| Value::Int(i64::from_be_bytes(value))),
            Type::OID => exactly(raw).map(|value| Value::Int(u32::from_be_bytes(value).into())),
            Type::FLOAT4 => {
                exactly(raw).map(|value| Value::Float(f32::from_be_bytes(value).into()))
            }
            Type::FLOAT8 => exactly(raw).map(|value| Value::Float(f64::from_be_bytes(value))),
            Type::VOID => Some(Value::Null),
            // One byte in front says the version of the format.
            Type::JSONB => raw.get(1..).and_then(text),
            _ if is_text(ty) => text(raw),
            _ => None,
        };
        Ok(Self(known.unwrap_or_else(|| Value::Bytes(raw.to_vec()))))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(Value::Null))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn text(raw: &[u8]) -> Option<Value> {
    std::str::from_utf8(raw).ok().map(|text| Value::Text(text.to_owned()))
}
