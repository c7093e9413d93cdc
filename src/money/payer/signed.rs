//! Signs payments: an EIP-3009 authorization for a fixed price, a Permit2 permit for a maximum.

use std::{borrow::Cow, fmt, str::FromStr};

use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::{Eip712Domain, SolStruct as _};
use k256::ecdsa::SigningKey;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::payable_terms::{PayableTerms, PaymentBounds, Scheme};
use crate::{PERMIT2, PermitWitnessTransferFrom, TokenPermissions, TransferWithAuthorization, UPTO_PROXY, WireVersion, Witness};

impl PayableTerms {
    /// Returns the JSON of a payment header, signed by `key`, before base64. `resource` is that of the challenge.
    pub fn signed(&self, key: &PayKey, bounds: &PaymentBounds, resource: &Value) -> Value {
        let payload = match self.scheme {
            Scheme::Exact => transfer(self, key, bounds),
            Scheme::Upto => permit(self, key, bounds),
        };
        match self.version {
            WireVersion::V1 => {
                json!({ "x402Version": 1, "scheme": self.accepted["scheme"], "network": self.accepted["network"], "payload": payload })
            }
            WireVersion::V2 => json!({ "x402Version": 2, "resource": resource, "accepted": self.accepted, "payload": payload }),
        }
    }
}

/// Signs an authorization to take the price.
fn transfer(ask: &PayableTerms, key: &PayKey, bounds: &PaymentBounds) -> Value {
    let (name, version) = &ask.domain;
    let domain = domain(name, Some(version), ask, ask.asset);
    let message = TransferWithAuthorization {
        from: key.address(),
        to: ask.pay_to,
        value: ask.amount,
        validAfter: U256::ZERO,
        validBefore: U256::from(bounds.until_secs),
        nonce: bounds.nonce,
    };
    let authorization = json!({
        "from": message.from.to_string(),
        "to": ask.pay_to.to_string(),
        "value": message.value.to_string(),
        "validAfter": "0",
        "validBefore": bounds.until_secs.to_string(),
        "nonce": message.nonce.to_string(),
    });
    json!({ "signature": key.sign(message.eip712_signing_hash(&domain)), "authorization": authorization })
}

/// Signs a permit to take the charged amount, up to the maximum.
fn permit(ask: &PayableTerms, key: &PayKey, bounds: &PaymentBounds) -> Value {
    let domain = domain("Permit2", None, ask, PERMIT2);
    let witness = Witness { to: ask.pay_to, facilitator: ask.facilitator.unwrap_or_default(), validAfter: U256::ZERO };
    let message = PermitWitnessTransferFrom {
        permitted: TokenPermissions { token: ask.asset, amount: ask.amount },
        spender: UPTO_PROXY,
        nonce: U256::from_be_bytes(bounds.nonce.0),
        deadline: U256::from(bounds.until_secs),
        witness,
    };
    let authorization = json!({
        "from": key.address().to_string(),
        "permitted": { "token": ask.asset.to_string(), "amount": message.permitted.amount.to_string() },
        "spender": UPTO_PROXY.to_string(),
        "nonce": message.nonce.to_string(),
        "deadline": bounds.until_secs.to_string(),
        "witness": { "to": ask.pay_to.to_string(), "facilitator": message.witness.facilitator.to_string(), "validAfter": "0" },
    });
    json!({ "signature": key.sign(message.eip712_signing_hash(&domain)), "permit2Authorization": authorization })
}

fn domain(name: &str, version: Option<&str>, ask: &PayableTerms, contract: Address) -> Eip712Domain {
    let own = |text: &str| Cow::Owned(text.to_owned());
    Eip712Domain::new(Some(own(name)), version.map(own), Some(U256::from(ask.chain_id)), Some(contract), None)
}

/// Length of a key in bytes.
const BYTES: usize = 32;

/// A secp256k1 key that is wiped from memory when dropped. `Debug` does not show it.
pub struct PayKey(SigningKey);

/// The error for a text that is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a key must be 32 bytes in hex, with or without `0x`")]
pub struct PayKeyError;

impl PayKey {
    /// Generates a key. `None` if the system has no randomness.
    pub fn generate() -> Option<Self> {
        let mut secret = Zeroizing::new([0; BYTES]);
        getrandom::fill(&mut *secret).ok()?;
        SigningKey::from_slice(&*secret).ok().map(Self)
    }

    /// Returns the payer's address.
    pub fn address(&self) -> Address {
        Address::from_private_key(&self.0)
    }

    /// Returns the secret in hex without `0x`, for storing it.
    pub fn secret(&self) -> Zeroizing<String> {
        Zeroizing::new(hex::encode(*self.secret_bytes()))
    }

    /// Returns the secret key, in bytes that are erased when dropped.
    pub fn secret_bytes(&self) -> Zeroizing<[u8; BYTES]> {
        Zeroizing::new(self.0.to_bytes().into())
    }

    /// Signs a hash. Returns 65 bytes in hex, the format of token signatures.
    pub fn sign(&self, hash: B256) -> String {
        let (signature, recovery) = self.0.sign_prehash_recoverable(hash.as_slice()).expect("a hash has 32 bytes");
        format!("0x{}{:02x}", hex::encode(signature.to_bytes()), 27 + recovery.to_byte())
    }
}

impl FromStr for PayKey {
    type Err = PayKeyError;

    fn from_str(text: &str) -> Result<Self, PayKeyError> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let bytes = Some(digits).filter(|digits| digits.len() == 2 * BYTES).and_then(|digits| hex::decode(digits).ok());
        let bytes = Zeroizing::new(bytes.ok_or(PayKeyError)?);
        SigningKey::from_slice(&bytes).map(Self).map_err(|_| PayKeyError)
    }
}

impl fmt::Debug for PayKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PayKey({})", self.address())
    }
}
