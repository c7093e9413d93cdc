//! A payer that permits a maximum, of which the actual charge is taken: Permit2, as the scheme
//! `upto` has it signed.

use std::{
    borrow::Cow,
    time::{Duration, UNIX_EPOCH},
};

use alloy_primitives::{Address, U256, address};
use alloy_sol_types::{Eip712Domain, SolStruct, sol};
use serde_json::{Value, json};

use super::{Host, Payer, Payment, eventually, js, payer::as_words};

pub const PERMIT2: &str = "0x000000000022D473030F116dDEE9F6B43aC78BA3";
pub const UPTO_PROXY: &str = "0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002";

sol! {
    struct TokenPermissions {
        address token;
        uint256 amount;
    }

    struct Witness {
        address to;
        address facilitator;
        uint256 validAfter;
    }

    /// The typed data of a permit.
    struct PermitWitnessTransferFrom {
        TokenPermissions permitted;
        address spender;
        uint256 nonce;
        uint256 deadline;
        Witness witness;
    }
}

/// Publishes a tool that charges 0.0123 of at most 0.05 USD. Returns its challenge, once that asks for a permit.
pub async fn publish_meter(host: &Host) -> Value {
    let mut tool = js("meter", 0.0, "export default async (req, ctx) => { await ctx.charge('0.0123'); return {}; };");
    tool["maxPriceUsd"] = json!(0.05);
    host.publish(&tool).await;
    eventually("a permit is asked for", Duration::from_secs(120), async || {
        let challenge = host.challenge("meter").await;
        (challenge["accepts"][0]["scheme"] == "upto").then_some(challenge)
    })
    .await
}

impl Payer {
    /// Signs a permit for the maximum in a v2 challenge, valid for five minutes.
    pub fn permit(&self, challenge: &Value) -> Payment {
        self.permit_out_of(&self.address, challenge)
    }

    /// Does the same for a contract wallet.
    pub fn permit_for(&self, wallet: &str, challenge: &Value) -> Payment {
        let mut payment = self.permit_out_of(wallet, challenge);
        let signature = &mut payment.payload["payload"]["signature"];
        *signature = json!(as_words(signature.as_str().unwrap()));
        payment
    }

    fn permit_out_of(&self, from: &str, challenge: &Value) -> Payment {
        let accepted = &challenge["accepts"][0];
        assert_eq!(accepted["scheme"], "upto", "{challenge}");
        let mut nonce = [0; 32];
        getrandom::fill(&mut nonce).unwrap();
        let authorization = json!({
            "from": from,
            "permitted": { "token": accepted["asset"], "amount": accepted["amount"] },
            "spender": UPTO_PROXY,
            "nonce": U256::from_be_bytes(nonce).to_string(),
            "deadline": (UNIX_EPOCH.elapsed().unwrap().as_secs() + 300).to_string(),
            "witness": { "to": accepted["payTo"], "facilitator": accepted["extra"]["facilitatorAddress"], "validAfter": "0" },
        });
        let signed = json!({ "signature": self.sign_permit(&authorization), "permit2Authorization": authorization });
        Payment {
            header: "PAYMENT-SIGNATURE",
            payload: json!({ "x402Version": 2, "resource": challenge["resource"], "accepted": accepted, "payload": signed }),
            network: accepted["network"].as_str().unwrap().to_owned(),
            asset: accepted["asset"].as_str().unwrap().to_owned(),
        }
    }

    fn sign_permit(&self, authorization: &Value) -> String {
        let number = |pointer: &str| authorization.pointer(pointer).unwrap().as_str().unwrap().parse::<U256>().unwrap();
        let address = |pointer: &str| authorization.pointer(pointer).unwrap().as_str().unwrap().parse::<Address>().unwrap();
        let contract = Some(address!("000000000022D473030F116dDEE9F6B43aC78BA3"));
        let domain = Eip712Domain::new(Some(Cow::Borrowed("Permit2")), None, Some(U256::from(84_532)), contract, None);
        let message = PermitWitnessTransferFrom {
            permitted: TokenPermissions { token: address("/permitted/token"), amount: number("/permitted/amount") },
            spender: address("/spender"),
            nonce: number("/nonce"),
            deadline: number("/deadline"),
            witness: Witness {
                to: address("/witness/to"),
                facilitator: address("/witness/facilitator"),
                validAfter: number("/witness/validAfter"),
            },
        };
        self.sign_hash(message.eip712_signing_hash(&domain))
    }
}
