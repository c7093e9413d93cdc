//! Sellers without Tollhouse, including malicious ones. None gets more than the limit, and none is
//! trusted.

use std::{
    fs::{Permissions, set_permissions},
    os::unix::fs::PermissionsExt as _,
    sync::atomic::{AtomicU32, Ordering},
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, StatusCode},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use tollhouse::base::clock::Timestamp;

use super::{
    super::harness::Shell,
    funded, printed, remaining,
    seller::{Seller, asks, broken, settled, term},
    written,
};
use crate::harness::{Host, js};

/// Returns a host, and a shell with a payer key whose profile is for that host, not for the
/// sellers.
async fn elsewhere() -> (Host, Shell) {
    let host = Host::start().await;
    let shell = Shell::at(&host.url);
    funded(&shell).await;
    (host, shell)
}

fn weather(payment: &Value) -> Response {
    let amount = payment["accepted"]["amount"].as_str().unwrap_or("10000").to_owned();
    ([("payment-response", settled(&amount))], "sunny\n").into_response()
}

#[tokio::test]
async fn another_seller_is_paid_over_both_wires() {
    let (_host, shell) = elsewhere().await;
    let seller = Seller::new(|| asks(&[term()]), weather).await;
    let ran = shell.run(&["call", &format!("{}/weather", seller.url)]).await.is(0);
    assert_eq!(ran.stdout, "sunny\n");
    let ran = ran.warned("paid $0.01 (test money)  0xabc  pmt_…  … s");
    assert!(!ran.stderr.contains("warning"), "{ran:?}");
    assert_eq!(seller.paid()[0]["accepted"], term());

    let v1 = Seller::new(
        || {
            let mut method = term();
            method["maxAmountRequired"] = method["amount"].take();
            method["network"] = json!("base-sepolia");
            method["resource"] = json!("http://x/weather");
            let body = json!({ "x402Version": 1, "error": "pay", "accepts": [method] });
            (StatusCode::PAYMENT_REQUIRED, body.to_string()).into_response()
        },
        |_| ([("x-payment-response", settled("10000"))], "rain").into_response(),
    )
    .await;
    let url = format!("{}/weather?d=1", v1.url);
    shell.run(&["call", &url, "--json", "{}"]).await.is(0).stderr_text("rain").warned("paid $0.01 (test money)  0xabc  pmt_…");
    let paid = &v1.paid()[0];
    assert_eq!((&paid["x402Version"], &paid["network"]), (&json!(1), &json!("base-sepolia")));
}

#[tokio::test]
async fn payment_outside_the_profile_is_not_signed() {
    let (_host, shell) = elsewhere().await;
    let altered = |pointer: &str, value: Value| {
        let mut method = term();
        *method.pointer_mut(pointer).unwrap() = value;
        method
    };
    let mut real = altered("/network", json!("eip155:8453"));
    real["asset"] = json!("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913");
    real["extra"]["name"] = json!("USD Coin");
    for (bad, reason) in [
        (real, "only with play money"),
        (altered("/asset", json!("0x036CbD53842c5426634e7929541eC2318f3dCF7f")), "is unknown on that network"),
        (altered("/amount", json!("1000000000000000000")), "above your limit of $0.10"),
        (altered("/amount", json!("100001")), "above your limit of $0.10"),
        (altered("/extra/name", json!("\u{1b}]0;owned\u{7}")), "but the token has another name or version"),
        (altered("/scheme", json!("escrow\u{1b}[2J")), "its scheme must be"),
        (altered("/extra", json!({ "name": "USDC", "version": "2", "paymentFlow": "escrow" })), "this client can pay only by"),
    ] {
        let seller = Seller::new(move || asks(std::slice::from_ref(&bad)), weather).await;
        let ran = shell.run(&["call", &format!("{}/weather", seller.url)]).await.is(4).stderr_text("");
        assert!(ran.stderr.contains(reason) && ran.stderr.contains("Nothing was signed"), "{ran:?}");
        assert!(ran.stderr.chars().all(|char| char == '\n' || !char.is_control()), "{ran:?}");
        assert!(seller.paid().is_empty() && written(&shell).is_empty());
    }
}

#[tokio::test]
async fn real_money_is_not_paid_without_a_yes() {
    let (host, shell) = elsewhere().await;
    let profile = format!("default = \"a\"\n[profiles.a]\nurl = \"{}\"\nnetwork = \"eip155:8453\"\n", host.url);
    shell.file("config/tollhouse/config.toml", &profile);
    let mut real = term();
    real["network"] = json!("eip155:8453");
    real["asset"] = json!("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913");
    real["extra"]["name"] = json!("USD Coin");
    let seller = Seller::new(move || asks(&[term(), real.clone()]), weather).await;
    let url = format!("{}/weather", seller.url);
    let ran = shell.run(&["call", &url]).await.is(2).stderr_text("");
    assert!(ran.stderr.contains("real money on base") && ran.stderr.contains("--yes"), "{ran:?}");
    assert!(seller.paid().is_empty() && written(&shell).is_empty());
    shell.run(&["call", &url, "--yes"]).await.is(0).warned("paid $0.01  0xabc  pmt_…");
    assert_eq!(seller.paid()[0]["accepted"]["network"], "eip155:8453");
}

