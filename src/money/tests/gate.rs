//! One payment buys one run and one answer.

use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_that_arrive_together_one_runs() {
    let bench = Arc::new(Bench::new().await);
    for nonce in 0..20 {
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let bench = Arc::clone(&bench);
                tokio::spawn(async move { bench.admit(Payer::new(1).pays(nonce)).await })
            })
            .collect();
        let mut running = vec![];
        let mut in_flight = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(Admit::Run(admission)) => running.push(admission),
                Ok(Admit::InFlight(_)) => in_flight += 1,
                other => panic!("{}", what(&other)),
            }
        }
        assert_eq!((running.len(), in_flight), (1, 7));
        bench.settle(running.remove(0)).await.unwrap();
    }
    assert_eq!(bench.earned().await, 20 * PRICE.0);
    assert_eq!(bench.receipts().await.len(), 20);
}

#[tokio::test]
async fn a_settled_payment_gets_the_same_answer_again() {
    let bench = Bench::new().await;
    let payer = Payer::new(1);
    let first = bench.buy(payer.pays(1)).await;
    assert_eq!(first.body, ANSWER);
    for _ in 0..3 {
        assert_eq!(stored(bench.admit(payer.pays(1)).await), first);
    }
    assert_eq!(stored(bench.restarted().admit(payer.pays(1)).await), first, "after a restart");
    let receipts = bench.receipts().await;
    assert_eq!(receipts.len(), 1);
    assert_eq!(receipts[0].draft.receipt_id.as_str(), first.receipt_id);
    assert_eq!(receipts[0].amount.as_deref(), Some("10000"));
    assert_eq!(bench.earned().await, PRICE.0);
    assert_eq!(bench.facilitator.settled.load(Ordering::SeqCst), 1);
    let notice: Value = serde_json::from_str(&first.settlement.unwrap().body).unwrap();
    assert_eq!((&notice["success"], &notice["network"], &notice["payer"]), (&json!(true), &json!("eip155:84532"), &json!(payer.address())));
    assert_eq!(notice["transaction"], json!(receipts[0].transaction));
}

#[tokio::test]
async fn a_v1_payment_is_told_in_the_words_of_v1() {
    let bench = Bench::new().await;
    let payload = Payer::new(1).payload_v1(&Payer::new(1).authorization(1));
    let header = STANDARD.encode(payload.to_string());
    let answer = bench.buy(Offered::X402 { version: WireVersion::V1, header }).await;
    let notice = answer.settlement.unwrap();
    assert_eq!(notice.version, WireVersion::V1);
    let body: Value = serde_json::from_str(&notice.body).unwrap();
    assert_eq!((&body["success"], &body["network"]), (&json!(true), &json!("base-sepolia")));
    assert_eq!(body.get("amount"), None, "a member of v2");
    // The same authorization in v2 is the same payment.
    assert_eq!(stored(bench.admit(Payer::new(1).pays(1)).await).body, ANSWER);
}

#[tokio::test]
async fn another_request_under_the_same_payment_is_refused() {
    let bench = Bench::new().await;
    let admission = bench.run(Payer::new(1).pays(1)).await;
    let other = async || bench.gate.admit(&terms(), Payer::new(1).pays(1), "another request").await;
    assert!(matches!(other().await, Err(Refusal::Reused)), "while it runs");
    bench.settle(admission).await.unwrap();
    assert!(matches!(other().await, Err(Refusal::Reused)), "when it is settled");
    assert_eq!(bench.earned().await, PRICE.0);
}

#[tokio::test]
async fn the_answer_is_for_who_holds_the_signature() {
    let bench = Bench::new().await;
    let payer = Payer::new(1);
    bench.buy(payer.pays(1)).await;
    // Data that anyone can read on the chain, with any signature.
    let mut forged = payer.payload(&payer.authorization(1));
    forged["payload"]["signature"] = json!(format!("0x{}1b", "11".repeat(64)));
    assert_eq!(code(bench.admit(offer(&forged)).await), "invalid_exact_evm_nonce_already_used");
    // Another transfer that the payer signed with the same nonce.
    let mut other = payer.authorization(1);
    other.valid_before = (NOW.as_secs() + 301).to_string();
    assert_eq!(code(bench.admit(offer(&payer.payload(&other))).await), "invalid_exact_evm_nonce_already_used");
    assert_eq!(bench.earned().await, PRICE.0);
}

