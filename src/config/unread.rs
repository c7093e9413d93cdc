//! Why a file of settings does not read: without the line that is wrong, which may have a secret.

/// Where it does not, and what the parser says of that.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Unread {
    /// From 1.
    pub line: usize,
    /// Without what stands there.
    pub why: String,
}

impl Unread {
    /// Of what the parser found in `text`.
    #[must_use]
    pub fn of(text: &str, error: &toml::de::Error) -> Self {
        let start = error.span().unwrap_or_default().start;
        Self { line: line_of(text, start), why: error.message().to_owned() }
    }
}

/// The line of a byte, from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_named_and_not_told() {
        let text = "a = 1\nmaster_key = \"SECRET\" b\n";
        let told = Unread::of(text, &toml::from_str::<toml::Table>(text).unwrap_err()).to_string();
        assert!(told.starts_with("line 2: ") && !told.contains("SECRET"), "{told}");
    }
}
