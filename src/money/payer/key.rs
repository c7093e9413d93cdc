//! The key that payments are signed with.

use std::{fmt, str::FromStr};

use alloy_primitives::{Address, B256};
use k256::ecdsa::SigningKey;
use zeroize::Zeroizing;

/// Bytes of a key.
const BYTES: usize = 32;

/// A key on secp256k1, which is wiped from memory when it is let go of. Told nowhere: not by `Debug` either.
pub struct PayKey(SigningKey);

/// A text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a key is 32 bytes in hex, with `0x` or without")]
pub struct PayKeyError;

impl PayKey {
    /// A new one; `None` where the system gives no randomness.
    #[must_use]
    pub fn generate() -> Option<Self> {
        let mut secret = Zeroizing::new([0; BYTES]);
        getrandom::fill(&mut *secret).ok()?;
        SigningKey::from_slice(&*secret).ok().map(Self)
    }

    /// Who pays with it.
    #[must_use]
    pub fn address(&self) -> Address {
        Address::from_private_key(&self.0)
    }

    /// The secret in hex, without `0x`: for the one place where it is kept.
    #[must_use]
    pub fn secret(&self) -> Zeroizing<String> {
        Zeroizing::new(hex::encode(*self.secret_bytes()))
    }

    /// The secret itself.
    #[must_use]
    pub fn secret_bytes(&self) -> Zeroizing<[u8; BYTES]> {
        Zeroizing::new(self.0.to_bytes().into())
    }

    /// Signs a hash: 65 bytes in hex, as tokens take a signature.
    #[must_use]
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