#[tokio::test]
async fn terms_that_change_once_they_are_paid_get_no_second_signature() {
    let (_host, shell) = elsewhere().await;
    let dearer = |_: &Value| {
        let mut dearer = term();
        dearer["amount"] = json!("90000");
        asks(&[dearer])
    };
    let seller = Seller::new(|| asks(&[term()]), dearer).await;
    let url = format!("{}/weather", seller.url);
    let ran = shell.run(&["call", &url]).await.is(6).stderr_text("");
    let id = printed(&ran.stderr);
    assert!(ran.stderr.contains("it was charged at most once") && ran.stderr.contains("the answer was 402: payment required"), "{ran:?}");
    assert_eq!(seller.paid().len(), 1);
    // The payment is signed, and nobody says that it is void. The same request is not paid again
    // automatically.
    let ran = shell.run(&["call", &url]).await.is(6).stderr_text("");
    assert!(printed(&ran.stderr) == id && seller.paid().len() == 1, "{ran:?}");
    shell.run(&["call", &url, "--again"]).await.is(6);
    assert_eq!(seller.paid().len(), 2);
    assert_ne!(seller.paid()[0], seller.paid()[1]);
    let dry = shell.run(&["call", &url, "--dry-run"]).await.is(0);
    assert!(dry.stdout.contains("$4.98 left today"), "both count: {dry:?}");
}

#[tokio::test]
async fn payment_does_not_follow_redirects() {
    let (_host, shell) = elsewhere().await;
    let thief = Seller::new(|| asks(&[term()]), weather).await;
    let to = format!("{}/weather", thief.url);
    let redirect = move || (StatusCode::TEMPORARY_REDIRECT, [("location", to.clone())]).into_response();
    let once_paid = redirect.clone();
    let seller = Seller::new(|| asks(&[term()]), move |_| once_paid()).await;
    shell.run(&["call", &format!("{}/weather", seller.url)]).await.is(6).stderr_text("");
    let before = Seller::new(redirect, weather).await;
    let ran = shell.run(&["call", &format!("{}/weather", before.url)]).await.is(1).stderr_text("");
    assert!(ran.stderr.contains(&thief.url), "{ran:?}");
    assert!(thief.paid().is_empty());
}

/// An attempt whose answer was lost may still succeed, whatever the answers to later attempts say.
#[tokio::test]
async fn a_payment_that_was_lost_once_is_not_given_up_because_a_later_time_was_refused() {
    for (status, code) in [(429, "rate_limited"), (422, "invalid_input")] {
        let (_host, shell) = elsewhere().await;
        let times = AtomicU32::new(0);
        let refuses = move |_: &Value| {
            if times.fetch_add(1, Ordering::SeqCst) == 0 {
                return broken();
            }
            let refused = json!({ "ok": false, "error": { "code": code, "message": "no", "charged": false } });
            (StatusCode::from_u16(status).unwrap(), refused.to_string()).into_response()
        };
        let seller = Seller::new(|| asks(&[term()]), refuses).await;
        seller.loses_answers();
        let url = format!("{}/weather", seller.url);
        let id = printed(&shell.run(&["call", &url]).await.is(6).stderr_text("").stderr);
        let sent = seller.paid();
        assert!(sent.len() > 1 && sent.iter().all(|other| *other == sent[0]));
        assert_eq!(printed(&shell.run(&["call", &url]).await.is(6).stderr_text("").stderr), id);
        // A refusal after `--resume` does not change that either.
        assert_eq!(printed(&shell.run(&["call", "--resume", &id]).await.is(6).stderr_text("").stderr), id);
        assert!(seller.paid().iter().all(|other| *other == sent[0]));
    }
}

/// Regression test: the command said that nothing was charged, but a seller that kept the signatures spent them.
#[tokio::test]
async fn refusal_by_another_seller_does_not_prove_that_nothing_was_charged() {
    let (_host, shell) = elsewhere().await;
    let cases = [
        (402, "{}".to_owned(), 4),
        (422, json!({ "ok": false, "error": { "code": "invalid_input", "message": "no", "charged": false } }).to_string(), 1),
        (422, "no".to_owned(), 1),
        // Refused before the payment was looked up.
        (429, json!({ "ok": false, "error": { "code": "rate_limited", "message": "no", "charged": "unknown" } }).to_string(), 1),
    ];
    for (status, body, exit) in cases {
        let refuses = move |_: &Value| (StatusCode::from_u16(status).unwrap(), body.clone()).into_response();
        let seller = Seller::new(|| asks(&[term()]), refuses).await;
        seller.loses_answers();
        let ran = shell.run(&["call", &format!("{}/weather", seller.url)]).await.is(exit);
        let until: u64 = seller.paid()[0]["payload"]["authorization"]["validBefore"].as_str().unwrap().parse().unwrap();
        let reported = ran.stderr.to_lowercase();
        assert!(reported.contains("the seller reports no charge, but can still charge pmt_"), "{ran:?}");
        assert!(ran.stderr.contains(&format!(" until {}", Timestamp(until * 1_000))), "{ran:?}");
        assert!(!reported.contains("nothing was charged"), "{ran:?}");
    }
}

