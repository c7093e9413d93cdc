//! `crypto.subtle`: keys, signatures, ciphers and derivations, with `tollhouse-webcrypto`.
//!
//! The scripts check names, usages and lengths. A key is bytes that only they hold. Results that
//! grow with the arguments go into buffers of the scripts, which the allocator counts. An empty
//! result, a negative length or `false` means that the op failed.
//!
//! No op waits. PBKDF2 and the generation of RSA keys can take any time: the watchdog ends a process
//! that exceeds the processor time of its call, as for any loop in a native function.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use deno_core::{OpDecl, op2, v8};
use tollhouse_webcrypto::{self as webcrypto, Curve, Format, Hash, Okp, PairKind, Rsa, RsaPadding};

use super::args;
use crate::memory;

pub(super) fn table() -> Vec<OpDecl> {
    vec![
        op_base64url_encode(),
        op_base64url_decode(),
        op_crypto_import(),
        op_crypto_export(),
        op_crypto_public(),
        op_crypto_generate(),
        op_crypto_agree(),
        op_crypto_sign(),
        op_crypto_verify(),
        op_crypto_oaep_encrypt(),
        op_crypto_oaep_decrypt(),
        op_aes_cbc(),
        op_aes_ctr(),
        op_aes_gcm(),
        op_aes_kw(),
        op_hkdf(),
        op_pbkdf2(),
    ]
}

