//! Registration as a builder, and the builder's key.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Facilitator, Host, Payer, Payment, SettleMode, contains, eventually};

const REGISTER: &str = "/ai/builders/register";

fn applicant() -> Value {
    json!({ "name": "Toolsmith", "contact": "hello@toolsmith.example" })
}

async fn pay(host: &Host, payment: &Payment, body: &Value) -> Answer {
    host.send(host.request(Method::POST, REGISTER).header(payment.header, payment.encoded()).json(body)).await
}

async fn builders(host: &Host) -> usize {
    host.manage(Method::GET, "/ai/admin/builders", &Value::Null).await.is(200).json()["builders"].as_array().unwrap().len()
}

async fn me(host: &Host, key: &str) -> Answer {
    host.as_builder(key, Method::GET, "/ai/builders/me", &Value::Null).await
}

fn key_in(answer: &Answer) -> Option<String> {
    answer.json()["builderKey"].as_str().map(str::to_owned)
}

/// Returns the bytes of all files below `folder`, except the file with the admin token.
fn bytes_below(folder: &std::path::Path) -> Vec<u8> {
    let mut all = vec![];
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            all.extend(bytes_below(&path));
        } else if entry.file_name() != "admin-token" {
            all.extend(std::fs::read(path).unwrap_or_default());
        }
    }
    all
}

#[tokio::test]
async fn one_payment_makes_one_builder_with_one_key() {
    let host = Host::start().await;
    let payer = Payer::funded(&host, 10.0).await;
    let challenges = (host.post(REGISTER, &json!({})).await.is(402), host.post(REGISTER, &applicant()).await.is(402));
    let payments = [payer.pay(&challenges.0.decoded("payment-required")), payer.pay_v1(&challenges.1.json())];
    for (count, payment) in payments.iter().enumerate() {
        let body = applicant();
        let mut answers = join_all((0..8).map(|_| pay(&host, payment, &body))).await;
        assert!(answers.iter().any(|answer| key_in(answer).is_some()), "none of them has a key: {answers:?}");
        answers.push(pay(&host, payment, &body).await);
        let keys: Vec<_> = answers.iter().filter_map(key_in).collect();
        // On the v1 wire a payment has no secret part that the chain does not show. Only the caller
        // that registered gets the key.
        assert_eq!(keys.len(), if count == 0 { answers.len() } else { 1 });
        let key = &keys[0];
        assert!(keys.iter().all(|other| other == key), "one registration has one key: {keys:?}");
        for answer in &answers {
            assert_eq!((answer.status, &answer.json()["builderId"]), (200, &answers[0].json()["builderId"]));
            assert_eq!(answer.receipt_id(), answers[0].receipt_id());
        }
        let receipt = host.receipt(&answers[0].receipt_id()).await;
        assert_eq!((&receipt["slug"], &receipt["priceUsd"]), (&json!("builder-registration"), &json!(1)));
        host.verify_receipt(&receipt).unwrap();
        let own = me(&host, key).await.is(200).json();
        answers.push(pay(&host, payment, &body).await);
        assert_eq!(key_in(answers.last().unwrap()), None, "a key was used");
        assert!(me(&host, key).await.status == 200 && answers.last().unwrap().json()["builderId"] == own["builder"]["builderId"]);
        assert_eq!((&own["builder"]["builderId"], &own["builder"]["name"]), (&answers[0].json()["builderId"], &json!("Toolsmith")));
        assert_eq!((builders(&host).await, host.balance(&payer.address).await), (count + 1, 9_000_000 - count as u64 * 1_000_000));
        assert!(!contains(&bytes_below(&host.folder().join("data")), key), "the key is in a file");
        assert!(contains(&bytes_below(&host.folder().join("data")), own["builder"]["builderId"].as_str().unwrap()));
    }
    let another = json!({ "name": "Another", "contact": "hello@toolsmith.example" });
    pay(&host, &payments[0], &another).await.fails(409, "payment_reused", "caller");
}

#[tokio::test]
async fn credit_registers_and_an_idempotency_key_makes_it_once() {
    let host = Host::start().await;
    let credit = host.mint(2.5).await;
    let register = || {
        let request = host.request(Method::POST, REGISTER).header("x-developer-credit", &credit).header("idempotency-key", "one");
        host.send(request.json(&applicant()))
    };
    let (first, again) = (register().await.is(200), register().await.is(200));
    assert_eq!(first.json()["builderId"], again.json()["builderId"]);
    assert_eq!(key_in(&first), key_in(&again));
    me(&host, &key_in(&again).unwrap()).await.is(200);
    assert_eq!(key_in(&register().await.is(200)), None, "it was used");
    assert_eq!((host.credit_balance(&credit).await, builders(&host).await), (1_500_000, 1));
}

