//! An HTTP facilitator that misbehaves, on a real socket.

use std::collections::VecDeque;

use axum::{
    Json, Router,
    body::Body,
    extract::State as Shared,
    http::{StatusCode, Uri},
    response::Response,
};

use super::*;
use crate::money::facilitator::{
    NOT_SERVED,
    kind::remote::{HttpFacilitator, Patience},
};

const TRANSACTION: &str = "0x1111111111111111111111111111111111111111111111111111111111111111";

/// What a server says next.
#[derive(Clone)]
enum Says {
    Text(u16, String),
    /// Nothing at all.
    Silence,
}

/// A server whose answers are written beforehand; the last one is repeated.
struct Server {
    answers: Mutex<VecDeque<Says>>,
    asked: Mutex<Vec<(String, Value)>>,
    url: String,
}

impl Server {
    async fn saying(answers: impl IntoIterator<Item = Says>) -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), asked: Mutex::default(), url });
        let router = Router::new().fallback(answer_next).with_state(Arc::clone(&server));
        tokio::spawn(async move { axum::serve(listener, router).await });
        server
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(path, _)| path.clone()).collect()
    }
}

async fn answer_next(Shared(server): Shared<Arc<Server>>, uri: Uri, Json(body): Json<Value>) -> Response {
    server.asked.lock().unwrap().push((uri.path().to_owned(), body));
    let next = {
        let mut answers = server.answers.lock().unwrap();
        if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() }
    };
    match next {
        Says::Text(status, text) => {
            let mut response = Response::new(Body::from(text));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            response
        }
        Says::Silence => std::future::pending().await,
    }
}

fn says(status: u16, body: Value) -> Says {
    Says::Text(status, body.to_string())
}

fn settled() -> Says {
    says(200, json!({ "success": true, "transaction": TRANSACTION, "network": "eip155:84532", "payer": Payer::new(1).address() }))
}

fn refuses(reason: &str) -> Says {
    says(200, json!({ "success": false, "errorReason": reason, "transaction": "", "network": "eip155:84532" }))
}

fn facilitator(server: &Server, rpc: Option<&Server>) -> HttpFacilitator {
    let short = Duration::from_millis(150);
    let facilitator = HttpFacilitator::new(&format!("{}/", server.url), rpc.map(|rpc| rpc.url.as_str())).unwrap();
    facilitator.with_patience(Patience { verify: short, settle: short, rpc: Duration::from_secs(5) })
}

async fn settle(says: Says) -> SettleOutcome {
    let server = Server::saying([says]).await;
    let outcome = facilitator(&server, None).settle(&Payer::new(1).payment(1)).await;
    assert_eq!(server.asked(), ["/settle"]);
    outcome
}

#[tokio::test]
async fn an_answer_that_is_no_clear_success_is_unknown() {
    let ok = json!({ "success": true, "transaction": TRANSACTION });
    let half = ok.to_string()[..40].to_owned();
    let unclear = [
        ("an HTML 502", Says::Text(502, "<html>Bad gateway</html>".to_owned())),
        ("an HTML 200", Says::Text(200, "<html>Welcome</html>".to_owned())),
        ("a 503 with success", says(503, ok.clone())),
        ("a 400 with success", says(400, ok.clone())),
        ("a 302 with success", says(302, ok.clone())),
        ("a 500 that refuses", says(500, json!({ "success": false, "errorReason": "invalid_signature" }))),
        ("nothing in it", Says::Text(200, String::new())),
        ("cut short", Says::Text(200, half)),
        ("success missing", says(200, json!({ "transaction": TRANSACTION }))),
        ("success as text", says(200, json!({ "success": "true", "transaction": TRANSACTION }))),
        ("success without a transaction", says(200, json!({ "success": true }))),
        ("success with an empty transaction", says(200, json!({ "success": true, "transaction": "" }))),
        ("success with an endless transaction", says(200, json!({ "success": true, "transaction": "0".repeat(1_000) }))),
        ("an array", says(200, json!([ok]))),
        ("null", says(200, json!(null))),
        ("too large", Says::Text(200, format!("{ok}{}", " ".repeat((256 << 10) + 1 - ok.to_string().len())))),
        ("pending", says(200, json!({ "success": false, "errorReason": "settlement_pending", "transaction": TRANSACTION }))),
        ("unexpected", refuses("unexpected_settle_error")),
        ("unexpected, as x402-rs says it", refuses("unexpected_error")),
        ("failed while sending", refuses("invalid_exact_evm_transaction_failed")),
        ("a message for a code", refuses("Timed out while waiting for transaction with hash 0x11 to be confirmed.")),
        ("no reason", says(200, json!({ "success": false }))),
        (
            "a transaction that it sent",
            says(200, json!({ "success": false, "errorReason": "invalid_payload", "transaction": TRANSACTION })),
        ),
        ("a used nonce", refuses("invalid_exact_evm_nonce_already_used")),
        ("silence", Says::Silence),
    ];
    for (name, says) in unclear {
        let outcome = settle(says).await;
        assert!(matches!(outcome, SettleOutcome::Unknown(_)), "{name}: {outcome:?}");
    }
    let nobody = HttpFacilitator::new("http://127.0.0.1:1", None).unwrap();
    assert!(matches!(nobody.settle(&Payer::new(1).payment(1)).await, SettleOutcome::Unknown(_)), "nobody there");
}

