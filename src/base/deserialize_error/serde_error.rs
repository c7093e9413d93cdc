//! Errors from serde, kept in parts until their location is known.

use std::fmt;

use serde::de::{self, Expected, Unexpected};

use crate::plural::plural;

/// Maximum number of characters of a wrong value that an error message repeats.
const MAX_REPEATED: usize = 40;

/// An error from serde before it becomes a message.
#[derive(Debug)]
pub(crate) enum SerdeError {
    Shape {
        got: String,
        requested: String,
    },
    Missing(String),
    Twice(String),
    Unknown(String, &'static [&'static str]),
    /// A text that is not one of the known values.
    Value(String, &'static [&'static str]),
    Custom(String),
}

impl fmt::Display for SerdeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for SerdeError {}

impl de::Error for SerdeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Custom(message.to_string())
    }

    fn invalid_type(got: Unexpected<'_>, requested: &dyn Expected) -> Self {
        Self::Shape { got: shape(&got), requested: plain(&requested.to_string()) }
    }

    fn invalid_value(got: Unexpected<'_>, requested: &dyn Expected) -> Self {
        Self::invalid_type(got, requested)
    }

    fn invalid_length(length: usize, requested: &dyn Expected) -> Self {
        Self::Shape { got: format!("of {}", plural(length, "item")), requested: plain(&requested.to_string()) }
    }

    fn unknown_variant(variant: &str, known: &'static [&'static str]) -> Self {
        Self::Value(variant.to_owned(), known)
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        Self::Unknown(short(field), known)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Missing(field.to_owned())
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::Twice(field.to_owned())
    }
}

/// Describes a value in JSON terms. Strings are not repeated, because some are secrets.
fn shape(got: &Unexpected<'_>) -> String {
    match got {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(value) => value.to_string(),
        Unexpected::Signed(value) => value.to_string(),
        Unexpected::Float(value) => value.to_string(),
        Unexpected::Char(_) | Unexpected::Str(_) => "a string".to_owned(),
        Unexpected::Unit | Unexpected::Option => "null".to_owned(),
        Unexpected::Seq => "an array".to_owned(),
        Unexpected::Map => "an object".to_owned(),
        Unexpected::Bytes(_)
        | Unexpected::NewtypeStruct
        | Unexpected::Enum
        | Unexpected::UnitVariant
        | Unexpected::NewtypeVariant
        | Unexpected::TupleVariant
        | Unexpected::StructVariant
        | Unexpected::Other(_) => "something else".to_owned(),
    }
}

/// Describes in JSON terms what serde expects. A type's own description (`expecting`) is kept.
fn plain(requested: &str) -> String {
    let known = match requested.split(' ').next().unwrap_or_default() {
        "struct" => "an object",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "enum" | "variant" | "field" => "a string",
        "tuple" => "an array",
        _ => match requested {
            "a map" => "an object",
            "a sequence" => "an array",
            "a boolean" => "true or false",
            other => other,
        },
    };
    known.to_owned()
}

/// Shortens a client's text for an error message and removes control characters.
pub(crate) fn short(text: &str) -> String {
    let mut cut: String = text.chars().filter(|character| !character.is_control()).take(MAX_REPEATED).collect();
    if text.chars().count() > MAX_REPEATED {
        cut.push('…');
    }
    cut
}
