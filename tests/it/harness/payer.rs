//! A payer that signs EIP-3009 authorizations itself, so that a test can send a payment many times,
//! or alter it.

use std::{borrow::Cow, time::UNIX_EPOCH};

use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::{Eip712Domain, SolStruct, sol};
use k256::ecdsa::SigningKey;
use serde_json::{Value, json};

use super::{Host, Payment};

sol! {
    /// The typed data of EIP-3009.
    struct TransferWithAuthorization {
        address from;
        address to;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
    }
}

/// A key and its address.
#[derive(Debug)]
pub struct Payer {
    key: SigningKey,
    pub address: String,
}

impl Payer {
    /// Creates a payer with a new key and no money.
    pub fn new() -> Self {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).unwrap();
        Self::of(&hex::encode(secret))
    }

    /// Creates a payer with this key.
    pub fn of(secret: &str) -> Self {
        let key = SigningKey::from_slice(&hex::decode(secret).unwrap()).unwrap();
        let address = Address::from_private_key(&key).to_checksum(None);
        Self { key, address }
    }

    /// Returns the key in the form that clients use.
    pub fn secret(&self) -> String {
        format!("0x{}", hex::encode(self.key.to_bytes()))
    }

    /// Creates a payer with simulated money.
    pub async fn funded(host: &Host, amount_usd: f64) -> Self {
        let payer = Self::new();
        host.post("/dev/faucet", &json!({ "address": payer.address, "amountUsd": amount_usd })).await.is(200);
        payer
    }

    /// Signs a v2 payment for a v2 challenge. It includes the challenge's token, as with standard
    /// clients.
    pub fn pay(&self, challenge: &Value) -> Payment {
        let accepted = &challenge["accepts"][0];
        let exact = self.authorize(accepted, accepted["amount"].as_str().unwrap(), 84_532);
        let mut payload = json!({ "x402Version": 2, "resource": challenge["resource"], "accepted": accepted, "payload": exact });
        let token = &challenge["extensions"]["replay-token"];
        if token.is_object() {
            payload["extensions"] = json!({ "replay-token": token });
        }
        Payment {
            header: "PAYMENT-SIGNATURE",
            payload,
            network: accepted["network"].as_str().unwrap().to_owned(),
            asset: accepted["asset"].as_str().unwrap().to_owned(),
        }
    }

    /// Signs a payment from a contract wallet, for a v2 challenge.
    pub fn pay_for(&self, wallet: &str, challenge: &Value) -> Payment {
        let mut payment = self.pay(challenge);
        let exact = &mut payment.payload["payload"];
        exact["authorization"]["from"] = json!(wallet);
        exact["signature"] = json!(as_words(&self.sign(&exact["authorization"], &challenge["accepts"][0], 84_532)));
        payment
    }

    /// Signs a v1 payment for a v1 challenge.
    pub fn pay_v1(&self, challenge: &Value) -> Payment {
        let accepted = &challenge["accepts"][0];
        assert_eq!(accepted["network"], "base-sepolia");
        let exact = self.authorize(accepted, accepted["maxAmountRequired"].as_str().unwrap(), 84_532);
        Payment {
            header: "X-PAYMENT",
            payload: json!({ "x402Version": 1, "scheme": "exact", "network": accepted["network"], "payload": exact }),
            network: "eip155:84532".to_owned(),
            asset: accepted["asset"].as_str().unwrap().to_owned(),
        }
    }

    /// Returns a new signed authorization, valid for five minutes.
    fn authorize(&self, accepted: &Value, amount: &str, chain: u64) -> Value {
        let mut nonce = [0; 32];
        getrandom::fill(&mut nonce).unwrap();
        let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
        let authorization = json!({
            "from": self.address,
            "to": accepted["payTo"],
            "value": amount,
            "validAfter": "0",
            "validBefore": (now + 300).to_string(),
            "nonce": format!("0x{}", hex::encode(nonce)),
        });
        json!({ "signature": self.sign(&authorization, accepted, chain), "authorization": authorization })
    }

    /// Signs `authorization` for the token in `accepted`.
    pub fn sign(&self, authorization: &Value, accepted: &Value, chain: u64) -> String {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let number = |name: &str| authorization[name].as_str().unwrap().parse::<U256>().unwrap();
        let address = |name: &str| authorization[name].as_str().unwrap().parse::<Address>().unwrap();
        let domain = Eip712Domain::new(
            Some(Cow::Owned(text(&accepted["extra"]["name"]))),
            Some(Cow::Owned(text(&accepted["extra"]["version"]))),
            Some(U256::from(chain)),
            Some(text(&accepted["asset"]).parse().unwrap()),
            None,
        );
        let message = TransferWithAuthorization {
            from: address("from"),
            to: address("to"),
            value: number("value"),
            validAfter: number("validAfter"),
            validBefore: number("validBefore"),
            nonce: text(&authorization["nonce"]).parse::<B256>().unwrap(),
        };
        self.sign_hash(message.eip712_signing_hash(&domain))
    }

    pub(super) fn sign_hash(&self, hash: B256) -> String {
        let (signature, recovery) = self.key.sign_prehash_recoverable(hash.as_slice()).unwrap();
        format!("0x{}{:02x}", hex::encode(signature.to_bytes()), 27 + recovery.to_byte())
    }
}

/// Formats a signature for the contract wallet: each part is a 32-byte word.
pub(super) fn as_words(signature: &str) -> String {
    let (words, parity) = signature.split_at(signature.len() - 2);
    format!("{words}{parity:0>64}")
}
