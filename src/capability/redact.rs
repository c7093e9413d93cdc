//! Hides the values of granted secrets in texts that leave the host.
//!
//! It finds values of at least [`MIN_BYTES`] bytes, plain and in base64, base64url, hex and percent-encoding, each also
//! with JSON escapes in any spelling, for example `\/` or `\u0073`. It does *not* stop a handler that encodes a secret
//! in another way: grants decide what a handler may know, not this module.
//!
//! JSON is not parsed, because a handler can read JSON that this host's parser rejects, for example `1e999`. Only its
//! names, strings and numbers are searched, and every other byte stays. If the search is not possible, the result is an
//! error, never the text itself.

mod escapes;
mod pieces;
mod tokens;

use std::{
    cmp::Reverse,
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::OnceLock,
};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use bytes::Bytes;

pub use self::pieces::PieceRedactor;
use self::{
    escapes::{complete_until, origins, unescape},
    tokens::{MalformedJson, Token, Tokens, in_number},
};

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
    /// Whether a JSON number can contain a form.
    finds_numbers: bool,
    ignores_case: bool,
    /// Built on first use.
    in_either_case: OnceLock<Box<Redactor>>,
}

impl Redactor {
    /// Creates a redactor for `values` and their usual encodings.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut forms = BTreeSet::new();
        for value in values.into_iter().filter(|value| value.len() >= MIN_BYTES) {
            add_forms(value, &mut forms);
        }
        Self::of_forms(forms, false)
    }

    /// Returns a redactor that finds the same values with their ASCII letters in either case, for texts that contain
    /// names of hosts, headers or media types.
    pub fn ignoring_case(&self) -> &Self {
        self.in_either_case.get_or_init(|| {
            let forms = self.forms.iter().flatten().map(|form| form.to_ascii_lowercase()).collect();
            Box::new(Self::of_forms(forms, true))
        })
    }

    fn of_forms(forms: BTreeSet<String>, ignores_case: bool) -> Self {
        let mut heads = BTreeMap::<Vec<u8>, Vec<String>>::new();
        for form in forms.into_iter().filter(|form| form.len() >= MIN_BYTES) {
            let head = form.as_bytes()[..form.len().min(HEAD_BYTES)].to_vec();
            heads.entry(head).or_default().push(form);
        }
        let (heads, forms): (Vec<_>, Vec<_>) = heads.into_iter().unzip();
        let finder = if heads.is_empty() { None } else { Some(finder_of(&heads).expect("heads are far below the finder's limits")) };
        let finds_numbers = heads.iter().any(|head| head.iter().all(|byte| in_number(*byte)));
        Self { finder, forms, finds_numbers, ignores_case, in_either_case: OnceLock::new() }
    }

    /// Returns whether there is nothing to search for.
    pub fn is_empty(&self) -> bool {
        self.finder.is_none()
    }

    /// Returns whether `bytes` contains a value in any form.
    fn finds_in(&self, bytes: &[u8]) -> bool {
        !self.places_in(bytes, false).is_empty()
    }

    /// Returns `bytes` with the values replaced, or `None` if it contains none.
    pub fn redact_bytes(&self, bytes: &[u8]) -> Option<Bytes> {
        let places = self.places_in(bytes, false);
        if places.is_empty() { None } else { Some(replace(bytes, places).into()) }
    }

    /// Returns JSON text with the values in its names, strings and numbers replaced, or `None` if it contains none. A
    /// number that contains one becomes the mark. Everything else stays as it is.
    ///
    /// # Errors
    ///
    /// [`MalformedJson`] if a string is invalid. The text can then contain a value, so do not pass it on.
    pub fn redact_json_text(&self, json: &[u8]) -> Result<Option<Bytes>, MalformedJson> {
        let Some(finder) = &self.finder else { return Ok(None) };
        // Without escapes, each string is a part of the text as it is.
        if !self.finds_numbers && !json.contains(&b'\\') && self.found(finder, json, false).is_empty() {
            return Ok(None);
        }
        let (mut clean, mut done) = (Vec::new(), 0);
        for token in Tokens::new(json) {
            let (place, replacement) = match token? {
                Token::String(place) => {
                    let replacement = self.redacted_string(&json[place.clone()])?;
                    (place, replacement)
                }
                Token::Number(place) => {
                    let is_found = self.finds_number(&json[place.clone()]);
                    (place, is_found.then(|| format!("\"{MARK}\"")))
                }
            };
            if let Some(replacement) = replacement {
                clean.extend_from_slice(&json[done..place.start]);
                clean.extend_from_slice(replacement.as_bytes());
                done = place.end;
            }
        }
        if done == 0 {
            return Ok(None);
        }
        clean.extend_from_slice(&json[done..]);
        Ok(Some(clean.into()))
    }

    /// Returns the text between the quotes of a JSON string with the values replaced, or `None` if it contains none.
    fn redacted_string(&self, text: &[u8]) -> Result<Option<String>, MalformedJson> {
        let places = match unescape(text) {
            Some(string) => origins(text, self.places_in(&string, false)),
            None => self.places_in(text, false),
        };
        if places.is_empty() {
            return Ok(None);
        }
        let text = std::str::from_utf8(text).map_err(|_| MalformedJson)?;
        Ok(Some(replace_text(text, places).into_owned()))
    }

    /// Returns whether a JSON number contains a value, as it is written or as programs print it.
    fn finds_number(&self, number: &[u8]) -> bool {
        let printed = || Some(std::str::from_utf8(number).ok()?.parse::<f64>().ok()?.to_string());
        self.finds_numbers && (self.finds_in(number) || printed().is_some_and(|number| self.finds_in(number.as_bytes())))
    }

    /// Returns `text` with the values replaced.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        replace_text(text, self.places_in(text.as_bytes(), false))
    }

    /// Like [`Redactor::redact`], for a text that was cut to a length: hides a value at the end even if it was cut off.
    pub fn redact_cut<'t>(&self, text: &'t str) -> Cow<'t, str> {
        replace_text(text, self.places_in(text.as_bytes(), true))
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

    /// Returns whether a JSON number can contain a value. A search for them needs the whole text.
    pub(crate) fn finds_numbers(&self) -> bool {
        self.finds_numbers
    }

    /// Returns the length of the part of `text` that can be searched before more of the text is known: no value begins in
    /// it and ends after it.
    fn searchable(&self, text: &[u8]) -> usize {
        let Some(finder) = &self.finder else { return text.len() };
        let places_of = |text: &[u8]| {
            let mut places = self.found(finder, text, false);
            places.extend(self.begun_at_end(text, 1));
            places
        };
        let mut places = places_of(text);
        if let Some(unescaped) = unescape(text) {
            places.extend(origins(text, places_of(&unescaped)));
        }
        let mut until = complete_until(text);
        // In descending order, one pass finds all places that overlap one another.
        places.sort_unstable_by_key(|place| Reverse(place.start));
        for place in places {
            if place.start < until && (place.end > until || place.end == text.len()) {
                until = place.start;
            }
        }
        until
    }

    /// Returns where values are in `text`, as they are or with JSON escapes.
    fn places_in(&self, text: &[u8], is_cut: bool) -> Vec<Range<usize>> {
        let Some(finder) = &self.finder else { return Vec::new() };
        let mut places = self.found(finder, text, is_cut);
        if let Some(unescaped) = unescape(text) {
            places.extend(origins(text, self.found(finder, &unescaped, is_cut)));
        }
        places
    }

    /// Returns the ranges of the values. If the text was cut, also returns the range of a value that was cut at its
    /// end.
    ///
    /// If a text begins like a value and then continues differently, the range is as long as the value. If it had only
    /// the equal part, a handler could guess the rest of a value with a known head, for example of a PEM key, byte by
    /// byte: in the answer of its own upstream, it would see where the mark ends.
    ///
    /// A head within a match of the same head is skipped, which keeps this linear for repetitive texts. A head within a
    /// match of another head is not skipped, because its value can extend beyond that match.
    fn found(&self, finder: &AhoCorasick, text: &[u8], is_cut: bool) -> Vec<Range<usize>> {
        let lower = self.ignores_case.then(|| text.to_ascii_lowercase());
        let text = lower.as_deref().unwrap_or(text);
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut ends = BTreeMap::new();
        for head in finder.find_overlapping_iter(text) {
            if ends.get(&head.pattern()).is_some_and(|end| head.end() <= *end) {
                continue;
            }
            let rest = &text[head.start()..];
            let same = |form: &String| form.as_bytes().iter().zip(rest).take_while(|(a, b)| a == b).count();
            let forms = &self.forms[head.pattern().as_usize()];
            let equal = forms.iter().map(same).max().unwrap_or(0);
            let is_whole = forms.iter().any(|form| form.len() == equal && rest.starts_with(form.as_bytes()));
            let hidden = if is_whole { equal } else { forms.iter().map(String::len).max().unwrap_or(0) };
            ranges.push(head.start()..text.len().min(head.start() + hidden));
            // Not the end of the range: a whole value can begin within it.
            ends.insert(head.pattern(), head.start() + equal);
        }
        if is_cut {
            ranges.extend(self.begun_at_end(text, MIN_BYTES));
        }
        ranges
    }

    /// Returns where a value begins whose rest was cut off, with at least `min` bytes of it.
    fn begun_at_end(&self, text: &[u8], min: usize) -> Option<Range<usize>> {
        // A value with its whole head in the text is found without this.
        let from = text.len().saturating_sub(HEAD_BYTES);
        let until = (text.len() + 1).saturating_sub(min);
        let started = |start: &usize| self.forms.iter().flatten().any(|form| form.as_bytes().starts_with(&text[*start..]));
        (from..until).find(started).map(|start| start..text.len())
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
    // As a name in a JSON pointer (RFC 6901, section 3).
    forms.insert(value.replace('~', "~0").replace('/', "~1"));
    forms.insert(hex::encode(bytes));
    forms.insert(hex::encode_upper(bytes));
    for plain in [UNRESERVED_URI, UNRESERVED_FORM, UNRESERVED_STRICT, UNRESERVED_SENT] {
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
/// Characters that stay in a value which this host puts into a URL.
pub(crate) const UNRESERVED_SENT: &[u8] = b"-_.~:@";

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