/// The answer with the key was lost: on the way, or because the host ended before it was sent.
#[tokio::test]
async fn a_paid_registration_whose_answer_is_lost_is_completed_by_its_payment() {
    let mut host = Host::start().await;
    let payer = Payer::funded(&host, 10.0).await;
    let payment = payer.pay(&host.post(REGISTER, &applicant()).await.is(402).decoded("payment-required"));
    let lost = pay(&host, &payment, &applicant()).await.is(200);
    host.restart().await;
    let completed = pay(&host, &payment, &applicant()).await.is(200);
    assert_eq!((&completed.json()["builderId"], completed.receipt_id()), (&lost.json()["builderId"], lost.receipt_id()));
    let key = key_in(&completed).unwrap();
    let trail = host.manage(Method::GET, "/ai/admin/audit", &Value::Null).await.is(200).json();
    let entries = trail["entries"].as_array().unwrap().iter().filter(|entry| entry["path"] == REGISTER).count();
    assert_eq!(entries, 2, "the registration and the new key: {trail}");
    // Another application is another request. A forged signature is refused.
    pay(&host, &payment, &json!({ "name": "Toolsmith" })).await.fails(409, "payment_reused", "caller");
    let forged = payment.altered("/payload/signature", json!(format!("0x{}1b", "11".repeat(64))));
    assert_eq!(pay(&host, &forged, &applicant()).await.is(402).json()["error"], "invalid_exact_evm_nonce_already_used");
    assert_eq!(key_in(&lost).as_ref(), Some(&key), "the key is the same each time");
    me(&host, &key).await.is(200);
    // After the first use of the key no answer repeats it, not even after a restart or after the
    // builder has a new key.
    host.restart().await;
    assert_eq!(key_in(&pay(&host, &payment, &applicant()).await.is(200)), None);
    let rotated = host.as_builder(&key, Method::POST, "/ai/builders/keys", &Value::Null).await.is(200).json();
    assert_eq!(key_in(&pay(&host, &payment, &applicant()).await.is(200)), None);
    me(&host, rotated["builderKey"].as_str().unwrap()).await.is(200);
    assert_eq!((builders(&host).await, host.balance(&payer.address).await), (1, 9_000_000));
}

/// After the settlement everyone can read the signed data on the chain, and names can be guessed.
#[tokio::test]
async fn payment_that_is_read_from_the_chain_gives_no_key_of_its_registration() {
    let host = Host::start().await;
    let payer = Payer::funded(&host, 10.0).await;
    let challenge = host.post(REGISTER, &applicant()).await.is(402).decoded("payment-required");
    let payment = payer.pay(&challenge);
    let key = key_in(&pay(&host, &payment, &applicant()).await.is(200)).unwrap();
    // The thief has their own challenge.
    let token = host.post(REGISTER, &applicant()).await.is(402).decoded("payment-required")["extensions"]["replay-token"].clone();
    for extensions in [Value::Null, json!({}), json!({ "replay-token": token })] {
        let rebuilt = payment.altered("/extensions", extensions);
        assert_eq!(pay(&host, &rebuilt, &applicant()).await.is(402).json()["error"], "invalid_exact_evm_nonce_already_used");
    }
    let signed = &payment.payload["payload"];
    let v1 = json!({ "x402Version": 1, "scheme": "exact", "network": "base-sepolia", "payload": signed });
    let mut rebuilt = payment.clone();
    (rebuilt.header, rebuilt.payload) = ("X-PAYMENT", v1);
    assert_eq!(pay(&host, &rebuilt, &applicant()).await.is(402).json()["error"], "invalid_exact_evm_nonce_already_used");
    // For a payment without extensions the answer is repeated, but without the key.
    let bare = payer.pay(&json!({ "accepts": challenge["accepts"], "resource": challenge["resource"] }));
    let registered = pay(&host, &bare, &applicant()).await.is(200);
    let other = key_in(&registered).unwrap();
    let again = pay(&host, &bare, &applicant()).await.is(200);
    assert_eq!((key_in(&again), &again.json()["builderId"]), (None, &registered.json()["builderId"]));
    assert_eq!((&again.json()["builder"], registered.json()["builder"]["name"].as_str()), (&Value::Null, Some("Toolsmith")));
    for key in [key, other] {
        me(&host, &key).await.is(200);
    }
}

/// An attacker could once try 300 names in 0.2 s, and the right one returned the key.
#[tokio::test]
async fn guesses_at_the_request_of_a_paid_registration_count_as_wrong_credentials() {
    let host = Host::builder().flag("--auth-failures", 3).start().await;
    let payer = Payer::funded(&host, 10.0).await;
    let challenges = [host.post(REGISTER, &applicant()).await.is(402), host.post(REGISTER, &applicant()).await.is(402)];
    // In x402 v1, everything except the request is public.
    let payment = payer.pay_v1(&challenges[0].json());
    pay(&host, &payment, &applicant()).await.is(200);
    pay(&host, &payment, &applicant()).await.is(200);
    assert_eq!(builders(&host).await, 1);
    for guess in 0..3 {
        pay(&host, &payment, &json!({ "name": format!("Guess {guess}") })).await.fails(409, "payment_reused", "caller");
    }
    for body in [json!({ "name": "Guess 3" }), applicant()] {
        pay(&host, &payment, &body).await.fails(429, "rate_limited", "caller");
    }
    // Every credential of the address is refused now, and nothing more was charged.
    assert_eq!(host.balance(&payer.address).await, 9_000_000);
}

