//! Text and bytes.

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};
use deno_core::op2;

/// The text as UTF-8; lone surrogates become U+FFFD.
#[op2]
#[buffer]
pub(super) fn op_text_encode(#[string] text: String) -> Vec<u8> {
    text.into_bytes()
}

/// The bytes as text. `keep_mark` keeps a byte order mark; what is no UTF-8 becomes U+FFFD.
#[op2]
#[string]
pub(super) fn op_text_decode(#[buffer] bytes: &[u8], keep_mark: bool) -> String {
    let bytes = if keep_mark { bytes } else { bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// The bytes as text in one of the three encodings there are; nothing when `fatal` and they are not that.
#[op2]
#[string]
pub(super) fn op_text_decode_as(#[buffer] bytes: &[u8], #[string] encoding: &str, fatal: bool, keep_mark: bool) -> Option<String> {
    let marked = |mark: &[u8]| if keep_mark { bytes } else { bytes.strip_prefix(mark).unwrap_or(bytes) };
    match encoding {
        "utf-16le" => {
            let bytes = marked(b"\xff\xfe");
            let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
            let mut text = match String::from_utf16(&units) {
                Ok(text) => text,
                Err(_) if fatal => return None,
                Err(_) => String::from_utf16_lossy(&units),
            };
            if bytes.len() % 2 == 1 {
                if fatal {
                    return None;
                }
                text.push(char::REPLACEMENT_CHARACTER);
            }
            Some(text)
        }
        "windows-1252" => Some(
            bytes
                .iter()
                .map(|byte| WINDOWS_1252.get(usize::from(*byte).wrapping_sub(0x80)).copied().unwrap_or(char::from(*byte)))
                .collect(),
        ),
        _ => {
            let bytes = marked(b"\xef\xbb\xbf");
            match str::from_utf8(bytes) {
                Ok(text) => Some(text.into()),
                Err(_) if fatal => None,
                Err(_) => Some(String::from_utf8_lossy(bytes).into_owned()),
            }
        }
    }
}

/// What windows-1252 has at 0x80 to 0x9f, where Latin-1 has control characters.
const WINDOWS_1252: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}', '\u{2c6}', '\u{2030}', '\u{160}',
    '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}', '\u{90}', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}',
    '\u{2014}', '\u{2dc}', '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

/// `btoa`.
#[op2]
#[string]
pub(super) fn op_base64_encode(#[buffer] bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// `atob`: forgiving of white space and missing padding, as the standard has it; one character a byte.
#[op2]
#[string]
pub(super) fn op_base64_decode(#[string] text: &str) -> Option<String> {
    let mut text: String = text.chars().filter(|character| !matches!(character, ' ' | '\t' | '\n' | '\x0c' | '\r')).collect();
    if text.len().is_multiple_of(4) {
        text.truncate(text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(&text).len());
    }
    let bytes = FORGIVING.decode(text).ok()?;
    Some(bytes.into_iter().map(char::from).collect())
}

/// No padding, and whatever bits are left over at the end.
const FORGIVING: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true).with_decode_padding_mode(DecodePaddingMode::RequireNone),
);
