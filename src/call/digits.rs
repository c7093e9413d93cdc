//! Decides when two bodies are equivalent: by their JSON value, or by their text if that has more precise numbers.

/// Number of significant decimal digits that a double preserves.
const EXACT_DIGITS: usize = f64::DIGITS as usize;
/// Below this value, doubles are less precise.
const LEAST_EXACT: f64 = f64::MIN_POSITIVE * 1e16;

/// Returns the identity of a body: the canonical JSON, independent of spacing and field order. If the text contains a
/// number that a double does not represent uniquely, returns the text, because a handler may read it.
pub(super) fn told_apart<'a>(text: &'a [u8], canonical: &'a [u8]) -> &'a [u8] {
    if numbers(text).all(is_told_by_a_double) { canonical } else { text.trim_ascii() }
}

/// Iterates over the numbers of a JSON text.
fn numbers(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let (first, behind) = rest.split_first()?;
            match first {
                b'"' => rest = behind_string(behind),
                b'-' | b'0'..=b'9' => {
                    let end = rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
                    let number;
                    (number, rest) = rest.split_at(end.unwrap_or(rest.len()));
                    return Some(number);
                }
                _ => rest = behind,
            }
        }
    })
}

/// Returns the text after a string, of which `text` is the rest.
fn behind_string(text: &[u8]) -> &[u8] {
    let mut escaped = false;
    let end = text.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    end.map_or(&[], |end| &text[end + 1..])
}

/// Returns whether no other number with as few digits is the same double: at most 15 digits, and not near the smallest
/// doubles.
fn is_told_by_a_double(number: &[u8]) -> bool {
    let mantissa = number.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or_default();
    let digits = mantissa.iter().filter(|byte| byte.is_ascii_digit()).skip_while(|digit| **digit == b'0').count();
    let value: f64 = str::from_utf8(number).ok().and_then(|number| number.parse().ok()).unwrap_or_default();
    digits == 0 || (digits <= EXACT_DIGITS && value.abs() > LEAST_EXACT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_with_a_number_that_a_double_cannot_hold_is_told_apart_by_its_text() {
        for short in [
            "{}",
            "[1,2.5,-3e8]",
            r#"{"a":123456789012345}"#,
            r#"["12345678901234567890 \" 1e-400"]"#,
            "0.000000000000000000",
            "[0]",
            "1e-280",
        ] {
            assert_eq!(told_apart(short.as_bytes(), b"canonical"), b"canonical", "{short}");
        }
        for long in [
            "9007199254740993",
            r#"{"a":[0.12345678901234567]}"#,
            r#"["\\",12345678901234567890]"#,
            "1e-400",
            "[-5e-324]",
            " 1.0000000000000001\n",
        ] {
            assert_eq!(told_apart(long.as_bytes(), b"canonical"), long.trim().as_bytes(), "{long}");
        }
    }

    #[test]
    fn numbers_are_found_outside_of_strings_alone() {
        let found = |text: &'static str| numbers(text.as_bytes()).map(|number| str::from_utf8(number).unwrap()).collect::<Vec<_>>();
        assert_eq!(found(r#"{"1":-2.5e+3,"a\"4":[5,"6\\",7]}"#), ["-2.5e+3", "5", "7"]);
        assert_eq!(found(r#""1"#), Vec::<&str>::new());
    }
}
