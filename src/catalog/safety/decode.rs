//! Decoding of strings: base64, hex, percent-encoding. Only one level.

use std::borrow::Cow;

use base64::{
    Engine as _, alphabet,
    engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, PAD_INDIFFERENT},
};
use percent_encoding::percent_decode_str;

/// Minimum length of base64 or hex text that is decoded, in characters.
const MIN_CHARACTERS: usize = 16;

const LENIENT: GeneralPurposeConfig = PAD_INDIFFERENT.with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Decodes `text` if it is entirely base64, base64url or hex, or a `data:` URL with base64.
pub(super) fn block(text: &str) -> Option<Vec<u8>> {
    let text = match text.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
        Some((_, data)) => data,
        None => text,
    };
    let digit = |byte: u8| byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=');
    if text.len() < MIN_CHARACTERS || !text.bytes().all(digit) {
        return None;
    }
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    if digits.len() < MIN_CHARACTERS {
        return None;
    }
    if let Some(bytes) = hex_digits(&digits) {
        return Some(bytes);
    }
    STANDARD.decode(&digits).or_else(|_| URL_SAFE.decode(&digits)).ok()
}

fn hex_digits(digits: &[u8]) -> Option<Vec<u8>> {
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    hex::decode(digits).ok()
}

/// Returns `bytes` as text if they are mostly readable.
pub(super) fn as_text(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    let strange = text.chars().filter(|char| char.is_control() && !char.is_whitespace()).count();
    (strange * 10 <= text.chars().count()).then_some(text)
}

/// Decodes percent-encoding in `text`, if there is any.
pub(super) fn percent(text: &str) -> Option<String> {
    match Cow::from(percent_decode_str(text)) {
        Cow::Borrowed(_) => None,
        Cow::Owned(decoded) => Some(String::from_utf8_lossy(&decoded).into_owned()),
    }
}
