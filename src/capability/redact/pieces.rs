//! Redacts bytes that come in pieces, such as a streamed answer.

use std::{cmp::Reverse, iter};

use bytes::Bytes;

use super::{HEAD_BYTES, Redactor, origins, replace, unescape};

/// Maximum bytes to hold back. Beyond that, all of them are passed on, without what can be a value.
const MAX_HELD: usize = 32 << 10;

/// Maximum length of an escape that is incomplete: `\u` and three digits.
const ESCAPE_BYTES: usize = 5;

/// The bytes that are held back, because a value can begin there.
#[derive(Debug, Default)]
pub struct PieceRedactor {
    held: Vec<u8>,
}

impl PieceRedactor {
    /// Returns the next bytes with the values replaced. Holds back the end while a value can continue there.
    pub fn next(&mut self, redactor: &Redactor, piece: Bytes) -> Bytes {
        if redactor.is_empty() {
            return piece;
        }
        self.held.extend_from_slice(&piece);
        let mut places = redactor.places_in(&self.held, false);
        let mut until = redactor.begun_from(&self.held);
        if let Some(place) = places.iter().filter(|place| place.end >= self.held.len()).min_by_key(|place| place.start) {
            until = until.min(place.start);
        }
        // A place that is partly held back is held back as a whole.
        places.sort_unstable_by_key(|place| Reverse(place.start));
        for place in &places {
            if place.start < until && until < place.end {
                until = place.start;
            }
        }
        if self.held.len() - until > MAX_HELD {
            return self.rest(redactor);
        }
        places.retain(|place| place.end <= until);
        let rest = self.held.split_off(until);
        let ready = std::mem::replace(&mut self.held, rest);
        if places.is_empty() { ready.into() } else { replace(&ready, places).into() }
    }

    /// Returns the bytes that were held back, without a value that was cut off.
    pub fn rest(&mut self, redactor: &Redactor) -> Bytes {
        let held = std::mem::take(&mut self.held);
        let places = redactor.places_in(&held, true);
        if places.is_empty() { held.into() } else { replace(&held, places).into() }
    }
}

impl Redactor {
    /// Returns the position from which on a value, or an escape, can have begun at the end of the text.
    fn begun_from(&self, text: &[u8]) -> usize {
        let plain = self.begins_at(text).unwrap_or(text.len());
        let Some(unescaped) = unescape(text) else { return plain };
        let escaped = self.begins_at(&unescaped).map(|start| origins(text, iter::once(start..unescaped.len()).collect()));
        let escaped = escaped.and_then(|places| places.first().map(|place| place.start)).unwrap_or(text.len());
        plain.min(escaped).min(incomplete_escape(text).unwrap_or(text.len()))
    }

    /// Returns where the text ends with the begin of a value. A value with its whole head in the text is found anyway.
    fn begins_at(&self, text: &[u8]) -> Option<usize> {
        let begins = |start: &usize| self.forms.iter().flatten().any(|form| form.as_bytes().starts_with(&text[*start..]));
        (text.len().saturating_sub(HEAD_BYTES)..text.len()).find(begins)
    }
}

/// Returns the position of an escape that continues after the text.
fn incomplete_escape(text: &[u8]) -> Option<usize> {
    let from = text.len().saturating_sub(ESCAPE_BYTES);
    let at = from + text[from..].iter().rposition(|byte| *byte == b'\\')?;
    let is_incomplete = match &text[at + 1..] {
        [] => true,
        [b'u', digits @ ..] => digits.len() < 4 && digits.iter().all(u8::is_ascii_hexdigit),
        _ => false,
    };
    is_incomplete.then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "correct-horse-battery-staple-and-forty-more-bytes";

    fn redacted(pieces: &[&[u8]]) -> String {
        let (redactor, mut stream) = (Redactor::new([SECRET]), PieceRedactor::default());
        let mut all = Vec::new();
        for piece in pieces {
            all.extend_from_slice(&stream.next(&redactor, Bytes::copy_from_slice(piece)));
        }
        all.extend_from_slice(&stream.rest(&redactor));
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn value_is_hidden_wherever_the_pieces_are_cut() {
        let escaped: String = SECRET.bytes().map(|byte| format!("\\u{byte:04x}")).collect();
        for form in [SECRET.to_owned(), hex::encode(SECRET), escaped] {
            let text = format!("data: {form} end\n\n");
            for at in 0..=text.len() {
                let (one, other) = text.as_bytes().split_at(at);
                assert_eq!(redacted(&[one, other]), "data: [redacted] end\n\n", "cut at {at} of {form}");
            }
            let bytes: Vec<_> = text.as_bytes().chunks(1).collect();
            assert_eq!(redacted(&bytes), "data: [redacted] end\n\n", "{form}");
        }
    }

    #[test]
    fn other_bytes_pass_at_once() {
        let (redactor, mut stream) = (Redactor::new([SECRET]), PieceRedactor::default());
        for piece in ["data: a\n\n", "data: \\n\"}\n\n", ""] {
            assert_eq!(stream.next(&redactor, Bytes::from_static(piece.as_bytes())), piece.as_bytes());
        }
        assert!(stream.next(&redactor, Bytes::from_static(b"corr")).is_empty());
        assert_eq!(stream.next(&redactor, Bytes::from_static(b"al")), &b"corral"[..]);
        let empty = Redactor::new([]);
        assert_eq!(stream.next(&empty, Bytes::from_static(b"c")), &b"c"[..]);
    }

    #[test]
    fn held_bytes_are_limited() {
        // Each value ends where the other one begins, so that all places are one.
        let redactor = Redactor::new(["abababcdcdcd", "cdcdcdababab"]);
        let mut stream = PieceRedactor::default();
        let (mut given, mut passed) = (0, Vec::new());
        for _ in 0..64 {
            let piece = "abababcdcdcd".repeat(1 << 10);
            given += piece.len();
            passed.extend_from_slice(&stream.next(&redactor, piece.into()));
            assert!(stream.held.len() <= MAX_HELD);
        }
        passed.extend_from_slice(&stream.rest(&redactor));
        let passed = String::from_utf8(passed).unwrap();
        assert!(passed.len() < given && !passed.contains("abababcdcdcd"), "{} bytes", passed.len());
    }
}
