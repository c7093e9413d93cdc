use alloy_primitives::{B256, U256};
use serde_json::{Value, json};
use tollhouse_tool::MicroUsd;

use super::*;
use crate::{
    Asset, WireVersion,
    x402::{
        eip3009::{Authorization, Transfer},
        permit2::{Permit, PermitAuthorization},
        signed::SignedPayload,
    },
};

const KEY: &str = "0x0101010101010101010101010101010101010101010101010101010101010101";
const BOUNDS: PaymentBounds = PaymentBounds { nonce: B256::repeat_byte(7), until_secs: 1_800_000_000 };

fn exact() -> Value {
    json!({
        "scheme": "exact", "network": "eip155:84532", "amount": "3000", "asset": "0x036cbd53842c5426634e7929541ec2318f3dcf7e",
        "payTo": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", "maxTimeoutSeconds": 40, "extra": { "name": "USDC", "version": "2" },
    })
}

fn upto() -> Value {
    let mut upto = exact();
    upto["scheme"] = json!("upto");
    upto["extra"]["assetTransferMethod"] = json!("permit2");
    upto["extra"]["facilitatorAddress"] = json!("0x857b06519E91e3A54538791bDbb0E22373e36b66");
    upto
}

fn exact_v1() -> Value {
    let mut v1 = exact();
    let members = v1.as_object_mut().unwrap();
    members.remove("amount");
    members.extend([("maxAmountRequired".to_owned(), json!("3000")), ("network".to_owned(), json!("base-sepolia"))]);
    v1
}

fn read(accepted: &Value) -> Result<PayableTerms, Unsignable> {
    PayableTerms::read(WireVersion::V2, accepted)
}

fn paid(ask: &PayableTerms) -> (PayKey, Value) {
    let key: PayKey = KEY.parse().unwrap();
    let payment = ask.signed(&key, &BOUNDS, &json!({ "url": "http://x" }));
    (key, payment)
}

/// Compares with the host's verification, which shares no code with signing.
#[test]
fn host_accepts_a_payment_signed_for_an_exact_price() {
    for (ask, version) in [(read(&exact()).unwrap(), 2), (PayableTerms::read(WireVersion::V1, &exact_v1()).unwrap(), 1)] {
        let (key, payment) = paid(&ask);
        assert_eq!(payment["x402Version"], version);
        let authorization: Authorization = serde_json::from_value(payment["payload"]["authorization"].clone()).unwrap();
        let transfer = Transfer::parse(&authorization).unwrap();
        let token = ask.token().unwrap();
        assert!(transfer.signed_by_payer(payment["payload"]["signature"].as_str().unwrap(), token));
        assert_eq!((transfer.from, transfer.value, transfer.valid_before_secs()), (key.address(), U256::from(3_000), BOUNDS.until_secs));
        let signed = SignedPayload::Transfer { authorization, signature: String::new() };
        assert_eq!(signed.id(token), ask.id(key.address(), &BOUNDS));
    }
}

#[test]
fn host_accepts_a_payment_signed_for_a_maximum() {
    let ask = read(&upto()).unwrap();
    let (key, payment) = paid(&ask);
    let authorization: PermitAuthorization = serde_json::from_value(payment["payload"]["permit2Authorization"].clone()).unwrap();
    let permit = Permit::parse(&authorization).unwrap();
    let token = ask.token().unwrap();
    assert!(permit.signed_by_payer(payment["payload"]["signature"].as_str().unwrap(), token.network));
    assert_eq!((permit.from, permit.max, permit.facilitator), (key.address(), U256::from(3_000), ask.facilitator.unwrap()));
    let signed = SignedPayload::Permit { authorization, signature: String::new() };
    assert_eq!(signed.id(token), ask.id(key.address(), &BOUNDS));
}

