//! Payments that are settled before the run.

use super::{
    refund::refunding,
    replicas::{LEASE_MS, two_of_the_newest_version},
    *,
};
use crate::{Delivery, refund::Refunding};

const RESULT: &str = "sha256:the hash of the result";

pub(super) fn upfront() -> Terms {
    Terms { settle: SettleTime::Before, ..terms() }
}

/// Returns the payment of a v2 client that accepts the flow.
pub(super) fn pays(seed: u8, nonce: u64) -> Offered {
    let payer = Payer::new(seed);
    let mut payload = payer.payload(&payer.authorization(nonce));
    payload["accepted"]["extra"]["paymentFlow"] = json!("upfront");
    offer(&payload)
}

pub(super) fn closing() -> Vec<u8> {
    let mut closing: Closing = serde_json::from_slice(&draft()).unwrap();
    (closing.receipt.settle, closing.receipt.result_hash) = (SettleTime::Before, String::new());
    ReceiptFinisher::encode(&closing)
}

pub(super) fn delivery(repeated: bool) -> Delivery {
    let call = CallId::generate();
    Delivery { call, owner: Owner::Platform, version: terms().version, result_hash: RESULT.to_owned(), repeated, started_at: NOW }
}

impl Bench {
    async fn admit_upfront(&self, offered: Offered) -> Result<Admit, Refusal> {
        self.gate.admit(&upfront(), offered, REQUEST).await
    }

    /// Pays before a run.
    async fn charge(&self, offered: Offered) -> Result<OwedRun, SettleError> {
        let admission = run(self.admit_upfront(offered).await);
        self.gate.settle_before(admission, &closing()).await
    }

    /// Begins another run for an owed answer.
    async fn again(&self, offered: Offered) -> OwedRun {
        match self.admit_upfront(offered).await {
            Ok(Admit::Owed(owed)) => self.gate.resume(owed, &upfront(), Request::from(REQUEST)).await.unwrap().expect("nobody was faster"),
            other => panic!("nothing is owed: {}", what(&other)),
        }
    }

    async fn charged_once(&self) {
        assert_eq!((self.earned().await, self.balance(&Payer::new(1).address()).await), (PRICE.0, FUNDS.0 - PRICE.0));
        assert_eq!(self.receipts().await.len(), 1);
    }
}

#[tokio::test]
async fn payment_is_settled_and_receipted_before_the_run() {
    let bench = Bench::new().await;
    let owed = bench.charge(pays(1, 1)).await.unwrap();
    bench.charged_once().await;
    let receipt = bench.receipts().await.remove(0);
    assert_eq!((receipt.draft.settle, receipt.draft.result_hash.as_str()), (SettleTime::Before, ""));
    let id = owed.payment().clone();
    assert_eq!(bench.state(&id).await, Some(State::Owed));
    assert!(matches!(bench.admit_upfront(pays(1, 1)).await, Ok(Admit::InFlight(_))), "its run is under way");
    let answer = owed.deliver(answer(ANSWER), &delivery(false)).await.unwrap();
    assert_eq!((&answer.body[..], answer.receipt_id.as_str()), (ANSWER, receipt.draft.receipt_id.as_str()));
    assert!(answer.settlement.as_ref().unwrap().body.contains("\"success\":true"));
    let after = bench.receipts().await.remove(0);
    assert_eq!((after.draft.result_hash.as_str(), &after.transaction), (RESULT, &receipt.transaction));
    assert_eq!(stored(bench.admit_upfront(pays(1, 1)).await), answer);
    bench.charged_once().await;
    assert!(bench.all(Space::OpenIntents).await.is_empty());
}