#[tokio::test]
async fn letter_case_makes_no_new_payment() {
    let bench = Bench::new().await;
    let payer = Payer::new(1);
    let mut authorization = payer.authorization(0xabcdef);
    let first = bench.buy(offer(&payer.payload(&authorization))).await;
    authorization.from = authorization.from.to_lowercase();
    authorization.nonce = format!("0x{}", authorization.nonce[2..].to_uppercase());
    assert_eq!(stored(bench.admit(offer(&payer.payload(&authorization))).await), first);
    assert_eq!(bench.earned().await, PRICE.0);
}

#[tokio::test]
async fn a_dropped_admission_releases_and_the_payment_admits_again() {
    let bench = Bench::new().await;
    let admission = bench.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    drop(admission);
    bench.until(&id, State::Released).await;
    assert!(bench.all(Space::OpenIntents).await.is_empty());
    let again = bench.run(Payer::new(1).pays(1)).await;
    again.release().await;
    assert_eq!(bench.state(&id).await, Some(State::Released));
    assert_eq!(bench.earned().await, 0);
    // It is released, so another request can use it.
    let other = run(bench.gate.admit(&terms(), Payer::new(1).pays(1), "another request").await);
    bench.settle(other).await.unwrap();
    assert_eq!(bench.earned().await, PRICE.0);
}

#[tokio::test]
async fn a_refused_settlement_takes_nothing_and_gives_nothing() {
    let bench = Bench::new().await;
    let admission = bench.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    bench.facilitator.feel(Mood::Refuses);
    let refused = bench.settle(admission).await;
    assert!(matches!(&refused, Err(SettleError::Refused { reason, .. }) if reason == "insufficient_funds"), "{refused:?}");
    let state = bench.gate.state(&id).await.unwrap().unwrap();
    assert_eq!((state.state, state.reason.as_deref()), (State::Refused, Some("insufficient_funds")));
    assert_eq!((bench.earned().await, bench.receipts().await.len(), bench.gate.open_intents()), (0, 0, 0));
    assert!(matches!(bench.gate.ended(&id).await.unwrap(), Ended::Without));
    assert!(bench.all(Space::OpenIntents).await.is_empty());
    bench.facilitator.feel(Mood::Honest);
    bench.buy(Payer::new(1).pays(1)).await;
    assert_eq!((bench.earned().await, bench.receipts().await.len()), (PRICE.0, 1));
}

#[tokio::test]
async fn who_spends_the_money_elsewhere_before_the_end_pays_nothing_and_gets_nothing() {
    let bench = Bench::new().await;
    let payer = Payer::new(4);
    bench.ledger.faucet(&payer.address(), PRICE).await.unwrap();
    // At another host, which does not know the balance held by this one.
    let elsewhere = bench.restarted();
    let (first, second) = (bench.run(payer.pays(1)).await, elsewhere.run(payer.pays(2)).await);
    bench.settle(first).await.unwrap();
    assert!(matches!(elsewhere.settle(second).await, Err(SettleError::Refused { .. })));
    assert_eq!((bench.earned().await, bench.receipts().await.len()), (PRICE.0, 1));
}

#[tokio::test]
async fn what_is_not_settled_yet_is_in_flight() {
    let bench = Bench::new().await;
    let admission = bench.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    assert!(matches!(bench.gate.ended(&id).await.unwrap(), Ended::NotYet));
    bench.facilitator.feel(Mood::SettlesInSilence);
    let waiting = tokio::time::timeout(Duration::from_millis(50), bench.settle(admission)).await;
    assert!(waiting.is_err() && bench.state(&id).await == Some(State::Settling));
    assert!(matches!(bench.gate.ended(&id).await.unwrap(), Ended::NotYet), "its first answer is awaited");
}

#[tokio::test]
async fn what_may_be_settled_is_in_flight_until_that_is_known() {
    let bench = Bench::new().await;
    let admission = bench.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    bench.facilitator.feel(Mood::SettlesUnsure);
    assert!(matches!(bench.settle(admission).await, Err(SettleError::Unknown { .. })));
    assert_eq!((bench.state(&id).await, bench.gate.open_intents()), (Some(State::Settling), 1));
    assert!(matches!(bench.admit(Payer::new(1).pays(1)).await, Ok(Admit::InFlight(_))));
    assert!(matches!(bench.gate.ended(&id).await.unwrap(), Ended::Open));
    bench.facilitator.feel(Mood::Honest);
    bench.gate.recover().await.unwrap();
    bench.gate.tick().await.unwrap();
    assert_eq!((bench.state(&id).await, bench.gate.open_intents()), (Some(State::Settled), 0));
    assert!(matches!(bench.gate.ended(&id).await.unwrap(), Ended::Answer(answer) if answer.body == ANSWER));
    assert_eq!(stored(bench.admit(Payer::new(1).pays(1)).await).body, ANSWER);
    assert_eq!((bench.earned().await, bench.receipts().await.len()), (PRICE.0, 1));
}

