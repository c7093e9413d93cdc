//! Parses JSON that other programs read too, and explains why a text is valid JSON only for some of them.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

/// The start of the keys with which the parser marks values for itself. It reads
/// `{"$serde_json::private::RawValue":"[1]"}` as `[1]`, unlike a handler that parses the same text.
const RESERVED: &str = "$serde_json::private";

/// Number of levels of arrays and objects that the parser reads.
const MAX_LEVELS: usize = 127;

/// The construct that other JSON readers reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PortabilityIssue {
    /// A lone surrogate such as `"\ud83d"`, which only JavaScript strings can contain.
    #[error("a string in it has half of a surrogate pair, which is not valid Unicode; `toWellFormed()` fixes a string")]
    Surrogate,
    /// A number such as `1e999`, which readers change in different ways.
    #[error("a number in it is larger than 1.8e308, the maximum that JSON parsers can hold")]
    Number,
    /// Arrays and objects are nested too deep.
    #[error("it is nested deeper than {} levels", MAX_LEVELS)]
    Nesting,
    /// A byte that is not valid UTF-8 in its place.
    #[error("it is not UTF-8 (at line {line} column {column})")]
    NotUtf8 {
        /// Line of the byte, from 1.
        line: usize,
        /// Its position in the line in bytes, from 1.
        column: usize,
    },
    /// An object with a key that the parser reserves for itself.
    #[error("an object in it has a reserved key, which begins with `{}`", RESERVED)]
    ReservedKey,
    /// It claims to be JSON but is not.
    #[error("its type is JSON, but it is not valid JSON")]
    NotJson,
}

impl PortabilityIssue {
    /// Parses JSON that a handler returned.
    ///
    /// # Errors
    ///
    /// Why it is not read. A reserved key is an error even where the parser accepts it.
    pub fn parse(json: &[u8]) -> Result<Value, Self> {
        read(json).map_err(|error| error.map_or(Self::ReservedKey, |error| Self::reason(json, &error)))
    }

    /// Returns why `json` could not be parsed as a [`serde_json::Value`], given the parser's `error`.
    pub fn reason(json: &[u8], error: &serde_json::Error) -> Self {
        // Skipping a value checks its syntax without interpreting it.
        if serde_json::from_slice::<IgnoredAny>(json).is_err() {
            return Self::NotJson;
        }
        // Every type of JSON fits a `Value`, so only the reserved key has a wrong one.
        if error.is_data() {
            return Self::ReservedKey;
        }
        // The parser publishes the kind of an error only as text, so the construct is searched for.
        if levels(json) > MAX_LEVELS {
            Self::Nesting
        } else if let Err(error) = str::from_utf8(json) {
            let (line, column) = place(json, error.valid_up_to());
            Self::NotUtf8 { line, column }
        } else if has_half_a_pair(json) {
            Self::Surrogate
        } else if has_reserved_key(json) {
            // The parser takes the value of the reserved key for the whole object, so other keys make it fail.
            Self::ReservedKey
        } else {
            Self::Number
        }
    }
}

/// Returns the number of levels of arrays and objects in a valid JSON text.
fn levels(json: &[u8]) -> usize {
    let (mut open, mut max, mut in_string, mut is_escaped) = (0_usize, 0_usize, false, false);
    for &byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                open += 1;
                max = max.max(open);
            }
            b']' | b'}' if !in_string => open = open.saturating_sub(1),
            _ => {}
        }
    }
    max
}

/// Returns the line and the column of a byte.
fn place(text: &[u8], at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    (1 + before.iter().filter(|byte| **byte == b'\n').count(), 1 + at - line_start)
}

/// Parses JSON from a client.
///
/// # Errors
///
/// A message for the client. It calls the text "the body". A reserved key is an error even where the parser
/// accepts it.
pub fn parse_json(text: &[u8]) -> Result<Value, String> {
    read(text).map_err(|error| match error {
        Some(error) => not_json(text, &error),
        None => format!("the body is not JSON: {}", PortabilityIssue::ReservedKey),
    })
}

