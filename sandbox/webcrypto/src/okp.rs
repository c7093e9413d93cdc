//! Ed25519 (RFC 8032) and X25519 (RFC 7748), with the key formats of RFC 8410.

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use rsa::pkcs8::{ObjectIdentifier, PrivateKeyInfoRef, SubjectPublicKeyInfoRef};
use subtle::ConstantTimeEq as _;
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};

use crate::format::Format;

/// Bytes of a private key, and of a public key.
const KEY: usize = 32;

/// A curve, by its name in the Web Cryptography API and in a JWK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Okp {
    /// For signatures.
    Ed25519,
    /// For key agreement.
    X25519,
}

impl Okp {
    /// Returns the curve with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "Ed25519" => Some(Self::Ed25519),
            "X25519" => Some(Self::X25519),
            _ => None,
        }
    }

    /// Object identifiers of RFC 8410.
    fn oid(self) -> ObjectIdentifier {
        match self {
            Self::X25519 => ObjectIdentifier::new_unwrap("1.3.101.110"),
            Self::Ed25519 => ObjectIdentifier::new_unwrap("1.3.101.112"),
        }
    }

    /// Last byte of the encoded object identifier.
    fn oid_byte(self) -> u8 {
        match self {
            Self::X25519 => 110,
            Self::Ed25519 => 112,
        }
    }

    pub(crate) fn generate(self) -> Option<Vec<u8>> {
        let mut secret = [0; KEY];
        getrandom::fill(&mut secret).ok()?;
        Some(self.private_from_secret(secret))
    }

    fn private_from_secret(self, secret: [u8; KEY]) -> Vec<u8> {
        let public = match self {
            Self::Ed25519 => SigningKey::from_bytes(&secret).verifying_key().to_bytes(),
            Self::X25519 => x25519(secret, X25519_BASEPOINT_BYTES),
        };
        [secret, public].concat()
    }

    pub(crate) fn public_of(self, private: &[u8]) -> Option<Vec<u8>> {
        secret(private)?;
        Some(private[KEY..].to_vec())
    }

    /// A public key can be any 32 bytes: if it is not on the curve, no signature is valid.
    pub(crate) fn import(self, format: Format, bytes: &[u8]) -> Option<Vec<u8>> {
        match format {
            Format::RawPublic => <[u8; KEY]>::try_from(bytes).ok().map(|key| key.to_vec()),
            Format::RawPrivate => bytes.try_into().ok().map(|secret| self.private_from_secret(secret)),
            Format::Spki => {
                let info = SubjectPublicKeyInfoRef::try_from(bytes).ok()?;
                if info.algorithm.oid != self.oid() || info.algorithm.parameters.is_some() {
                    return None;
                }
                self.import(Format::RawPublic, info.subject_public_key.as_bytes()?)
            }
            Format::Pkcs8 => {
                let info = PrivateKeyInfoRef::try_from(bytes).ok()?;
                if info.algorithm.oid != self.oid() || info.algorithm.parameters.is_some() {
                    return None;
                }
                // CurvePrivateKey is an OCTET STRING within the OCTET STRING of PKCS#8.
                let secret = info.private_key.as_bytes().strip_prefix(&[4, 32])?;
                self.import(Format::RawPrivate, secret)
            }
        }
    }

    pub(crate) fn export(self, format: Format, key: &[u8]) -> Option<Vec<u8>> {
        match format {
            Format::RawPublic => (key.len() == KEY).then(|| key.to_vec()),
            Format::RawPrivate => secret(key).map(|secret| secret.to_vec()),
            Format::Spki => (key.len() == KEY).then(|| {
                let head = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, self.oid_byte(), 0x03, 0x21, 0x00];
                [&head[..], key].concat()
            }),
            Format::Pkcs8 => secret(key).map(|secret| {
                let head = [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, self.oid_byte(), 0x04, 0x22, 0x04, 0x20];
                [&head[..], &secret].concat()
            }),
        }
    }

    /// Signs `data` with Ed25519.
    #[must_use]
    pub fn sign(self, private: &[u8], data: &[u8]) -> Option<Vec<u8>> {
        if self != Self::Ed25519 {
            return None;
        }
        Some(SigningKey::from_bytes(&secret(private)?).sign(data).to_bytes().to_vec())
    }

    /// Returns whether a signature of Ed25519 is valid. Public keys of small order have none.
    #[must_use]
    pub fn verify(self, public: &[u8], signature: &[u8], data: &[u8]) -> bool {
        let (Ok(key), Ok(signature)) = (<&[u8; KEY]>::try_from(public), Signature::from_slice(signature)) else { return false };
        self == Self::Ed25519 && VerifyingKey::from_bytes(key).is_ok_and(|key| key.verify_strict(data, &signature).is_ok())
    }

    /// Returns the shared secret of X25519, or `None` if it is zero (RFC 7748, section 6.1).
    pub(crate) fn agree(self, private: &[u8], public: &[u8]) -> Option<Vec<u8>> {
        if self != Self::X25519 {
            return None;
        }
        let shared = x25519(secret(private)?, public.try_into().ok()?);
        (!bool::from(shared.ct_eq(&[0; KEY]))).then(|| shared.to_vec())
    }
}

/// Returns the secret of a private key.
fn secret(private: &[u8]) -> Option<[u8; KEY]> {
    if private.len() != 2 * KEY {
        return None;
    }
    private[..KEY].try_into().ok()
}
