//! Formats texts that people read alone.

/// Capitalizes the first word, unless it is a name such as `wallMs` or a URL.
#[must_use]
pub fn sentence_case(mut text: String) -> String {
    let first = text.split_whitespace().next().unwrap_or_default().trim_end_matches([':', ',', ';']);
    let is_word = first.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'\''));
    if is_word && let Some(letter) = text.get_mut(..1) {
        letter.make_ascii_uppercase();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_capitalized_and_names_are_not() {
        let cases = [
            ("the body is not JSON", "The body is not JSON"),
            ("input: too large", "Input: too large"),
            ("wallMs is 0", "wallMs is 0"),
            ("`slug` is missing", "`slug` is missing"),
            ("https://a.example redirects", "https://a.example redirects"),
            ("x402 requires it", "x402 requires it"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(sentence_case(text.to_owned()), expected);
        }
    }
}
