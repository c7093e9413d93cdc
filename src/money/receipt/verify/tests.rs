mod fuzz;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::json;
use tempfile::TempDir;
use tollhouse_store::StoreError;

use super::*;
use crate::receipt::{
    Receipt, ReceiptSigner,
    tests::{credit, draft, transfer},
};

fn signer() -> (TempDir, ReceiptSigner) {
    let folder = tempfile::tempdir().unwrap();
    let signer = ReceiptSigner::open(folder.path()).unwrap();
    (folder, signer)
}

fn paid(signer: &ReceiptSigner) -> Value {
    serde_json::to_value(signer.receipt(draft(), &transfer(), true)).unwrap()
}

/// Receipts of all means of payment.
fn receipts(signer: &ReceiptSigner) -> [Receipt; 3] {
    let free = signer.sign(UnsignedReceipt::free(draft()));
    [free, signer.receipt(draft(), &credit(), true), signer.receipt(draft(), &transfer(), true)]
}

#[test]
fn receipts_hold_after_storage_and_transport() {
    let (_folder, signer) = signer();
    for signed in receipts(&signer) {
        let shown = signer.present(&serde_json::to_vec(&signed).unwrap()).unwrap();
        let sent: Value = serde_json::from_str(&serde_json::to_string_pretty(&shown).unwrap()).unwrap();
        let verified = verify(&sent, &signer.jwks()).unwrap();
        assert_eq!(verified, VerifiedReceipt { record: signed.record.clone(), kid: signer.kid().to_owned() });
        assert_eq!(serde_json::from_value::<crate::receipt::Receipt>(sent).unwrap(), signed);
        assert!(verified.to_string().contains("0.00123 USD"), "{verified}");
    }
}

#[test]
fn verified_receipt_is_reported_in_a_sentence() {
    let (_folder, signer) = signer();
    let describe = |receipt: Receipt| verify(&serde_json::to_value(receipt).unwrap(), &signer.jwks()).unwrap().to_string();
    let [free, credit, simulated] = receipts(&signer);
    for (receipt, how) in [
        (free, " USD (free), issued ".to_owned()),
        (credit, " USD by developer credit, issued ".to_owned()),
        (signer.receipt(draft(), &transfer(), false), format!(" USD by {} on eip155:84532, issued ", transfer().transaction)),
        (simulated, format!(" USD simulated as {} on eip155:84532, issued ", transfer().transaction)),
    ] {
        let describe = describe(receipt);
        assert!(describe.contains(&how) && describe.ends_with(signer.kid()), "{describe}");
    }
}

#[test]
fn unsigned_record_is_signed_alike_every_time_it_is_presented() {
    let (_folder, signer) = signer();
    let record = UnsignedReceipt::free(draft());
    let first = signer.present(&record.to_bytes()).unwrap();
    assert_eq!(first, signer.present(&record.to_bytes()).unwrap());
    assert_eq!(first, serde_json::to_value(signer.sign(record)).unwrap());
    verify(&first, &signer.jwks()).unwrap();
    for damaged in [b"no receipt".as_slice(), b"[]"] {
        assert!(matches!(signer.present(damaged), Err(StoreError::Away(_))), "it is there, and nobody's fault but the host's");
    }
}

#[test]
fn record_shows_no_payer_in_full() {
    let (_folder, signer) = signer();
    let receipt = paid(&signer);
    assert_eq!(receipt["payer"], "0x857b…6b66");
    assert!(!receipt.to_string().contains("06519E91e3A5"));
    assert_eq!(receipt["priceUsd"], 0.00123);
    assert_eq!(receipt["startedAt"], "2026-09-21T14:13:20.123Z");
    assert_eq!((&receipt["kind"], &receipt["x402Version"], &receipt["simulated"]), (&json!("x402"), &json!(2), &json!(true)));
    assert_eq!((&receipt["asset"], &receipt["scheme"]), (&json!(transfer().asset), &json!("exact")));
    let by_credit = signer.receipt(draft(), &credit(), true);
    assert_eq!(by_credit.record.payer.as_deref(), Some("crd_01…0000"));
}

#[test]
fn refusal_names_the_altered_member() {
    let (_folder, signer) = signer();
    let mut receipt = paid(&signer);
    let describe = |receipt: &Value| verify(receipt, &signer.jwks()).unwrap_err().to_string();
    let mut numbered = receipt.clone();
    numbered["signature"] = json!(7);
    assert!(describe(&numbered).contains("receipt's signature"), "{}", describe(&numbered));
    (receipt["slug"], receipt["network"]) = (json!("other-tool"), json!("eip155:8453"));
    let altered = describe(&receipt);
    assert!(altered.ends_with("`network`, `slug`"), "{altered}");
}

