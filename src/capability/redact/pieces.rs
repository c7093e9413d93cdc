//! Hides values in a text that arrives in pieces.

use std::mem;

use bytes::Bytes;

use super::{Redactor, replace};

/// Maximum bytes that are held back. The longest form of a value with each character escaped is far shorter.
const HELD_BYTES: usize = 128 << 10;

/// Holds back the end of a text while it can be the beginning of a value.
#[derive(Debug, Default)]
pub struct PieceRedactor {
    held: Vec<u8>,
}

impl PieceRedactor {
    /// Returns the next part of the text with the values replaced, after `piece` arrived. It is empty if everything was
    /// held back.
    pub fn next(&mut self, redactor: &Redactor, piece: Bytes) -> Bytes {
        if redactor.is_empty() {
            return piece;
        }
        let mut text = mem::take(&mut self.held);
        text.extend_from_slice(&piece);
        let until = redactor.searchable(&text);
        if text.len() - until > HELD_BYTES {
            // A text of overlapping values.
            return redacted(redactor, text);
        }
        self.held = text.split_off(until);
        redacted(redactor, text)
    }

    /// Returns the rest after the last piece, without a value that was cut off there.
    pub fn rest(&mut self, redactor: &Redactor) -> Bytes {
        let held = mem::take(&mut self.held);
        let places = redactor.places_in(&held, true);
        if places.is_empty() { held.into() } else { replace(&held, places).into() }
    }
}

fn redacted(redactor: &Redactor, text: Vec<u8>) -> Bytes {
    redactor.redact_bytes(&text).unwrap_or_else(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "sk-live/Ab\"cdefghijklmnopqrstuvwxyz0123456789";

    /// Redacts a text in pieces of `size` bytes.
    fn in_pieces(redactor: &Redactor, text: &[u8], size: usize) -> Vec<u8> {
        let mut pieces = PieceRedactor::default();
        let mut clean = Vec::new();
        for piece in text.chunks(size) {
            clean.extend_from_slice(&pieces.next(redactor, Bytes::copy_from_slice(piece)));
        }
        clean.extend_from_slice(&pieces.rest(redactor));
        clean
    }

    #[test]
    fn a_value_is_hidden_wherever_pieces_end() {
        let redactor = Redactor::new([SECRET]);
        let escaped: String = SECRET.chars().map(|character| format!("\\u{:04x}", u32::from(character))).collect();
        for form in [SECRET.to_owned(), serde_json::json!(SECRET).to_string(), escaped, hex::encode(SECRET)] {
            let text = format!("data: {form}\n\ndata: sk-live {form}{form} \\ \\\\ end");
            let whole = redactor.redact_bytes(text.as_bytes()).unwrap();
            for size in 1..text.len() {
                let clean = in_pieces(&redactor, text.as_bytes(), size);
                assert_eq!(String::from_utf8_lossy(&clean), String::from_utf8_lossy(&whole), "pieces of {size} bytes");
            }
        }
    }

    #[test]
    fn only_an_end_that_can_be_a_value_is_held_back() {
        let redactor = Redactor::new([SECRET]);
        let mut pieces = PieceRedactor::default();
        let mut next = |piece: &'static str| pieces.next(&redactor, Bytes::from_static(piece.as_bytes()));
        assert_eq!(next("data: 1\n\n"), "data: 1\n\n");
        assert_eq!(next("data: sk-li"), "data: ");
        assert_eq!(next("fe\n\n"), "sk-life\n\n");
        assert_eq!(pieces.rest(&redactor), "");
    }

    #[test]
    fn a_text_of_overlapping_beginnings_is_not_held_without_end() {
        let redactor = Redactor::new(["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]);
        let mut pieces = PieceRedactor::default();
        for _ in 0..100 {
            let clean = pieces.next(&redactor, Bytes::from(vec![b'a'; 10_000]));
            assert!(pieces.held.len() <= HELD_BYTES && !clean.windows(40).any(|window| window == [b'a'; 40]));
        }
    }
}