#[tokio::test]
async fn what_another_replica_has_resolved_is_open_no_more() {
    let bench = Bench::new().await;
    bench.facilitator.feel(Mood::Unsure);
    let first = bench.run(Payer::new(1).pays(1)).await;
    bench.settle(first).await.unwrap_err();
    let other = bench.restarted();
    other.gate.recover().await.unwrap();
    other.gate.tick().await.unwrap();
    let second = bench.run(Payer::new(1).pays(2)).await;
    bench.settle(second).await.unwrap_err();
    assert_eq!(bench.gate.open_intents(), 2);
    bench.gate.tick().await.unwrap();
    assert_eq!(bench.gate.open_intents(), 1);
}

/// Two replicas learn of one refusal. The second finds what the first has written.
#[tokio::test]
async fn a_settlement_that_another_replica_saw_refused_is_refused() {
    let memory = Arc::new(MemoryStore::new());
    let other = Bench::over(Arc::clone(&memory) as _);
    let payer = Payer::new(1);
    other.ledger.faucet(&payer.address(), PRICE).await.unwrap();
    // Reservation and intent, then an interruption before the end:
    let interrupted = Interrupted::before_commit(3, memory);
    let bench = other.restarted_over(Arc::clone(&interrupted) as _);
    let admission = bench.run(payer.pays(1)).await;
    let id = admission.id().clone();
    other.buy(payer.pays(2)).await;
    let gate = Arc::clone(&other.gate);
    interrupted.by(async move {
        gate.recover().await.unwrap();
        gate.tick().await.unwrap();
    });
    let settled = bench.settle(admission).await;
    assert!(matches!(settled, Err(SettleError::Refused { .. })), "{settled:?}");
    assert_eq!((bench.state(&id).await, bench.gate.open_intents()), (Some(State::Refused), 0));
}

#[tokio::test]
async fn what_payments_are_taken_is_described() {
    let bench = Bench::new().await;
    let described = bench.gate.describe();
    let said = ["payTo", "network", "networkV1", "facilitator"].map(|name| described[name].as_str().unwrap());
    assert_eq!(said, [PAY_TO, "eip155:84532", "base-sepolia", "moody"]);
    assert_eq!(described["schemes"], json!(["exact", "upto"]));
    assert!(described["simulated"] == true && described["faucet"].is_string(), "{described}");
    let asset = &ASSETS[0];
    let told = json!({ "address": asset.address, "symbol": "USDC", "decimals": 6, "name": "USDC", "version": "2" });
    assert_eq!(described["asset"], told);
}

#[tokio::test]
async fn payers_are_shown_by_the_ends_of_their_addresses() {
    let bench = Bench::new().await;
    let (payer, address) = (Payer::new(1), Payer::new(1).address());
    let shown = bench.run(payer.pays(1)).await.payer().unwrap();
    assert_eq!(shown, format!("{}…{}", &address[..6], &address[38..]));
}

const NAME: &str = "order-0001-of-today";

#[tokio::test]
async fn a_named_payment_made_again_with_another_authorization_settles_once() {
    let bench = Bench::new().await;
    let first = bench.buy(Payer::new(1).pays_as(1, NAME)).await;
    assert_eq!(stored(bench.admit(Payer::new(1).pays_as(2, NAME)).await), first);
    assert_eq!((bench.earned().await, bench.receipts().await.len()), (PRICE.0, 1));
    assert_eq!(bench.facilitator.settled.load(Ordering::SeqCst), 1);
    let other = bench.gate.admit(&terms(), Payer::new(1).pays_as(3, NAME), "another request").await;
    assert!(matches!(other, Err(Refusal::Reused)), "{}", what(&other));
    // The second authorization is unspent: without the name it pays.
    bench.buy(Payer::new(1).pays(2)).await;
    assert_eq!(bench.earned().await, 2 * PRICE.0);
}