#[tokio::test]
async fn simultaneous_guesses_are_checked_only_up_to_the_limit() {
    let host = Host::builder().flag("--auth-failures", 3).start().await;
    let payer = Payer::funded(&host, 10.0).await;
    let payment = payer.pay_v1(&host.post(REGISTER, &applicant()).await.is(402).json());
    pay(&host, &payment, &applicant()).await.is(200);
    let guesses: Vec<_> = (0..20).map(|guess| json!({ "name": format!("Guess {guess}") })).collect();
    let answers = join_all(guesses.iter().map(|guess| pay(&host, &payment, guess))).await;
    let with_status = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((with_status(409), with_status(429)), (3, 17), "{answers:?}");
}

#[tokio::test]
async fn a_registration_keeps_its_key_for_a_retry_after_a_hangup() {
    let facilitator = Facilitator::start(SettleMode::Well).await;
    let host = Host::builder().settled_by(&facilitator.url).start().await;
    let payment = Payer::new().pay(&host.post(REGISTER, &applicant()).await.is(402).decoded("payment-required"));
    let hasty = host.request(Method::POST, REGISTER).header(payment.header, payment.encoded()).json(&applicant());
    _ = Host::try_send(hasty.timeout(Duration::from_millis(1))).await;
    // Until the host knows that the first connection is gone, the key may belong to that request.
    let shown_again = async || key_in(&pay(&host, &payment, &applicant()).await.is(200));
    let key = eventually("the key is given", Duration::from_secs(20), shown_again).await;
    me(&host, &key).await.is(200);
    assert_eq!((builders(&host).await, facilitator.asked()), (1, 1));
}

#[tokio::test]
async fn failed_registration_is_not_charged_and_creates_no_builder() {
    let host = Host::start().await;
    let payer = Payer::funded(&host, 10.0).await;
    let payment = payer.pay(&host.post(REGISTER, &applicant()).await.is(402).decoded("payment-required"));
    let error = pay(&host, &payment, &json!({ "name": "" })).await.fails(422, "invalid_registration", "caller");
    assert_eq!(error["pointer"], "/name", "{error}");
    let long = json!({ "name": "Toolsmith", "contact": "x".repeat(255) });
    let error = pay(&host, &payment, &long).await.fails(422, "invalid_registration", "caller");
    assert_eq!(error["pointer"], "/contact", "{error}");
    assert_eq!(pay(&host, &payment, &json!({ "name": "a", "admin": true })).await.status, 422);
    assert_eq!((builders(&host).await, host.balance(&payer.address).await), (0, 10_000_000));
    pay(&host, &payment, &applicant()).await.is(200);
}

#[tokio::test]
async fn a_refused_settlement_makes_no_builder() {
    let facilitator = Facilitator::start(SettleMode::Refused("insufficient_funds")).await;
    let host = Host::builder().settled_by(&facilitator.url).start().await;
    let payment = Payer::new().pay(&host.post(REGISTER, &applicant()).await.is(402).decoded("payment-required"));
    let refused = pay(&host, &payment, &applicant()).await.is(402);
    assert!(!String::from_utf8_lossy(&refused.body).contains("bk_"), "{refused:?}");
    assert_eq!(builders(&host).await, 0);
}

#[tokio::test]
async fn registration_can_be_free() {
    let host = Host::builder().flag("--registration-price-usd", 0).start().await;
    let answer = host.post(REGISTER, &applicant()).await.is(200);
    assert_eq!(host.receipt(&answer.receipt_id()).await["kind"], "free");
    me(&host, answer.json()["builderKey"].as_str().unwrap()).await.is(200);
}

#[tokio::test]
async fn a_rotated_key_replaces_the_old_one_at_once() {
    let host = Host::start().await;
    let (id, old) = host.register("Toolsmith").await;
    let rotated = host.as_builder(&old, Method::POST, "/ai/builders/keys", &Value::Null).await.is(200).json();
    let new = rotated["builderKey"].as_str().unwrap();
    me(&host, &old).await.fails(401, "unauthorized", "caller");
    me(&host, new).await.is(200);
    let by_admin = format!("/ai/builders/keys?builderId={id}");
    let third = host.manage(Method::POST, &by_admin, &Value::Null).await.is(200).json()["builderKey"].as_str().unwrap().to_owned();
    me(&host, new).await.fails(401, "unauthorized", "caller");
    let events = host.as_builder(&third, Method::GET, "/ai/builders/events", &Value::Null).await.is(200).json();
    let rotations = events["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "builder.key_rotated").count();
    assert_eq!(rotations, 2, "{events}");
}