#[tokio::test]
async fn failed_run_is_repeated_without_another_charge() {
    let bench = Bench::new().await;
    let told = bench.charge(pays(1, 1)).await.unwrap().fail(true).await;
    assert_eq!((told.runs_left, told.notice.is_some()), (9, true));
    for left in (0..9).rev() {
        let told = bench.again(pays(1, 1)).await.fail(true).await;
        assert_eq!(told.runs_left, left);
    }
    let refused = bench.admit_upfront(pays(1, 1)).await;
    assert!(matches!(&refused, Err(Refusal::NoMoreRuns { receipt, .. }) if *receipt == told.receipt), "{}", what(&refused));
    bench.charged_once().await;
}

#[tokio::test]
async fn run_that_the_host_had_no_room_for_is_not_counted() {
    let bench = Bench::new().await;
    let mut told = bench.charge(pays(1, 1)).await.unwrap().fail(false).await;
    assert_eq!(told.runs_left, 10);
    for _ in 0..20 {
        told = bench.again(pays(1, 1)).await.fail(false).await;
    }
    assert_eq!(told.runs_left, 10);
    bench.again(pays(1, 1)).await.deliver(answer(ANSWER), &delivery(true)).await.unwrap();
    bench.charged_once().await;
}

#[tokio::test]
async fn refused_settlement_owes_nothing() {
    let bench = Bench::new().await;
    bench.facilitator.feel(Mood::Refuses);
    let refused = bench.charge(pays(1, 1)).await.err();
    assert!(matches!(refused, Some(SettleError::Refused { .. })), "{refused:?}");
    assert_eq!((bench.earned().await, bench.receipts().await.len()), (0, 0));
    bench.facilitator.feel(Mood::Honest);
    let owed = bench.charge(pays(1, 1)).await.unwrap();
    assert_eq!(bench.state(owed.payment()).await, Some(State::Owed));
}

#[tokio::test]
async fn unknown_settlement_runs_once_it_is_found_settled() {
    let bench = Bench::new().await;
    bench.facilitator.feel(Mood::SettlesUnsure);
    let unknown = bench.charge(pays(1, 1)).await.err();
    let Some(SettleError::Unknown { payment }) = unknown else { panic!("{unknown:?}") };
    assert!(matches!(bench.admit_upfront(pays(1, 1)).await, Ok(Admit::InFlight(_))), "nothing runs before that is known");
    bench.facilitator.feel(Mood::Honest);
    let bench = bench.restarted();
    bench.gate.recover().await.unwrap();
    bench.gate.tick().await.unwrap();
    assert_eq!(bench.state(&payment).await, Some(State::Owed));
    assert!(matches!(bench.gate.ended(&payment).await.unwrap(), Ended::Owed { failed_runs: 0, .. }));
    let told = bench.again(pays(1, 1)).await.deliver(answer(ANSWER), &delivery(true)).await.unwrap();
    assert_eq!(stored(bench.admit_upfront(pays(1, 1)).await), told);
    bench.charged_once().await;
}

#[tokio::test]
async fn unresolved_settlement_is_owed_once_it_is_found_paid() {
    let bench = Bench::new().await;
    bench.facilitator.feel(Mood::Unsure);
    let unknown = bench.charge(pays(1, 1)).await.err();
    let Some(SettleError::Unknown { payment }) = unknown else { panic!("{unknown:?}") };
    bench.clock.set(NOW.plus_millis(24 * 60 * 60 * 1_000));
    bench.gate.recover().await.unwrap();
    bench.gate.tick().await.unwrap();
    assert_eq!(bench.state(&payment).await, Some(State::Unresolved));
    assert!(matches!(bench.admit_upfront(pays(1, 1)).await, Ok(Admit::InFlight(_))), "nothing runs before that is known");
    let paid = Resolution::Paid { transaction: format!("0x{}", "ab".repeat(32)) };
    assert_eq!(bench.gate.resolve_unresolved(&payment, &paid).await.unwrap().state, State::Owed);
    assert_eq!(count_unresolved(&*bench.store, 10).await.unwrap(), 0);
    let told = bench.again(pays(1, 1)).await.deliver(answer(ANSWER), &delivery(true)).await.unwrap();
    assert_eq!(stored(bench.admit_upfront(pays(1, 1)).await), told);
    assert_eq!((bench.state(&payment).await, bench.receipts().await.len()), (Some(State::Settled), 1));
}

