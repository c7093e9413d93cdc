//! JSON Pointers (RFC 6901), also as URI fragments.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The characters of a pointer that are encoded in a fragment (RFC 3986, 3.5).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'~').remove(b'$').remove(b'-').remove(b'.').remove(b'_');

/// Escapes a field's name for a JSON Pointer.
pub(crate) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Removes the percent-encoding of a fragment.
pub(super) fn decoded(fragment: &str) -> String {
    percent_decode_str(fragment).decode_utf8_lossy().into_owned()
}

/// Percent-encodes a JSON Pointer for a fragment.
pub(super) fn encoded(pointer: &str) -> String {
    utf8_percent_encode(pointer, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_round_trip() {
        for pointer in ["", "/$defs/a~1b", "/$defs/My Tool", "/ü/%2F/\"", "/a#b"] {
            assert_eq!(decoded(&encoded(pointer)), pointer);
            assert!(encoded(pointer).is_ascii() && !encoded(pointer).contains(['#', ' ', '"']), "{pointer}");
        }
    }
}
