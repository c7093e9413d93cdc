//! The error of a settings file that cannot be parsed. It does not contain the faulty line, which may hold a secret.

/// A parse error and its line.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ParseError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The parser's message, without the text of the line.
    pub reason: String,
}

impl ParseError {
    /// Converts a parser's error about `text`.
    #[must_use]
    pub fn of(text: &str, error: &toml::de::Error) -> Self {
        let start = error.span().unwrap_or_default().start;
        Self { line: line_of(text, start), reason: error.message().to_owned() }
    }
}

/// Returns the line of a byte offset, from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_named_and_not_reported() {
        let text = "a = 1\nmaster_key = \"SECRET\" b\n";
        let message = ParseError::of(text, &toml::from_str::<toml::Table>(text).unwrap_err()).to_string();
        assert!(message.starts_with("line 2: ") && !message.contains("SECRET"), "{message}");
    }
}
