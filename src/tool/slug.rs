//! Slugs: the unique names in `/tools/{slug}`.

use std::{borrow::Borrow, fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// Names that are used by paths, pages or MCP tools of the host.
pub(super) const RESERVED: &[&str] = &[
    "admin",
    "ai",
    "api",
    "assets",
    "dashboard",
    "dev",
    "docs",
    "get-receipt",
    "guides",
    "health",
    "mcp",
    "metrics",
    "new",
    "quote-tool",
    "search-tools",
    "static",
    "tools",
    "well-known",
    "x402",
];

/// A tool's unique name: `^[a-z0-9][a-z0-9-]{1,62}[a-z0-9]$`, except those in [`RESERVED`]. Up to 23 characters need no
/// heap memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String")]
#[schemars(inline, extend("pattern" = "^[a-z0-9][a-z0-9-]{1,62}[a-z0-9]$"))]
pub struct Slug(#[schemars(with = "String")] SmolStr);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlugError {
    #[error("a slug must have 3 to 64 characters of a-z, 0-9 and `-`, and start and end with a letter or digit")]
    Form,
    #[error("the slug `{0}` is reserved")]
    Reserved(String),
}

impl Slug {
    pub const MAX_BYTES: usize = 64;

    /// The slug that represents builder registrations in receipts and sales. No tool can have it.
    pub fn builder_registration() -> Self {
        Self("builder-registration".into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Slug {
    type Err = SlugError;

    fn from_str(text: &str) -> Result<Self, SlugError> {
        let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let bytes = text.as_bytes();
        let inside = (3..=Self::MAX_BYTES).contains(&bytes.len()) && bytes.iter().all(|b| plain(b) || *b == b'-');
        if !inside || !bytes.first().is_some_and(plain) || !bytes.last().is_some_and(plain) {
            return Err(SlugError::Form);
        }
        if RESERVED.contains(&text) {
            return Err(SlugError::Reserved(text.to_owned()));
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for Slug {
    type Error = SlugError;

    fn try_from(text: String) -> Result<Self, SlugError> {
        text.parse()
    }
}

impl AsRef<str> for Slug {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Slug {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
