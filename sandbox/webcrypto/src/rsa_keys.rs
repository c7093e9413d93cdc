//! RSA (RFC 8017): PKCS#1 v1.5 and PSS signatures, and OAEP.

use getrandom::SysRng;
use rsa::{
    BoxedUint, Oaep, Pkcs1v15Sign, PrivateKey, Pss, PublicKey,
    pkcs1::{ALGORITHM_OID, EncodeRsaPrivateKey as _, RsaPrivateKeyRef, RsaPublicKeyRef, UintRef},
    pkcs8::{
        EncodePrivateKey as _, EncodePublicKey as _, PrivateKeyInfoRef, SubjectPublicKeyInfoRef,
        der::{Decode as _, Encode as _, asn1::AnyRef},
    },
};

use crate::{
    format::Format,
    hash::{Hash, with_hash},
};

/// Bits of the shortest and of the longest modulus.
const BITS: std::ops::RangeInclusive<usize> = 1024..=8192;

/// Bytes of the longest modulus.
const MODULUS_BYTES: usize = *BITS.end() / 8;

/// The padding of a signed digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RsaPadding {
    /// RSASSA-PKCS1-v1_5.
    Pkcs1,
    /// RSA-PSS, with the length of the salt in bytes.
    Pss(usize),
}

/// RSA, with two primes.
#[derive(Debug)]
pub struct Rsa;

impl Rsa {
    /// Makes a private key. A longer modulus takes longer: the watchdog of the worker ends a
    /// process that exceeds its processor time. Returns `None` for other lengths than
    /// 1,024 to 8,192 bits, and for exponents that are even, below 3 or above 2^33.
    pub(crate) fn generate(bits: usize, exponent: u64) -> Option<Vec<u8>> {
        if !BITS.contains(&bits) || exponent < 3 || exponent.is_multiple_of(2) || exponent > PublicKey::MAX_PUB_EXPONENT {
            return None;
        }
        let key = PrivateKey::new_with_exp(&mut SysRng, bits, BoxedUint::from(exponent)).ok()?;
        Some(key.to_pkcs1_der().ok()?.as_bytes().to_vec())
    }

    pub(crate) fn public_of(private: &[u8]) -> Option<Vec<u8>> {
        RsaPrivateKeyRef::from_der(private).ok()?.public_key().to_der().ok()
    }

    /// The fields of a JWK are each a length of two bytes with the number that follows: `n` and `e`
    /// of a public key, and `n`, `e`, `d`, `p`, `q`, `dp`, `dq`, `qi` of a private key.
    pub(crate) fn import(format: Format, bytes: &[u8]) -> Option<Vec<u8>> {
        match format {
            Format::Spki => {
                let info = SubjectPublicKeyInfoRef::try_from(bytes).ok()?;
                require_rsa(info.algorithm.oid == ALGORITHM_OID, info.algorithm.parameters)?;
                checked_public(info.subject_public_key.as_bytes()?)
            }
            Format::Pkcs8 => {
                let info = PrivateKeyInfoRef::try_from(bytes).ok()?;
                require_rsa(info.algorithm.oid == ALGORITHM_OID, info.algorithm.parameters)?;
                checked_private(info.private_key.as_bytes())
            }
            Format::RawPublic => {
                let [modulus, public_exponent] = fields(bytes)?;
                checked_public(&RsaPublicKeyRef { modulus, public_exponent }.to_der().ok()?)
            }
            Format::RawPrivate => {
                let [modulus, public_exponent, private_exponent, prime1, prime2, exponent1, exponent2, coefficient] = fields(bytes)?;
                let key = RsaPrivateKeyRef {
                    modulus,
                    public_exponent,
                    private_exponent,
                    prime1,
                    prime2,
                    exponent1,
                    exponent2,
                    coefficient,
                    other_prime_infos: None,
                };
                checked_private(&key.to_der().ok()?)
            }
        }
    }

    pub(crate) fn export(format: Format, key: &[u8]) -> Option<Vec<u8>> {
        match format {
            Format::Spki => Some(public_key(key)?.to_public_key_der().ok()?.as_bytes().to_vec()),
            Format::Pkcs8 => Some(private_key(key)?.to_pkcs8_der().ok()?.as_bytes().to_vec()),
            Format::RawPublic => {
                let key = RsaPublicKeyRef::from_der(key).ok()?;
                joined(&[key.modulus, key.public_exponent])
            }
            Format::RawPrivate => {
                let key = RsaPrivateKeyRef::from_der(key).ok()?;
                joined(&[
                    key.modulus,
                    key.public_exponent,
                    key.private_exponent,
                    key.prime1,
                    key.prime2,
                    key.exponent1,
                    key.exponent2,
                    key.coefficient,
                ])
            }
        }
    }

