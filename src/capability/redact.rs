//! Hides the values of granted secrets in texts that leave the host.
//!
//! It finds values of at least [`MIN_BYTES`] bytes, plain and in JSON strings, base64, base64url, hex and
//! percent-encoding. It does *not* stop a handler that encodes a secret in another way: grants decide what a handler
//! may know, not this module.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use bytes::Bytes;

/// Minimum length of a value that is searched for, in bytes. Shorter ones would occur in innocent texts.
const MIN_BYTES: usize = 8;
/// The text that replaces a value.
const MARK: &str = "[redacted]";

/// Maximum length of the part of a form that is searched for; the rest is compared where that part is found. It keeps
/// the finder small for long values.
const HEAD_BYTES: usize = 32;

/// Finds the values of one call's secrets.
pub struct Redactor {
    finder: Option<AhoCorasick>,
    /// For each pattern of the finder, the forms that start with it.
    forms: Vec<Vec<String>>,
}

impl Redactor {
    /// Creates a redactor for `values` and their usual encodings.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut forms = BTreeSet::new();
        for value in values.into_iter().filter(|value| value.len() >= MIN_BYTES) {
            add_forms(value, &mut forms);
        }
        let mut heads = BTreeMap::<Vec<u8>, Vec<String>>::new();
        for form in forms.into_iter().filter(|form| form.len() >= MIN_BYTES) {
            let head = form.as_bytes()[..form.len().min(HEAD_BYTES)].to_vec();
            heads.entry(head).or_default().push(form);
        }
        let (heads, forms): (Vec<_>, Vec<_>) = heads.into_iter().unzip();
        let finder = if heads.is_empty() { None } else { Some(finder_of(&heads).expect("heads are far below the finder's limits")) };
        Self { finder, forms }
    }

    /// Returns whether there is nothing to search for.
    pub fn is_empty(&self) -> bool {
        self.finder.is_none()
    }

    /// Returns whether `bytes` may contain a value in any form.
    pub fn finds_in(&self, bytes: &[u8]) -> bool {
        self.finder.as_ref().is_some_and(|finder| finder.is_match(bytes))
    }

    /// Returns `bytes` with the values replaced, or `None` if it contains none.
    pub fn redact_bytes(&self, bytes: &[u8]) -> Option<Bytes> {
        let ranges = self.found(self.finder.as_ref()?, bytes);
        if ranges.is_empty() { None } else { Some(replace(bytes, ranges).into()) }
    }

    /// Redacts JSON text like [`Redactor::redact_json`]. Returns `None` if it is not JSON.
    pub fn redact_json_bytes(&self, json: &[u8]) -> Option<Bytes> {
        let value = serde_json::from_slice(json).ok()?;
        Some(self.redact_json(value).to_string().into())
    }

    /// Returns `text` with the values replaced.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.finder {
            Some(finder) => replace_text(text, self.found(finder, text.as_bytes())),
            None => Cow::Borrowed(text),
        }
    }

    /// Like [`Redactor::redact`], for a text that was cut to a length: hides a value at the end even if it was cut off.
    pub fn redact_cut<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(finder) = &self.finder else { return Cow::Borrowed(text) };
        let mut ranges = self.found(finder, text.as_bytes());
        // A value with its whole head in the text was already found above.
        let from = text.len().saturating_sub(HEAD_BYTES);
        let until = (text.len() + 1).saturating_sub(MIN_BYTES);
        let started = |start: &usize| self.forms.iter().flatten().any(|form| form.as_bytes().starts_with(&text.as_bytes()[*start..]));
        if let Some(start) = (from..until).filter(|&at| text.is_char_boundary(at)).find(started) {
            ranges.push(start..text.len());
        }
        replace_text(text, ranges)
    }

    /// Like [`Redactor::redact`], for a text of at most `max` bytes that a worker has cut there, possibly within a
    /// character or a secret. `clean` is the text without control characters.
    pub(crate) fn redact_limited(&self, text: &str, clean: &str, max: u64) -> String {
        let is_cut = text.len() as u64 + 4 >= max;
        if is_cut { self.redact_cut(clean) } else { self.redact(clean) }.into_owned()
    }

    /// Replaces the values in every string of `value`, including names. A number that contains one becomes the mark.
    pub fn redact_json(&self, value: serde_json::Value) -> serde_json::Value {
        use serde_json::Value;
        match value {
            _ if self.finder.is_none() => value,
            Value::String(text) => Value::String(self.redact(&text).into_owned()),
            Value::Array(items) => items.into_iter().map(|item| self.redact_json(item)).collect(),
            Value::Object(members) => {
                members.into_iter().map(|(name, item)| (self.redact(&name).into_owned(), self.redact_json(item))).collect()
            }
            Value::Number(ref number) if self.finds_in(number.to_string().as_bytes()) => Value::from(MARK),
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }

    /// Returns where values are, each to its full extent. A head within a match of the same head is skipped, which
    /// keeps this linear for repetitive texts. A head within a match of another head is not skipped, because its value
    /// may extend beyond that match.
    fn found(&self, finder: &AhoCorasick, text: &[u8]) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut ends = BTreeMap::new();
        for head in finder.find_overlapping_iter(text) {
            if ends.get(&head.pattern()).is_some_and(|end| head.end() <= *end) {
                continue;
            }
            let rest = &text[head.start()..];
            let same = |form: &String| form.as_bytes().iter().zip(rest).take_while(|(a, b)| a == b).count();
            let max_len = self.forms[head.pattern().as_usize()].iter().map(same).max().unwrap_or(0);
            ranges.push(head.start()..head.start() + max_len);
            ends.insert(head.pattern(), head.start() + max_len);
        }
        ranges
    }
}

