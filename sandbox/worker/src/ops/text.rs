//! Conversion between text and bytes.

use std::borrow::Cow;

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};
use deno_core::{OpState, op2, v8};
use encoding_rs::{Encoding, UTF_8};

use crate::{call_state::CallState, memory};

/// Encodes the text as UTF-8. Lone surrogates become U+FFFD. Returns `undefined` if the buffer
/// limit does not permit the result; the call is stopped then.
#[op2]
pub(super) fn op_text_encode<'s>(scope: &mut v8::PinScope<'s, '_>, #[string] text: String) -> v8::Local<'s, v8::Value> {
    memory::bytes(scope, text.into_bytes()).map_or_else(|| v8::undefined(scope).into(), Into::into)
}

/// Decodes the bytes as UTF-8. `keep_mark` keeps a byte order mark. Invalid bytes become U+FFFD.
#[op2]
#[string]
pub(super) fn op_text_decode(#[buffer] bytes: &[u8], keep_mark: bool) -> String {
    let (text, _) = if keep_mark { UTF_8.decode_without_bom_handling(bytes) } else { UTF_8.decode_with_bom_removal(bytes) };
    text.into_owned()
}

/// Returns the lowercase name of the encoding with this `label`, or `None` if it is not an encoding
/// for text.
#[op2]
#[string]
pub(super) fn op_encoding_name(#[string] label: &str) -> Option<String> {
    Encoding::for_label_no_replacement(label.as_bytes()).map(|encoding| encoding.name().to_ascii_lowercase())
}

/// Decodes the bytes in an encoding. Returns `None` if `fatal` is set and they are invalid.
/// `keep_mark` keeps a byte order mark.
#[op2]
#[string]
pub(super) fn op_text_decode_as(#[buffer] bytes: &[u8], #[string] encoding: &str, fatal: bool, keep_mark: bool) -> Option<String> {
    let encoding = named(encoding)?;
    let bytes = match Encoding::for_bom(bytes) {
        Some((marked, mark)) if marked == encoding && !keep_mark => &bytes[mark..],
        _ => bytes,
    };
    if fatal {
        return encoding.decode_without_bom_handling_and_without_replacement(bytes).map(Cow::into_owned);
    }
    Some(encoding.decode_without_bom_handling(bytes).0.into_owned())
}

/// Returns the number of the decoder for the next piece of a text: `held` if that belongs to this
/// call, a new one otherwise, or 0 if there are too many.
#[op2(fast)]
#[smi]
pub(super) fn op_text_decoder(state: &mut OpState, #[smi] held: u32, #[string] encoding: &str, keep_mark: bool) -> u32 {
    named(encoding).map_or(0, |encoding| CallState::of(state).decoders().begin(held, encoding, keep_mark))
}

/// Decodes the next piece. Returns `None` if `fatal` is set and the piece is invalid in the
/// decoder's encoding.
#[op2]
#[string]
pub(super) fn op_text_decode_piece(
    state: &mut OpState,
    #[smi] number: u32,
    #[buffer] piece: &[u8],
    fatal: bool,
    is_last: bool,
) -> Option<String> {
    CallState::of(state).decoders().decode(number, piece, fatal, is_last)
}

fn named(encoding: &str) -> Option<&'static Encoding> {
    Encoding::for_label(encoding.as_bytes())
}

/// Implements `btoa`.
#[op2]
#[string]
pub(super) fn op_base64_encode(#[buffer] bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Implements `atob`: ignores white space and missing padding, as the standard says. Each byte
/// becomes one character.
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

/// Accepts no padding and any leftover bits at the end.
const FORGIVING: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true).with_decode_padding_mode(DecodePaddingMode::RequireNone),
);
