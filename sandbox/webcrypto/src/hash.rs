//! Hash functions, and the algorithms that consist of nothing else: HMAC, HKDF, PBKDF2.

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit as _, Mac as _};
use pbkdf2::pbkdf2_hmac;
use sha2::Digest as _;

/// A hash function of FIPS 180-4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// SHA-1: broken for signatures, and needed for what others have signed.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// Evaluates an expression with the type of a hash function.
macro_rules! with_hash {
    ($hash:expr, $Type:ident => $body:expr) => {
        match $hash {
            $crate::hash::Hash::Sha1 => {
                type $Type = sha1::Sha1;
                $body
            }
            $crate::hash::Hash::Sha256 => {
                type $Type = sha2::Sha256;
                $body
            }
            $crate::hash::Hash::Sha384 => {
                type $Type = sha2::Sha384;
                $body
            }
            $crate::hash::Hash::Sha512 => {
                type $Type = sha2::Sha512;
                $body
            }
        }
    };
}
pub(crate) use with_hash;

impl Hash {
    /// Returns the hash function with this number, as the scripts use it: its output bits, and 1 for
    /// SHA-1.
    #[must_use]
    pub fn numbered(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Sha1),
            256 => Some(Self::Sha256),
            384 => Some(Self::Sha384),
            512 => Some(Self::Sha512),
            _ => None,
        }
    }

    /// Returns the digest of `data`.
    #[must_use]
    pub fn digest(self, data: &[u8]) -> Vec<u8> {
        with_hash!(self, H => H::digest(data).to_vec())
    }
}

/// Returns the HMAC of `data` (FIPS 198-1).
#[must_use]
pub fn hmac_sign(hash: Hash, key: &[u8], data: &[u8]) -> Vec<u8> {
    with_hash!(hash, H => {
        let mac = Hmac::<H>::new_from_slice(key).expect("HMAC takes a key of any length").chain_update(data);
        mac.finalize().into_bytes().to_vec()
    })
}

/// Returns whether `signature` is the whole HMAC of `data`, in constant time.
#[must_use]
pub fn hmac_verify(hash: Hash, key: &[u8], signature: &[u8], data: &[u8]) -> bool {
    with_hash!(hash, H => {
        let mac = Hmac::<H>::new_from_slice(key).expect("HMAC takes a key of any length").chain_update(data);
        mac.verify_slice(signature).is_ok()
    })
}

/// Fills `output` from a key (RFC 5869). Returns false if it is longer than 255 outputs of the hash
/// function.
#[must_use]
pub fn hkdf(hash: Hash, key: &[u8], salt: &[u8], info: &[u8], output: &mut [u8]) -> bool {
    with_hash!(hash, H => Hkdf::<H>::new(Some(salt), key).expand(info, output).is_ok())
}

/// Fills `output` from a password (RFC 8018). Takes time for each iteration and for each output of
/// the hash function: the watchdog of the worker ends a process that exceeds its processor time.
pub fn pbkdf2(hash: Hash, password: &[u8], salt: &[u8], iterations: u32, output: &mut [u8]) {
    with_hash!(hash, H => pbkdf2_hmac::<H>(password, salt, iterations, output));
}