/// Builds the kind of automaton that is fastest to build, because it lives for one call.
fn finder_of(heads: &[Vec<u8>]) -> Result<AhoCorasick, aho_corasick::BuildError> {
    AhoCorasick::builder().kind(Some(AhoCorasickKind::NoncontiguousNFA)).build(heads)
}

/// Replaces the places. A character that is partly in a place is replaced as a whole.
fn replace_text(text: &str, mut ranges: Vec<Range<usize>>) -> Cow<'_, str> {
    if ranges.is_empty() {
        return Cow::Borrowed(text);
    }
    for range in &mut ranges {
        *range = text.floor_char_boundary(range.start)..text.ceil_char_boundary(range.end);
    }
    Cow::Owned(String::from_utf8(replace(text.as_bytes(), ranges)).expect("cut between characters only"))
}

fn replace(bytes: &[u8], mut ranges: Vec<Range<usize>>) -> Vec<u8> {
    ranges.sort_by_key(|range| range.start);
    let (mut clean, mut done) = (Vec::with_capacity(bytes.len()), 0);
    for range in ranges {
        if range.start >= done {
            clean.extend_from_slice(&bytes[done..range.start]);
            clean.extend_from_slice(MARK.as_bytes());
        }
        done = done.max(range.end);
    }
    clean.extend_from_slice(&bytes[done..]);
    clean
}

fn add_forms(value: &str, forms: &mut BTreeSet<String>) {
    let bytes = value.as_bytes();
    forms.insert(value.to_owned());
    forms.insert(value.trim().to_owned());
    let json = serde_json::Value::from(value).to_string();
    forms.insert(json[1..json.len() - 1].to_owned());
    forms.insert(hex::encode(bytes));
    forms.insert(hex::encode_upper(bytes));
    for plain in [UNRESERVED_URI, UNRESERVED_FORM, UNRESERVED_STRICT] {
        for digits in [b"0123456789ABCDEF", b"0123456789abcdef"] {
            let encoded = percent(bytes, plain, digits);
            forms.insert(encoded.replace("%20", "+"));
            forms.insert(encoded);
        }
    }
    for shift in 0..3 {
        let padded = [&[0; 2][..shift], bytes].concat();
        for encoded in [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)] {
            forms.insert(inner_digits(&encoded, shift, padded.len()).to_owned());
        }
    }
}

/// Returns the base64 digits that depend only on the value: without those shared with the `shift` bytes before it, and
/// without the last one if it is shared with bytes after it.
fn inner_digits(encoded: &str, shift: usize, bytes: usize) -> &str {
    let start = (shift * 8).div_ceil(6);
    let end = bytes * 8 / 6;
    &encoded[start..end]
}

/// Characters that `encodeURIComponent` leaves unchanged.
const UNRESERVED_URI: &[u8] = b"-_.!~*'()";
/// Characters that form encoding leaves unchanged.
const UNRESERVED_FORM: &[u8] = b"-_.*";
/// Characters that RFC 3986 leaves unchanged.
const UNRESERVED_STRICT: &[u8] = b"-_.~";

fn percent(bytes: &[u8], plain: &[u8], digits: &[u8; 16]) -> String {
    let mut text = String::with_capacity(bytes.len() * 3);
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.extend(['%', char::from(digits[usize::from(byte >> 4)]), char::from(digits[usize::from(byte & 15)])]);
        }
    }
    text
}

#[cfg(test)]
mod tests;
