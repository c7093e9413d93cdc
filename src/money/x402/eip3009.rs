//! EIP-3009 `TransferWithAuthorization` signed with EIP-712, and verification of its signature.

use std::borrow::Cow;

use alloy_primitives::{Address, B256, Signature, U256};
use alloy_sol_types::{Eip712Domain, SolStruct, sol};
use serde::{Deserialize, Serialize};

use crate::Asset;

sol! {
    /// The typed data that a payer signs (EIP-3009).
    struct TransferWithAuthorization {
        address from;
        address to;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
    }
}

/// An EIP-3009 authorization, with its fields as texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Authorization {
    /// The payer.
    pub from: String,
    /// The recipient.
    pub to: String,
    /// The amount in the token's smallest unit, decimal.
    pub value: String,
    /// The time from which it is valid, in seconds since 1970, decimal.
    pub valid_after: String,
    /// The time when it expires, in seconds since 1970, decimal.
    pub valid_before: String,
    /// 32 bytes in hex. The token accepts each nonce once.
    pub nonce: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) value: U256,
    pub(crate) valid_after: U256,
    pub(crate) valid_before: U256,
    pub(crate) nonce: B256,
}

impl Transfer {
    /// Parses an authorization. `None` if a field is not a valid number or address.
    pub(crate) fn parse(authorization: &Authorization) -> Option<Self> {
        Some(Self {
            from: authorization.from.parse().ok()?,
            to: authorization.to.parse().ok()?,
            value: decimal(&authorization.value)?,
            valid_after: decimal(&authorization.valid_after)?,
            valid_before: decimal(&authorization.valid_before)?,
            nonce: authorization.nonce.parse().ok()?,
        })
    }

    /// Returns when it expires, in seconds since 1970, capped at the maximum.
    pub(crate) fn valid_before_secs(&self) -> u64 {
        u64::try_from(self.valid_before).unwrap_or(u64::MAX)
    }

    pub(crate) fn signing_hash(&self, asset: &Asset) -> B256 {
        let message = TransferWithAuthorization {
            from: self.from,
            to: self.to,
            value: self.value,
            validAfter: self.valid_after,
            validBefore: self.valid_before,
            nonce: self.nonce,
        };
        message.eip712_signing_hash(&domain(asset))
    }

    /// Returns whether the key of `from` signed the transfer.
    pub(crate) fn signed_by_payer(&self, signature: &str, asset: &Asset) -> bool {
        signed_by(self.from, signature, self.signing_hash(asset))
    }
}

/// Returns the EIP-712 domain of a token.
pub(crate) fn domain(asset: &Asset) -> Eip712Domain {
    Eip712Domain::new(
        Some(Cow::Borrowed(asset.name)),
        Some(Cow::Borrowed(asset.version)),
        asset.network.chain_id().map(U256::from),
        asset.address.parse().ok(),
        None,
    )
}

/// Returns whether the key of an address signed a hash. The signature has 65 bytes, a low `s` (EIP-2), and a `v` of 27
/// or 28, as tokens require, or of 0 or 1, as some hardware wallets write it.
pub(super) fn signed_by(address: Address, signature: &str, hash: B256) -> bool {
    let Some(mut bytes) = bytes_of(signature) else { return false };
    let Some(v) = bytes.last_mut() else { return false };
    if *v < 2 {
        *v += 27;
    }
    if !matches!(*v, 27 | 28) {
        return false;
    }
    let Ok(signature) = Signature::from_raw(&bytes) else { return false };
    if signature.normalize_s().is_some() {
        return false;
    }
    signature.recover_address_from_prehash(&hash).is_ok_and(|signer| signer == address)
}

/// Returns a signature with `v` 27 or 28 instead of 0 or 1. `None` if there is nothing to change. Use it only for
/// signatures by a key, because the last byte of a contract wallet's has another meaning.
pub(super) fn normalize_v(signature: &str) -> Option<String> {
    let bytes = bytes_of(signature).filter(|bytes| bytes.len() == 65)?;
    let v = match bytes.last()? {
        0 => "1b",
        1 => "1c",
        _ => return None,
    };
    Some(format!("{}{v}", &signature[..signature.len() - 2]))
}

/// Returns a description of a malformed signature, which tokens refuse. `None` if it is well-formed or may be a
/// contract wallet's.
pub(super) fn format_error(signature: &str) -> Option<String> {
    let Some(bytes) = bytes_of(signature) else { return Some("it is not hexadecimal with `0x`".to_owned()) };
    match (bytes.len(), bytes.last()) {
        (64, _) => Some("it is compact (EIP-2098); send 65 bytes: r, s and v".to_owned()),
        (65, Some(v)) if !matches!(v, 0 | 1 | 27 | 28) => Some(format!("its `v` is {v}, not 27 or 28")),
        (65, _) => {
            let is_high = Signature::from_raw(&bytes).is_ok_and(|signature| signature.normalize_s().is_some());
            is_high.then(|| {
                "its `s` is in the upper half of the curve's order (EIP-2); send the order minus `s`, and the other `v`".to_owned()
            })
        }
        (length, _) if length < 65 => Some(format!("it has {length} bytes, not 65")),
        _ if is_envelope(&bytes) => Some("it is an ERC-6492 envelope; deploy the wallet, and sign again without the envelope".to_owned()),
        _ => None,
    }
}

/// Returns whether a signature is an envelope for a wallet that is not deployed yet (ERC-6492): its last 32 bytes repeat
/// `6492`.
pub(crate) fn is_envelope(signature: &[u8]) -> bool {
    signature.ends_with(&[0x64_u8, 0x92].repeat(16))
}

/// Returns the length of a signature in bytes, or `None` if it is not hex.
pub(super) fn signature_len(signature: &str) -> Option<usize> {
    bytes_of(signature).map(|bytes| bytes.len())
}

fn bytes_of(signature: &str) -> Option<Vec<u8>> {
    hex::decode(signature.strip_prefix("0x")?).ok()
}

/// Parses decimal digits without leading zeros.
pub(super) fn decimal(text: &str) -> Option<U256> {
    let canonical = text == "0" || !text.starts_with('0');
    if text.is_empty() || !canonical || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    U256::from_str_radix(text, 10).ok()
}