#[tokio::test]
async fn restart_during_a_run_lets_the_payer_run_again() {
    let bench = Bench::new().await;
    let cut = bench.charge(pays(1, 1)).await.unwrap();
    let after = bench.restarted();
    after.gate.recover().await.unwrap();
    after.gate.tick().await.unwrap();
    let again = after.again(pays(1, 1)).await;
    // The earlier run has not noticed.
    let (lost, _) = cut.deliver(answer(b"{}"), &delivery(false)).await.unwrap_err();
    assert!(matches!(lost, StoreError::Conflict), "{lost:?}");
    again.deliver(answer(ANSWER), &delivery(true)).await.unwrap();
    assert_eq!(&stored(after.admit_upfront(pays(1, 1)).await).body[..], ANSWER);
    after.charged_once().await;
}

#[tokio::test]
async fn run_that_another_host_has_begun_is_counted_once() {
    let (one, other) = two_of_the_newest_version().await;
    let run = one.charge(pays(1, 1)).await.unwrap();
    let id = run.payment().clone();
    assert!(matches!(other.admit_upfront(pays(1, 1)).await, Ok(Admit::InFlight(_))), "it is joined");
    assert!(matches!(other.gate.ended(&id).await.unwrap(), Ended::Running { failed_runs: 0 }));
    let told = run.fail(true).await;
    assert_eq!(told.runs_left, 9);
    match other.gate.ended(&id).await.unwrap() {
        Ended::Owed { failed_runs: 1, unanswered } => assert_eq!(unanswered, told),
        ended => panic!("{ended:?}"),
    }
    // The next run is counted in the commit that begins it, wherever it runs.
    let run = other.again(pays(1, 1)).await;
    assert!(matches!(one.gate.ended(&id).await.unwrap(), Ended::Running { failed_runs: 1 }));
    assert!(matches!(one.admit_upfront(pays(1, 1)).await, Ok(Admit::InFlight(_))));
    assert_eq!(run.fail(true).await.runs_left, 8);
}

#[tokio::test]
async fn run_of_a_host_that_loses_its_lease_is_repeated_and_answered_once() {
    let (one, other) = two_of_the_newest_version().await;
    let late = one.charge(pays(1, 1)).await.unwrap();
    let id = late.payment().clone();
    assert!(matches!(other.admit_upfront(pays(1, 1)).await, Ok(Admit::InFlight(_))), "its host lives");
    // Only the other host renews its lease.
    for step in 1..=3 {
        other.clock.set(NOW.plus_millis(LEASE_MS + step * LEASE_MS / 2));
        other.renew().await;
    }
    assert!(matches!(other.gate.ended(&id).await.unwrap(), Ended::Owed { failed_runs: 0, .. }), "the run did not end");
    let again = other.again(pays(1, 1)).await;
    // The first host has not noticed, and ends its run.
    let (lost, _) = late.deliver(answer(b"{}"), &delivery(false)).await.unwrap_err();
    assert!(matches!(lost, StoreError::Conflict), "{lost:?}");
    assert!(matches!(other.gate.ended(&id).await.unwrap(), Ended::Running { .. }), "that did not end the other run");
    assert_eq!(again.fail(true).await.runs_left, 8, "two runs have begun");
    other.again(pays(1, 1)).await.deliver(answer(ANSWER), &delivery(true)).await.unwrap();
    for bench in [&one, &other] {
        assert_eq!(&stored(bench.admit_upfront(pays(1, 1)).await).body[..], ANSWER);
    }
    other.charged_once().await;
}

