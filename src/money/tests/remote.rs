//! A misbehaving HTTP facilitator, on a real socket.

mod looked_up;
mod supported;
mod unsigned;

use std::collections::VecDeque;

use axum::{
    Json, Router,
    body::Body,
    extract::State as Shared,
    http::{HeaderMap, StatusCode, Uri},
    response::Response,
};

use super::{
    node::{Chain, Node, TRANSACTION, paid},
    *,
};
use crate::facilitator::{
    NOT_SERVED,
    chain::node,
    kind::remote::{FacilitatorTimeouts, HttpFacilitator},
};

/// The next answer of a server.
#[derive(Clone)]
enum Says {
    Text(u16, String),
    /// No answer at all.
    Silence,
}

/// A server with scripted answers. The last one is repeated.
struct Server {
    answers: Mutex<VecDeque<Says>>,
    requested: Mutex<Vec<(String, Value)>>,
    headers: Mutex<Vec<HeaderMap>>,
    url: String,
}

impl Server {
    async fn saying(answers: impl IntoIterator<Item = Says>) -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Arc::new(Self {
            answers: Mutex::new(answers.into_iter().collect()),
            requested: Mutex::default(),
            headers: Mutex::default(),
            url,
        });
        let router = Router::new().fallback(answer_next).with_state(Arc::clone(&server));
        tokio::spawn(async move { axum::serve(listener, router).await });
        server
    }

    fn requested_paths(&self) -> Vec<String> {
        self.requested.lock().unwrap().iter().map(|(path, _)| path.clone()).collect()
    }
}