    /// Signs `data`. Returns `None` if the digest and the salt are too long for the key.
    #[must_use]
    pub fn sign(padding: RsaPadding, hash: Hash, private: &[u8], data: &[u8]) -> Option<Vec<u8>> {
        let key = private_key(private)?;
        let digest = hash.digest(data);
        with_hash!(hash, H => match padding {
            RsaPadding::Pkcs1 => key.sign_with_rng(&mut SysRng, Pkcs1v15Sign::new::<H>(), &digest).ok(),
            // The salt is allocated before it is compared with the key.
            RsaPadding::Pss(salt) if salt > MODULUS_BYTES => None,
            RsaPadding::Pss(salt) => key.sign_with_rng(&mut SysRng, Pss::<H>::new_with_salt(salt), &digest).ok(),
        })
    }

    /// Returns whether a signature is valid.
    #[must_use]
    pub fn verify(padding: RsaPadding, hash: Hash, public: &[u8], signature: &[u8], data: &[u8]) -> bool {
        let Some(key) = public_key(public) else { return false };
        let digest = hash.digest(data);
        with_hash!(hash, H => match padding {
            RsaPadding::Pkcs1 => key.verify(Pkcs1v15Sign::new::<H>(), &digest, signature).is_ok(),
            RsaPadding::Pss(salt) if salt > MODULUS_BYTES => false,
            RsaPadding::Pss(salt) => key.verify(Pss::<H>::new_with_salt(salt), &digest, signature).is_ok(),
        })
    }

    /// Encrypts a short text with OAEP. Returns `None` if it is too long for the key.
    #[must_use]
    pub fn encrypt(hash: Hash, public: &[u8], label: &[u8], text: &[u8]) -> Option<Vec<u8>> {
        let key = public_key(public)?;
        with_hash!(hash, H => key.encrypt(&mut SysRng, Oaep::<H>::new_with_label(label), text).ok())
    }

    /// Decrypts an OAEP ciphertext.
    #[must_use]
    pub fn decrypt(hash: Hash, private: &[u8], label: &[u8], text: &[u8]) -> Option<Vec<u8>> {
        let key = private_key(private)?;
        with_hash!(hash, H => key.decrypt_blinded(&mut SysRng, Oaep::<H>::new_with_label(label), text).ok())
    }
}

/// Returns `None` unless an algorithm is `rsaEncryption`, whose parameters are NULL or absent.
fn require_rsa(is_rsa: bool, parameters: Option<AnyRef<'_>>) -> Option<()> {
    (is_rsa && parameters.is_none_or(|parameters| parameters.is_null())).then_some(())
}

/// Returns whether the length of a modulus is supported.
fn has_length(modulus: UintRef<'_>) -> bool {
    let bytes = modulus.as_bytes();
    bytes.len() <= MODULUS_BYTES && bytes.first().is_some_and(|first| bytes.len() * 8 - first.leading_zeros() as usize >= *BITS.start())
}

fn public_key(der: &[u8]) -> Option<PublicKey> {
    let key = RsaPublicKeyRef::from_der(der).ok()?;
    if !has_length(key.modulus) {
        return None;
    }
    PublicKey::try_from(key).ok()
}

fn private_key(der: &[u8]) -> Option<PrivateKey> {
    let key = RsaPrivateKeyRef::from_der(der).ok()?;
    if !has_length(key.modulus) || key.other_prime_infos.is_some() {
        return None;
    }
    PrivateKey::try_from(key).ok()
}

fn checked_public(der: &[u8]) -> Option<Vec<u8>> {
    public_key(der).map(|_| der.to_vec())
}

/// Returns a private key if its numbers belong together. Those of the Chinese remainder theorem are
/// computed, because nothing else checks them.
fn checked_private(der: &[u8]) -> Option<Vec<u8>> {
    Some(private_key(der)?.to_pkcs1_der().ok()?.as_bytes().to_vec())
}

/// Splits a list of numbers, which must be complete.
fn fields<const N: usize>(mut bytes: &[u8]) -> Option<[UintRef<'_>; N]> {
    let mut numbers = Vec::with_capacity(N);
    for _ in 0..N {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let (number, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        if number.is_empty() {
            return None;
        }
        numbers.push(UintRef::new(number).ok()?);
        bytes = rest;
    }
    if bytes.is_empty() { numbers.try_into().ok() } else { None }
}

/// Joins numbers to a list for [`fields`].
fn joined(numbers: &[UintRef<'_>]) -> Option<Vec<u8>> {
    let mut list = Vec::new();
    for number in numbers {
        let bytes = number.as_bytes();
        list.extend_from_slice(&u16::try_from(bytes.len()).ok()?.to_be_bytes());
        list.extend_from_slice(bytes);
    }
    Some(list)
}
