//! Keys with a private and a public part, of any algorithm.

use crate::{format::Format, nist_curve::Curve, okp::Okp, rsa_keys::Rsa};

/// A kind of key that consists of a private and a public part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairKind {
    /// RSA, for signatures and encryption.
    Rsa,
    /// An elliptic curve of NIST, for ECDSA and ECDH.
    Ec(Curve),
    /// A curve of RFC 8032 or RFC 7748.
    Okp(Okp),
}

impl PairKind {
    /// Returns the kind with this name: `RSA`, or the name of the curve in a JWK.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if name == "RSA" {
            return Some(Self::Rsa);
        }
        Curve::named(name).map(Self::Ec).or_else(|| Okp::named(name).map(Self::Okp))
    }

    /// Parses and validates a key. Returns its bytes in the form that the documentation of the crate names.
    #[must_use]
    pub fn import(self, format: Format, bytes: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Rsa => Rsa::import(format, bytes),
            Self::Ec(curve) => curve.import(format, bytes),
            Self::Okp(okp) => okp.import(format, bytes),
        }
    }

    /// Returns a key in a format. `None` if the bytes are not such a key.
    #[must_use]
    pub fn export(self, format: Format, key: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Rsa => Rsa::export(format, key),
            Self::Ec(curve) => curve.export(format, key),
            Self::Okp(okp) => okp.export(format, key),
        }
    }

    /// Returns the public key of a private key.
    #[must_use]
    pub fn public_of(self, private: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Rsa => Rsa::public_of(private),
            Self::Ec(curve) => curve.public_of(private),
            Self::Okp(okp) => okp.public_of(private),
        }
    }

    /// Makes a private key. `bits` and `exponent` are for RSA.
    #[must_use]
    pub fn generate(self, bits: usize, exponent: u64) -> Option<Vec<u8>> {
        match self {
            Self::Rsa => Rsa::generate(bits, exponent),
            Self::Ec(curve) => curve.generate(),
            Self::Okp(okp) => okp.generate(),
        }
    }

    /// Returns the shared secret of a private key and another party's public key (ECDH, X25519).
    #[must_use]
    pub fn agree(self, private: &[u8], public: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Rsa => None,
            Self::Ec(curve) => curve.agree(private, public),
            Self::Okp(okp) => okp.agree(private, public),
        }
    }
}
