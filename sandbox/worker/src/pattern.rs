//! Translates regular expressions of schemas, so that the engines of this host match the same texts as ECMAScript with
//! the flag `u`.
//!
//! The engines accept most of ECMAScript's syntax, but match more for some of it: `.` also matches CR, U+2028 and
//! U+2029, and next to a lookaround group, `\d`, `\w` and `\s` are Unicode classes. So each class is replaced by the
//! list of its ranges.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
};

use serde_json::{Map, Value};

const LAST: u32 = 0x10_ffff;
/// Surrogate code points. Text here contains none.
const SURROGATES: (u32, u32) = (0xd800, 0xdfff);

const DIGIT: &[(u32, u32)] = &[(0x30, 0x39)];
const WORD: &[(u32, u32)] = &[(0x30, 0x39), (0x41, 0x5a), (0x5f, 0x5f), (0x61, 0x7a)];
/// White space and line terminators (ECMA-262, sections 12.2 and 12.3).
const SPACE: &[(u32, u32)] = &[
    (0x09, 0x0d),
    (0x20, 0x20),
    (0xa0, 0xa0),
    (0x1680, 0x1680),
    (0x2000, 0x200a),
    (0x2028, 0x2029),
    (0x202f, 0x202f),
    (0x205f, 0x205f),
    (0x3000, 0x3000),
    (0xfeff, 0xfeff),
];
const HYPHEN: (u32, u32) = (0x2d, 0x2d);
/// The characters that `.` does not match.
const LINE_END: &[(u32, u32)] = &[(0x0a, 0x0a), (0x0d, 0x0d), (0x2028, 0x2029)];

/// The originals of rewritten patterns, which error messages name.
pub(crate) type Originals = HashMap<String, String>;

/// The engine for which a pattern is translated.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Engine {
    /// Linear time, without lookaround and backreferences.
    Linear,
    /// With lookaround and backreferences. Its syntax has no flags.
    Backtracking,
}

/// Rewrites the patterns of a schema, and the references whose path contains one.
pub(crate) struct Rewriting<'a> {
    pub(crate) engine: Engine,
    /// Patterns that stay as they are.
    pub(crate) unchanged: &'a HashSet<String>,
    pub(crate) originals: Originals,
}

impl Rewriting<'_> {
    pub(crate) fn rewrite(&mut self, schema: &mut Value) {
        let Value::Object(members) = schema else { return };
        for (name, value) in members.iter_mut() {
            match (name.as_str(), value) {
                ("const" | "enum" | "default" | "examples", _) => {}
                ("pattern", Value::String(pattern)) => self.rewrite_pattern(pattern),
                ("$id" | "$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => self.rewrite_reference(reference),
                ("patternProperties", Value::Object(named)) => {
                    let mut rewritten = Map::new();
                    for (mut pattern, mut schema) in std::mem::take(named) {
                        self.rewrite_pattern(&mut pattern);
                        self.rewrite(&mut schema);
                        // Two patterns can have the same translation.
                        while rewritten.contains_key(&pattern) {
                            pattern.push_str("(?:)");
                        }
                        rewritten.insert(pattern, schema);
                    }
                    *named = rewritten;
                }
                ("properties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies", Value::Object(named)) => {
                    named.values_mut().for_each(|schema| self.rewrite(schema));
                }
                (_, Value::Array(items)) => items.iter_mut().for_each(|item| self.rewrite(item)),
                (_, value) => self.rewrite(value),
            }
        }
    }

    fn translate(&self, pattern: &str) -> Option<String> {
        if self.unchanged.contains(pattern) { None } else { translate(pattern, self.engine) }
    }

    fn rewrite_pattern(&mut self, pattern: &mut String) {
        if let Some(translated) = self.translate(pattern)
            && translated != *pattern
        {
            self.originals.insert(translated.clone(), std::mem::replace(pattern, translated));
        }
    }

    /// Percent-encodes what a URI reference cannot contain, as other libraries do. Replaces the patterns in a JSON Pointer
    /// through `patternProperties` by their translations.
    fn rewrite_reference(&self, reference: &mut String) {
        let Some((base, pointer)) = reference.split_once('#') else {
            *reference = uri_part(reference, b"[]");
            return;
        };
        let (base, pointer) = (uri_part(base, b"[]"), uri_part(pointer, b""));
        let mut rewritten = format!("{base}#");
        let mut is_pattern = false;
        for (at, part) in pointer.split('/').enumerate() {
            rewritten.push_str(if at == 0 { "" } else { "/" });
            match is_pattern.then(|| self.translate(&decoded(part))).flatten() {
                Some(name) => rewritten.push_str(&encoded(&name)),
                None => rewritten.push_str(part),
            }
            is_pattern = !is_pattern && part == "patternProperties";
        }
        *reference = rewritten;
    }
}