#[test]
fn any_altered_member_is_refused_by_its_name() {
    let (_folder, signer) = signer();
    for receipt in receipts(&signer) {
        let good = serde_json::to_value(receipt).unwrap();
        let names: Vec<String> = good.as_object().unwrap().keys().filter(|name| *name != "signature").cloned().collect();
        assert!(names.len() >= 12, "{names:?}");
        for name in names {
            let mut changed = good.clone();
            changed[&name] = altered(&good[&name]);
            assert_eq!(verify(&changed, &signer.jwks()), Err(VerifyError::Altered(vec![name.clone()])), "changed {name}");
            let mut without = good.clone();
            without.as_object_mut().unwrap().remove(&name);
            assert_eq!(verify(&without, &signer.jwks()), Err(VerifyError::Altered(vec![name.clone()])), "removed {name}");
        }
        let mut more = good.clone();
        more["note"] = json!("added");
        assert_eq!(verify(&more, &signer.jwks()), Err(VerifyError::Altered(vec!["note".to_owned()])));
    }
}

fn altered(value: &Value) -> Value {
    match value {
        Value::String(text) => json!(format!("{text}0")),
        Value::Number(number) => json!(number.as_f64().unwrap() + 1.0),
        Value::Bool(truth) => json!(!truth),
        _ => json!("another"),
    }
}

#[test]
fn any_altered_character_of_a_signature_is_refused() {
    let (_folder, signer) = signer();
    let good = paid(&signer);
    let signature = good["signature"].as_str().unwrap();
    for at in 0..signature.len() {
        let mut changed = signature.to_owned();
        let other = if &changed[at..=at] == "A" { "B" } else { "A" };
        changed.replace_range(at..=at, other);
        let mut receipt = good.clone();
        receipt["signature"] = json!(changed);
        assert!(verify(&receipt, &signer.jwks()).is_err(), "character {at}");
    }
}

#[test]
fn another_key_is_refused() {
    let ((_one, signer), (_two, other)) = (signer(), signer());
    let receipt = paid(&signer);
    assert_eq!(verify(&receipt, &other.jwks()), Err(VerifyError::UnknownKey(SignaturePart::Record, signer.kid().to_owned())));
    assert_eq!(verify(&receipt, &json!({"keys": []})), Err(VerifyError::UnknownKey(SignaturePart::Record, signer.kid().to_owned())));
    assert_eq!(verify(&receipt, &json!([])), Err(VerifyError::NotAKeySet));
}

/// The `kid` in a key set is ignored. It is computed from the key.
#[test]
fn key_under_the_name_of_another_is_refused() {
    let ((_one, signer), (_two, other)) = (signer(), signer());
    let mut jwks = other.jwks();
    jwks["keys"][0]["kid"] = json!(signer.kid());
    assert!(matches!(verify(&paid(&signer), &jwks), Err(VerifyError::UnknownKey(SignaturePart::Record, _))));
}

#[test]
fn signature_by_another_key_under_our_name_is_forged() {
    let ((_one, signer), (_two, other)) = (signer(), signer());
    let mut receipt = paid(&other);
    let signature = receipt["signature"].as_str().unwrap().to_owned();
    let (_, rest) = signature.split_once('.').unwrap();
    let header = json!({"alg": "EdDSA", "kid": signer.kid(), "typ": RECEIPT_TYPE}).to_string();
    receipt["signature"] = json!(format!("{}.{rest}", URL_SAFE_NO_PAD.encode(header)));
    assert_eq!(verify(&receipt, &signer.jwks()), Err(VerifyError::Forged(SignaturePart::Record)));
}

#[test]
fn algorithm_none_is_refused() {
    let (_folder, signer) = signer();
    let mut receipt = paid(&signer);
    receipt.as_object_mut().unwrap().remove("signature");
    let payload = URL_SAFE_NO_PAD.encode(canonical(&receipt));
    for alg in ["none", "None", "HS256"] {
        let header = URL_SAFE_NO_PAD.encode(json!({"alg": alg, "kid": signer.kid(), "typ": RECEIPT_TYPE}).to_string());
        receipt["signature"] = json!(format!("{header}.{payload}."));
        let requested = VerifyError::Signature(SignaturePart::Record, JwsError::Algorithm(alg.to_owned()));
        assert_eq!(verify(&receipt, &signer.jwks()), Err(requested));
    }
}

