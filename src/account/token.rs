//! Tokens that operators choose or generate. Only their hashes are kept and compared.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Minimum length of a token, in bytes.
pub const MIN_BYTES: usize = 16;

/// The token is too short to be safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has {found} bytes, but needs at least {MIN_BYTES}")]
pub struct TooShort {
    pub found: usize,
}

/// The hash of a token. The token itself is not kept.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    pub fn of(text: &str) -> Result<Self, TooShort> {
        if text.len() < MIN_BYTES {
            return Err(TooShort { found: text.len() });
        }
        Ok(Self(Sha256::digest(text.as_bytes()).into()))
    }

    /// Compares in constant time.
    pub fn matches(&self, given: &[u8]) -> bool {
        let given: [u8; 32] = Sha256::digest(given).into();
        self.0.ct_eq(&given).into()
    }

    /// Returns a short id that distinguishes tokens but is too short to verify a guess.
    pub fn id(&self) -> String {
        let hash = Sha256::new().chain_update("id of a token\0").chain_update(self.0).finalize();
        format!("{:02x}{:02x}{:02x}", hash[0], hash[1], hash[2])
    }

    /// Returns whether both are hashes of the same text.
    pub fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_matches_only_its_whole_text() {
        let token = Token::of("0123456789abcdef").unwrap();
        assert!(token.matches(b"0123456789abcdef") && token.is(&Token::of("0123456789abcdef").unwrap()));
        for other in ["0123456789abcdeF", "0123456789abcdef ", "0123456789abcde", ""] {
            assert!(!token.matches(other.as_bytes()), "{other}");
        }
        assert_eq!(Token::of("0123456789abcde").unwrap_err(), TooShort { found: 15 });
        assert_eq!(format!("{token:?}"), "Token");
    }
}