/// Percent-encodes the characters of a part of a URI reference that are neither allowed in a fragment (RFC 3986, section
/// 3.5) nor in `more`. Leaves existing escapes unchanged.
fn uri_part(part: &str, more: &[u8]) -> String {
    let bytes = part.as_bytes();
    let is_escape = |at: usize| bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
    percent_encoded(part, |at, byte| match byte {
        b'%' => is_escape(at),
        byte => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?".contains(&byte) || more.contains(&byte),
    })
}

/// Percent-encodes the bytes of a text for which `is_plain` is false.
fn percent_encoded(text: &str, is_plain: impl Fn(usize, u8) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        match is_plain(at, byte) {
            true => encoded.push(char::from(byte)),
            false => _ = write!(encoded, "%{byte:02X}"),
        }
    }
    encoded
}

/// Decodes a part of a JSON Pointer in a URI fragment (RFC 6901, section 6).
pub(crate) fn decoded(part: &str) -> String {
    let bytes = part.as_bytes();
    let (mut name, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let hex = (*byte == b'%').then(|| part.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok())).flatten();
        name.push(hex.unwrap_or(*byte));
        at += if hex.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&name).replace("~1", "/").replace("~0", "~")
}

fn encoded(name: &str) -> String {
    percent_encoded(&name.replace('~', "~0").replace('/', "~1"), |_, byte| byte.is_ascii_alphanumeric() || byte == b'~')
}

/// Translates a pattern for an engine. Returns `None` if ECMAScript does not compile it with the flag `u`; the engine
/// then reads it unchanged.
fn translate(pattern: &str, engine: Engine) -> Option<String> {
    let mut reader = Reader { engine, rest: pattern, out: String::with_capacity(pattern.len()), groups: names_of_groups(pattern) };
    while let Some(next) = reader.next() {
        match next {
            '.' => reader.push_class(&complement(LINE_END)),
            '[' => reader.class()?,
            '\\' => reader.escape()?,
            // Other groups with `(?` are invalid in ECMAScript, or too new for the engines of many clients.
            '(' if reader.rest.starts_with('?') => {
                let kinds = ["?:", "?=", "?!", "?<=", "?<!", "?<"];
                let kind = kinds.into_iter().find(|kind| reader.rest.starts_with(kind))?;
                reader.rest = &reader.rest[kind.len()..];
                reader.out.push('(');
                reader.out.push_str(kind);
            }
            other => reader.out.push(other),
        }
    }
    Some(reader.out)
}

/// A set of code points, or a class that an engine knows by name.
enum Item {
    One(u32),
    Ranges(Vec<(u32, u32)>),
    Named(String),
}

/// Returns the names of the capturing groups in their order, empty for a group without a name.
fn names_of_groups(pattern: &str) -> Vec<&str> {
    let (mut names, mut in_class, mut rest) = (vec![], false, pattern);
    while let Some(next) = rest.chars().next() {
        rest = &rest[next.len_utf8()..];
        match next {
            '\\' => rest = rest.chars().next().map_or("", |escaped| &rest[escaped.len_utf8()..]),
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if in_class => {}
            '(' if !rest.starts_with('?') => names.push(""),
            '(' if !rest.starts_with("?<=") && !rest.starts_with("?<!") => {
                names.extend(rest.strip_prefix("?<").and_then(|named| named.split_once('>')).map(|(name, _)| name));
            }
            _ => {}
        }
    }
    names
}

