//! The input of deserialization: a JSON value, or a text from a query.

use serde::{
    Deserializer,
    de::{
        Error as _, IntoDeserializer, Unexpected, Visitor,
        value::{MapDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::{Map, Number, Value};

use super::serde_error::SerdeError;

/// A JSON value or a query text that is being deserialized.
#[derive(Clone, Copy)]
pub(crate) enum Node<'de> {
    Json(&'de Value),
    /// A query text. It is parsed as a number or boolean if the type wants one.
    Text(&'de str),
}

impl<'de> IntoDeserializer<'de, SerdeError> for Node<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl Node<'_> {
    fn unexpected(&self) -> Unexpected<'_> {
        match self {
            Self::Json(Value::Null) => Unexpected::Unit,
            Self::Json(Value::Bool(value)) => Unexpected::Bool(*value),
            Self::Json(Value::Number(number)) => {
                number.as_u64().map_or(Unexpected::Float(number.as_f64().unwrap_or_default()), Unexpected::Unsigned)
            }
            Self::Json(Value::String(text)) => Unexpected::Str(text),
            Self::Text(text) => Unexpected::Str(text),
            Self::Json(Value::Array(_)) => Unexpected::Seq,
            Self::Json(Value::Object(_)) => Unexpected::Map,
        }
    }
}

/// Returns a deserializer for the fields of an object.
pub(crate) fn nodes<'de>(
    members: &'de Map<String, Value>,
) -> MapDeserializer<'de, impl Iterator<Item = (&'de str, Node<'de>)>, SerdeError> {
    MapDeserializer::new(members.iter().map(|(name, value)| (name.as_str(), Node::Json(value))))
}

fn visit_number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value, SerdeError> {
    match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(value), _, _) => visitor.visit_u64(value),
        (None, Some(value), _) => visitor.visit_i64(value),
        (None, None, Some(value)) => visitor.visit_f64(value),
        (None, None, None) => Err(SerdeError::custom("a number is out of range")),
    }
}

/// Parses a query text as a number or boolean where the type wants one. If that fails, the visitor gets the text and
/// reports what it wanted.
macro_rules! from_text {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeError> {
            match self {
                Self::Text("true") => visitor.visit_bool(true),
                Self::Text("false") => visitor.visit_bool(false),
                Self::Text(text) => match serde_json::from_str::<Number>(text) {
                    Ok(number) => visit_number(&number, visitor),
                    Err(_) => visitor.visit_borrowed_str(text),
                },
                Self::Json(_) => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = SerdeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        match self {
            Self::Json(Value::Null) => visitor.visit_unit(),
            Self::Json(Value::Bool(value)) => visitor.visit_bool(*value),
            Self::Json(Value::Number(number)) => visit_number(number, visitor),
            Self::Json(Value::String(text)) => visitor.visit_borrowed_str(text),
            Self::Text(text) => visitor.visit_borrowed_str(text),
            Self::Json(Value::Array(items)) => visitor.visit_seq(SeqDeserializer::new(items.iter().map(Node::Json))),
            Self::Json(Value::Object(members)) => visitor.visit_map(nodes(members)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        match self {
            Self::Json(Value::Null) => visitor.visit_none(),
            some => visitor.visit_some(some),
        }
    }

    /// Reads fields by name only. serde would also accept an array with the fields in order.
    fn deserialize_struct<V: Visitor<'de>>(self, _: &'static str, _: &'static [&'static str], visitor: V) -> Result<V::Value, SerdeError> {
        match self {
            Self::Json(Value::Array(_)) => Err(SerdeError::invalid_type(Unexpected::Seq, &visitor)),
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, SerdeError> {
        visitor.visit_newtype_struct(self)
    }

    /// Reads an enum by the name of its variant. None of our enums has data.
    fn deserialize_enum<V: Visitor<'de>>(self, _: &'static str, _: &'static [&'static str], visitor: V) -> Result<V::Value, SerdeError> {
        match self {
            Self::Json(Value::String(text)) => visitor.visit_enum(text.as_str().into_deserializer()),
            Self::Text(text) => visitor.visit_enum(text.into_deserializer()),
            Self::Json(_) => Err(SerdeError::invalid_type(self.unexpected(), &"a string")),
        }
    }

    from_text! { deserialize_bool deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_i8 deserialize_i16 deserialize_i32
    deserialize_i64 deserialize_f32 deserialize_f64 }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}