#[tokio::test]
async fn a_clear_yes_settles_and_a_clear_no_refuses() {
    let SettleOutcome::Settled(settlement) = settle(settled()).await else { panic!("not settled") };
    assert_eq!((settlement.transaction.as_str(), settlement.amount.as_str()), (TRANSACTION, "10000"));
    for reason in ["invalid_exact_evm_signature", "insufficient_funds", "invalid_exact_evm_insufficient_balance"] {
        let outcome = settle(refuses(reason)).await;
        assert!(matches!(&outcome, SettleOutcome::Refused { reason: code, .. } if code == reason), "{outcome:?}");
        // x402-rs says it under 400.
        let outcome = settle(says(400, json!({ "success": false, "errorReason": reason, "transaction": "" }))).await;
        assert!(matches!(outcome, SettleOutcome::Refused { .. }), "{outcome:?}");
    }
}

#[tokio::test]
async fn only_the_simulated_facilitator_moves_play_money() {
    let real = HttpFacilitator::new("http://127.0.0.1:1", None).unwrap();
    let bench = Bench::new().await;
    let played = &bench.facilitator.inner;
    assert_eq!(((real.name(), real.simulated()), (played.name(), played.simulated())), (("http", false), ("simulated", true)));
}

#[tokio::test]
async fn an_answer_of_256_kib_is_read_to_its_end() {
    let text = json!({ "success": true, "transaction": TRANSACTION }).to_string();
    let outcome = settle(Says::Text(200, format!("{text}{}", " ".repeat((256 << 10) - text.len())))).await;
    assert!(matches!(outcome, SettleOutcome::Settled(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_refusal_that_may_have_moved_money_says_what_it_was() {
    let SettleOutcome::Unknown(why) = settle(refuses("unexpected_settle_error")).await else { panic!("not unknown") };
    assert!(why.contains("unexpected_settle_error"), "{why}");
}

#[tokio::test]
async fn what_is_sent_is_what_the_client_sent() {
    let server = Server::saying([says(200, json!({ "isValid": true }))]).await;
    let mut payload = Payer::new(1).payload(&Payer::new(1).authorization(1));
    payload["accepted"]["extra"]["more"] = json!({ "kept": [1, 2.5, null] });
    let payment = decode(&payload).unwrap();
    assert_eq!(facilitator(&server, None).verify(&payment).await, Verdict::Valid);
    let asked = server.asked.lock().unwrap();
    assert_eq!(asked[0].0, "/verify");
    assert_eq!(asked[0].1["paymentPayload"], payload);
    assert_eq!(asked[0].1["paymentRequirements"], config().requirements(&terms(), WireVersion::V2));
    assert_eq!(asked[0].1["x402Version"], 2);
}

#[tokio::test]
async fn verification_fails_closed() {
    async fn verdict(says: Says) -> Verdict {
        let server = Server::saying([says]).await;
        facilitator(&server, None).verify(&Payer::new(1).payment(1)).await
    }
    for status in [200, 400, 500] {
        let refused = verdict(says(status, json!({ "isValid": false, "invalidReason": "insufficient_funds" }))).await;
        assert!(matches!(&refused, Verdict::Invalid { reason, .. } if reason == "insufficient_funds"), "{status}: {refused:?}");
    }
    for unclear in [
        says(500, json!({ "isValid": true })),
        says(404, json!({ "isValid": true })),
        says(200, json!({ "isValid": "true" })),
        says(200, json!({})),
        says(200, json!([])),
        Says::Text(200, String::new()),
        Says::Text(502, "<html>".to_owned()),
        Says::Silence,
    ] {
        let verdict = verdict(unclear).await;
        assert!(matches!(verdict, Verdict::Unavailable(_)), "{verdict:?}");
    }
    let Verdict::Invalid { reason, .. } = verdict(says(200, json!({ "isValid": false, "invalidReason": "x".repeat(100_000) }))).await
    else {
        panic!("not invalid")
    };
    assert!(reason.len() <= 100);
}

#[tokio::test]
async fn what_a_facilitator_has_against_the_host_is_not_held_against_the_payer() {
    for (status, reason) in [
        (401, "unauthorized"),
        (403, "insufficient_funds"),
        (429, "rate_limited"),
        (400, "invalid_payment_requirements"),
        (200, "invalid_network"),
        (200, "unsupported_scheme"),
        (200, "unexpected_verify_error"),
    ] {
        let server = Server::saying([says(status, json!({ "isValid": false, "invalidReason": reason }))]).await;
        let verdict = facilitator(&server, None).verify(&Payer::new(1).payment(1)).await;
        assert!(matches!(&verdict, Verdict::Unavailable(why) if why.contains(reason)), "{status} {reason}: {verdict:?}");
    }
    for (status, reason) in [(401, "unauthorized"), (200, "invalid_network")] {
        let told = says(status, json!({ "success": false, "errorReason": reason, "transaction": "" }));
        let outcome = settle(told).await;
        assert!(matches!(&outcome, SettleOutcome::Refused { reason, .. } if reason == NOT_SERVED), "nothing was taken: {outcome:?}");
    }
}

const USED: &str = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5";
const CANCELED: &str = "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81";
const TRANSFER: &str = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

fn word(address: &str) -> String {
    format!("0x{:0>64}", address.trim_start_matches("0x").to_lowercase())
}

fn log(index: u32, topics: &[&str], data: &str) -> Value {
    let asset = NETWORKS[0].asset.to_lowercase();
    json!({ "address": asset, "topics": topics, "data": data, "logIndex": format!("{index:#x}"), "transactionHash": TRANSACTION })
}

fn result(result: Value) -> Says {
    says(200, json!({ "jsonrpc": "2.0", "id": 1, "result": result }))
}

fn block(secs: u64) -> Says {
    result(json!({ "timestamp": format!("{secs:#x}") }))
}

/// The logs of a transaction that uses nonce 1 of payer 1 to pay `to`.
fn logs(to: &str, value: u64) -> Vec<Value> {
    let (from, nonce) = (word(&Payer::new(1).address()), format!("0x{:064x}", 1));
    vec![
        log(6, &[TRANSFER, &from, &word(PAY_TO)], &format!("0x{:064x}", PRICE.0)),
        log(7, &[USED, &from, &nonce], "0x"),
        log(8, &[TRANSFER, &from, &word(to)], &format!("0x{value:064x}")),
    ]
}

async fn with_node(facilitator_says: Says, node_says: Vec<Says>) -> SettleOutcome {
    let (server, node) = (Server::saying([facilitator_says]).await, Server::saying(node_says).await);
    let outcome = facilitator(&server, Some(&node)).settle(&Payer::new(1).payment(1)).await;
    let asked = node.asked.lock().unwrap();
    if let Some((_, logs)) = asked.iter().find(|(_, question)| question["method"] == "eth_getLogs") {
        let filter = &logs["params"][0];
        assert_eq!(filter["address"], NETWORKS[0].asset);
        assert_eq!(filter["topics"], json!([[USED, CANCELED], word(&Payer::new(1).address()), format!("0x{:064x}", 1)]));
    }
    outcome
}

#[tokio::test]
async fn the_chain_has_the_last_word_on_a_used_nonce() {
    let event = |logs: &[Value]| result(json!([logs[1]]));
    for doubtful in
        [refuses("invalid_exact_evm_nonce_already_used"), Says::Silence, Says::Text(502, "<html>".to_owned()), refuses("oh no!")]
    {
        let ours = logs(PAY_TO, PRICE.0);
        let node = vec![block(NOW.as_secs()), event(&ours), result(json!({ "status": "0x1", "logs": ours }))];
        let outcome = with_node(doubtful, node).await;
        assert!(matches!(&outcome, SettleOutcome::Settled(settlement) if settlement.transaction == TRANSACTION), "{outcome:?}");
    }
}

/// A payer who signs a second transfer under the same nonce, to itself, and sends that one, has not paid.
#[tokio::test]
async fn a_nonce_that_was_used_for_another_transfer_has_not_paid() {
    for other in [logs(&Payer::new(1).address(), PRICE.0), logs(PAY_TO, 0), logs(PAY_TO, PRICE.0)[..2].to_vec()] {
        let node = vec![block(NOW.as_secs()), result(json!([other[1]])), result(json!({ "status": "0x1", "logs": other }))];
        let outcome = with_node(refuses("invalid_exact_evm_nonce_already_used"), node).await;
        assert!(matches!(outcome, SettleOutcome::Refused { .. }), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_cancelled_or_expired_authorization_is_refused() {
    let doubtful = || refuses("invalid_exact_evm_nonce_already_used");
    let canceled = log(3, &[CANCELED, &word(&Payer::new(1).address()), &format!("0x{:064x}", 1)], "0x");
    let outcome = with_node(doubtful(), vec![block(NOW.as_secs()), result(json!([canceled]))]).await;
    assert!(matches!(&outcome, SettleOutcome::Refused { reason, .. } if reason == "authorization_canceled"), "{outcome:?}");
    let expired = NOW.as_secs() + 300;
    let outcome = with_node(Says::Silence, vec![block(expired), result(json!([]))]).await;
    assert!(matches!(outcome, SettleOutcome::Refused { .. }), "{outcome:?}");
    let outcome = with_node(Says::Silence, vec![block(expired - 1), result(json!([]))]).await;
    assert!(matches!(outcome, SettleOutcome::Unknown(_)), "it may still be on its way: {outcome:?}");
}

#[tokio::test]
async fn a_node_that_misbehaves_decides_nothing() {
    let ours = logs(PAY_TO, PRICE.0);
    for node in [
        vec![Says::Text(502, "<html>".to_owned())],
        vec![says(200, json!([]))],
        vec![says(200, json!({ "error": { "code": -32000, "message": "range too large" } }))],
        vec![block(NOW.as_secs() + 900), says(200, json!({ "error": { "code": -32000 } }))],
        vec![block(NOW.as_secs() + 900), result(json!("logs"))],
        vec![result(json!({})), result(json!([]))],
        vec![block(NOW.as_secs()), result(json!([ours[1]])), result(json!(null))],
        vec![block(NOW.as_secs()), result(json!([ours[1]])), result(json!({}))],
    ] {
        let outcome = with_node(refuses("invalid_exact_evm_nonce_already_used"), node).await;
        assert!(matches!(outcome, SettleOutcome::Unknown(_)), "{outcome:?}");
    }
}

/// A repeated question was refused because the first had moved the money: the payer had paid for nothing.
#[tokio::test]
async fn a_no_to_a_repeated_question_is_not_the_end() {
    for reason in ["invalid_exact_evm_insufficient_balance", "invalid_exact_evm_payload_authorization_valid_before"] {
        let server = Server::saying([refuses(reason)]).await;
        let outcome = facilitator(&server, None).resolve(&Payer::new(1).payment(1)).await;
        assert!(matches!(outcome, SettleOutcome::Unknown(_)), "{outcome:?}");
    }
    let server = Server::saying([refuses("insufficient_funds")]).await;
    let ours = logs(PAY_TO, PRICE.0);
    let node = Server::saying([block(NOW.as_secs()), result(json!([ours[1]])), result(json!({ "logs": ours }))]).await;
    let outcome = facilitator(&server, Some(&node)).resolve(&Payer::new(1).payment(1)).await;
    assert!(matches!(outcome, SettleOutcome::Settled(_)), "{outcome:?}");
    assert!(server.asked().is_empty(), "the chain knew");
}

#[tokio::test]
async fn a_settlement_that_timed_out_is_resolved_later_and_served_once() {
    let silent = [says(200, json!({ "isValid": true })), Says::Silence, refuses("settlement_pending"), settled()];
    let (server, bench) = (Server::saying(silent).await, Bench::new().await);
    let events = Arc::new(Events::new(Arc::clone(&bench.store), bench.clock.clone(), EventSettings::default()));
    let finisher = Arc::new(ReceiptFinisher::new(Arc::clone(&bench.signer), false, events, Sales::new(Arc::clone(&bench.store))));
    let gate = Gate::new(Arc::clone(&bench.store), Arc::new(facilitator(&server, None)), bench.clock.clone(), config(), finisher);
    let admission = run(gate.admit(&terms(), Payer::new(1).pays(1), REQUEST).await);
    let id = admission.id().clone();
    assert!(matches!(gate.settle(admission, answer(ANSWER), &draft()).await, Err(SettleError::Unknown { .. })));
    assert!(matches!(gate.admit(&terms(), Payer::new(1).pays(1), REQUEST).await, Ok(Admit::InFlight(_))));
    gate.recover().await.unwrap();
    assert_eq!(bench.state(&id).await, Some(State::Settling), "pending is not settled");
    assert!(bench.receipts().await.is_empty());
    gate.recover().await.unwrap();
    assert_eq!(bench.state(&id).await, Some(State::Settled));
    assert_eq!(stored(gate.admit(&terms(), Payer::new(1).pays(1), REQUEST).await).body, ANSWER);
    let receipts = bench.receipts().await;
    assert_eq!((receipts.len(), receipts[0].transaction.as_deref(), receipts[0].simulated), (1, Some(TRANSACTION), false));
    assert_eq!(server.asked(), ["/verify", "/settle", "/settle", "/settle"]);
    let asked = server.asked.lock().unwrap();
    assert!(asked[2].1 == asked[1].1 && asked[3].1 == asked[1].1, "the identical payload");
}

/// A facilitator whose verification does not look at the nonce lets it through, and a chain that is asked about the
/// settlement that failed tells of the transfer of the day before.
#[tokio::test]
async fn a_nonce_that_is_signed_for_again_buys_nothing_by_the_transfer_that_was() {
    let valid = || says(200, json!({ "isValid": true }));
    let server = Server::saying([valid(), settled(), valid(), refuses("invalid_exact_evm_transaction_failed")]).await;
    let ours = logs(PAY_TO, PRICE.0);
    let receipt = json!({ "status": "0x1", "logs": ours });
    let node = Server::saying([block(NOW.as_secs() + 86_401), result(json!([ours[1]])), result(receipt)]).await;
    let bench = Bench::new().await;
    let events = Arc::new(Events::new(Arc::clone(&bench.store), bench.clock.clone(), EventSettings::default()));
    let finisher = Arc::new(ReceiptFinisher::new(Arc::clone(&bench.signer), false, events, Sales::new(Arc::clone(&bench.store))));
    let gate = Gate::new(Arc::clone(&bench.store), Arc::new(facilitator(&server, Some(&node))), bench.clock.clone(), config(), finisher);
    let payer = Payer::new(1);
    let first = run(gate.admit(&terms(), payer.pays(1), REQUEST).await);
    gate.settle(first, answer(ANSWER), &draft()).await.unwrap();
    bench.clock.set(NOW.plus_millis(24 * 3_600_000 + 1));
    gate.tick().await.unwrap();
    let again = offer(&payer.payload(&payer.valid_for(1, 25 * 3_600_000)));
    assert!(gate.admit(&terms(), again, REQUEST).await.is_err());
    assert_eq!(bench.receipts().await.len(), 1);
}