/// Once a payment is settled, everyone can read the signed data on the chain.
#[tokio::test]
async fn a_named_payment_is_answered_again_under_its_name_alone() {
    let bench = Bench::new().await;
    let first = bench.buy(Payer::new(1).pays_as(1, NAME)).await;
    for other in [Payer::new(1).pays(1), Payer::new(1).pays_as(1, "another-name-of-today")] {
        assert_eq!(code(bench.admit(other).await), "invalid_exact_evm_nonce_already_used");
    }
    assert_eq!(stored(bench.admit(Payer::new(1).pays_as(1, NAME)).await), first);
    // Also during its run.
    let running = bench.run(Payer::new(1).pays_as(2, "a-name-of-its-own")).await;
    assert_eq!(code(bench.admit(Payer::new(1).pays(2)).await), "invalid_exact_evm_nonce_already_used");
    bench.settle(running).await.unwrap();
    assert_eq!(bench.earned().await, 2 * PRICE.0);
}

#[tokio::test]
async fn another_payers_same_name_is_another_payment() {
    let bench = Bench::new().await;
    let first = bench.buy(Payer::new(1).pays_as(1, NAME)).await;
    let second = bench.buy(Payer::new(2).pays_as(1, NAME)).await;
    assert_ne!(first.receipt_id, second.receipt_id);
    assert_eq!(bench.earned().await, 2 * PRICE.0);
}

