//! The play wallet, with which visitors of a simulated host pay. The host creates its key and signs
//! with it.
//!
//! Only the visitor's browser stores the key, which is worth nothing but play money. A payment is
//! derived from the form that it pays for: the same form has the same payment, however often it is
//! requested, and a payment is taken only once.

mod faucet;
mod payment;

use std::{fmt, str::FromStr};

use alloy_primitives::{Address, B256};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tollhouse_api::PaymentRequirements;
use tollhouse_money::{
    WireVersion,
    payer::{PayKey, PayableTerms, PaymentBounds},
};

pub(super) use self::{
    faucet::fund,
    payment::{Payment, is_id},
};

/// Validity of a payment, in seconds. If a call is repeated within that time, it is the same call.
pub(super) const VALID_SECS: u64 = 60 * 60;

pub(super) struct PlayWallet(PayKey);

#[derive(Debug, Clone, Copy)]
pub(super) struct PaymentPurpose<'a> {
    pub(super) form: &'a str,
    /// Creation time of the form, in seconds since 1970.
    pub(super) made_secs: u64,
    pub(super) slug: &'a str,
    pub(super) input: &'a str,
}

/// Returns the first of these ways to pay that an Ethereum wallet can sign for.
pub(super) fn signable(accepts: &[PaymentRequirements]) -> Option<&PaymentRequirements> {
    accepts.iter().find(|accepted| accepted.network.starts_with("eip155:"))
}

impl PlayWallet {
    /// Creates a wallet with a new key and no money. Returns `None` if the system has no
    /// randomness.
    pub(super) fn new() -> Option<Self> {
        PayKey::generate().map(Self)
    }

    pub(super) fn address(&self) -> Address {
        self.0.address()
    }

    /// Signs a payment for an accepted way to pay. Returns `None` if the wallet cannot sign for it.
    pub(super) fn pay(&self, purpose: PaymentPurpose, accepted: &PaymentRequirements, resource: &Value) -> Option<Payment> {
        self.sign(purpose, &serde_json::to_value(accepted).ok()?, resource)
    }

    fn sign(&self, purpose: PaymentPurpose, accepted: &Value, resource: &Value) -> Option<Payment> {
        let until = purpose.made_secs.checked_add(VALID_SECS)?;
        let terms = PayableTerms::read(WireVersion::V2, accepted).ok()?;
        let bounds = PaymentBounds { nonce: self.nonce(purpose, accepted), until_secs: until };
        let mut signed = terms.signed(&self.0, &bounds, resource);
        signed["extensions"] = json!({ "replay-token": { "info": { "token": self.token(&bounds.nonce) } } });
        Payment::new(signed)
    }

    /// Returns the secret token of a payment, which is not on any chain. The same form gets the
    /// same answer again.
    fn token(&self, nonce: &B256) -> String {
        let hash = Sha256::new().chain_update("tollhouse play token").chain_update(*self.0.secret_bytes()).chain_update(nonce);
        URL_SAFE_NO_PAD.encode(&hash.finalize()[..16])
    }

    /// Returns the nonce: unique for each form, input and offer, and unpredictable for others.
    fn nonce(&self, purpose: PaymentPurpose, accepted: &Value) -> B256 {
        let PaymentPurpose { form, made_secs, slug, input } = purpose;
        let mut hash = Sha256::new().chain_update("tollhouse play wallet").chain_update(*self.0.secret_bytes());
        for part in [form, &made_secs.to_string(), slug, input, &accepted.to_string()] {
            hash.update(format!("\n{} {part}", part.len()));
        }
        B256::from_slice(&hash.finalize())
    }
}

impl fmt::Display for PlayWallet {
    /// Formats the value of the cookie.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.secret())
    }
}

impl FromStr for PlayWallet {
    type Err = ();

    fn from_str(stored: &str) -> Result<Self, ()> {
        stored.parse().map(Self).map_err(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PURPOSE: PaymentPurpose = PaymentPurpose { form: "one", made_secs: 1_800_000_000, slug: "said", input: "{}" };

    fn accepted() -> Value {
        json!({
            "scheme": "exact", "network": "eip155:84532", "amount": "3000", "asset": "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
            "payTo": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", "maxTimeoutSeconds": 40, "extra": { "name": "USDC", "version": "2" },
        })
    }

    #[test]
    fn each_form_has_its_own_payment() {
        let wallet = PlayWallet::new().unwrap();
        let pay = |purpose, accepted: &Value| wallet.sign(purpose, accepted, &Value::Null).unwrap();
        let payment = pay(PURPOSE, &accepted());
        assert_eq!(payment, pay(PURPOSE, &accepted()));
        let stored: PlayWallet = wallet.to_string().parse().unwrap();
        assert_eq!(payment, stored.sign(PURPOSE, &accepted(), &Value::Null).unwrap());
        let mut other_price = accepted();
        other_price["amount"] = json!("3001");
        let others = [
            pay(PaymentPurpose { form: "two", ..PURPOSE }, &accepted()),
            pay(PaymentPurpose { made_secs: 1_800_000_001, ..PURPOSE }, &accepted()),
            pay(PaymentPurpose { slug: "sai", input: "d{}", ..PURPOSE }, &accepted()),
            pay(PaymentPurpose { input: "[]", ..PURPOSE }, &accepted()),
            pay(PURPOSE, &other_price),
            PlayWallet::new().unwrap().sign(PURPOSE, &accepted(), &Value::Null).unwrap(),
        ];
        let mut ids: Vec<_> = others.iter().chain([&payment]).map(|payment| payment.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 7);
    }

    #[test]
    fn only_accepted_terms_are_signed() {
        let wallet = PlayWallet::new().unwrap();
        let payment = wallet.sign(PURPOSE, &accepted(), &Value::Null).unwrap();
        let authorization = &payment.payload()["payload"]["authorization"];
        assert_eq!((&authorization["value"], &authorization["to"]), (&accepted()["amount"], &accepted()["payTo"]));
        assert_eq!(authorization["validBefore"], "1800003600");
        for (pointer, value) in [
            ("/scheme", json!("batch")),
            ("/network", json!("solana:x")),
            ("/amount", json!("-1")),
            ("/amount", json!(3000)),
            ("/asset", json!("0x1")),
            ("/payTo", json!(null)),
            ("/extra/name", json!(null)),
        ] {
            let mut other = accepted();
            *other.pointer_mut(pointer).unwrap() = value;
            assert_eq!(wallet.sign(PURPOSE, &other, &Value::Null), None, "{pointer}");
        }
    }

    #[test]
    fn wallet_is_restored_from_its_text() {
        let wallet = PlayWallet::new().unwrap();
        let stored: PlayWallet = wallet.to_string().parse().unwrap();
        assert_eq!(stored.address(), wallet.address());
        let key = "01".repeat(32);
        for none in ["", "x", &key[1..], &format!("{key}0"), &"00".repeat(32), &"ff".repeat(32)] {
            assert!(none.parse::<PlayWallet>().is_err(), "{none}");
        }
    }
}
