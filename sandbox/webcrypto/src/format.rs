//! Formats of keys.

/// The format of a key, by its name in the Web Cryptography API, or that of the fields of a JWK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `PrivateKeyInfo` of PKCS#8 (RFC 5958).
    Pkcs8,
    /// `SubjectPublicKeyInfo` (RFC 5280).
    Spki,
    /// A public key alone, as the fields of a JWK or as `raw`.
    RawPublic,
    /// A private key alone, as the fields of a JWK.
    RawPrivate,
}

impl Format {
    /// Returns the format with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "pkcs8" => Some(Self::Pkcs8),
            "spki" => Some(Self::Spki),
            "public" => Some(Self::RawPublic),
            "private" => Some(Self::RawPrivate),
            _ => None,
        }
    }
}
