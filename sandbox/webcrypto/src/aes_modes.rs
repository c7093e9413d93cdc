//! AES (FIPS 197) in the modes of the Web Cryptography API, in place.

use aes::{
    Block,
    cipher::{
        BlockCipherEncrypt as _, BlockModeDecrypt as _, BlockModeEncrypt as _, KeyInit as _, KeyIvInit as _, StreamCipher as _,
        block_padding::Pkcs7,
    },
};
use ghash::{GHash, universal_hash::UniversalHash as _};
use subtle::ConstantTimeEq as _;

/// Bytes of a block.
const BLOCK: usize = 16;

/// Evaluates an expression with the type of the cipher for a key of this length, or returns `None`
/// or `false`.
macro_rules! with_cipher {
    ($key:expr, $Type:ident => $body:expr, $otherwise:expr) => {
        match $key.len() {
            16 => {
                type $Type = aes::Aes128;
                $body
            }
            24 => {
                type $Type = aes::Aes192;
                $body
            }
            32 => {
                type $Type = aes::Aes256;
                $body
            }
            _ => $otherwise,
        }
    };
}

/// Encrypts the first `length` bytes of `buffer` with CBC and the padding of PKCS#7 (SP 800-38A,
/// RFC 5652). The buffer has room for the padding, and is filled. Returns false for an invalid
/// length of `key`, `iv` or `buffer`.
#[must_use]
pub fn cbc_encrypt(key: &[u8], iv: &[u8], buffer: &mut [u8], length: usize) -> bool {
    if length > buffer.len() || buffer.len() != (length / BLOCK + 1) * BLOCK {
        return false;
    }
    with_cipher!(
        key,
        A => cbc::Encryptor::<A>::new_from_slices(key, iv).is_ok_and(|mode| mode.encrypt_padded::<Pkcs7>(buffer, length).is_ok()),
        false
    )
}

/// Decrypts `buffer` with CBC. Returns the length of the text at its start, or `None` if the length
/// or the padding is wrong.
#[must_use]
pub fn cbc_decrypt(key: &[u8], iv: &[u8], buffer: &mut [u8]) -> Option<usize> {
    if buffer.is_empty() {
        return None;
    }
    with_cipher!(
        key,
        A => {
            let mode = cbc::Decryptor::<A>::new_from_slices(key, iv).ok()?;
            let text = mode.decrypt_padded::<Pkcs7>(buffer).ok()?;
            Some(text.len())
        },
        None
    )
}

/// Encrypts or decrypts `buffer` with CTR (SP 800-38A). The last `length` bits of `counter` count,
/// and wrap. Returns false for an invalid length, or if the counter would repeat.
#[must_use]
pub fn ctr(key: &[u8], counter: &[u8], length: u32, buffer: &mut [u8]) -> bool {
    let Ok(counter) = <[u8; BLOCK]>::try_from(counter) else { return false };
    if !(1..=128).contains(&length) {
        return false;
    }
    let start = u128::from_be_bytes(counter);
    let mask = u128::MAX >> (128 - length);
    let blocks = buffer.len().div_ceil(BLOCK) as u128;
    if blocks.saturating_sub(1) > mask {
        return false;
    }
    let until_wrap = (mask - (start & mask)).saturating_add(1).saturating_mul(BLOCK as u128);
    let first = usize::try_from(until_wrap).unwrap_or(usize::MAX).min(buffer.len());
    let (head, tail) = buffer.split_at_mut(first);
    ctr128(key, counter, head) && ctr128(key, (start & !mask).to_be_bytes(), tail)
}

/// Applies the key stream from `counter` on, which does not wrap within `buffer`.
fn ctr128(key: &[u8], counter: [u8; BLOCK], buffer: &mut [u8]) -> bool {
    with_cipher!(
        key,
        A => ctr::Ctr128BE::<A>::new_from_slices(key, &counter).is_ok_and(|mut mode| mode.try_apply_keystream(buffer).is_ok()),
        false
    )
}

/// Encrypts `buffer` with GCM (SP 800-38D). Its last `tag` bytes get the tag. Returns false for an
/// invalid length.
#[must_use]
pub fn gcm_seal(key: &[u8], iv: &[u8], additional: &[u8], tag: usize, buffer: &mut [u8]) -> bool {
    let (Some(mode), Some(length)) = (Gcm::new(key, iv), buffer.len().checked_sub(tag)) else { return false };
    let (text, written) = buffer.split_at_mut(length);
    if tag > BLOCK || !mode.apply(key, text) {
        return false;
    }
    written.copy_from_slice(&mode.tag(additional, text)[..tag]);
    true
}

