//! The algorithms and key formats of the Web Cryptography API (W3C), over bytes.
//!
//! The scripts of the worker check names, usages and types, and pass bytes. Every function here is
//! pure but for [`getrandom`], which asks the system for each random byte: nothing is kept that
//! forked processes could share. Results that grow with the input go into a buffer of the caller,
//! so that the engine's allocator counts them.
//!
//! A key is bytes in one of these forms:
//!
//! | key | private | public |
//! |---|---|---|
//! | RSA | `RSAPrivateKey` of PKCS#1 | `RSAPublicKey` of PKCS#1 |
//! | elliptic curves of NIST | scalar, then the public key | uncompressed point |
//! | Ed25519, X25519 | seed or scalar, then the public key | 32 bytes |

mod aes_modes;
mod format;
mod hash;
mod key_pair;
mod nist_curve;
mod okp;
mod rsa_keys;

#[cfg(test)]
mod tests;

pub use self::{
    aes_modes::{cbc_decrypt, cbc_encrypt, ctr, gcm_open, gcm_seal, kw_unwrap, kw_wrap},
    format::Format,
    hash::{Hash, hkdf, hmac_sign, hmac_verify, pbkdf2},
    key_pair::PairKind,
    nist_curve::Curve,
    okp::Okp,
    rsa_keys::{Rsa, RsaPadding},
};
