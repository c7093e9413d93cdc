//! What is signed: EIP-3009's authorisation where the price is fixed, Permit2's permit where there is a most.

use std::borrow::Cow;

use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::{Eip712Domain, SolStruct};
use serde_json::{Value, json};

use crate::money::{PERMIT2, PermitWitnessTransferFrom, TokenPermissions, TransferWithAuthorization, UPTO_PROXY, Witness};

/// What is accepted, who pays it, and what bounds the payment.
pub(super) struct Offer<'a> {
    pub(super) accepted: &'a Value,
    pub(super) payer: Address,
    /// Lets it be taken once.
    pub(super) nonce: B256,
    /// In seconds since 1970.
    pub(super) until: u64,
}

impl Offer<'_> {
    fn amount(&self) -> Option<U256> {
        let digits = self.accepted["amount"].as_str()?;
        digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| U256::from_str_radix(digits, 10).ok())?
    }

    fn address(&self, pointer: &str) -> Option<Address> {
        self.accepted.pointer(pointer)?.as_str()?.parse().ok()
    }

    fn chain(&self) -> Option<U256> {
        self.accepted["network"].as_str()?.strip_prefix("eip155:")?.parse::<u64>().ok().map(U256::from)
    }
}

/// An authorisation to take the price.
pub(super) fn transfer(offer: &Offer, sign: impl FnOnce(B256) -> Option<String>) -> Option<Value> {
    let token = |name: &str| Some(Cow::Owned(offer.accepted["extra"][name].as_str()?.to_owned()));
    let domain =
        Eip712Domain::new(Some(token("name")?), Some(token("version")?), Some(offer.chain()?), Some(offer.address("/asset")?), None);
    let message = TransferWithAuthorization {
        from: offer.payer,
        to: offer.address("/payTo")?,
        value: offer.amount()?,
        validAfter: U256::ZERO,
        validBefore: U256::from(offer.until),
        nonce: offer.nonce,
    };
    let authorization = json!({
        "from": message.from.to_string(),
        "to": offer.accepted["payTo"],
        "value": message.value.to_string(),
        "validAfter": "0",
        "validBefore": offer.until.to_string(),
        "nonce": message.nonce.to_string(),
    });
    Some(json!({ "signature": sign(message.eip712_signing_hash(&domain))?, "authorization": authorization }))
}

/// A permit to take as much as was charged, up to the most.
pub(super) fn permit(offer: &Offer, sign: impl FnOnce(B256) -> Option<String>) -> Option<Value> {
    let domain = Eip712Domain::new(Some(Cow::Borrowed("Permit2")), None, Some(offer.chain()?), Some(PERMIT2), None);
    let witness =
        Witness { to: offer.address("/payTo")?, facilitator: offer.address("/extra/facilitatorAddress")?, validAfter: U256::ZERO };
    let message = PermitWitnessTransferFrom {
        permitted: TokenPermissions { token: offer.address("/asset")?, amount: offer.amount()? },
        spender: UPTO_PROXY,
        nonce: U256::from_be_bytes(offer.nonce.0),
        deadline: U256::from(offer.until),
        witness,
    };
    let authorization = json!({
        "from": offer.payer.to_string(),
        "permitted": { "token": offer.accepted["asset"], "amount": message.permitted.amount.to_string() },
        "spender": UPTO_PROXY.to_string(),
        "nonce": message.nonce.to_string(),
        "deadline": offer.until.to_string(),
        "witness": { "to": offer.accepted["payTo"], "facilitator": offer.accepted["extra"]["facilitatorAddress"], "validAfter": "0" },
    });
    Some(json!({ "signature": sign(message.eip712_signing_hash(&domain))?, "permit2Authorization": authorization }))
}