#[test]
fn malformed_or_unsupported_terms_are_not_signed() {
    let huge = "1".repeat(100);
    for (pointer, value, reason) in [
        ("/scheme", json!("escrow"), Unsignable::Scheme),
        ("/network", json!("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"), Unsignable::Network),
        ("/network", json!("eip155:+1"), Unsignable::Network),
        ("/extra/assetTransferMethod", json!("permit2"), Unsignable::Flow),
        ("/extra/assetTransferMethod", json!(1), Unsignable::Flow),
        ("/extra/paymentFlow", json!("escrow"), Unsignable::Flow),
        ("/amount", json!(3000), Unsignable::Member("amount")),
        ("/amount", json!("-3000"), Unsignable::Member("amount")),
        ("/amount", json!(""), Unsignable::Member("amount")),
        ("/amount", json!(huge), Unsignable::Member("amount")),
        ("/asset", json!("0x036c"), Unsignable::Member("asset")),
        ("/payTo", json!(null), Unsignable::Member("payTo")),
        ("/extra/name", json!(null), Unsignable::Member("name")),
        ("/maxTimeoutSeconds", json!(-1), Unsignable::Member("maxTimeoutSeconds")),
    ] {
        let mut other = exact();
        match other.pointer_mut(pointer) {
            Some(member) => *member = value,
            None => other["extra"][&pointer["/extra/".len()..]] = value,
        }
        assert_eq!(read(&other).unwrap_err(), reason, "{pointer}");
    }
    let mut nobody = upto();
    nobody["extra"]["facilitatorAddress"] = json!(null);
    assert_eq!(read(&nobody).unwrap_err(), Unsignable::Member("facilitatorAddress"));
    assert_eq!(PayableTerms::read(WireVersion::V1, &upto()).unwrap_err(), Unsignable::Scheme);
}

#[test]
fn token_is_identified_by_its_contract_and_not_by_its_name() {
    let ask = read(&exact()).unwrap();
    assert_eq!(ask.usd(ask.token().unwrap()), Some(MicroUsd(3_000)));
    let mut fake = exact();
    fake["asset"] = json!("0x036CbD53842c5426634e7929541eC2318f3dCF7f");
    assert_eq!(read(&fake).unwrap().token(), None);
    let mut elsewhere = exact();
    elsewhere["network"] = json!("eip155:8453");
    assert_eq!(read(&elsewhere).unwrap().token(), None);
    let mut more = exact();
    more["amount"] = json!(U256::MAX.to_string());
    let more = read(&more).unwrap();
    assert_eq!(more.usd(more.token().unwrap()), None);
}

#[test]
fn fraction_of_a_micro_dollar_is_rounded_up() {
    let token = Asset { decimals: 18, ..*read(&exact()).unwrap().token().unwrap() };
    let ask = |amount: &str| {
        let mut ask = exact();
        ask["amount"] = json!(amount);
        read(&ask).unwrap()
    };
    assert_eq!(ask("1000000000000").usd(&token), Some(MicroUsd(1)));
    assert_eq!(ask("1000000000001").usd(&token), Some(MicroUsd(2)));
    assert_eq!(ask("1").usd(&token), Some(MicroUsd(1)));
    assert_eq!(ask("0").usd(&token), Some(MicroUsd(0)));
}

#[test]
fn a_key_is_read_with_its_prefix_and_without_and_reported_by_its_address() {
    let key: PayKey = KEY.parse().unwrap();
    assert_eq!(key.secret().parse::<PayKey>().unwrap().address(), key.address());
    assert_eq!(*key.secret(), KEY[2..]);
    assert!(!format!("{key:?}").contains(&KEY[2..]));
    let zero = "00".repeat(32);
    let above = "ff".repeat(32);
    for none in ["", "0x", &KEY[3..], &format!("{KEY}0"), &format!(" {}", &KEY[3..]), &zero, &above] {
        assert!(none.parse::<PayKey>().is_err(), "{none}");
    }
    assert_ne!(PayKey::generate().unwrap().address(), PayKey::generate().unwrap().address());
}
