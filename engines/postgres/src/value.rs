//! Values as they travel: parameters on their way out, columns on their way in.
//!
//! The server says which type each parameter has. What is not of exactly that type goes as text,
//! which the server reads as it would a quoted literal: so a date, a number of any precision or a
//! UUID is given as [`Value::Text`]. Columns come in binary form, and only in the types that
//! [`Value`] has a place for; others are to be cast in the statement, for example `price::text`.

use std::error::Error as StdError;

use bytes::BytesMut;
use tokio_postgres::types::{Format, FromSql, IsNull, Kind, ToSql, Type};

/// One value of a row or a parameter.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// No value.
    Null,
    /// `boolean`.
    Bool(bool),
    /// `smallint`, `integer`, `bigint` or `oid`.
    Int(i64),
    /// `real` or `double precision`.
    Float(f64),
    /// `text` and its kin, `json`, `jsonb`, an enumeration; as a parameter, any type.
    Text(String),
    /// `bytea`.
    Bytes(Vec<u8>),
}

macro_rules! value_from {
    ($($from:ty => $variant:ident),+ $(,)?) => {
        $(impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        })+
    };
}

value_from!(bool => Bool, i16 => Int, i32 => Int, i64 => Int, f32 => Float, f64 => Float,
    &str => Text, String => Text, &[u8] => Bytes, Vec<u8> => Bytes);

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl Value {
    /// Memory that the value holds, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let held = match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        size_of::<Self>() + held
    }

    /// Whether columns of this type become values.
    pub(crate) fn has_place_for(ty: &Type) -> bool {
        matches!(*ty, Type::BOOL | Type::INT2 | Type::INT4 | Type::INT8 | Type::OID)
            || matches!(*ty, Type::FLOAT4 | Type::FLOAT8 | Type::BYTEA | Type::VOID)
            || is_text(ty)
    }

    fn binary(&self, ty: &Type, out: &mut BytesMut) -> bool {
        match (self, ty) {
            (Self::Bool(value), &Type::BOOL) => out.extend_from_slice(&[u8::from(*value)]),
            (Self::Int(value), &Type::INT8) => out.extend_from_slice(&value.to_be_bytes()),
            (Self::Int(value), &Type::INT4) => match i32::try_from(*value) {
                Ok(value) => out.extend_from_slice(&value.to_be_bytes()),
                Err(_) => return false, // as text, so that the server says that it is out of range
            },
            (Self::Float(value), &Type::FLOAT8) => out.extend_from_slice(&value.to_be_bytes()),
            (Self::Bytes(value), _) => out.extend_from_slice(value),
            _ => return false,
        }
        true
    }
}

fn is_text(ty: &Type) -> bool {
    matches!(*ty, Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN)
        || matches!(*ty, Type::JSON | Type::JSONB | Type::XML)
        || matches!(ty.kind(), Kind::Enum(_))
}

impl ToSql for Value {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        if matches!(self, Self::Null) {
            return Ok(IsNull::Yes);
        }
        if self.binary(ty, out) {
            return Ok(IsNull::No);
        }
        match self {
            Self::Text(text) => out.extend_from_slice(text.as_bytes()),
            Self::Bool(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Self::Int(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Self::Float(value) => out.extend_from_slice(float_text(*value).as_bytes()),
            Self::Null | Self::Bytes(_) => {}
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, ty: &Type) -> Format {
        let is_binary = match self {
            Self::Null | Self::Bytes(_) => true,
            Self::Bool(_) => *ty == Type::BOOL,
            Self::Int(value) => {
                *ty == Type::INT8 || (*ty == Type::INT4 && i32::try_from(*value).is_ok())
            }
            Self::Float(_) => *ty == Type::FLOAT8,
            Self::Text(_) => false,
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

impl<'a> FromSql<'a> for Value {
    /// Never fails: what the transaction did is about to be committed, and a value that is not as
    /// its type says is handed out as it came.
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        let known = match *ty {
            Type::BOOL => exactly::<1>(raw).map(|[value]| Self::Bool(value != 0)),
            Type::INT2 => exactly(raw).map(|value| Self::Int(i16::from_be_bytes(value).into())),
            Type::INT4 => exactly(raw).map(|value| Self::Int(i32::from_be_bytes(value).into())),
            Type::INT8 => exactly(raw).map(|value| Self::Int(i64::from_be_bytes(value))),
            Type::OID => exactly(raw).map(|value| Self::Int(u32::from_be_bytes(value).into())),
            Type::FLOAT4 => exactly(raw).map(|value| Self::Float(f32::from_be_bytes(value).into())),
            Type::FLOAT8 => exactly(raw).map(|value| Self::Float(f64::from_be_bytes(value))),
            Type::VOID => Some(Self::Null),
            // One byte in front says the version of the format.
            Type::JSONB => raw.get(1..).and_then(text),
            _ if is_text(ty) => text(raw),
            _ => None,
        };
        Ok(known.unwrap_or_else(|| Self::Bytes(raw.to_vec())))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn text(raw: &[u8]) -> Option<Value> {
    std::str::from_utf8(raw).ok().map(|text| Value::Text(text.to_owned()))
}
