//! The names, strings and numbers of a JSON text, found without limits on nesting or on the size of numbers.

use std::ops::Range;

/// A string in the text does not end, has an invalid escape, or is not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text is not valid JSON")]
pub struct MalformedJson;

/// The place of a part of a JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or a string, without its quotes.
    String(Range<usize>),
    Number(Range<usize>),
}

/// Iterates over the tokens of a JSON text. Everything else of its syntax is not checked.
pub(super) struct Tokens<'j> {
    json: &'j [u8],
    at: usize,
}

impl<'j> Tokens<'j> {
    pub(super) fn new(json: &'j [u8]) -> Self {
        Self { json, at: 0 }
    }
}

impl Iterator for Tokens<'_> {
    type Item = Result<Token, MalformedJson>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at + self.json[self.at..].iter().position(|byte| matches!(byte, b'"' | b'-' | b'0'..=b'9'))?;
        if self.json[start] == b'"' {
            let Some(end) = string_end(self.json, start + 1) else {
                self.at = self.json.len();
                return Some(Err(MalformedJson));
            };
            self.at = end + 1;
            return Some(Ok(Token::String(start + 1..end)));
        }
        self.at = start + self.json[start..].iter().take_while(|byte| in_number(**byte)).count();
        Some(Ok(Token::Number(start..self.at)))
    }
}

/// Returns whether a number can contain the byte.
pub(super) fn in_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')
}

/// Returns the place of the quote that ends the string at `at`, or `None` if an escape is invalid or there is no quote.
fn string_end(json: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += json[at..].iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        at += match &json[at..] {
            [b'"', ..] => return Some(at),
            [_, b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) => 6,
            [_, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            _ => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(json: &str) -> Vec<Result<&str, MalformedJson>> {
        let text = move |token: Token| match token {
            Token::String(place) | Token::Number(place) => &json[place],
        };
        Tokens::new(json.as_bytes()).map(|token| token.map(text)).collect()
    }

    #[test]
    fn names_strings_and_numbers_are_found_in_any_json() {
        let json = r#"{"a\"b": [true, -1.5e+10, "", "\\", 1e999, null], "\ud83d": {"c": false}}"#;
        assert_eq!(texts(json), [Ok("a\\\"b"), Ok("-1.5e+10"), Ok(""), Ok("\\\\"), Ok("1e999"), Ok("\\ud83d"), Ok("c")]);
        let deep = "[".repeat(50_000) + "\"x\"" + &"]".repeat(50_000);
        assert_eq!(texts(&deep), [Ok("x")]);
        assert!(texts("").is_empty());
    }

    #[test]
    fn invalid_string_ends_the_tokens_with_an_error() {
        for json in [r#""a"#, r#""a\"#, r#""a\""#, r#""\x""#, r#""\u12g4""#, r#""\u123"#] {
            assert_eq!(texts(json), [Err(MalformedJson)], "{json}");
        }
        assert_eq!(texts(r#"["a", "b"#), [Ok("a"), Err(MalformedJson)]);
    }
}