#[tokio::test]
async fn refund_during_a_run_leaves_the_payment_without_its_answer() {
    let bench = Bench::new().await;
    let run = bench.charge(pays(1, 1)).await.unwrap();
    let (id, receipt) = (run.payment().clone(), run.receipt().to_owned());
    let refund = |transaction: u64| Refunding { transaction: Some(format!("0x{transaction:064x}")), ..refunding(&receipt) };
    assert_eq!(bench.refunds().give(&refund(7), None).await.unwrap().refunded, PRICE);
    let (_, told) = run.deliver(answer(ANSWER), &delivery(false)).await.unwrap_err();
    assert_eq!((told.runs_left, told.receipt.as_str()), (0, receipt.as_str()));
    assert_eq!(bench.state(&id).await, Some(State::Owed));
    let kept = bench.receipts().await.remove(0);
    assert_eq!(kept.draft.result_hash, "", "no answer was given for it");
    // No host takes it for a run in flight, and none runs it again.
    assert!(matches!(bench.gate.ended(&id).await.unwrap(), Ended::Owed { failed_runs: 1, .. }));
    let Ok(Admit::Owed(owed)) = bench.admit_upfront(pays(1, 1)).await else { panic!("it is not owed") };
    let refused = bench.gate.resume(owed, &upfront(), Request::from(REQUEST)).await.err();
    assert!(matches!(&refused, Some(Refusal::NoMoreRuns { receipt: told, .. }) if *told == receipt), "{refused:?}");
    // Nothing more is given back than was paid.
    bench.refunds().give(&refund(8), None).await.unwrap_err();
}

#[tokio::test]
async fn of_repeats_that_come_together_one_runs() {
    let bench = Bench::new().await;
    _ = bench.charge(pays(1, 1)).await.unwrap().fail(true).await;
    let (mut owed, terms) = (Vec::new(), upfront());
    for _ in 0..4 {
        match bench.admit_upfront(pays(1, 1)).await {
            Ok(Admit::Owed(one)) => owed.push(one),
            other => panic!("{}", what(&other)),
        }
    }
    let begun = owed.into_iter().map(|owed| bench.gate.resume(owed, &terms, Request::from(REQUEST)));
    let begun: Vec<_> = futures_util::future::join_all(begun).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(begun.iter().flatten().count(), 1);
}

#[tokio::test]
async fn what_was_paid_for_one_tool_runs_no_other() {
    let bench = Bench::new().await;
    _ = bench.charge(pays(1, 1)).await.unwrap().fail(true).await;
    let Ok(Admit::Owed(owed)) = bench.admit_upfront(pays(1, 1)).await else { panic!("nothing is owed") };
    let other = Terms { endpoint_id: "ep_01J00000000000000000000001".parse().unwrap(), ..upfront() };
    let refused = bench.gate.resume(owed, &other, Request::from(REQUEST)).await.err();
    assert!(matches!(refused, Some(Refusal::NoMoreRuns { .. })), "{refused:?}");
}

#[tokio::test]
async fn offers_of_v2_name_the_flow_and_v1_has_none() {
    let bench = Bench::new().await;
    let challenge = bench.gate.challenge(&upfront(), Way::Post, "payment required");
    assert!(challenge.v2["accepts"].as_array().unwrap().iter().all(|entry| entry["extra"]["paymentFlow"] == "upfront"));
    assert_eq!(challenge.v1["accepts"], json!([]));
    assert!(challenge.v1["message"].as_str().unwrap().contains("x402 v2"), "{}", challenge.v1);
    let plain = bench.admit_upfront(Payer::new(1).pays(1)).await;
    assert_eq!(code(plain), "invalid_payment_requirements", "who pays before the run says so");
    let v1 = Payer::new(1).payload_v1(&Payer::new(1).authorization(1));
    let v1 = Offered::X402 { version: WireVersion::V1, header: STANDARD.encode(v1.to_string()) };
    assert_eq!(code(bench.admit_upfront(v1).await), "invalid_x402_version");
}
