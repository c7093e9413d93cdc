//! Text and bytes.

use std::borrow::Cow;

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};
use deno_core::{OpState, op2, v8};
use encoding_rs::{Encoding, UTF_8};

use crate::{call_state::CallState, memory};

/// The text as UTF-8; lone surrogates become U+FFFD. What the buffer limit does not allow is nothing: the call is stopped then.
#[op2]
pub(super) fn op_text_encode<'s>(scope: &mut v8::PinScope<'s, '_>, #[string] text: String) -> v8::Local<'s, v8::Value> {
    memory::bytes(scope, text.into_bytes()).map_or_else(|| v8::undefined(scope).into(), Into::into)
}

/// The bytes as text. `keep_mark` keeps a byte order mark; what is no UTF-8 becomes U+FFFD.
#[op2]
#[string]
pub(super) fn op_text_decode(#[buffer] bytes: &[u8], keep_mark: bool) -> String {
    let (text, _) = if keep_mark { UTF_8.decode_without_bom_handling(bytes) } else { UTF_8.decode_with_bom_removal(bytes) };
    text.into_owned()
}

/// The name of the encoding that goes by `label`, in lower case; nothing when there is none that texts can be in.
#[op2]
#[string]
pub(super) fn op_encoding_name(#[string] label: &str) -> Option<String> {
    Encoding::for_label_no_replacement(label.as_bytes()).map(|encoding| encoding.name().to_ascii_lowercase())
}

/// The bytes as text in an encoding; nothing when `fatal` and they are not in it. `keep_mark` keeps a byte order mark.
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

/// The number of the decoder that takes the next piece of a text: `held`, where that is one of this call; 0 when there are
/// too many of them.
#[op2(fast)]
#[smi]
pub(super) fn op_text_decoder(state: &mut OpState, #[smi] held: u32, #[string] encoding: &str, keep_mark: bool) -> u32 {
    named(encoding).map_or(0, |encoding| CallState::of(state).decoders().begin(held, encoding, keep_mark))
}

/// The text of the next piece; nothing when `fatal` and it is not in the decoder's encoding.
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
