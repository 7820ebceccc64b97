//! Values on the wire: every SQLite value survives the round trip, 64-bit integers as strings.

use base64::{
    Engine as _,
    display::Base64Display,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose},
};
use groupcommit::sqlite::rusqlite::{
    ToSql,
    types::{ToSqlOutput, ValueRef},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeStruct as _};

/// Reads base64 with and without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// One SQLite value.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Wire")]
pub(crate) enum Value {
    Null,
    Integer(i64),
    Float(f64),
    Text(String),
    Blob(Vec<u8>),
}

impl Value {
    /// Bytes that the value takes in a response, roughly.
    pub(crate) fn wire_bytes(&self) -> usize {
        32 + match self {
            Self::Text(text) => text.len(),
            Self::Blob(bytes) => bytes.len() / 3 * 4,
            _ => 0,
        }
    }
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(value) => Self::Integer(value),
            ValueRef::Real(value) => Self::Float(value),
            // JSON has no place for text that is not UTF-8.
            ValueRef::Text(text) => Self::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
        }
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> groupcommit::sqlite::rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(value) => ValueRef::Integer(*value),
            Self::Float(value) => ValueRef::Real(*value),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = if *self == Self::Null { 1 } else { 2 };
        let mut object = serializer.serialize_struct("Value", fields)?;
        match self {
            Self::Null => object.serialize_field("type", "null")?,
            Self::Integer(value) => {
                object.serialize_field("type", "integer")?;
                object.serialize_field("value", &Decimal(*value))?;
            }
            Self::Float(value) => {
                object.serialize_field("type", "float")?;
                object.serialize_field("value", value)?;
            }
            Self::Text(text) => {
                object.serialize_field("type", "text")?;
                object.serialize_field("value", text)?;
            }
            Self::Blob(bytes) => {
                object.serialize_field("type", "blob")?;
                object.serialize_field("base64", &Base64(bytes))?;
            }
        }
        object.end()
    }
}

/// An integer as a string, which every JSON parser reads exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Decimal(pub(crate) i64);

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(itoa::Buffer::new().format(self.0))
    }
}

struct Base64<'a>(&'a [u8]);

impl Serialize for Base64<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(self.0, &general_purpose::STANDARD_NO_PAD))
    }
}

/// A value as it arrives.
#[derive(Deserialize)]
struct Wire {
    r#type: Type,
    #[serde(default)]
    value: Scalar,
    base64: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Type {
    Null,
    Integer,
    Float,
    Text,
    Blob,
}

#[derive(Default)]
enum Scalar {
    #[default]
    Absent,
    Integer(i64),
    Float(f64),
    Text(String),
}

impl TryFrom<Wire> for Value {
    type Error = String;

    #[expect(clippy::cast_precision_loss, reason = "a float may be written without a fraction")]
    fn try_from(wire: Wire) -> Result<Self, String> {
        match (wire.r#type, wire.value) {
            // A number that is not finite is written without a value.
            (Type::Null, _) | (Type::Float, Scalar::Absent) => Ok(Self::Null),
            (Type::Integer, Scalar::Integer(value)) => Ok(Self::Integer(value)),
            (Type::Integer, Scalar::Text(text)) => match text.parse() {
                Ok(value) => Ok(Self::Integer(value)),
                Err(_) => Err(format!("`{text}` is not a 64-bit integer")),
            },
            (Type::Float, Scalar::Float(value)) => Ok(Self::Float(value)),
            (Type::Float, Scalar::Integer(value)) => Ok(Self::Float(value as f64)),
            (Type::Text, Scalar::Text(text)) => Ok(Self::Text(text)),
            (Type::Blob, _) => {
                let text = wire.base64.ok_or("a blob needs the field `base64`")?;
                let bytes = LENIENT.decode(text);
                bytes.map(Self::Blob).map_err(|error| format!("invalid base64: {error}"))
            }
            (Type::Integer, _) => {
                Err("an integer needs the field `value`, a decimal string".into())
            }
            (Type::Float, _) => Err("a float needs the field `value`, a number".into()),
            (Type::Text, _) => Err("a text needs the field `value`, a string".into()),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl de::Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string, a number or null")
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Absent)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar::Integer(value))
    }

    #[expect(clippy::cast_precision_loss, reason = "beyond i64 only a float has a place for it")]
    fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
        Ok(i64::try_from(value).map_or(Scalar::Float(value as f64), Scalar::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
        Ok(Scalar::Float(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Scalar, E> {
        Ok(Scalar::Text(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Value, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn every_value_survives_the_round_trip() {
        for value in [
            Value::Null,
            Value::Integer(i64::MIN),
            Value::Integer(i64::MAX),
            Value::Float(-1.5e300),
            Value::Text("a\u{0}\"ü".into()),
            Value::Blob(vec![0, 255, 3, 4]),
        ] {
            let json = serde_json::to_string(&value).unwrap();
            assert_eq!(parse(&json), Ok(value), "{json}");
        }
    }

    #[test]
    fn what_clients_write_differently_is_read() {
        assert_eq!(parse(r#"{"type":"float","value":1}"#), Ok(Value::Float(1.0)));
        assert_eq!(parse(r#"{"type":"integer","value":7}"#), Ok(Value::Integer(7)));
        assert_eq!(parse(r#"{"type":"null","value":null,"base64":null}"#), Ok(Value::Null));
        assert_eq!(parse(r#"{"type":"blob","base64":"AA=="}"#), Ok(Value::Blob(vec![0])));
        assert_eq!(parse(r#"{"type":"blob","base64":"AA"}"#), Ok(Value::Blob(vec![0])));
        let nan = serde_json::to_string(&Value::Float(f64::NAN)).unwrap();
        assert_eq!(nan, r#"{"type":"float","value":null}"#);
        assert_eq!(parse(&nan), Ok(Value::Null));
    }

    #[test]
    fn what_is_no_value_is_refused_with_a_reason() {
        for (json, reason) in [
            (r#"{"type":"integer","value":"9223372036854775808"}"#, "not a 64-bit integer"),
            (r#"{"type":"integer"}"#, "needs the field `value`"),
            (r#"{"type":"text","value":1}"#, "needs the field `value`"),
            (r#"{"type":"blob","base64":"*"}"#, "invalid base64"),
            (r#"{"type":"date","value":"x"}"#, "unknown variant `date`"),
            (r#"{"type":"float","value":[1]}"#, "a string, a number or null"),
        ] {
            let error = parse(json).unwrap_err();
            assert!(error.contains(reason), "{json}: {error}");
        }
    }
}
