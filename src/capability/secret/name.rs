//! Names of secrets.

use std::str::FromStr;

use serde::Serialize;

use super::error::SecretError;

/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 64;

/// The name of a secret: `^[A-Z][A-Z0-9_]{0,63}$`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct SecretName(String);

impl SecretName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SecretName {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let tail = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        let fits = text.len() <= MAX_NAME && text.starts_with(|first: char| first.is_ascii_uppercase()) && text.bytes().all(tail);
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(SecretError::field("/name", "a name must match `^[A-Z][A-Z0-9_]{0,63}$`".to_owned()))
        }
    }
}
