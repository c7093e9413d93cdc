//! `crypto`: random bytes and digests.

use deno_core::op2;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};

/// Fills `bytes` with random data. Ends the process if the system has no randomness, because
/// nothing else would be safe.
#[op2(fast)]
pub(super) fn op_random(#[buffer] bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system gives random bytes");
}

/// Returns a random UUID, version 4.
#[op2]
#[string]
pub(super) fn op_uuid() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    let bits = u128::from_be_bytes(bytes) & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Returns the digest with this number, as defined in 09_crypto_algorithms.js.
#[op2]
#[buffer]
pub(super) fn op_digest(#[smi] digest: u32, #[buffer] bytes: &[u8]) -> Vec<u8> {
    match digest {
        1 => Sha1::digest(bytes).to_vec(),
        384 => Sha384::digest(bytes).to_vec(),
        512 => Sha512::digest(bytes).to_vec(),
        _ => Sha256::digest(bytes).to_vec(),
    }
}
