//! The elliptic curves of NIST (FIPS 186-5): ECDSA and ECDH.

use getrandom::SysRng;
use p256::{
    ecdsa::signature::hazmat::{PrehashSigner as _, PrehashVerifier as _},
    elliptic_curve::{Generate as _, sec1::ToSec1Point as _},
    pkcs8::{DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _},
};

use crate::{format::Format, hash::Hash};

/// A curve, by its name in the Web Cryptography API and in a JWK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curve {
    /// P-256.
    P256,
    /// P-384.
    P384,
    /// P-521.
    P521,
}

/// Evaluates an expression with the crate of a curve under the given name. The three crates have
/// the same items.
macro_rules! with_curve {
    ($curve:expr, $nist:ident => $body:expr) => {
        match $curve {
            Curve::P256 => {
                use ::p256 as $nist;
                $body
            }
            Curve::P384 => {
                use ::p384 as $nist;
                $body
            }
            Curve::P521 => {
                use ::p521 as $nist;
                $body
            }
        }
    };
}

impl Curve {
    /// Returns the curve with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "P-256" => Some(Self::P256),
            "P-384" => Some(Self::P384),
            "P-521" => Some(Self::P521),
            _ => None,
        }
    }

    /// Returns the bytes of a scalar and of a coordinate.
    #[must_use]
    pub fn field_bytes(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    pub(crate) fn generate(self) -> Option<Vec<u8>> {
        let scalar = with_curve!(self, nist => nist::SecretKey::try_generate_from_rng(&mut SysRng).ok()?.to_bytes().to_vec());
        self.private_from_scalar(&scalar)
    }

    /// Returns the scalar of a private key.
    fn scalar(self, private: &[u8]) -> Option<&[u8]> {
        (private.len() == 1 + 3 * self.field_bytes()).then(|| &private[..self.field_bytes()])
    }

    pub(crate) fn public_of(self, private: &[u8]) -> Option<Vec<u8>> {
        self.scalar(private).map(|scalar| private[scalar.len()..].to_vec())
    }

    fn private_from_scalar(self, scalar: &[u8]) -> Option<Vec<u8>> {
        if scalar.len() != self.field_bytes() {
            return None;
        }
        with_curve!(self, nist => {
            let public = nist::SecretKey::from_slice(scalar).ok()?.public_key().to_sec1_point(false);
            Some([scalar, public.as_bytes()].concat())
        })
    }

    /// Returns the uncompressed form of a compressed or uncompressed point.
    fn point(self, bytes: &[u8]) -> Option<Vec<u8>> {
        // Only the forms of SEC 1, section 2.3.3: compressed (2 and 3) and uncompressed (4).
        if !matches!(bytes.first(), Some(2..=4)) {
            return None;
        }
        with_curve!(self, nist => {
            Some(nist::PublicKey::from_sec1_bytes(bytes).ok()?.to_sec1_point(false).as_bytes().to_vec())
        })
    }

    pub(crate) fn import(self, format: Format, bytes: &[u8]) -> Option<Vec<u8>> {
        match format {
            Format::RawPublic => self.point(bytes),
            Format::RawPrivate => self.private_from_scalar(bytes),
            Format::Spki => with_curve!(self, nist => {
                Some(nist::PublicKey::from_public_key_der(bytes).ok()?.to_sec1_point(false).as_bytes().to_vec())
            }),
            Format::Pkcs8 => {
                let scalar = with_curve!(self, nist => nist::SecretKey::from_pkcs8_der(bytes).ok()?.to_bytes().to_vec());
                self.private_from_scalar(&scalar)
            }
        }
    }

    pub(crate) fn export(self, format: Format, key: &[u8]) -> Option<Vec<u8>> {
        match format {
            Format::RawPublic => self.point(key),
            Format::RawPrivate => self.scalar(key).map(<[u8]>::to_vec),
            Format::Spki => with_curve!(self, nist => {
                Some(nist::PublicKey::from_sec1_bytes(key).ok()?.to_public_key_der().ok()?.as_bytes().to_vec())
            }),
            Format::Pkcs8 => with_curve!(self, nist => {
                Some(nist::SecretKey::from_slice(self.scalar(key)?).ok()?.to_pkcs8_der().ok()?.as_bytes().to_vec())
            }),
        }
    }

    /// Signs `data` with ECDSA. The signature is `r` and `s`, each as long as the field. The random
    /// number comes from the key and the data (RFC 6979).
    #[must_use]
    pub fn sign(self, hash: Hash, private: &[u8], data: &[u8]) -> Option<Vec<u8>> {
        let scalar = self.scalar(private)?;
        let digest = hash.digest(data);
        with_curve!(self, nist => {
            let signature: nist::ecdsa::Signature = nist::ecdsa::SigningKey::from_slice(scalar).ok()?.sign_prehash(&digest).ok()?;
            Some(signature.to_bytes().to_vec())
        })
    }

    /// Returns whether a signature of ECDSA is valid.
    #[must_use]
    pub fn verify(self, hash: Hash, public: &[u8], signature: &[u8], data: &[u8]) -> bool {
        let digest = hash.digest(data);
        with_curve!(self, nist => {
            let key = nist::ecdsa::VerifyingKey::from_sec1_bytes(public);
            let signature = nist::ecdsa::Signature::from_slice(signature);
            matches!((key, signature), (Ok(key), Ok(signature)) if key.verify_prehash(&digest, &signature).is_ok())
        })
    }

    pub(crate) fn agree(self, private: &[u8], public: &[u8]) -> Option<Vec<u8>> {
        let scalar = self.scalar(private)?;
        with_curve!(self, nist => {
            let public = nist::PublicKey::from_sec1_bytes(public).ok()?;
            Some(nist::SecretKey::from_slice(scalar).ok()?.diffie_hellman(&public).raw_secret_bytes().to_vec())
        })
    }
}
