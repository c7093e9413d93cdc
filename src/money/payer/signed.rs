//! Signs payments: an EIP-3009 authorization for a fixed price, a Permit2 permit for a maximum.

use std::borrow::Cow;

use alloy_primitives::{Address, U256};
use alloy_sol_types::{Eip712Domain, SolStruct as _};
use serde_json::{Value, json};

use super::{
    key::PayKey,
    payable_terms::{PayableTerms, PaymentBounds, Scheme},
};
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