#[tokio::test]
async fn the_name_of_a_released_payment_is_free() {
    let bench = Bench::new().await;
    bench.run(Payer::new(1).pays_as(1, NAME)).await.release().await;
    let second = bench.buy(Payer::new(1).pays_as(2, NAME)).await;
    // The first one, sent again, gets the answer that its name has bought.
    assert_eq!(stored(bench.admit(Payer::new(1).pays_as(1, NAME)).await), second);
    assert_eq!(bench.earned().await, PRICE.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_authorizations_with_one_name_one_runs() {
    let bench = Arc::new(Bench::new().await);
    for round in 0..20u64 {
        let tasks: Vec<_> = (0..8)
            .map(|n| {
                let bench = Arc::clone(&bench);
                tokio::spawn(async move { bench.admit(Payer::new(1).pays_as(round * 8 + n, &format!("{NAME}-{round}"))).await })
            })
            .collect();
        let mut running = vec![];
        for task in tasks {
            match task.await.unwrap() {
                Ok(Admit::Run(admission)) => running.push(admission),
                Ok(Admit::InFlight(_)) => {}
                other => panic!("{}", what(&other)),
            }
        }
        assert_eq!(running.len(), 1);
        bench.settle(running.remove(0)).await.unwrap();
    }
    assert_eq!((bench.earned().await, bench.receipts().await.len()), (20 * PRICE.0, 20));
}

/// Regression test: a released payment was used again between the lookup of its name and the takeover of it, so two ran
/// with one name.
#[tokio::test]
async fn a_name_is_not_taken_from_a_payment_that_came_back_to_life() {
    let memory = Arc::new(MemoryStore::new());
    let (first, running) = (Bench::over(Arc::clone(&memory) as _), Arc::new(Mutex::new(None)));
    first.fund().await;
    first.run(Payer::new(1).pays_as(1, NAME)).await.release().await;
    let interrupted = Interrupted::before_commit(1, memory);
    let second = first.restarted_over(Arc::clone(&interrupted) as _);
    let (gate, kept) = (Arc::clone(&first.gate), Arc::clone(&running));
    interrupted.by(async move {
        let admission = run(gate.admit(&terms(), Payer::new(1).pays_as(1, NAME), REQUEST).await);
        *kept.lock().unwrap() = Some(admission);
    });
    let admit = second.admit(Payer::new(1).pays_as(2, NAME)).await;
    assert!(matches!(admit, Ok(Admit::InFlight(_))), "{}", what(&admit));
    assert!(running.lock().unwrap().is_some());
}

/// Two replicas get the same new payment at the same time.
#[tokio::test]
async fn a_payment_that_another_replica_admits_at_the_same_time_is_admitted_once() {
    let memory = Arc::new(MemoryStore::new());
    let (first, running) = (Bench::over(Arc::clone(&memory) as _), Arc::new(Mutex::new(None)));
    first.fund().await;
    let interrupted = Interrupted::before_commit(1, memory);
    let second = first.restarted_over(Arc::clone(&interrupted) as _);
    let (gate, kept) = (Arc::clone(&first.gate), Arc::clone(&running));
    interrupted.by(async move {
        let admission = run(gate.admit(&terms(), Payer::new(1).pays(1), REQUEST).await);
        *kept.lock().unwrap() = Some(admission);
    });
    let admit = second.admit(Payer::new(1).pays(1)).await;
    assert!(matches!(admit, Ok(Admit::InFlight(_))), "{}", what(&admit));
    assert!(running.lock().unwrap().is_some());
}

/// Regression test: two replicas found the outcome of a settlement at the same time, and the slower one left it open
/// forever.
#[tokio::test]
async fn a_settlement_that_another_replica_ended_is_not_open() {
    let memory = Arc::new(MemoryStore::new());
    let other = Bench::over(Arc::clone(&memory) as _);
    other.fund().await;
    let interrupted = Interrupted::before_commit(4, memory);
    let bench = other.restarted_over(Arc::clone(&interrupted) as _);
    let gate = Arc::clone(&other.gate);
    // Reservation, intent and transfer, then an interruption before the outcome:
    interrupted.by(async move {
        gate.recover().await.unwrap();
        gate.tick().await.unwrap();
    });
    let answer = bench.buy(Payer::new(1).pays(1)).await;
    assert_eq!(answer.body, ANSWER);
    assert_eq!((bench.gate.open_intents(), other.gate.open_intents()), (0, 0));
    assert_eq!((bench.earned().await, bench.receipts().await.len()), (PRICE.0, 1));
}

#[tokio::test]
async fn a_payment_that_nobody_was_asked_to_settle_is_released_and_may_be_shown_again() {
    let bench = Bench::new().await;
    bench.facilitator.feel(Mood::Away);
    // None of these runs counts against the payer.
    for _ in 0..=FailedRuns::default().of_payer.unwrap().get() {
        let admission = bench.run(Payer::new(1).pays(1)).await;
        let id = admission.id().clone();
        let settled = bench.settle(admission).await;
        assert!(matches!(&settled, Err(SettleError::Refused { reason, .. }) if reason == NOT_SERVED), "{settled:?}");
        assert_eq!((bench.state(&id).await, bench.gate.open_intents()), (Some(State::Released), 0));
    }
    bench.facilitator.feel(Mood::Honest);
    assert_eq!(bench.buy(Payer::new(1).pays(1)).await.body, ANSWER);
}

/// Regression test: a host whose settings had changed would have let play money pay, or the other way round.
#[tokio::test]
async fn what_one_facilitator_was_asked_another_one_never_judges() {
    let bench = Bench::new().await;
    bench.facilitator.feel(Mood::Unsure);
    let admission = bench.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    bench.settle(admission).await.unwrap_err();
    let other = bench.restarted();
    other.facilitator.call_yourself("another");
    other.gate.recover().await.unwrap();
    other.gate.tick().await.unwrap();
    assert_eq!((other.state(&id).await, other.earned().await), (Some(State::Settling), 0), "it was asked of somebody else");
    let again = bench.restarted();
    again.gate.recover().await.unwrap();
    again.gate.tick().await.unwrap();
    assert_eq!((again.state(&id).await, again.earned().await), (Some(State::Settled), PRICE.0));
}

#[tokio::test]
async fn a_facilitator_that_readies_nothing_and_watches_nothing_says_so() {
    let bench = Bench::new().await;
    assert_eq!(bench.facilitator.prepare(&Payer::new(1).payment(1)).await.ok(), Some(None));
    assert_eq!(bench.gate.facilitator_status(), None);
}

#[tokio::test]
async fn signed_offers_hold_to_the_end_of_the_minute_and_as_long_as_a_payment_may_take() {
    let (bench, terms) = (Bench::new().await, terms());
    for (millis, minute) in [(0, 60), (59_999, 60), (60_000, 120)] {
        bench.clock.set(NOW.plus_millis(millis));
        let offer = &bench.gate.challenge(&terms, Way::Post, "payment required").v2["extensions"]["offer-receipt"]["info"]["offers"][0];
        let said = URL_SAFE_NO_PAD.decode(offer["signature"].as_str().unwrap().split('.').nth(1).unwrap()).unwrap();
        let said: Value = serde_json::from_slice(&said).unwrap();
        assert_eq!(said["validUntil"], json!(NOW.as_secs() + minute + terms.timeout_secs), "{millis}");
    }
}
