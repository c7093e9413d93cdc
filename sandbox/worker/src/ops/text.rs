//! Text and bytes.

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
