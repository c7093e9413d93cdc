//! The requirements for a trustworthy server (R2 to R24 of x402's conformance checks), and the test
//! for each.

use std::{fs, path::Path, time::Duration};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Facilitator, FacilitatorAnswer, Host, Payer, SettleMode, eventually, js};

/// Each rule and its tests: `module::claim` for tests over HTTP, or `src/….rs::claim`.
const RULES: &[(&str, &str, &[&str])] = &[
    ("R2", "a payment is served at most once", &["payments::a_payment_sent_eight_times_at_once_and_again_later_runs_and_settles_once"]),
    ("R3", "nothing is served while a settlement is not answered", &["x402_rules::caller_who_hangs_up_during_settlement_is_charged_once"]),
    ("R4", "nor on an HTML page", &["x402_rules::nothing_is_served_on_an_answer_that_is_no_settlement"]),
    ("R5", "nor on a success under an error status", &["x402_rules::nothing_is_served_on_an_answer_that_is_no_settlement"]),
    ("R6", "nor on what is no JSON", &["x402_rules::nothing_is_served_on_an_answer_that_is_no_settlement"]),
    ("R7", "nor on half an answer", &["x402_rules::nothing_is_served_on_an_answer_that_is_no_settlement"]),
    ("R8", "nor while it is pending", &["x402_rules::nothing_is_served_on_an_answer_that_is_no_settlement"]),
    ("R9", "nor on a transaction that failed", &["x402_rules::nothing_is_served_on_an_answer_that_is_no_settlement"]),
    (
        "R10",
        "the receipt of a success decodes",
        &["clients::the_stock_typescript_client_pays_on_the_v2_wire", "clients::the_stock_typescript_client_of_v1_pays_on_its_wire"],
    ),
    (
        "R11",
        "a payment is bound to the request that it was priced for",
        &[
            "payment_binding::a_payment_that_names_another_tool_buys_nothing_of_this_one",
            "errors::wrong_payment_is_rejected_with_its_reason",
            "payment_binding::a_payment_for_one_method_buys_no_other",
            "payment_binding::a_payment_for_one_query_buys_no_other",
            "payment_binding::an_encoded_separator_is_another_request",
        ],
    ),
    (
        "R12",
        "one identifier settles once under eight requests at once",
        &["extensions::concurrent_authorizations_with_one_identifier_charge_once"],
    ),
    // Tested with two processes on one store.
    (
        "R13",
        "and across two replicas",
        &["src/money/tests/gate.rs::a_payment_that_another_replica_admits_at_the_same_time_is_admitted_once"],
    ),
    ("R14", "a crash after the settlement serves once, and settles no more", &["crash::no_kill_loses_a_receipt_or_takes_a_payment_twice"]),
    (
        "R15",
        "no settlement on an error, a redirect or a throw",
        &["x402_rules::an_answer_that_is_no_success_is_not_settled", "payments::a_handler_that_throws_is_not_charged"],
    ),
    (
        "R16",
        "HEAD is the challenge and never settles",
        &["x402_rules::an_unpaid_head_is_the_challenge_of_a_get", "payments::a_head_with_a_payment_is_the_challenge_and_never_runs"],
    ),
    (
        "R17",
        "what was paid for is in no shared cache",
        &["x402_rules::a_paid_answer_keeps_its_status_and_place_and_is_for_its_payer_alone"],
    ),
    (
        "R18",
        "nothing is served while it is pending, late or lost, and what it waits for is named",
        &[
            "x402_rules::nothing_is_served_on_an_answer_that_is_no_settlement",
            "settlements::an_unanswered_settlement_is_unknown_until_it_is_resolved",
        ],
    ),
    ("R19", "the flow that was declared is the one that runs", &["x402_rules::a_payment_for_another_flow_is_refused"]),
    (
        "R20",
        "a caller that asks again is not charged again",
        &[
            "payments::a_caller_who_hangs_up_finds_the_answer_under_the_payment",
            "x402_rules::caller_who_hangs_up_during_settlement_is_charged_once",
        ],
    ),
    (
        "R22",
        "a status of 201 or 202 and its Location survive",
        &["x402_rules::a_paid_answer_keeps_its_status_and_place_and_is_for_its_payer_alone"],
    ),
    (
        "R23",
        "a caller who goes during the settlement is charged once",
        &["x402_rules::caller_who_hangs_up_during_settlement_is_charged_once"],
    ),
    ("R24", "a malformed header is refused in words", &["x402_rules::a_malformed_payment_is_refused_in_words"]),
];

/// Returns a secret that must be paid for, with the status that the input sets.
const SECRET: &str = "export default async (req) => new Response(JSON.stringify({ secret: 'for who has paid' }), {
    status: req.input.status ?? 200,
    headers: { 'content-type': 'application/json', ...(req.input.status ? { location: '/made/1' } : {}) },
});";

