//! JSON Pointers (RFC 6901), also as URI fragments.

use std::fmt::Write as _;

/// Escapes a field's name for a JSON Pointer.
pub(super) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Removes the percent-encoding of a fragment.
pub(super) fn decoded(fragment: &str) -> String {
    let bytes = fragment.as_bytes();
    let (mut plain, mut position) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(position) {
        let digits = bytes.get(position + 1..position + 3).filter(|_| byte == b'%');
        let code = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        plain.push(code.unwrap_or(byte));
        position += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// Percent-encodes a JSON Pointer for a fragment (RFC 3986, 3.5).
pub(super) fn encoded(pointer: &str) -> String {
    let mut fragment = String::with_capacity(pointer.len());
    for byte in pointer.bytes() {
        match byte {
            b'/' | b'~' | b'$' | b'-' | b'.' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => fragment.push(char::from(byte)),
            byte => _ = write!(fragment, "%{byte:02X}"),
        }
    }
    fragment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_survives_its_encoding() {
        for pointer in ["", "/$defs/a~1b", "/$defs/My Tool", "/ü/%2F/\"", "/a#b"] {
            assert_eq!(decoded(&encoded(pointer)), pointer);
            assert!(encoded(pointer).is_ascii() && !encoded(pointer).contains(['#', ' ', '"']), "{pointer}");
        }
    }
}
