//! The key that signs payments.

use std::{fmt, str::FromStr};

use alloy_primitives::{Address, B256};
use k256::ecdsa::SigningKey;
use zeroize::Zeroizing;

/// Length of a key in bytes.
const BYTES: usize = 32;

/// A secp256k1 key that is wiped from memory when dropped. `Debug` does not show it.
pub struct PayKey(SigningKey);

/// The error for a text that is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a key must be 32 bytes in hex, with or without `0x`")]
pub struct PayKeyError;

impl PayKey {
    /// Generates a key. `None` if the system has no randomness.
    pub fn generate() -> Option<Self> {
        let mut secret = Zeroizing::new([0; BYTES]);
        getrandom::fill(&mut *secret).ok()?;
        SigningKey::from_slice(&*secret).ok().map(Self)
    }

    /// Returns the payer's address.
    pub fn address(&self) -> Address {
        Address::from_private_key(&self.0)
    }

    /// Returns the secret in hex without `0x`, for storing it.
    pub fn secret(&self) -> Zeroizing<String> {
        Zeroizing::new(hex::encode(*self.secret_bytes()))
    }

    /// Returns the secret bytes.
    pub fn secret_bytes(&self) -> Zeroizing<[u8; BYTES]> {
        Zeroizing::new(self.0.to_bytes().into())
    }

    /// Signs a hash. Returns 65 bytes in hex, the format of token signatures.
    pub fn sign(&self, hash: B256) -> String {
        let (signature, recovery) = self.0.sign_prehash_recoverable(hash.as_slice()).expect("a hash has 32 bytes");
        format!("0x{}{:02x}", hex::encode(signature.to_bytes()), 27 + recovery.to_byte())
    }
}

impl FromStr for PayKey {
    type Err = PayKeyError;

    fn from_str(text: &str) -> Result<Self, PayKeyError> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let bytes = Some(digits).filter(|digits| digits.len() == 2 * BYTES).and_then(|digits| hex::decode(digits).ok());
        let bytes = Zeroizing::new(bytes.ok_or(PayKeyError)?);
        SigningKey::from_slice(&bytes).map(Self).map_err(|_| PayKeyError)
    }
}

impl fmt::Debug for PayKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PayKey({})", self.address())
    }
}