/// Encodes a field of a JWK.
#[op2]
#[string]
fn op_base64url_encode(#[buffer] bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes a field of a JWK. Returns `undefined` if the buffer limit does not permit the result; the
/// call is stopped then.
#[op2]
fn op_base64url_decode<'s>(scope: &mut v8::PinScope<'s, '_>, #[string] text: String) -> v8::Local<'s, v8::Value> {
    let bytes = URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
    memory::bytes(scope, bytes).map_or_else(|| v8::undefined(scope).into(), Into::into)
}

/// Parses and validates a key of the kind `RSA` or of a curve.
#[op2]
#[buffer]
fn op_crypto_import(#[string] kind: &str, #[string] format: &str, #[buffer] bytes: &[u8]) -> Vec<u8> {
    let named = PairKind::named(kind).zip(Format::named(format));
    named.and_then(|(kind, format)| kind.import(format, bytes)).unwrap_or_default()
}

#[op2]
#[buffer]
fn op_crypto_export(#[string] kind: &str, #[string] format: &str, #[buffer] key: &[u8]) -> Vec<u8> {
    let named = PairKind::named(kind).zip(Format::named(format));
    named.and_then(|(kind, format)| kind.export(format, key)).unwrap_or_default()
}

/// Returns the public key of a private key.
#[op2]
#[buffer]
fn op_crypto_public(#[string] kind: &str, #[buffer] private: &[u8]) -> Vec<u8> {
    PairKind::named(kind).and_then(|kind| kind.public_of(private)).unwrap_or_default()
}

/// Makes a private key. `bits` and `exponent` are for RSA.
#[op2]
#[buffer]
fn op_crypto_generate(#[string] kind: &str, bits: f64, exponent: f64) -> Vec<u8> {
    let bits = args::whole(bits).and_then(|bits| usize::try_from(bits).ok()).unwrap_or(0);
    PairKind::named(kind).and_then(|kind| kind.generate(bits, args::whole(exponent).unwrap_or(0))).unwrap_or_default()
}

/// Returns the shared secret of two parties.
#[op2]
#[buffer]
fn op_crypto_agree(#[string] kind: &str, #[buffer] private: &[u8], #[buffer] public: &[u8]) -> Vec<u8> {
    PairKind::named(kind).and_then(|kind| kind.agree(private, public)).unwrap_or_default()
}

/// Signs data. The scheme is the name of an algorithm, or the curve for ECDSA.
#[op2]
#[buffer]
fn op_crypto_sign(#[string] scheme: &str, #[smi] hash: u32, #[smi] salt: u32, #[buffer] key: &[u8], #[buffer] data: &[u8]) -> Vec<u8> {
    match Scheme::named(scheme, hash, salt) {
        Some(Scheme::Hmac(hash)) => Some(webcrypto::hmac_sign(hash, key, data)),
        Some(Scheme::Rsa(padding, hash)) => Rsa::sign(padding, hash, key, data),
        Some(Scheme::Ecdsa(curve, hash)) => curve.sign(hash, key, data),
        Some(Scheme::Okp(okp)) => okp.sign(key, data),
        None => None,
    }
    .unwrap_or_default()
}

/// Returns whether a signature is valid.
#[op2(fast)]
fn op_crypto_verify(
    #[string] scheme: &str,
    #[smi] hash: u32,
    #[smi] salt: u32,
    #[buffer] key: &[u8],
    #[buffer] signature: &[u8],
    #[buffer] data: &[u8],
) -> bool {
    match Scheme::named(scheme, hash, salt) {
        Some(Scheme::Hmac(hash)) => webcrypto::hmac_verify(hash, key, signature, data),
        Some(Scheme::Rsa(padding, hash)) => Rsa::verify(padding, hash, key, signature, data),
        Some(Scheme::Ecdsa(curve, hash)) => curve.verify(hash, key, signature, data),
        Some(Scheme::Okp(okp)) => okp.verify(key, signature, data),
        None => false,
    }
}

/// A way to sign.
enum Scheme {
    Hmac(Hash),
    Rsa(RsaPadding, Hash),
    Ecdsa(Curve, Hash),
    Okp(Okp),
}

impl Scheme {
    fn named(name: &str, hash: u32, salt: u32) -> Option<Self> {
        let hash = Hash::numbered(hash);
        match name {
            "HMAC" => hash.map(Self::Hmac),
            "RSASSA-PKCS1-v1_5" => hash.map(|hash| Self::Rsa(RsaPadding::Pkcs1, hash)),
            "RSA-PSS" => Some(Self::Rsa(RsaPadding::Pss(usize::try_from(salt).ok()?), hash?)),
            _ => match (Curve::named(name), hash) {
                (Some(curve), Some(hash)) => Some(Self::Ecdsa(curve, hash)),
                _ => Okp::named(name).map(Self::Okp),
            },
        }
    }
}

/// Encrypts with RSA-OAEP.
#[op2]
#[buffer]
fn op_crypto_oaep_encrypt(#[smi] hash: u32, #[buffer] key: &[u8], #[buffer] label: &[u8], #[buffer] text: &[u8]) -> Vec<u8> {
    Hash::numbered(hash).and_then(|hash| Rsa::encrypt(hash, key, label, text)).unwrap_or_default()
}

/// Decrypts with RSA-OAEP into `output`. Returns the length of the text.
#[op2(fast)]
#[smi]
fn op_crypto_oaep_decrypt(
    #[smi] hash: u32,
    #[buffer] key: &[u8],
    #[buffer] label: &[u8],
    #[buffer] data: &[u8],
    #[buffer] output: &mut [u8],
) -> i32 {
    let Some(text) = Hash::numbered(hash).and_then(|hash| Rsa::decrypt(hash, key, label, data)) else { return -1 };
    let Some(room) = output.get_mut(..text.len()) else { return -1 };
    room.copy_from_slice(&text);
    length(text.len())
}

fn length(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(-1)
}

/// Encrypts the first `bytes` of a buffer with room for the padding, or decrypts a buffer. Returns
/// the length of the result in the buffer.
#[op2(fast)]
#[smi]
fn op_aes_cbc(encrypts: bool, #[buffer] key: &[u8], #[buffer] iv: &[u8], #[buffer] buffer: &mut [u8], #[smi] bytes: u32) -> i32 {
    if !encrypts {
        return webcrypto::cbc_decrypt(key, iv, buffer).map_or(-1, length);
    }
    let Ok(bytes) = usize::try_from(bytes) else { return -1 };
    if webcrypto::cbc_encrypt(key, iv, buffer, bytes) { length(buffer.len()) } else { -1 }
}

/// Encrypts or decrypts a buffer. The last `bits` of the counter count.
#[op2(fast)]
fn op_aes_ctr(#[buffer] key: &[u8], #[buffer] counter: &[u8], #[smi] bits: u32, #[buffer] buffer: &mut [u8]) -> bool {
    webcrypto::ctr(key, counter, bits, buffer)
}

/// Encrypts a buffer with room for a tag at its end, or decrypts one that ends with a tag.
#[op2(fast)]
fn op_aes_gcm(
    encrypts: bool,
    #[buffer] key: &[u8],
    #[buffer] iv: &[u8],
    #[buffer] additional: &[u8],
    #[smi] tag: u32,
    #[buffer] buffer: &mut [u8],
) -> bool {
    let Ok(tag) = usize::try_from(tag) else { return false };
    if encrypts { webcrypto::gcm_seal(key, iv, additional, tag, buffer) } else { webcrypto::gcm_open(key, iv, additional, tag, buffer) }
}

/// Wraps or unwraps data into `output`.
#[op2(fast)]
fn op_aes_kw(wraps: bool, #[buffer] key: &[u8], #[buffer] data: &[u8], #[buffer] output: &mut [u8]) -> bool {
    if wraps { webcrypto::kw_wrap(key, data, output) } else { webcrypto::kw_unwrap(key, data, output) }
}

/// Fills `output` with HKDF.
#[op2(fast)]
fn op_hkdf(#[smi] hash: u32, #[buffer] key: &[u8], #[buffer] salt: &[u8], #[buffer] info: &[u8], #[buffer] output: &mut [u8]) -> bool {
    Hash::numbered(hash).is_some_and(|hash| webcrypto::hkdf(hash, key, salt, info, output))
}

/// Fills `output` with PBKDF2.
#[op2(fast)]
fn op_pbkdf2(#[smi] hash: u32, #[buffer] password: &[u8], #[buffer] salt: &[u8], iterations: f64, #[buffer] output: &mut [u8]) {
    let iterations = args::whole(iterations).and_then(|iterations| u32::try_from(iterations).ok());
    if let Some((hash, iterations)) = Hash::numbered(hash).zip(iterations) {
        webcrypto::pbkdf2(hash, password, salt, iterations, output);
    }
}