#[test]
fn document_that_is_not_a_receipt_is_refused() {
    let (_folder, signer) = signer();
    let good = paid(&signer);
    let mut unsigned = good.clone();
    unsigned.as_object_mut().unwrap().remove("signature");
    assert_eq!(verify(&unsigned, &signer.jwks()), Err(VerifyError::Unsigned));
    assert!(matches!(verify(&json!("receipt"), &signer.jwks()), Err(VerifyError::NotAReceipt(_))));
    let mut numbered = good.clone();
    numbered["signature"] = json!(7);
    assert_eq!(verify(&numbered, &signer.jwks()), Err(VerifyError::Signature(SignaturePart::Record, JwsError::Form)));
    // Signed by us, but not a receipt.
    let other = signer.present(br#"{"iAm": "not a receipt"}"#).unwrap();
    assert!(matches!(verify(&other, &signer.jwks()), Err(VerifyError::NotAReceipt(_))));
}

/// Both signatures are by the same key. Neither can replace the other.
#[test]
fn x402_receipt_does_not_pass_for_a_record() {
    let (_folder, signer) = signer();
    let receipt = paid(&signer);
    let signature = receipt["offerReceipt"]["signature"].as_str().unwrap();
    let payload = Parts::parse(signature).unwrap().payload;
    let mut posing: Value = serde_json::from_slice(&payload).unwrap();
    posing["signature"] = json!(signature);
    assert_eq!(verify(&posing, &signer.jwks()), Err(VerifyError::Type(SignaturePart::Record)));
}

#[test]
fn x402_receipt_has_the_form_of_its_extension() {
    let (_folder, signer) = signer();
    let signed = signer.receipt(draft(), &transfer(), true);
    let offer_receipt = signed.record.offer_receipt.unwrap();
    assert_eq!(offer_receipt.extensions()["offer-receipt"]["info"]["receipt"]["format"], "jws");
    let parts = Parts::parse(&offer_receipt.signature).unwrap();
    let did = parts.header.kid.as_deref().unwrap();
    let jwk = did.strip_prefix("did:jwk:").and_then(|did| did.strip_suffix("#0")).unwrap();
    let jwk: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(jwk).unwrap()).unwrap();
    assert!(parts.is_by(&jws::from_jwk(&jwk).unwrap()), "the DID carries the key");
    let payload: Value = serde_json::from_slice(&parts.payload).unwrap();
    let requested = json!({
        "version": 1,
        "network": "eip155:84532",
        "resourceUrl": "http://127.0.0.1:4020/tools/echo-tool",
        "payer": "0x857b06519E91e3A54538791bDbb0E22373e36b66",
        "issuedAt": 1_790_000_000,
        "transaction": format!("0x{}", "ab".repeat(32)),
    });
    assert_eq!(payload, requested);
    assert_eq!(parts.payload, canonical(&requested));
}

/// Even in a record signed by the host, the x402 receipt must be for the same payment.
#[test]
fn x402_receipt_of_another_payment_is_refused() {
    let ((_one, signer), (_two, other)) = (signer(), signer());
    let good = signer.receipt(draft(), &transfer(), true).record;
    let resigned = |change: &dyn Fn(&mut UnsignedReceipt)| {
        let mut record = good.clone();
        change(&mut record);
        verify(&serde_json::to_value(signer.sign(record)).unwrap(), &signer.jwks()).map(|_| ())
    };
    let other_payment = |field| Err(VerifyError::OtherPayment(field));
    assert_eq!(resigned(&|_| {}), Ok(()));
    assert_eq!(resigned(&|record| record.network = Some("eip155:1".to_owned())), other_payment("network"));
    assert_eq!(resigned(&|record| record.draft.resource_url.push('x')), other_payment("resourceUrl"));
    assert_eq!(resigned(&|record| record.payer = Some("0x0000…0000".to_owned())), other_payment("payer"));
    assert_eq!(resigned(&|record| record.draft.issued_at = record.draft.issued_at.plus_millis(1_000)), other_payment("issuedAt"));
    assert_eq!(resigned(&|record| record.transaction = None), other_payment("transaction"));
    assert_eq!(resigned(&|record| record.offer_receipt = None), Err(VerifyError::OfferReceipt));
    assert_eq!(resigned(&|record| record.kind = PaymentKind::Free), Err(VerifyError::OfferReceipt));
    let foreign = other.receipt(good.draft.clone(), &transfer(), true).record.offer_receipt;
    let by_another = resigned(&|record| record.offer_receipt.clone_from(&foreign));
    assert!(matches!(by_another, Err(VerifyError::UnknownKey(SignaturePart::OfferReceipt, _))), "{by_another:?}");
}

#[test]
fn receipts_hold_after_the_key_was_rotated() {
    let (folder, before) = signer();
    let (old, free) = (paid(&before), UnsignedReceipt::free(draft()));
    let after = ReceiptSigner::rotate(folder.path()).unwrap();
    assert_ne!(before.kid(), after.kid());
    assert_eq!(verify(&old, &after.jwks()).unwrap().kid, before.kid());
    assert_eq!(verify(&paid(&after), &after.jwks()).unwrap().kid, after.kid());
    assert!(verify(&paid(&after), &before.jwks()).is_err(), "the old set does not know the new key");
    verify(&after.present(&free.to_bytes()).unwrap(), &after.jwks()).unwrap();
}