struct Reader<'p> {
    engine: Engine,
    rest: &'p str,
    out: String,
    /// The names of the capturing groups.
    groups: Vec<&'p str>,
}

impl<'p> Reader<'p> {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    /// Takes the text before `end`, and `end` itself.
    fn until(&mut self, end: char) -> Option<&'p str> {
        let (before, rest) = self.rest.split_once(end)?;
        self.rest = rest;
        Some(before)
    }

    fn hex(&mut self, digits: usize) -> Option<u32> {
        let (hex, rest) = self.rest.split_at_checked(digits)?;
        self.rest = rest;
        hex_digits(hex)
    }

    /// Translates an escape outside of a class. The backslash has been read.
    fn escape(&mut self) -> Option<()> {
        match self.rest.chars().next()? {
            next @ ('b' | 'B') => {
                self.next();
                // In ECMAScript, a word consists of ASCII characters.
                self.out.push_str(match (self.engine, next) {
                    (Engine::Linear, 'b') => "(?-u:\\b)",
                    (Engine::Linear, _) => "(?-u:\\B)",
                    (Engine::Backtracking, 'b') => "(?:(?<=[0-9A-Za-z_])(?![0-9A-Za-z_])|(?<![0-9A-Za-z_])(?=[0-9A-Za-z_]))",
                    (Engine::Backtracking, _) => "(?:(?<=[0-9A-Za-z_])(?=[0-9A-Za-z_])|(?<![0-9A-Za-z_])(?![0-9A-Za-z_]))",
                });
            }
            // A backreference.
            next @ '1'..='9' => {
                self.next();
                self.out.push('\\');
                self.out.push(next);
            }
            // The check of the format `regex` knows backreferences by number only.
            'k' => {
                self.rest = self.rest.strip_prefix("k<")?;
                let name = self.until('>')?;
                let group = self.groups.iter().position(|group| *group == name && !name.is_empty())? + 1;
                _ = write!(self.out, "(?:\\{group})");
            }
            _ => match self.escaped()? {
                Item::One(code) => self.push_one(code),
                Item::Ranges(ranges) => self.push_class(&ranges),
                Item::Named(name) => self.out.push_str(&name),
            },
        }
        Some(())
    }

    /// Parses an escape inside or outside of a class. The backslash has been read.
    fn escaped(&mut self) -> Option<Item> {
        Some(match self.next()? {
            'd' => Item::Ranges(DIGIT.to_vec()),
            'D' => Item::Ranges(complement(DIGIT)),
            'w' => Item::Ranges(WORD.to_vec()),
            'W' => Item::Ranges(complement(WORD)),
            's' => Item::Ranges(SPACE.to_vec()),
            'S' => Item::Ranges(complement(SPACE)),
            case @ ('p' | 'P') => {
                self.rest = self.rest.strip_prefix('{')?;
                Item::Named(format!("\\{case}{{{}}}", self.until('}')?))
            }
            't' => Item::One(0x09),
            'n' => Item::One(0x0a),
            'v' => Item::One(0x0b),
            'f' => Item::One(0x0c),
            'r' => Item::One(0x0d),
            '0' if !self.rest.starts_with(|next: char| next.is_ascii_digit()) => Item::One(0),
            'c' => Item::One(self.next().filter(char::is_ascii_alphabetic).map(|letter| u32::from(letter) % 32)?),
            'x' => Item::One(self.hex(2)?),
            'u' if self.rest.starts_with('{') => {
                self.next();
                Item::One(hex_digits(self.until('}')?).filter(|code| *code <= LAST)?)
            }
            'u' => {
                let first = self.hex(4)?;
                let second = || self.rest.strip_prefix("\\u").and_then(|rest| hex_digits(rest.get(..4)?));
                match (first, (0xd800..0xdc00).contains(&first).then(second).flatten()) {
                    (high, Some(low @ 0xdc00..=0xdfff)) => {
                        self.rest = &self.rest[6..];
                        Item::One(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00))
                    }
                    _ => Item::One(first),
                }
            }
            other if other.is_ascii_alphanumeric() => return None,
            other => Item::One(other.into()),
        })
    }

    /// Translates a class. Its opening bracket has been read.
    fn class(&mut self) -> Option<()> {
        let negated = self.rest.starts_with('^');
        if negated {
            self.next();
        }
        let (mut ranges, mut names) = (vec![], String::new());
        loop {
            let first = match self.next()? {
                ']' => break,
                first => self.item(first)?,
            };
            let is_range = self.rest.starts_with('-') && !self.rest.starts_with("-]");
            match first {
                Item::One(first) if is_range => {
                    self.next();
                    let last = self.next()?;
                    match self.item(last)? {
                        Item::One(last) => ranges.push((first, last)),
                        // A hyphen before a set makes no range.
                        Item::Ranges(more) => ranges.extend([(first, first), HYPHEN].into_iter().chain(more)),
                        Item::Named(_) => return None,
                    }
                }
                Item::One(code) => ranges.push((code, code)),
                Item::Ranges(more) => ranges.extend(more),
                Item::Named(name) => names.push_str(&name),
            }
        }
        if names.is_empty() {
            let ranges = if negated { complement(&ranges) } else { ranges };
            self.push_class(&ranges);
        } else {
            self.push_brackets(negated, &ranges, &names);
        }
        Some(())
    }

    fn item(&mut self, first: char) -> Option<Item> {
        match first {
            '\\' if self.rest.starts_with('b') => self.next().map(|_| Item::One(0x08)),
            '\\' => self.escaped(),
            other => Some(Item::One(other.into())),
        }
    }

    fn push_one(&mut self, code: u32) {
        match char::from_u32(code) {
            Some(char) if char.is_alphanumeric() => self.out.push(char),
            Some(_) => _ = write!(self.out, "\\u{{{code:x}}}"),
            None => self.push_class(&[]),
        }
    }

    fn push_class(&mut self, ranges: &[(u32, u32)]) {
        if ranges.iter().all(|range| within_text(*range).is_none()) {
            // The class matches nothing.
            self.push_brackets(true, &[(0, LAST)], "");
        } else {
            self.push_brackets(false, ranges, "");
        }
    }

    fn push_brackets(&mut self, negated: bool, ranges: &[(u32, u32)], names: &str) {
        self.out.push_str(if negated { "[^" } else { "[" });
        for (first, last) in ranges.iter().copied().filter_map(within_text) {
            _ = write!(self.out, "\\u{{{first:x}}}");
            if last > first {
                _ = write!(self.out, "-\\u{{{last:x}}}");
            }
        }
        self.out.push_str(names);
        self.out.push(']');
    }
}

/// Parses hexadecimal digits, without a sign.
fn hex_digits(digits: &str) -> Option<u32> {
    u32::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Removes surrogates from the ends of a range. Returns `None` if nothing is left.
fn within_text((first, last): (u32, u32)) -> Option<(u32, u32)> {
    let is_half = |code: u32| (SURROGATES.0..=SURROGATES.1).contains(&code);
    let first = if is_half(first) { SURROGATES.1 + 1 } else { first };
    let last = if is_half(last) { SURROGATES.0 - 1 } else { last };
    (first <= last).then_some((first, last))
}

/// Returns all code points outside of the ranges.
fn complement(ranges: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let (mut others, mut next) = (vec![], 0);
    for (first, last) in sorted {
        if first > next {
            others.push((next, first - 1));
        }
        next = next.max(last + 1);
    }
    if next <= LAST {
        others.push((next, LAST));
    }
    others
}