#[tokio::test]
async fn paid_answer_is_printed_even_if_it_cannot_be_recorded() {
    let (_host, shell) = elsewhere().await;
    let book = shell.home().join("state/tollhouse/payments/spent.json");
    let answer = move |payment: &Value| {
        set_permissions(&book, Permissions::from_mode(0o644)).unwrap();
        weather(payment)
    };
    let seller = Seller::new(|| asks(&[term()]), answer).await;
    let ran = shell.run(&["call", &format!("{}/weather", seller.url)]).await.is(3).stderr_text("sunny\n");
    assert!(ran.stderr.contains("paid $0.01") && ran.stderr.contains("counts as open"), "{ran:?}");
}

#[tokio::test]
async fn an_answer_without_end_is_not_read_to_it() {
    let (_host, shell) = elsewhere().await;
    let endless = || {
        let piece = Bytes::from(vec![b' '; 1 << 20]);
        let pieces = futures_util::stream::repeat_with(move || Ok::<_, std::io::Error>(piece.clone()));
        Body::from_stream(pieces)
    };
    let seller = Seller::new(|| asks(&[term()]), move |_| ([("payment-response", settled("10000"))], endless()).into_response()).await;
    let ran = shell.run(&["call", &format!("{}/weather", seller.url)]).await.is(1).stderr_text("");
    assert!(ran.stderr.contains("is larger than 64 MiB") && ran.stderr.contains("it was paid with"), "{ran:?}");
    // Without a confirmation it is unknown whether the payment was accepted.
    let silent = Seller::new(|| asks(&[term()]), move |_| endless().into_response()).await;
    let ran = shell.run(&["call", &format!("{}/weather", silent.url)]).await.is(6).stderr_text("");
    assert!(ran.stderr.contains("is larger than 64 MiB") && ran.stderr.contains("--resume pmt_"), "{ran:?}");
    let unpaid = Seller::new(move || (StatusCode::PAYMENT_REQUIRED, endless()).into_response(), weather).await;
    let ran = shell.run(&["call", &format!("{}/weather", unpaid.url)]).await.is(1).stderr_text("");
    assert!(ran.stderr.contains("larger than 64 MiB") && written(&shell).len() == 2, "{ran:?}");
}

#[tokio::test]
async fn sellers_text_cannot_control_the_terminal() {
    let (_host, shell) = elsewhere().await;
    let answer = |_: &Value| {
        let mut headers = HeaderMap::new();
        headers.insert("set-cookie", HeaderValue::from_static("a=b"));
        headers.insert("x-odd", HeaderValue::from_bytes(b"\xff\xc2\x9b2J").unwrap());
        headers.insert("x-receipt-id", HeaderValue::from_static("rcpt_../../x"));
        let odd = json!({ "success": true, "transaction": "\u{1b}[2Jforged\nerror: x", "amount": "999999999" });
        let odd = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, odd.to_string());
        headers.insert("payment-response", HeaderValue::try_from(odd).unwrap());
        (headers, "ok").into_response()
    };
    let seller = Seller::new(|| asks(&[term()]), answer).await;
    let ran = shell.run(&["call", &format!("{}/weather", seller.url), "-i"]).await.is(0);
    let all = format!("{}{}", ran.stdout, ran.stderr);
    assert!(all.chars().all(|char| char == '\n' || !char.is_control()), "{ran:?}");
    assert!(ran.stderr.starts_with("paid $0.01 (test money)  U+001B[2Jforged"), "{ran:?}");
}

#[tokio::test]
async fn a_receipt_that_does_not_hold_is_warned_of() {
    let host = Host::start().await;
    host.publish(&js("shout", 0.01, "export default () => 1;")).await;
    host.publish(&js("other", 0.01, "export default () => 2;")).await;
    let shell = Shell::at(&host.url);
    funded(&shell).await;
    // The seller puts the receipt of another call into its answer.
    let other = shell.run(&["call", "other"]).await.is(0);
    let at = other.stderr.find("rcpt_").unwrap();
    let receipt = other.stderr[at..].split(' ').next().unwrap().to_owned();
    let url = host.url.clone();
    let forging = super::seller::LossyProxy::before(&url).await;
    forging.forge(&receipt);
    let shell = shell.env("TOLLHOUSE_URL", &forging.url);
    let ran = shell.run(&["call", "shout"]).await.is(0).stderr_text("1");
    assert!(ran.stderr.contains(&format!("warning: the receipt {receipt} is not valid: it is for another answer")), "{ran:?}");
    assert_eq!(remaining(&shell).await, 980_000);
}
