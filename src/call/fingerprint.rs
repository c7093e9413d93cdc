//! Decides when two bodies are equivalent: by their JSON value, or by their text if that has more precise numbers.

use tollhouse_base::exact::numbers;

/// Number of significant decimal digits that a double preserves.
const EXACT_DIGITS: usize = f64::DIGITS as usize;
/// Below this value, doubles are less precise.
const LEAST_EXACT: f64 = f64::MIN_POSITIVE * 1e16;

/// Returns the identity of a body: the canonical JSON, independent of spacing and field order. If the text contains a
/// number that a double does not represent uniquely, returns the text, because a handler may read it.
pub(super) fn fingerprint_bytes<'a>(text: &'a [u8], canonical: &'a [u8]) -> &'a [u8] {
    if numbers(text).all(fits_a_double) { canonical } else { text.trim_ascii() }
}

/// Returns whether no other number with as few digits is the same double: at most 15 digits, and not near the smallest
/// doubles.
fn fits_a_double(number: &[u8]) -> bool {
    let mantissa = number.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or_default();
    let digits = mantissa.iter().filter(|byte| byte.is_ascii_digit()).skip_while(|digit| **digit == b'0').count();
    let value: f64 = str::from_utf8(number).ok().and_then(|number| number.parse().ok()).unwrap_or_default();
    digits == 0 || (digits <= EXACT_DIGITS && value.abs() > LEAST_EXACT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_with_a_number_that_a_double_cannot_hold_is_distinguished_by_its_text() {
        for short in [
            "{}",
            "[1,2.5,-3e8]",
            r#"{"a":123456789012345}"#,
            r#"["12345678901234567890 \" 1e-400"]"#,
            "0.000000000000000000",
            "[0]",
            "1e-280",
        ] {
            assert_eq!(fingerprint_bytes(short.as_bytes(), b"canonical"), b"canonical", "{short}");
        }
        for long in [
            "9007199254740993",
            r#"{"a":[0.12345678901234567]}"#,
            r#"["\\",12345678901234567890]"#,
            "1e-400",
            "[-5e-324]",
            " 1.0000000000000001\n",
        ] {
            assert_eq!(fingerprint_bytes(long.as_bytes(), b"canonical"), long.trim().as_bytes(), "{long}");
        }
    }
}
