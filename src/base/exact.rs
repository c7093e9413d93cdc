//! JSON whose numbers keep the text that their author wrote.
//!
//! A [`Value`] rounds numbers to 64 bits. The feature `arbitrary_precision` of serde_json would keep them, but it applies to every crate of
//! the program: each number would be an allocated text, and types that serde reads through a buffer (`flatten`, untagged enums) would get
//! a map in place of a number. So the few texts whose digits matter are handled here, and everything else stays as it is.

use std::{collections::BTreeMap, io, ops::Range};

use serde::Serialize as _;
use serde_json::{
    Error, Number, Serializer, Value,
    ser::{CompactFormatter, Formatter, PrettyFormatter},
    value::RawValue,
};

/// Returns JSON without insignificant white space. Strings and duplicate keys are written as a [`Value`] writes them.
///
/// # Errors
///
/// A string is not Unicode, or the nesting is too deep.
pub fn compact(json: &RawValue) -> Result<String, Error> {
    reformat(json, CompactFormatter)
}

/// Returns JSON on several lines for people.
///
/// # Errors
///
/// It is not JSON, or as for [`compact`].
pub fn pretty(json: &str) -> Result<String, Error> {
    reformat(serde_json::from_str(json)?, PrettyFormatter::new())
}

/// Parses JSON, with the nearest double for each number that does not fit into 64 bits. For `1e400` that is the largest double.
///
/// # Errors
///
/// As for [`compact`].
pub fn approximate(json: &RawValue) -> Result<Value, Error> {
    let (mut value, numbers) = indexed(json)?;
    put_numbers(&mut value, &numbers);
    Ok(value)
}

/// Cuts the value at `path` out of a JSON text. The rest has `0` in its place, and every other byte keeps its line and column.
///
/// Returns `None` if the text is not JSON or has no such value.
#[must_use]
pub fn cut<'a>(text: &'a [u8], path: &[&str]) -> Option<(Vec<u8>, &'a RawValue)> {
    let mut json: &RawValue = serde_json::from_slice(text).ok()?;
    for name in path {
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(json.get()).ok()?;
        json = members.get(*name).copied()?;
    }
    let start = json.get().as_ptr().addr() - text.as_ptr().addr();
    let mut rest = text.to_vec();
    for byte in &mut rest[start..start + json.get().len()] {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
    rest[start] = b'0';
    Some((rest, json))
}

/// Parses JSON, but leaves the value at `path` as its text, in a string. Null stays null.
///
/// # Errors
///
/// It is not JSON.
pub fn with_text_at(text: &[u8], path: &[&str]) -> Result<Value, Error> {
    let Some((rest, json)) = cut(text, path).filter(|(_, json)| json.get() != "null") else {
        return serde_json::from_slice(text);
    };
    let mut value: Value = serde_json::from_slice(&rest)?;
    let position = path.iter().try_fold(&mut value, |value, name| value.get_mut(*name));
    if let Some(position) = position {
        *position = json.get().into();
    }
    Ok(value)
}

/// Iterates over the numbers of a JSON text.
pub fn numbers(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    positions(text).map(move |position| &text[position])
}

/// Iterates over the positions of the numbers in a JSON text.
fn positions(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            match text.get(at)? {
                b'"' => at = end_of_string(text, at + 1),
                b'-' | b'0'..=b'9' => {
                    let start = at;
                    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                    at = text[start..].iter().position(|byte| !is_part(byte)).map_or(text.len(), |length| start + length);
                    return Some(start..at);
                }
                _ => at += 1,
            }
        }
    })
}

/// Returns the position after a string whose content begins at `start`.
fn end_of_string(text: &[u8], start: usize) -> usize {
    let mut escaped = false;
    let end = text[start..].iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| start + end + 1)
}

/// Parses JSON with the index of each number in its place, and returns the texts of the numbers.
fn indexed(json: &RawValue) -> Result<(Value, Vec<&str>), Error> {
    let text = json.get();
    let (mut numbers, mut indexed, mut end) = (vec![], String::with_capacity(text.len()), 0);
    for position in positions(text.as_bytes()) {
        indexed.push_str(&text[end..position.start]);
        indexed.push_str(&numbers.len().to_string());
        end = position.end;
        numbers.push(&text[position]);
    }
    indexed.push_str(&text[end..]);
    Ok((serde_json::from_str(&indexed)?, numbers))
}

/// Replaces the index of each number with the number.
fn put_numbers(value: &mut Value, numbers: &[&str]) {
    match value {
        Value::Number(number) => *number = nearest(at(numbers, number.as_u64())),
        Value::Array(items) => items.iter_mut().for_each(|item| put_numbers(item, numbers)),
        Value::Object(members) => members.values_mut().for_each(|member| put_numbers(member, numbers)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn at<'a>(numbers: &[&'a str], index: Option<u64>) -> &'a str {
    let index = index.and_then(|index| usize::try_from(index).ok());
    index.and_then(|index| numbers.get(index)).copied().unwrap_or("0")
}

fn nearest(number: &str) -> Number {
    serde_json::from_str(number).unwrap_or_else(|_| {
        let largest = if number.starts_with('-') { f64::MIN } else { f64::MAX };
        Number::from_f64(largest).expect("it is finite")
    })
}

fn reformat(json: &RawValue, inner: impl Formatter) -> Result<String, Error> {
    let (value, numbers) = indexed(json)?;
    let mut text = Vec::with_capacity(json.get().len());
    value.serialize(&mut Serializer::with_formatter(&mut text, Verbatim { numbers: &numbers, inner }))?;
    Ok(String::from_utf8(text).expect("JSON is text"))
}

/// Writes the text of a number in place of its index.
struct Verbatim<'a, F> {
    numbers: &'a [&'a str],
    inner: F,
}

macro_rules! forwarded {
    ($($method:ident($($argument:ident: $kind:ty)?);)*) => {$(
        fn $method<W: ?Sized + io::Write>(&mut self, writer: &mut W $(, $argument: $kind)?) -> io::Result<()> {
            self.inner.$method(writer $(, $argument)?)
        }
    )*};
}

impl<F: Formatter> Formatter for Verbatim<'_, F> {
    fn write_u64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: u64) -> io::Result<()> {
        writer.write_all(at(self.numbers, Some(value)).as_bytes())
    }

    forwarded! {
        begin_array(); end_array(); begin_array_value(first: bool); end_array_value();
        begin_object(); end_object(); begin_object_key(first: bool); end_object_key(); begin_object_value(); end_object_value();
    }
}

#[cfg(test)]
mod tests;