/// Parses JSON. The error is `None` for a reserved key that the parser accepts.
fn read(json: &[u8]) -> Result<Value, Option<serde_json::Error>> {
    let value = serde_json::from_slice(json)?;
    if has_reserved_key(json) { Err(None) } else { Ok(value) }
}

/// Returns whether an object in a JSON text has a reserved key, at any depth. Texts in which the key can be neither as it
/// is nor escaped are not parsed for this.
pub fn has_reserved_key(json: &[u8]) -> bool {
    let may_be_reserved = |(at, byte): (usize, &u8)| match byte {
        b'$' => json[at..].starts_with(RESERVED.as_bytes()),
        // All characters of the key are ASCII.
        b'\\' => matches!(&json[at..], [_, b'u', b'0', b'0', b'2'..=b'7', ..]),
        _ => false,
    };
    // `NoReservedKey` accepts all types of JSON, so only the key is an error of this kind.
    json.iter().enumerate().any(may_be_reserved) && serde_json::from_slice::<NoReservedKey>(json).is_err_and(|error| error.is_data())
}

/// A JSON value whose objects have no reserved key.
struct NoReservedKey;

impl<'de> Deserialize<'de> for NoReservedKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Keys)
    }
}

/// Reads the keys of a [`NoReservedKey`].
struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = NoReservedKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without reserved keys")
    }

    fn visit_unit<E: Error>(self) -> Result<NoReservedKey, E> {
        Ok(NoReservedKey)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<NoReservedKey, E> {
        Ok(NoReservedKey)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<NoReservedKey, E> {
        Ok(NoReservedKey)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<NoReservedKey, E> {
        Ok(NoReservedKey)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<NoReservedKey, E> {
        Ok(NoReservedKey)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<NoReservedKey, E> {
        Ok(NoReservedKey)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<NoReservedKey, A::Error> {
        while items.next_element::<NoReservedKey>()?.is_some() {}
        Ok(NoReservedKey)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<NoReservedKey, A::Error> {
        while let Some((key, NoReservedKey)) = fields.next_entry::<String, NoReservedKey>()? {
            if key.starts_with(RESERVED) {
                return Err(A::Error::custom("a reserved key"));
            }
        }
        Ok(NoReservedKey)
    }
}

/// Explains why and where a client's body is not accepted as JSON. `error` is the parser's error.
pub fn not_json(text: &[u8], error: &serde_json::Error) -> String {
    if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, _, ..] | [_, 0, ..] = text {
        return "the body is not JSON: it is UTF-16 or UTF-32; send JSON as UTF-8 (RFC 8259, section 8.1)".to_owned();
    }
    let position = format!("at line {} column {}", error.line(), error.column());
    let reason = match PortabilityIssue::reason(text, error) {
        // Such a body is JSON.
        PortabilityIssue::Nesting => return format!("the body is nested deeper than {MAX_LEVELS} levels, {position}"),
        PortabilityIssue::Surrogate => {
            format!("a string has half of a surrogate pair, for example `\\ud83d` alone, which is not valid Unicode, {position}")
        }
        PortabilityIssue::Number => format!("a number is larger than 1.8e308 {position}"),
        reason @ (PortabilityIssue::NotUtf8 { .. } | PortabilityIssue::ReservedKey) => reason.to_string(),
        PortabilityIssue::NotJson => error.to_string(),
    };
    format!("the body is not JSON: {reason}")
}

/// Returns whether JSON contains an escaped lone surrogate.
fn has_half_a_pair(json: &[u8]) -> bool {
    let (mut at, mut high) = (0, false);
    while at < json.len() {
        let unit = match &json[at..] {
            [b'\\', b'u', digits @ ..] => {
                at += 6;
                digits.get(..4).and_then(|digits| u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok())
            }
            [b'\\', ..] => {
                at += 2;
                None
            }
            _ => {
                at += 1;
                None
            }
        };
        match unit {
            Some(0xdc00..=0xdfff) if high => high = false,
            Some(0xdc00..=0xdfff) => return true,
            _ if high => return true,
            Some(0xd800..=0xdbff) => high = true,
            _ => {}
        }
    }
    high
}

#[cfg(test)]
mod tests;
