//! Tool names as callers send them, not validated yet.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use tollhouse_front::{ApiError, Code};
use tollhouse_tool::Slug;

/// Maximum name of a tool, in bytes: the maximum length of a slug. Built-in names are shorter.
const MAX_BYTES: usize = Slug::MAX_BYTES;

/// A text short enough to be a tool name. Longer ones are never stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct ToolName(SmolStr);

impl ToolName {
    /// Checks the length of a text.
    ///
    /// # Errors
    ///
    /// The text is longer than any name.
    pub(super) fn read(text: &str) -> Result<Self, ApiError> {
        if text.len() <= MAX_BYTES {
            return Ok(Self(text.into()));
        }
        let message = format!("no tool is named `{}…`: the name has {} bytes, and the maximum is {MAX_BYTES}", shortened(text), text.len());
        Err(ApiError::new(Code::UnknownEndpoint, message))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the start of a text that fits into a name, cut at a character boundary.
pub(super) fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_refused_with_its_start_and_the_limit() {
        assert_eq!(ToolName::read(&"a".repeat(64)).unwrap().as_str().len(), 64);
        // Byte 64 is within a character.
        let refused = ToolName::read(&format!("a{}", "é".repeat(1 << 20))).unwrap_err();
        assert!(refused.message().len() < 200 && refused.message().contains("the maximum is 64"), "{}", refused.message());
    }

    #[test]
    fn a_text_is_cut_between_two_characters() {
        assert_eq!(shortened("short"), "short");
        let long = format!("a{}", "é".repeat(100));
        assert_eq!(shortened(&long), format!("a{}", "é".repeat(31)));
    }
}
