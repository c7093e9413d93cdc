//! Regular expressions in the syntax of ECMAScript.
//!
//! JSON Schema requires patterns that ECMAScript compiles with its flag `u` (2020-12 Core, 6.4), and JavaScript clients
//! do so. Nothing is matched here: a pattern is only parsed, and the worker applies it.

use std::{borrow::Cow, collections::HashSet, mem};

use regress::{Flags, Regex};
use serde_json::Value;

use super::{error::SchemaError, keyword::subschemas};

/// Returns an equivalent pattern that ECMAScript compiles with its flag `u`.
///
/// Unnecessary backslashes before punctuation are removed, and hyphens beside `\w` and the like in a class get one: both
/// are legal without the flag, and common.
pub(super) fn ecmascript(pattern: &str) -> Result<Cow<'_, str>, String> {
    let reason = match compile(pattern) {
        Ok(()) => return Ok(Cow::Borrowed(pattern)),
        Err(reason) => reason,
    };
    let plain = with_needed_escapes(pattern);
    if plain != pattern && compile(&plain).is_ok() { Ok(Cow::Owned(plain)) } else { Err(reason) }
}

/// Scripts of Unicode 16 and 17, which older clients' engines do not know.
const NEW_SCRIPTS: &str = "Garay Gara Gurung_Khema Gukh Kirat_Rai Krai Ol_Onal Onao Sunuwar Sunu Todhri Todr Tulu_Tigalari Tutg \
    Sidetic Sidt Tolong_Siki Tols Beria_Erfe Berf Tai_Yo Tayo";

/// Returns a construct that the parser accepts but clients' engines do not: new in ECMAScript 2025, or never part of
/// it.
fn flaw(pattern: &str) -> Option<&'static str> {
    let bytes = pattern.as_bytes();
    let (mut at, mut in_class, mut names) = (0, false, HashSet::new());
    while let Some(byte) = bytes.get(at) {
        let rest = &pattern.as_bytes()[at + 1..];
        match (byte, rest) {
            (b'\\', [b'b' | b'B', b'*' | b'+' | b'?' | b'{', ..]) if !in_class => return Some("a boundary of a word cannot be repeated"),
            (b'\\', [b'u', b'{', digits @ ..]) => {
                let digits = digits.split(|byte| *byte == b'}').next().and_then(|digits| str::from_utf8(digits).ok());
                let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
                if digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).is_none_or(|code| code > 0x10_ffff) {
                    return Some("a code point must be hexadecimal, at most 10FFFF");
                }
            }
            (b'\\', [b'u', digits @ ..]) if !begins_with_hex(digits, 4) => {
                return Some("`\\u` must be followed by four hexadecimal digits");
            }
            (b'\\', [b'x', digits @ ..]) if !begins_with_hex(digits, 2) => return Some("`\\x` must be followed by two hexadecimal digits"),
            (b'\\', [b'p' | b'P', b'{', name @ ..]) => {
                let name = name.split(|byte| *byte == b'}').next().and_then(|name| str::from_utf8(name).ok()).unwrap_or_default();
                if NEW_SCRIPTS.split(' ').any(|script| name.rsplit('=').next() == Some(script)) {
                    return Some("the engines of many clients do not know this script yet");
                }
            }
            (b'(', [b'?', b'<', name @ ..])
                if !in_class && !matches!(name, [b'=' | b'!', ..]) && !names.insert(name.split(|byte| *byte == b'>').next()) =>
            {
                return Some("two groups have the same name");
            }
            (b'(', [b'?', next, ..]) if !in_class && !matches!(next, b':' | b'=' | b'!' | b'<') => {
                return Some("the engines of many clients do not know groups with flags yet");
            }
            (b'[', _) => in_class = true,
            (b']', _) => in_class = false,
            _ => {}
        }
        at += if *byte == b'\\' { 2 } else { 1 };
    }
    None
}

fn begins_with_hex(text: &[u8], digits: usize) -> bool {
    text.get(..digits).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// Compiles a pattern in time and memory proportional to its length: without optimization or loop unrolling.
fn compile(pattern: &str) -> Result<(), String> {
    if let Some(flaw) = flaw(pattern) {
        return Err(flaw.to_owned());
    }
    let flags = Flags { unicode: true, no_opt: true, ..Flags::default() };
    Regex::from_unicode(pattern.chars().map(u32::from), flags).map(drop).map_err(|error| error.to_string())
}

/// Removes backslashes before ASCII punctuation that needs none, and adds them before hyphens that make no range.
fn with_needed_escapes(pattern: &str) -> String {
    // Escapes in ECMAScript, those in a class, and those that mean a word boundary to the worker's engine.
    let needed = |next: char, in_class: bool| match next {
        '^' | '$' | '\\' | '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '/' | '<' | '>' => true,
        '-' => in_class,
        next => !next.is_ascii_punctuation() && next != ' ',
    };
    let is_set = |next: char| matches!(next, 'd' | 'D' | 's' | 'S' | 'w' | 'W');
    // `after_set` is whether a set such as `\w` is directly before, in a class.
    let (mut plain, mut in_class, mut after_set) = (String::with_capacity(pattern.len()), false, false);
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        let was_after_set = mem::take(&mut after_set);
        match char {
            '\\' => {
                let next = chars.next();
                after_set = in_class && next.is_some_and(is_set);
                if next.is_none_or(|next| needed(next, in_class)) {
                    plain.push('\\');
                }
                plain.extend(next);
                continue;
            }
            '[' => in_class = true,
            ']' => in_class = false,
            '-' if in_class && !chars.as_str().starts_with(']') => {
                let before_set = chars.as_str().strip_prefix('\\').is_some_and(|rest| rest.starts_with(is_set));
                if was_after_set || (before_set && !plain.ends_with('[')) {
                    plain.push('\\');
                }
            }
            _ => {}
        }
        plain.push(char);
    }
    plain
}

/// Returns the location of the first pattern with a lookaround, which several model providers refuse.
pub fn looks_around(schema: &Value) -> Option<String> {
    let around = |pattern: &str| ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|group| pattern.contains(group));
    patterns(schema, "").into_iter().find_map(|(pointer, pattern)| around(pattern).then_some(pointer))
}

/// Refuses a schema with a pattern that ECMAScript cannot compile.
pub fn check_patterns(schema: &Value) -> Result<(), SchemaError> {
    for (pointer, pattern) in patterns(schema, "") {
        if let Err(reason) = ecmascript(pattern) {
            let message =
                format!("ECMAScript cannot compile this regular expression with its flag `u`, which JSON Schema requires: {reason}");
            return Err(SchemaError { pointer, message });
        }
    }
    Ok(())
}

/// Returns the patterns of a schema located at `pointer`, each with the JSON Pointer to its keyword.
pub(super) fn patterns<'s>(schema: &'s Value, pointer: &str) -> Vec<(String, &'s str)> {
    let own = schema.get("pattern").and_then(Value::as_str).map(|pattern| (format!("{pointer}/pattern"), pattern));
    let names = schema.get("patternProperties").and_then(Value::as_object).into_iter().flatten();
    let names = names.map(|(pattern, _)| (format!("{pointer}/patternProperties"), pattern.as_str()));
    let below = subschemas(schema).into_iter().flat_map(|part| patterns(part.schema, &format!("{pointer}{}", part.pointer)));
    own.into_iter().chain(names).chain(below).collect()
}

#[cfg(test)]
mod tests;
