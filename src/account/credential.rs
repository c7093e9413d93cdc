//! Credentials: tokens with 256 random bits that are shown once and kept as a hash.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// SHA-256 of a secret. The secret has 256 random bits, so it needs no slow hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretHash(String);

/// Generates a secret in base64url: 43 characters.
pub fn random_secret() -> Result<String, getrandom::Error> {
    let mut random = [0; 32];
    getrandom::fill(&mut random)?;
    Ok(URL_SAFE_NO_PAD.encode(random))
}

impl SecretHash {
    pub fn of(secret: &str) -> Self {
        Self(hex::encode(Sha256::digest(secret)))
    }

    /// Compares in constant time.
    pub fn matches(&self, secret: &str) -> bool {
        hex::encode(Sha256::digest(secret)).as_bytes().ct_eq(self.0.as_bytes()).into()
    }
}

/// Formats a token: `<prefix><the id without its own prefix>_<secret>`.
pub fn token(prefix: &str, id: &str, secret: &str) -> String {
    let bare = id.split_once('_').map_or(id, |(_, bare)| bare);
    format!("{prefix}{bare}_{secret}")
}

/// Splits a token into the bare id and the secret, or returns `None` if it has another form.
pub fn parts<'a>(prefix: &str, token: &'a str) -> Option<(&'a str, &'a str)> {
    token.strip_prefix(prefix)?.split_once('_')
}
