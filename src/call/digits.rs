//! Which bodies are one to whoever reads them: JSON is told apart as what it is, and by its text where a handler that reads
//! that finds more in it.

/// Significant digits that a double holds of any number.
const EXACT_DIGITS: usize = f64::DIGITS as usize;
/// Below this, doubles have fewer digits.
const LEAST_EXACT: f64 = f64::MIN_POSITIVE * 1e16;

/// What tells one body from another: the JSON that it is, whatever its spacing and the order of its members; but the text as
/// it stands where that has a number that a double cannot tell from others. A handler reads that too.
pub(super) fn told_apart<'a>(text: &'a [u8], canonical: &'a [u8]) -> &'a [u8] {
    if numbers(text).all(is_told_by_a_double) { canonical } else { text.trim_ascii() }
}

/// The numbers of a JSON text.
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

/// What stands behind a string of which the rest is `text`.
fn behind_string(text: &[u8]) -> &[u8] {
    let mut escaped = false;
    let end = text.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    end.map_or(&[], |end| &text[end + 1..])
}

/// Whether no other number of as few digits is the same double: up to 15 digits, and far from the smallest doubles.
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