async fn answer_next(Shared(server): Shared<Arc<Server>>, uri: Uri, headers: HeaderMap, body: Option<Json<Value>>) -> Response {
    server.headers.lock().unwrap().push(headers);
    server.requested.lock().unwrap().push((uri.path().to_owned(), body.map_or(Value::Null, |Json(body)| body)));
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

fn replies(status: u16, body: Value) -> Says {
    Says::Text(status, body.to_string())
}

fn settled() -> Says {
    replies(200, json!({ "success": true, "transaction": TRANSACTION, "network": "eip155:84532", "payer": Payer::new(1).address() }))
}

fn refuses(reason: &str) -> Says {
    replies(200, json!({ "success": false, "errorReason": reason, "transaction": "", "network": "eip155:84532" }))
}

const SHORT: FacilitatorTimeouts =
    FacilitatorTimeouts { verify: Duration::from_secs(1), settle: Duration::from_secs(1), again: Duration::ZERO };

/// Returns a facilitator at `url` with a time-out of one second and no retries during a call.
fn at(url: &str, node: Option<&Node>) -> HttpFacilitator {
    let node = node.map(|node| Arc::new(node::Node::new(&node.url, ASSETS[0].network).unwrap()));
    let facilitator = HttpFacilitator::new(url, &FacilitatorAccess::default(), node, Clock::fixed(NOW)).unwrap();
    facilitator.with_timeout(SHORT)
}

fn facilitator(server: &Server, node: Option<&Node>) -> HttpFacilitator {
    at(&format!("{}/", server.url), node)
}

async fn settle(text: Says) -> SettleOutcome {
    let server = Server::saying([text]).await;
    let outcome = facilitator(&server, None).settle(&Payer::new(1).payment(1), &started_settlement()).await;
    assert_eq!(server.requested_paths(), ["/settle"]);
    outcome
}

#[tokio::test]
async fn ambiguous_answer_is_unknown() {
    let ok = json!({ "success": true, "transaction": TRANSACTION });
    let half = ok.to_string()[..40].to_owned();
    let unclear = [
        ("an HTML 502", Says::Text(502, "<html>Bad gateway</html>".to_owned())),
        ("an HTML 200", Says::Text(200, "<html>Welcome</html>".to_owned())),
        ("a 503 with success", replies(503, ok.clone())),
        ("a 400 with success", replies(400, ok.clone())),
        ("a 302 with success", replies(302, ok.clone())),
        ("a 500 that refuses", replies(500, json!({ "success": false, "errorReason": "invalid_signature" }))),
        ("nothing in it", Says::Text(200, String::new())),
        ("cut short", Says::Text(200, half)),
        ("success missing", replies(200, json!({ "transaction": TRANSACTION }))),
        ("success as text", replies(200, json!({ "success": "true", "transaction": TRANSACTION }))),
        ("success without a transaction", replies(200, json!({ "success": true }))),
        ("success with an empty transaction", replies(200, json!({ "success": true, "transaction": "" }))),
        ("success with an endless transaction", replies(200, json!({ "success": true, "transaction": "0".repeat(1_000) }))),
        ("an array", replies(200, json!([ok]))),
        ("null", replies(200, json!(null))),
        ("too large", Says::Text(200, format!("{ok}{}", " ".repeat((256 << 10) + 1 - ok.to_string().len())))),
        ("pending", replies(200, json!({ "success": false, "errorReason": "settlement_pending", "transaction": TRANSACTION }))),
        ("unexpected", refuses("unexpected_settle_error")),
        ("unexpected, as x402-rs says it", refuses("unexpected_error")),
        ("failed while sending", refuses("invalid_exact_evm_transaction_failed")),
        ("a message for a code", refuses("Timed out while waiting for transaction with hash 0x11 to be confirmed.")),
        ("no reason", replies(200, json!({ "success": false }))),
        (
            "a transaction that it sent",
            replies(200, json!({ "success": false, "errorReason": "invalid_payload", "transaction": TRANSACTION })),
        ),
        ("a used nonce", refuses("invalid_exact_evm_nonce_already_used")),
        ("success with what is no hash", replies(200, json!({ "success": true, "transaction": "not a hash at all <script>" }))),
        ("success with a short hash", replies(200, json!({ "success": true, "transaction": &TRANSACTION[..64] }))),
        ("an error of its node", refuses("rpc_error")),
        ("a failure of its node", refuses("settle_exact_node_failure")),
        ("a failure on the chain", refuses("settle_exact_failed_onchain")),
        ("no confirmation in time", refuses("settle_exact_svm_transaction_confirmation_timed_out")),
        ("a code that nobody knows", refuses("a_code_of_its_own")),
        ("an unknown error", refuses("unknown_error")),
        ("a rate limit", replies(429, json!({ "success": false, "errorReason": "rate_limited", "transaction": "" }))),
        ("a time-out", replies(408, json!({ "success": false, "errorReason": "insufficient_fundz", "transaction": "" }))),
        ("a lost transaction", replies(404, json!({ "success": false, "errorReason": "transaction_not_found", "transaction": "" }))),
        (
            "a 403 that names no credentials",
            replies(403, json!({ "success": false, "errorReason": "policy_violation", "transaction": "" })),
        ),
        ("a gateway's 504 in JSON", replies(504, json!({ "message": "Endpoint request timed out" }))),
        ("silence", Says::Silence),
    ];
    for (name, text) in unclear {
        let outcome = settle(text).await;
        assert!(matches!(outcome, SettleOutcome::Unknown(_)), "{name}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_clear_yes_settles_and_a_clear_no_refuses() {
    let SettleOutcome::Settled(settlement) = settle(settled()).await else { panic!("not settled") };
    assert_eq!((settlement.transaction.as_str(), settlement.amount.as_str()), (TRANSACTION, "10000"));
    for reason in ["invalid_exact_evm_signature", "insufficient_funds", "invalid_exact_evm_insufficient_balance"] {
        let outcome = settle(refuses(reason)).await;
        assert!(matches!(&outcome, SettleOutcome::Refused { reason: code, .. } if code == reason), "{outcome:?}");
        // x402-rs sends it with status 400.
        let outcome = settle(replies(400, json!({ "success": false, "errorReason": reason, "transaction": "" }))).await;
        assert!(matches!(outcome, SettleOutcome::Refused { .. }), "{outcome:?}");
    }
}

/// Regression test: a payer learned that the outcome was unknown, and the payment was held, although it had never left
/// the host.
#[tokio::test]
async fn settlement_without_a_connection_is_unsent() {
    let outcome = at("http://127.0.0.1:1", None).settle(&Payer::new(1).payment(1), &started_settlement()).await;
    assert!(matches!(outcome, SettleOutcome::Unsent(_)), "{outcome:?}");
    let outcome = at("http://127.0.0.1:1", None).resolve(&Payer::new(1).payment(1), &started_settlement()).await;
    assert!(matches!(outcome, SettleOutcome::Unknown(_)), "earlier requests do not count: {outcome:?}");
}

fn patient(server: &Server) -> HttpFacilitator {
    facilitator(server, None).with_timeout(FacilitatorTimeouts {
        settle: Duration::from_secs(60),
        again: Duration::from_secs(60),
        ..FacilitatorTimeouts::default()
    })
}

#[tokio::test]
async fn temporary_failure_is_retried_with_the_identical_payload() {
    let passing = [
        refuses("invalid_exact_evm_transaction_failed"),
        refuses("Nonce provided for the transaction is lower than the current nonce of the account."),
        replies(200, json!({ "success": false, "errorReason": "settlement_pending", "transaction": TRANSACTION })),
        replies(429, json!({ "success": false, "errorReason": "rate_limited", "transaction": "" })),
        Says::Text(502, "<html>".to_owned()),
        settled(),
    ];
    let (server, started) = (Server::saying(passing).await, std::time::Instant::now());
    let outcome = patient(&server).settle(&Payer::new(1).payment(1), &started_settlement()).await;
    assert!(matches!(outcome, SettleOutcome::Settled(_)), "{outcome:?}");
    // The pauses are the subject. The clock cannot be paused, because the server is a real one.
    assert!(started.elapsed() >= Duration::from_secs(1), "retries come after pauses");
    let request = server.requested.lock().unwrap();
    assert!(request.len() == 6 && request.iter().all(|question| *question == request[0]), "{request:?}");
}

/// A facilitator with one signer, which gives two concurrent transactions the same nonce.
#[tokio::test]
async fn settlements_that_fail_because_they_come_together_are_sent_one_after_another() {
    let request = Arc::new(Mutex::new((0, 0)));
    let router = Router::new().fallback({
        let request = Arc::clone(&request);
        move || async move {
            let alone = {
                let (count, sending) = &mut *request.lock().unwrap();
                (*count, *sending) = (*count + 1, *sending + 1);
                *sending == 1
            };
            tokio::time::sleep(Duration::from_millis(20)).await;
            request.lock().unwrap().1 -= 1;
            Json(match alone {
                true => json!({ "success": true, "transaction": TRANSACTION }),
                false => json!({ "success": false, "errorReason": "nonce too low", "transaction": "" }),
            })
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let again = Duration::from_secs(60);
    let facilitator = at(&url, None).with_timeout(FacilitatorTimeouts { settle: again, again, ..FacilitatorTimeouts::default() });
    let (payments, started): (Vec<_>, _) = ((1..=16).map(|nonce| Payer::new(1).payment(nonce)).collect(), started_settlement());
    let outcomes = futures_util::future::join_all(payments.iter().map(|payment| facilitator.settle(payment, &started))).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, SettleOutcome::Settled(_))), "{outcomes:?}");
    let (count, _) = *request.lock().unwrap();

    assert!(count <= 3 * 16, "{count} questions for 16 settlements");
}

#[tokio::test]
async fn final_answers_are_not_retried() {
    let not_served = replies(401, json!({ "success": false, "errorReason": "unauthorized", "transaction": "" }));
    for last in [refuses("insufficient_funds"), refuses("invalid_exact_evm_nonce_already_used"), not_served] {
        let server = Server::saying([refuses("unexpected_settle_error"), refuses("invalid_exact_evm_transaction_failed"), last]).await;
        let outcome = patient(&server).settle(&Payer::new(1).payment(1), &started_settlement()).await;
        let request = server.requested_paths().len();
        // A refusal of the first request counts. One of a later request says nothing about the first.
        assert!(
            matches!((&outcome, request), (SettleOutcome::Refused { .. }, 1) | (SettleOutcome::Unknown(_), 3)),
            "{request}: {outcome:?}"
        );
    }
}

/// A simulation of the transfer fails if the balance is too small, and also if the money has already moved.
#[tokio::test]
async fn failed_simulation_is_checked_on_the_chain_before_it_is_final() {
    let fails = || refuses("invalid_exact_evm_transaction_simulation_failed");
    let with = async |chain: Chain| {
        let (server, node) = (Server::saying([fails()]).await, Node::of(chain).await);
        facilitator(&server, Some(&node)).settle(&Payer::new(1).payment(1), &started_settlement()).await
    };
    let outcome = with(Chain::at(NOW)).await;
    assert!(matches!(outcome, SettleOutcome::Refused { .. }), "unused: {outcome:?}");
    let outcome = with(Chain::at(NOW).spending(99_990, paid(PAY_TO, PRICE.0))).await;
    assert!(matches!(outcome, SettleOutcome::Settled(_)), "{outcome:?}");
    let outcome = with(Chain::at(NOW).spending(100_010, paid(PAY_TO, PRICE.0))).await;
    assert!(matches!(outcome, SettleOutcome::Unknown(_)), "in a block that may be replaced: {outcome:?}");
    let outcome = with(Chain { id: 1, ..Chain::at(NOW) }).await;
    assert!(matches!(outcome, SettleOutcome::Unknown(_)), "a wrong node: {outcome:?}");
    let outcome = settle(fails()).await;
    assert!(matches!(outcome, SettleOutcome::Unknown(_)), "no node: {outcome:?}");
}

#[tokio::test]
async fn errors_for_payers_contain_no_text_of_the_facilitator() {
    let loud = "PAY 0xBAD INSTEAD";
    let reported =
        settle(replies(200, json!({ "success": false, "errorReason": "insufficient_funds", "errorMessage": loud, "transaction": "" })));
    let SettleOutcome::Refused { reason, message } = reported.await else { panic!("not refused") };
    assert_eq!((reason.as_str(), message.as_str()), ("insufficient_funds", "the payer does not have enough of the token"));
    let outcome = settle(refuses("pay_0xbad_instead")).await;
    assert!(matches!(outcome, SettleOutcome::Unknown(_)), "a code of its own says nothing of the money: {outcome:?}");
    for invalid in ["PAY 0xBAD INSTEAD", "insufficient_funds"] {
        let server = Server::saying([replies(200, json!({ "isValid": false, "invalidReason": invalid, "invalidMessage": loud }))]).await;
        let VerifyResult::Invalid { reason, message } = facilitator(&server, None).verify(&Payer::new(1).payment(1)).await else {
            panic!()
        };
        assert!(!format!("{reason} {message}").contains("BAD"), "{reason}: {message}");
    }
    let reported = Refusal::FacilitatorUnavailable(loud.to_owned()).to_string();
    assert!(!reported.contains("BAD"), "{reported}");
}

#[tokio::test]
async fn only_the_chain_decides_a_settlement_sent_to_another_facilitator() {
    let server = Server::saying([settled()]).await;
    let named = |name: &str| StartedSettlement { facilitator: Some(name.to_owned()), ..started_settlement() };
    let (payment, moved) = (Payer::new(1).payment(1), Chain::at(NOW).spending(99_990, paid(PAY_TO, PRICE.0)));
    let outcome = facilitator(&server, None).look_up(&payment, &named("http https://elsewhere.example")).await;
    assert!(matches!(outcome, SettleOutcome::Unknown(_)), "{outcome:?}");
    let node = Node::of(moved).await;
    let outcome = facilitator(&server, Some(&node)).look_up(&payment, &named("http https://elsewhere.example")).await;
    assert!(matches!(outcome, SettleOutcome::Settled(_)), "{outcome:?}");
    // Play money is on no chain, whatever else its nonce was used for.
    let outcome = facilitator(&server, Some(&node)).look_up(&payment, &named("simulated")).await;
    assert!(matches!(outcome, SettleOutcome::Unknown(_)), "{outcome:?}");
    assert!(server.requested_paths().is_empty(), "it moves nothing");
}

#[tokio::test]
async fn credentials_are_sent_and_do_not_appear_in_the_facilitators_identity() {
    let server = Server::saying([settled()]).await;
    let access = FacilitatorAccess { headers: vec!["X-Api-Key: hush".to_owned()], cdp_key: None };
    let url = format!("{}/v2/?key=hush", server.url.replace("http://", "http://me:hush@"));
    let facilitator = HttpFacilitator::new(&url, &access, None, Clock::fixed(NOW)).unwrap();
    assert!(matches!(facilitator.settle(&Payer::new(1).payment(1), &started_settlement()).await, SettleOutcome::Settled(_)));
    assert_eq!(server.headers.lock().unwrap()[0]["x-api-key"], "hush");
    assert_eq!(server.requested_paths(), ["/v2/settle"]);
    assert_eq!(facilitator.identity(), format!("http {}/v2", server.url));
    assert!(!format!("{facilitator:?}").contains("hush"));
}

#[tokio::test]
async fn only_the_simulated_facilitator_moves_play_money() {
    let real = at("http://127.0.0.1:1", None);
    let fixture = Fixture::new().await;
    let played = &fixture.facilitator.inner;
    assert_eq!(((real.name(), real.simulated()), (played.name(), played.simulated())), (("http", false), ("simulated", true)));
}

#[tokio::test]
async fn an_answer_of_256_kib_is_read_to_its_end() {
    let text = json!({ "success": true, "transaction": TRANSACTION }).to_string();
    let outcome = settle(Says::Text(200, format!("{text}{}", " ".repeat((256 << 10) - text.len())))).await;
    assert!(matches!(outcome, SettleOutcome::Settled(_)), "{outcome:?}");
}

#[tokio::test]
async fn refusal_that_may_have_moved_money_states_its_reason() {
    let SettleOutcome::Unknown(reason) = settle(refuses("unexpected_settle_error")).await else { panic!("not unknown") };
    assert!(reason.contains("unexpected_settle_error"), "{reason}");
}

#[tokio::test]
async fn payload_is_forwarded_as_the_client_sent_it() {
    let server = Server::saying([replies(200, json!({ "isValid": true }))]).await;
    let mut payload = Payer::new(1).payload(&Payer::new(1).authorization(1));
    payload["accepted"]["extra"]["more"] = json!({ "kept": [1, 2.5, null] });
    let payment = decode(&payload).unwrap();
    assert_eq!(facilitator(&server, None).verify(&payment).await, VerifyResult::Valid);
    let request = server.requested.lock().unwrap();
    assert_eq!(request[0].0, "/verify");
    assert_eq!(request[0].1["paymentPayload"], payload);
    assert_eq!(request[0].1["paymentRequirements"], requirements());
    assert_eq!(request[0].1["x402Version"], 2);
}

#[tokio::test]
async fn verification_fails_closed() {
    async fn verdict(text: Says) -> VerifyResult {
        let server = Server::saying([text]).await;
        facilitator(&server, None).verify(&Payer::new(1).payment(1)).await
    }
    for status in [200, 400, 500] {
        let refused = verdict(replies(status, json!({ "isValid": false, "invalidReason": "insufficient_funds" }))).await;
        assert!(matches!(&refused, VerifyResult::Invalid { reason, .. } if reason == "insufficient_funds"), "{status}: {refused:?}");
    }
    for unclear in [
        replies(500, json!({ "isValid": true })),
        replies(404, json!({ "isValid": true })),
        replies(200, json!({ "isValid": "true" })),
        replies(200, json!({})),
        replies(200, json!([])),
        Says::Text(200, String::new()),
        Says::Text(502, "<html>".to_owned()),
        Says::Silence,
    ] {
        let verdict = verdict(unclear).await;
        assert!(matches!(verdict, VerifyResult::Unavailable(_)), "{verdict:?}");
    }
    let VerifyResult::Invalid { reason, .. } =
        verdict(replies(200, json!({ "isValid": false, "invalidReason": "x".repeat(100_000) }))).await
    else {
        panic!("not invalid")
    };
    assert!(reason.len() <= 100);
}

#[tokio::test]
async fn error_of_a_facilitator_about_the_host_is_not_blamed_on_the_payer() {
    for (status, reason) in [
        (401, "unauthorized"),
        (403, "insufficient_funds"),
        (429, "rate_limited"),
        (400, "invalid_payment_requirements"),
        (200, "invalid_network"),
        (200, "unsupported_scheme"),
        (200, "unexpected_verify_error"),
    ] {
        let server = Server::saying([replies(status, json!({ "isValid": false, "invalidReason": reason }))]).await;
        let verdict = facilitator(&server, None).verify(&Payer::new(1).payment(1)).await;
        assert!(matches!(&verdict, VerifyResult::Unavailable(cause) if cause.contains(reason)), "{status} {reason}: {verdict:?}");
    }
    for (status, reason) in [(401, "unauthorized"), (200, "invalid_network")] {
        let reported = replies(status, json!({ "success": false, "errorReason": reason, "transaction": "" }));
        let outcome = settle(reported).await;
        assert!(matches!(&outcome, SettleOutcome::Refused { reason, .. } if reason == NOT_SERVED), "nothing was taken: {outcome:?}");
    }
}

#[tokio::test]
async fn the_chain_has_the_last_word_on_a_used_nonce() {
    for doubtful in
        [refuses("invalid_exact_evm_nonce_already_used"), Says::Silence, Says::Text(502, "<html>".to_owned()), refuses("oh no!")]
    {
        let (server, node) = (Server::saying([doubtful]).await, Node::of(Chain::at(NOW).spending(99_990, paid(PAY_TO, PRICE.0))).await);
        let outcome = facilitator(&server, Some(&node)).settle(&Payer::new(1).payment(1), &started_settlement()).await;
        assert!(matches!(&outcome, SettleOutcome::Settled(settlement) if settlement.transaction == TRANSACTION), "{outcome:?}");
    }
}

/// Regression test: a repeated request was refused because the first one had moved the money, so the payer had paid for
/// nothing.
#[tokio::test]
async fn a_no_to_a_repeated_question_is_not_the_end() {
    for reason in ["invalid_exact_evm_insufficient_balance", "invalid_exact_evm_payload_authorization_valid_before"] {
        let server = Server::saying([refuses(reason)]).await;
        let outcome = facilitator(&server, None).resolve(&Payer::new(1).payment(1), &started_settlement()).await;
        assert!(matches!(outcome, SettleOutcome::Unknown(_)), "{outcome:?}");
    }
    let server = Server::saying([refuses("insufficient_funds")]).await;
    let node = Node::of(Chain::at(NOW).spending(99_990, paid(PAY_TO, PRICE.0))).await;
    let outcome = facilitator(&server, Some(&node)).resolve(&Payer::new(1).payment(1), &started_settlement()).await;
    assert!(matches!(outcome, SettleOutcome::Settled(_)), "{outcome:?}");
    assert!(server.requested_paths().is_empty(), "the chain knew");
}

#[tokio::test]
async fn a_settlement_that_timed_out_is_resolved_later_and_served_once() {
    let silent = [replies(200, json!({ "isValid": true })), Says::Silence, refuses("settlement_pending"), settled()];
    let (server, fixture) = (Server::saying(silent).await, Fixture::new().await);
    let payments = fixture.settling_with(facilitator(&server, None));
    let admission = run(payments.admit(&terms(), Payer::new(1).pays(1), REQUEST).await);
    let id = admission.id().clone();
    assert!(matches!(payments.settle(admission, answer(ANSWER), &draft()).await, Err(SettleError::Unknown { .. })));
    assert!(matches!(payments.admit(&terms(), Payer::new(1).pays(1), REQUEST).await, Ok(Admit::Seen(SeenPayment::InFlight(_)))));
    payments.recover().await.unwrap();
    payments.tick().await.unwrap();
    assert_eq!(fixture.state(&id).await, Some(PaymentState::Settling), "pending is not settled");
    assert!(fixture.receipts().await.is_empty());
    payments.recover().await.unwrap();
    payments.tick().await.unwrap();
    assert_eq!(fixture.state(&id).await, Some(PaymentState::Settled));
    assert_eq!(stored(payments.admit(&terms(), Payer::new(1).pays(1), REQUEST).await).body, ANSWER);
    let receipts = fixture.receipts().await;
    assert_eq!((receipts.len(), receipts[0].transaction.as_deref(), receipts[0].simulated), (1, Some(TRANSACTION), false));
    assert_eq!(server.requested_paths(), ["/verify", "/settle", "/settle", "/settle"]);
    let request = server.requested.lock().unwrap();
    assert!(request[2].1 == request[1].1 && request[3].1 == request[1].1, "the identical payload");
}

/// A facilitator that does not check the nonce accepts the payment, and the chain then reports the transfer of the day
/// before.
#[tokio::test]
async fn a_nonce_that_is_signed_for_again_buys_nothing_by_the_transfer_that_was() {
    let valid = || replies(200, json!({ "isValid": true }));
    let server = Server::saying([valid(), settled(), valid(), refuses("invalid_exact_evm_transaction_failed")]).await;
    let node = Node::of(Chain::at(Timestamp(NOW.0 + 86_401_000)).spending(99_990, paid(PAY_TO, PRICE.0))).await;
    let fixture = Fixture::new().await;
    let payments = fixture.settling_with(facilitator(&server, Some(&node)));
    let payer = Payer::new(1);
    let first = run(payments.admit(&terms(), payer.pays(1), REQUEST).await);
    payments.settle(first, answer(ANSWER), &draft()).await.unwrap();
    fixture.clock.set(NOW.plus_millis(24 * 3_600_000 + 1));
    payments.tick().await.unwrap();
    let again = offer(&payer.payload(&payer.valid_for(1, 25 * 3_600_000)));
    assert!(payments.admit(&terms(), again, REQUEST).await.is_err());
    assert_eq!(fixture.receipts().await.len(), 1);
}