/// Decrypts `buffer`, which ends with a tag of `tag` bytes, with GCM. Returns false for an invalid
/// length or a wrong tag. Then the buffer is unchanged.
#[must_use]
pub fn gcm_open(key: &[u8], iv: &[u8], additional: &[u8], tag: usize, buffer: &mut [u8]) -> bool {
    let (Some(mode), Some(length)) = (Gcm::new(key, iv), buffer.len().checked_sub(tag)) else { return false };
    let (text, given) = buffer.split_at_mut(length);
    if tag == 0 || tag > BLOCK || !bool::from(mode.tag(additional, text)[..tag].ct_eq(given)) {
        return false;
    }
    mode.apply(key, text)
}

/// GCM with one key and one initialization vector, of any length. The crate `aes-gcm` fixes the
/// lengths of the vector and of the tag at compile time.
struct Gcm {
    /// Key of GHASH: the encrypted block of zeros.
    hash_key: [u8; BLOCK],
    /// The counter block before that of the first block of text.
    first: [u8; BLOCK],
    /// The encrypted `first`, which masks the tag.
    mask: [u8; BLOCK],
}

impl Gcm {
    fn new(key: &[u8], iv: &[u8]) -> Option<Self> {
        if iv.is_empty() {
            return None;
        }
        let hash_key = encrypt_block(key, [0; BLOCK])?;
        let mut first = [0; BLOCK];
        if iv.len() == 12 {
            first[..12].copy_from_slice(iv);
            first[15] = 1;
        } else {
            first = ghash(&hash_key, &[], iv);
        }
        Some(Self { hash_key, first, mask: encrypt_block(key, first)? })
    }

    /// Applies the key stream. Only the last 32 bits of the counter count.
    fn apply(&self, key: &[u8], text: &mut [u8]) -> bool {
        let mut counter = self.first;
        let (_, last) = counter.split_at_mut(12);
        let number = u32::from_be_bytes([last[0], last[1], last[2], last[3]]).wrapping_add(1);
        last.copy_from_slice(&number.to_be_bytes());
        with_cipher!(
            key,
            A => ctr::Ctr32BE::<A>::new_from_slices(key, &counter).is_ok_and(|mut mode| mode.try_apply_keystream(text).is_ok()),
            false
        )
    }

    /// Returns the tag of an encrypted text.
    fn tag(&self, additional: &[u8], text: &[u8]) -> [u8; BLOCK] {
        let mut tag = ghash(&self.hash_key, additional, text);
        for (byte, mask) in tag.iter_mut().zip(self.mask) {
            *byte ^= mask;
        }
        tag
    }
}

/// Returns the GHASH of two texts, each padded with zeros, and of their lengths in bits.
fn ghash(key: &[u8; BLOCK], additional: &[u8], text: &[u8]) -> [u8; BLOCK] {
    let mut hash = GHash::new(&(*key).into());
    hash.update_padded(additional);
    hash.update_padded(text);
    let mut lengths = [0; BLOCK];
    lengths[..8].copy_from_slice(&bits(additional).to_be_bytes());
    lengths[8..].copy_from_slice(&bits(text).to_be_bytes());
    hash.update_padded(&lengths);
    hash.finalize().into()
}

fn bits(text: &[u8]) -> u64 {
    text.len() as u64 * 8
}

fn encrypt_block(key: &[u8], bytes: [u8; BLOCK]) -> Option<[u8; BLOCK]> {
    with_cipher!(
        key,
        A => {
            let mut block = Block::from(bytes);
            A::new_from_slice(key).ok()?.encrypt_block(&mut block);
            Some(block.into())
        },
        None
    )
}

/// Wraps `data` into `output`, which is 8 bytes longer (RFC 3394). Returns false for an invalid
/// length.
#[must_use]
pub fn kw_wrap(key: &[u8], data: &[u8], output: &mut [u8]) -> bool {
    if data.is_empty() || output.len() != data.len() + 8 {
        return false;
    }
    with_cipher!(key, A => aes_kw::AesKw::<A>::new_from_slice(key).is_ok_and(|mode| mode.wrap_key(data, output).is_ok()), false)
}

/// Unwraps `data` into `output`, which is 8 bytes shorter. Returns false for an invalid length, or
/// if the data are not intact.
#[must_use]
pub fn kw_unwrap(key: &[u8], data: &[u8], output: &mut [u8]) -> bool {
    if data.len() < 16 || output.len() != data.len() - 8 {
        return false;
    }
    with_cipher!(key, A => aes_kw::AesKw::<A>::new_from_slice(key).is_ok_and(|mode| mode.unwrap_key(data, output).is_ok()), false)
}