#[test]
fn each_rule_has_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (rule, _, tests) in RULES {
        assert!(!tests.is_empty(), "{rule}");
        for test in *tests {
            let (module, claim) = test.rsplit_once("::").unwrap();
            let file = if module.ends_with(".rs") { root.join(module) } else { root.join(format!("tests/it/{module}.rs")) };
            let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{rule}: {}: {error}", file.display()));
            let (before, _) = text.split_once(&format!("fn {claim}()")).unwrap_or_else(|| panic!("{rule}: there is no test `{test}`"));
            assert!(before.trim_end_matches("async ").trim_end().ends_with(']'), "{rule}: `{test}` is not a test");
        }
    }
    let named: Vec<_> = RULES.iter().map(|(rule, ..)| *rule).collect();
    let all: Vec<_> = (2..=24).filter(|rule| *rule != 21).map(|rule| format!("R{rule}")).collect();
    assert_eq!(named, all, "there is no R21");
}

/// The facilitator's answers, each for the tool with this price.
const ANSWERS: &[FacilitatorAnswer] = &[
    FacilitatorAnswer { amount: "10000", status: 502, media: "text/html", body: "<html>bad gateway</html>" },
    FacilitatorAnswer {
        amount: "20000",
        status: 503,
        media: "application/json",
        body: r#"{"success":true,"transaction":"0x1","network":"eip155:84532"}"#,
    },
    FacilitatorAnswer { amount: "30000", status: 200, media: "text/plain", body: "settled" },
    FacilitatorAnswer { amount: "40000", status: 200, media: "application/json", body: r#"{"success":true,"transaction":"0x"# },
    FacilitatorAnswer {
        amount: "50000",
        status: 200,
        media: "application/json",
        body: r#"{"success":false,"errorReason":"settlement_pending","transaction":"0x1","network":"eip155:84532"}"#,
    },
    FacilitatorAnswer {
        amount: "60000",
        status: 200,
        media: "application/json",
        body: r#"{"success":false,"errorReason":"invalid_transaction_state","transaction":"0x1","network":"eip155:84532"}"#,
    },
];

#[tokio::test]
async fn nothing_is_served_on_an_answer_that_is_no_settlement() {
    let facilitator = Facilitator::start(SettleMode::Says(ANSWERS)).await;
    let host = Host::builder().settled_by(&facilitator.url).start().await;
    let mut bought = vec![];
    for message in ANSWERS {
        let micros: u32 = message.amount.parse().unwrap();
        let slug = format!("secret-{micros}");
        host.publish(&js(&slug, f64::from(micros) / 1e6, SECRET)).await;
        let payment = Payer::new().pay(&host.challenge(&slug).await);
        bought.push((slug, payment));
    }
    let served = |answer: &crate::harness::Answer| String::from_utf8_lossy(&answer.body).contains("for who has paid");
    let answers = join_all(bought.iter().map(async |(slug, payment)| host.call_paid(slug, &json!({}), payment).await)).await;
    for (answer, (slug, payment)) in answers.iter().zip(&bought) {
        assert!(matches!(answer.status, 402 | 502) && !served(answer), "{slug}: {answer:?}");
        let state = host.payment(&payment.id()).await.unwrap();
        match answer.status {
            // The payment was refused, and nothing was charged.
            402 => assert_eq!((&state["state"], &answer.decoded("payment-response")["success"]), (&json!("refused"), &json!(false))),
            _ => {
                let error = &answer.json()["error"];
                assert_eq!((&error["code"], &error["paymentId"]), (&json!("settlement_unknown"), &json!(payment.id())), "{answer:?}");
                assert_eq!(state["state"], "settling");
            }
        }
    }
    // After the settlement the answer is given, once.
    facilitator.set_mode(SettleMode::Well);
    for (slug, payment) in &bought {
        let answer = eventually("it is served", Duration::from_secs(120), async || {
            Some(host.call_paid(slug, &json!({}), payment).await).filter(|answer| answer.status == 200)
        })
        .await;
        assert!(served(&answer));
        let again = host.call_paid(slug, &json!({}), payment).await.is(200);
        assert_eq!(again.receipt_id(), answer.receipt_id());
    }
}

#[tokio::test]
async fn caller_who_hangs_up_during_settlement_is_charged_once() {
    let facilitator = Facilitator::start(SettleMode::Hangs).await;
    let host = Host::builder().settled_by(&facilitator.url).start().await;
    host.publish(&js("secret", 0.01, SECRET)).await;
    let payment = Payer::new().pay(&host.challenge("secret").await);
    let call = tokio::spawn(Host::try_send(host.paid_request("secret", &json!({}), &payment)));
    eventually("it is being settled", Duration::from_secs(60), async || (facilitator.asked() == 1).then_some(())).await;
    assert!(!call.is_finished(), "served before it was settled");
    call.abort();
    assert_eq!(host.payment(&payment.id()).await.unwrap()["state"], "settling");
    facilitator.set_mode(SettleMode::Well);
    let answer = eventually("it is served", Duration::from_secs(60), async || {
        Some(host.call_paid("secret", &json!({}), &payment).await).filter(|answer| answer.status == 200)
    })
    .await;
    assert_eq!(answer.json(), json!({ "secret": "for who has paid" }));
    assert_eq!(facilitator.asked(), 1, "it was settled again");
}

#[tokio::test]
async fn an_answer_that_is_no_success_is_not_settled() {
    let facilitator = Facilitator::start(SettleMode::Well).await;
    let host = Host::builder().settled_by(&facilitator.url).start().await;
    host.publish(&js("secret", 0.01, SECRET)).await;
    let payment = Payer::new().pay(&host.challenge("secret").await);
    for status in [302, 307, 404, 500, 503] {
        // A tool that redirects its callers has failed.
        let expected = if status < 400 { 502 } else { status };
        let answer = host.call_paid("secret", &json!({ "status": status }), &payment).await.is(expected);
        assert_eq!((answer.header("payment-response"), answer.header("x-receipt-id")), (None, None));
        assert_eq!(host.payment(&payment.id()).await.unwrap()["state"], "released");
    }
    assert_eq!(facilitator.asked(), 0);
}

#[tokio::test]
async fn a_paid_answer_keeps_its_status_and_place_and_is_for_its_payer_alone() {
    let host = Host::start().await;
    host.publish(&js("secret", 0.01, SECRET)).await;
    let payer = Payer::funded(&host, 1.0).await;
    for status in [200, 201, 202] {
        let input = if status == 200 { json!({}) } else { json!({ "status": status }) };
        let payment = payer.pay(&host.challenge("secret").await);
        for _ in 0..2 {
            let answer = host.call_paid("secret", &input, &payment).await.is(status);
            assert_eq!(answer.decoded("payment-response")["success"], true);
            assert_eq!(answer.header("location"), (status != 200).then_some("/made/1"));
            assert_eq!(answer.has("cache-control"), "private, no-store");
        }
    }
    assert_eq!(host.call("secret", &json!({})).await.is(402).has("cache-control"), "no-store");
}

#[tokio::test]
async fn an_unpaid_head_is_the_challenge_of_a_get() {
    let host = Host::start().await;
    host.publish(&js("secret", 0.01, SECRET)).await;
    let request = async |method: Method| host.send(host.request(method, "/tools/secret")).await.is(402);
    let (head, get) = (request(Method::HEAD).await, request(Method::GET).await);
    let offered = |challenge: Value| {
        let mut challenge = challenge;
        // Offers are signed again each minute, and each challenge has a new token.
        for name in ["offer-receipt", "replay-token"] {
            challenge["extensions"].as_object_mut().unwrap().remove(name);
        }
        challenge
    };
    assert_eq!(offered(head.decoded("payment-required")), offered(get.decoded("payment-required")));
    assert!(head.body.is_empty());
}

#[tokio::test]
async fn a_payment_for_another_flow_is_refused() {
    let facilitator = Facilitator::start(SettleMode::Well).await;
    let host = Host::builder().settled_by(&facilitator.url).start().await;
    host.publish(&js("secret", 0.01, SECRET)).await;
    let challenge = host.challenge("secret").await;
    assert_eq!(challenge["accepts"][0]["extra"].get("paymentFlow"), None, "after the work, which is x402's default");
    let payment = Payer::new().pay(&challenge);
    for flow in ["upfront", "escrow", "other"] {
        let mut other = payment.clone();
        other.payload["accepted"]["extra"]["paymentFlow"] = json!(flow);
        let refused = host.call_paid("secret", &json!({}), &other).await.is(402);
        assert_eq!(refused.json()["error"], "invalid_payment_requirements");
    }
    assert_eq!((facilitator.asked(), host.payment(&payment.id()).await), (0, None));
    let mut named = payment.clone();
    named.payload["accepted"]["extra"]["paymentFlow"] = json!("authorization");
    host.call_paid("secret", &json!({}), &named).await.is(200);
}

#[tokio::test]
async fn a_malformed_payment_is_refused_in_words() {
    let host = Host::start().await;
    host.publish(&js("secret", 0.01, SECRET)).await;
    for malformed in ["%%%", "bm90IEpTT04", "W10=", "bnVsbA==", "IjIi", "e30=", "eyJ4NDAyVmVyc2lvbiI6Mn0=", ""] {
        for name in ["PAYMENT-SIGNATURE", "X-PAYMENT"] {
            let request = host.request(Method::POST, "/tools/secret").header(name, malformed).json(&json!({}));
            let answer = host.send(request).await.is(402);
            assert!(answer.json()["error"].as_str().is_some_and(|error| !error.is_empty()), "{malformed}: {answer:?}");
            assert_eq!(answer.decoded("payment-required")["x402Version"], 2);
        }
    }
}
