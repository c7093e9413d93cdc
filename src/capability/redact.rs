//! Hides the values of granted secrets in texts that leave the host.
//!
//! It finds a value of [`MIN_BYTES`] or more as it is, and inside JSON strings, base64, base64url,
//! hex and percent-encoding. It does *not* stop a handler that encodes a secret in its own way:
//! what a handler may know is decided by what it is granted, not here.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::Range,
};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use bytes::Bytes;

/// Shortest value that is looked for, in bytes: shorter ones are found in innocent texts.
const MIN_BYTES: usize = 8;
/// What stands in a value's place.
const MARK: &str = "[redacted]";

/// How much of a form is looked for; the rest is compared where that is found. Keeps the finder
/// small when values are long.
const HEAD_BYTES: usize = 32;

/// Finds the values of one call's secrets.
pub struct Redactor {
    finder: Option<AhoCorasick>,
    /// For each of the finder's patterns, what it is the head of.
    forms: Vec<Vec<String>>,
}

impl Redactor {
    /// Looks for `values` and their usual encodings.
    #[must_use]
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

    /// True when there is nothing to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.finder.is_none()
    }

    /// Whether a value, in any of its forms, may be in `bytes`.
    #[must_use]
    pub fn finds_in(&self, bytes: &[u8]) -> bool {
        self.finder.as_ref().is_some_and(|finder| finder.is_match(bytes))
    }

    /// `bytes` without the values; `None` when none is in them.
    #[must_use]
    pub fn redact_bytes(&self, bytes: &[u8]) -> Option<Bytes> {
        let places = self.found(self.finder.as_ref()?, bytes);
        if places.is_empty() { None } else { Some(replace(bytes, places).into()) }
    }

    /// JSON text without the values, as [`Redactor::redact_json`]; `None` when it is no JSON.
    #[must_use]
    pub fn redact_json_bytes(&self, json: &[u8]) -> Option<Bytes> {
        let value = serde_json::from_slice(json).ok()?;
        Some(self.redact_json(value).to_string().into())
    }

    /// `text` without the values.
    #[must_use]
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.finder {
            Some(finder) => replace_text(text, self.found(finder, text.as_bytes())),
            None => Cow::Borrowed(text),
        }
    }

    /// Like [`Redactor::redact`], for a text that was cut to a length: a value whose end was cut
    /// off is hidden too.
    #[must_use]
    pub fn redact_cut<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(finder) = &self.finder else { return Cow::Borrowed(text) };
        let mut places = self.found(finder, text.as_bytes());
        // With its whole head in the text, a value was found above.
        let from = text.len().saturating_sub(HEAD_BYTES);
        let until = (text.len() + 1).saturating_sub(MIN_BYTES);
        let begun = |start: &usize| self.forms.iter().flatten().any(|form| form.as_bytes().starts_with(&text.as_bytes()[*start..]));
        if let Some(start) = (from..until).filter(|&at| text.is_char_boundary(at)).find(begun) {
            places.push(start..text.len());
        }
        replace_text(text, places)
    }

    /// Every string of `value`, names included, without the values; a number with one in it becomes the mark.
    #[must_use]
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

    /// Where values are, as far as each goes on. A head amid a place of the same head is passed
    /// over, which keeps this linear for texts that repeat themselves; amid a place of another
    /// it is not, for its value may go on behind that.
    fn found(&self, finder: &AhoCorasick, text: &[u8]) -> Vec<Range<usize>> {
        let mut places: Vec<Range<usize>> = Vec::new();
        let mut ends = BTreeMap::new();
        for head in finder.find_overlapping_iter(text) {
            if ends.get(&head.pattern()).is_some_and(|end| head.end() <= *end) {
                continue;
            }
            let rest = &text[head.start()..];
            let same = |form: &String| form.as_bytes().iter().zip(rest).take_while(|(a, b)| a == b).count();
            let longest = self.forms[head.pattern().as_usize()].iter().map(same).max().unwrap_or(0);
            places.push(head.start()..head.start() + longest);
            ends.insert(head.pattern(), head.start() + longest);
        }
        places
    }
}

/// The kind that is quickest to make: it lives for one call.
fn finder_of(heads: &[Vec<u8>]) -> Result<AhoCorasick, aho_corasick::BuildError> {
    AhoCorasick::builder().kind(Some(AhoCorasickKind::NoncontiguousNFA)).build(heads)
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("forms", &self.forms.len()).finish_non_exhaustive()
    }
}

/// A character that is hidden in part is hidden whole.
fn replace_text(text: &str, mut places: Vec<Range<usize>>) -> Cow<'_, str> {
    if places.is_empty() {
        return Cow::Borrowed(text);
    }
    for place in &mut places {
        *place = text.floor_char_boundary(place.start)..text.ceil_char_boundary(place.end);
    }
    Cow::Owned(String::from_utf8(replace(text.as_bytes(), places)).expect("cut between characters only"))
}

fn replace(bytes: &[u8], mut places: Vec<Range<usize>>) -> Vec<u8> {
    places.sort_by_key(|place| place.start);
    let (mut clean, mut done) = (Vec::with_capacity(bytes.len()), 0);
    for place in places {
        if place.start >= done {
            clean.extend_from_slice(&bytes[done..place.start]);
            clean.extend_from_slice(MARK.as_bytes());
        }
        done = done.max(place.end);
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

/// The digits of a base64 text that only depend on the value: without those it shares with the
/// `shift` bytes before it, and without the last where it would share that with bytes after it.
fn inner_digits(encoded: &str, shift: usize, bytes: usize) -> &str {
    let start = (shift * 8).div_ceil(6);
    let end = bytes * 8 / 6;
    &encoded[start..end]
}

/// What `encodeURIComponent` leaves as it is.
const UNRESERVED_URI: &[u8] = b"-_.!~*'()";
/// What form encoding leaves.
const UNRESERVED_FORM: &[u8] = b"-_.*";
/// What RFC 3986 leaves.
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
