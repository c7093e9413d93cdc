//! One payment buys one run and one answer.

use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_requests_with_one_payment_run_once() {
    let fixture = Arc::new(Fixture::new().await);
    for nonce in 0..20 {
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let fixture = Arc::clone(&fixture);
                tokio::spawn(async move { fixture.admit(Payer::new(1).pays(nonce)).await })
            })
            .collect();
        let mut running = vec![];
        let mut in_flight = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(Admit::Run(admission)) => running.push(admission),
                Ok(Admit::Seen(SeenPayment::InFlight(_))) => in_flight += 1,
                other => panic!("{}", what(&other)),
            }
        }
        assert_eq!((running.len(), in_flight), (1, 7));
        fixture.settle(running.remove(0)).await.unwrap();
    }
    assert_eq!(fixture.earned().await, 20 * PRICE.0);
    assert_eq!(fixture.receipts().await.len(), 20);
}

#[tokio::test]
async fn a_settled_payment_gets_the_same_answer_again() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1);
    let first = fixture.buy(payer.pays(1)).await;
    assert_eq!(first.body, ANSWER);
    for _ in 0..3 {
        assert_eq!(stored(fixture.admit(payer.pays(1)).await), first);
    }
    assert_eq!(stored(fixture.restarted().admit(payer.pays(1)).await), first, "after a restart");
    let receipts = fixture.receipts().await;
    assert_eq!(receipts.len(), 1);
    assert_eq!(receipts[0].draft.receipt_id.as_str(), first.receipt_id);
    assert_eq!(receipts[0].amount.as_deref(), Some("10000"));
    assert_eq!(fixture.earned().await, PRICE.0);
    assert_eq!(fixture.facilitator.settled.load(Ordering::SeqCst), 1);
    let notice: Value = serde_json::from_str(&first.settlement.unwrap().body).unwrap();
    assert_eq!((&notice["success"], &notice["network"], &notice["payer"]), (&json!(true), &json!("eip155:84532"), &json!(payer.address())));
    assert_eq!(notice["transaction"], json!(receipts[0].transaction));
}

#[tokio::test]
async fn a_v1_payment_is_reported_in_the_words_of_v1() {
    let fixture = Fixture::new().await;
    let payload = Payer::new(1).payload_v1(&Payer::new(1).authorization(1));
    let header = STANDARD.encode(payload.to_string());
    let answer = fixture.buy(OfferedPayment::X402 { version: WireVersion::V1, header }).await;
    let notice = answer.settlement.unwrap();
    assert_eq!(notice.version, WireVersion::V1);
    let body: Value = serde_json::from_str(&notice.body).unwrap();
    assert_eq!((&body["success"], &body["network"]), (&json!(true), &json!("base-sepolia")));
    assert_eq!(body.get("amount"), None, "a member of v2");
    // The same authorization in v2 is the same payment.
    assert_eq!(stored(fixture.admit(Payer::new(1).pays(1)).await).body, ANSWER);
}

#[tokio::test]
async fn another_request_under_the_same_payment_is_refused() {
    let fixture = Fixture::new().await;
    let admission = fixture.run(Payer::new(1).pays(1)).await;
    let other = async || fixture.payments.admit(&terms(), Payer::new(1).pays(1), "another request").await;
    assert!(matches!(other().await, Err(Refusal::Reused)), "while it runs");
    fixture.settle(admission).await.unwrap();
    assert!(matches!(other().await, Err(Refusal::Reused)), "when it is settled");
    assert_eq!(fixture.earned().await, PRICE.0);
}

#[tokio::test]
async fn answer_is_only_for_the_holder_of_the_signature() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1);
    fixture.buy(payer.pays(1)).await;
    // Data that anyone can read on the chain, with any signature.
    let mut forged = payer.payload(&payer.authorization(1));
    forged["payload"]["signature"] = json!(format!("0x{}1b", "11".repeat(64)));
    assert_eq!(code(fixture.admit(offer(&forged)).await), "invalid_exact_evm_nonce_already_used");
    // Another transfer that the payer signed with the same nonce.
    let mut other = payer.authorization(1);
    other.valid_before = (NOW.as_secs() + 301).to_string();
    assert_eq!(code(fixture.admit(offer(&payer.payload(&other))).await), "invalid_exact_evm_nonce_already_used");
    assert_eq!(fixture.earned().await, PRICE.0);
}

#[tokio::test]
async fn letter_case_makes_no_new_payment() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1);
    let mut authorization = payer.authorization(0xabcdef);
    let first = fixture.buy(offer(&payer.payload(&authorization))).await;
    authorization.from = authorization.from.to_lowercase();
    authorization.nonce = format!("0x{}", authorization.nonce[2..].to_uppercase());
    assert_eq!(stored(fixture.admit(offer(&payer.payload(&authorization))).await), first);
    assert_eq!(fixture.earned().await, PRICE.0);
}

#[tokio::test]
async fn a_dropped_admission_releases_and_the_payment_admits_again() {
    let fixture = Fixture::new().await;
    let admission = fixture.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    drop(admission);
    fixture.until(&id, PaymentState::Released).await;
    assert!(fixture.all(Space::OpenIntents).await.is_empty());
    let again = fixture.run(Payer::new(1).pays(1)).await;
    again.release().await;
    assert_eq!(fixture.state(&id).await, Some(PaymentState::Released));
    assert_eq!(fixture.earned().await, 0);
    // The payment is released, so another request can use it.
    let other = run(fixture.payments.admit(&terms(), Payer::new(1).pays(1), "another request").await);
    fixture.settle(other).await.unwrap();
    assert_eq!(fixture.earned().await, PRICE.0);
}

#[tokio::test]
async fn a_refused_settlement_takes_nothing_and_gives_nothing() {
    let fixture = Fixture::new().await;
    let admission = fixture.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    fixture.facilitator.feel(FacilitatorMood::Refuses);
    let refused = fixture.settle(admission).await;
    assert!(matches!(&refused, Err(SettleError::Refused { reason, .. }) if reason == "insufficient_funds"), "{refused:?}");
    let state = fixture.payments.state(&id).await.unwrap().unwrap();
    assert_eq!((state.state, state.reason.as_deref()), (PaymentState::Refused, Some("insufficient_funds")));
    assert_eq!((fixture.earned().await, fixture.receipts().await.len(), fixture.payments.open_intents()), (0, 0, 0));
    assert!(matches!(fixture.payments.ended(&id).await.unwrap(), HeldPaymentEnd::Without));
    assert!(fixture.all(Space::OpenIntents).await.is_empty());
    fixture.facilitator.feel(FacilitatorMood::Honest);
    fixture.buy(Payer::new(1).pays(1)).await;
    assert_eq!((fixture.earned().await, fixture.receipts().await.len()), (PRICE.0, 1));
}

#[tokio::test]
async fn payer_that_spends_the_money_elsewhere_pays_nothing_and_gets_nothing() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(4);
    fixture.ledger.faucet(&payer.address(), PRICE).await.unwrap();
    // At another host, which does not know the balance held by this one.
    let elsewhere = fixture.restarted();
    let (first, second) = (fixture.run(payer.pays(1)).await, elsewhere.run(payer.pays(2)).await);
    fixture.settle(first).await.unwrap();
    assert!(matches!(elsewhere.settle(second).await, Err(SettleError::Refused { .. })));
    assert_eq!((fixture.earned().await, fixture.receipts().await.len()), (PRICE.0, 1));
}

#[tokio::test]
async fn unsettled_payment_is_in_flight() {
    let fixture = Fixture::new().await;
    let admission = fixture.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    assert!(matches!(fixture.payments.ended(&id).await.unwrap(), HeldPaymentEnd::NotYet));
    fixture.facilitator.feel(FacilitatorMood::SettlesInSilence);
    let waiting = tokio::time::timeout(Duration::from_millis(50), fixture.settle(admission)).await;
    assert!(waiting.is_err() && fixture.state(&id).await == Some(PaymentState::Settling));
    assert!(matches!(fixture.payments.ended(&id).await.unwrap(), HeldPaymentEnd::NotYet), "its first answer is awaited");
}

#[tokio::test]
async fn payment_that_may_be_settled_is_in_flight_until_its_outcome_is_known() {
    let fixture = Fixture::new().await;
    let admission = fixture.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    fixture.facilitator.feel(FacilitatorMood::SettlesUnsure);
    assert!(matches!(fixture.settle(admission).await, Err(SettleError::Unknown { .. })));
    assert_eq!((fixture.state(&id).await, fixture.payments.open_intents()), (Some(PaymentState::Settling), 1));
    assert!(matches!(fixture.admit(Payer::new(1).pays(1)).await, Ok(Admit::Seen(SeenPayment::InFlight(_)))));
    assert!(matches!(fixture.payments.ended(&id).await.unwrap(), HeldPaymentEnd::Open));
    fixture.facilitator.feel(FacilitatorMood::Honest);
    fixture.payments.recover().await.unwrap();
    fixture.payments.tick().await.unwrap();
    assert_eq!((fixture.state(&id).await, fixture.payments.open_intents()), (Some(PaymentState::Settled), 0));
    assert!(matches!(fixture.payments.ended(&id).await.unwrap(), HeldPaymentEnd::Answer(answer) if answer.body == ANSWER));
    assert_eq!(stored(fixture.admit(Payer::new(1).pays(1)).await).body, ANSWER);
    assert_eq!((fixture.earned().await, fixture.receipts().await.len()), (PRICE.0, 1));
}

#[tokio::test]
async fn settlement_resolved_by_another_replica_is_closed() {
    let fixture = Fixture::new().await;
    fixture.facilitator.feel(FacilitatorMood::Unsure);
    let first = fixture.run(Payer::new(1).pays(1)).await;
    fixture.settle(first).await.unwrap_err();
    let other = fixture.restarted();
    other.payments.recover().await.unwrap();
    other.payments.tick().await.unwrap();
    let second = fixture.run(Payer::new(1).pays(2)).await;
    fixture.settle(second).await.unwrap_err();
    assert_eq!(fixture.payments.open_intents(), 2);
    fixture.payments.tick().await.unwrap();
    assert_eq!(fixture.payments.open_intents(), 1);
}

/// Two replicas learn of one refusal. The second finds what the first has written.
#[tokio::test]
async fn a_settlement_that_another_replica_saw_refused_is_refused() {
    let memory = Arc::new(MemoryStore::new());
    let other = Fixture::over(Arc::clone(&memory) as _);
    let payer = Payer::new(1);
    other.ledger.faucet(&payer.address(), PRICE).await.unwrap();
    // Reservation and intent, then an interruption before the end:
    let interrupted = Interrupted::before_commit(3, memory);
    let fixture = other.restarted_over(Arc::clone(&interrupted) as _);
    let admission = fixture.run(payer.pays(1)).await;
    let id = admission.id().clone();
    other.buy(payer.pays(2)).await;
    let payments = Arc::clone(&other.payments);
    interrupted.by(async move {
        payments.recover().await.unwrap();
        payments.tick().await.unwrap();
    });
    let settled = fixture.settle(admission).await;
    assert!(matches!(settled, Err(SettleError::Refused { .. })), "{settled:?}");
    assert_eq!((fixture.state(&id).await, fixture.payments.open_intents()), (Some(PaymentState::Refused), 0));
}

#[tokio::test]
async fn accepted_payments_are_described() {
    let fixture = Fixture::new().await;
    let described = fixture.payments.describe();
    let message = ["payTo", "network", "networkV1", "facilitator"].map(|name| described[name].as_str().unwrap());
    assert_eq!(message, [PAY_TO, "eip155:84532", "base-sepolia", "moody"]);
    assert_eq!(described["schemes"], json!(["exact", "upto"]));
    assert!(described["simulated"] == true && described["faucet"].is_string(), "{described}");
    let asset = &ASSETS[0];
    let body = json!({ "address": asset.address, "symbol": "USDC", "decimals": 6, "name": "USDC", "version": "2" });
    assert_eq!(described["asset"], body);
}

#[tokio::test]
async fn payers_are_shown_by_the_ends_of_their_addresses() {
    let fixture = Fixture::new().await;
    let (payer, address) = (Payer::new(1), Payer::new(1).address());
    let shown = fixture.run(payer.pays(1)).await.payer().unwrap();
    assert_eq!(shown, format!("{}…{}", &address[..6], &address[38..]));
}

const NAME: &str = "order-0001-of-today";

#[tokio::test]
async fn named_payment_repeated_with_another_authorization_settles_once() {
    let fixture = Fixture::new().await;
    let first = fixture.buy(Payer::new(1).pays_as(1, NAME)).await;
    assert_eq!(stored(fixture.admit(Payer::new(1).pays_as(2, NAME)).await), first);
    assert_eq!((fixture.earned().await, fixture.receipts().await.len()), (PRICE.0, 1));
    assert_eq!(fixture.facilitator.settled.load(Ordering::SeqCst), 1);
    let other = fixture.payments.admit(&terms(), Payer::new(1).pays_as(3, NAME), "another request").await;
    assert!(matches!(other, Err(Refusal::Reused)), "{}", what(&other));
    // The second authorization is unspent: without the name it pays.
    fixture.buy(Payer::new(1).pays(2)).await;
    assert_eq!(fixture.earned().await, 2 * PRICE.0);
}

/// Once a payment is settled, everyone can read the signed data on the chain.
#[tokio::test]
async fn a_named_payment_is_answered_again_under_its_name_alone() {
    let fixture = Fixture::new().await;
    let first = fixture.buy(Payer::new(1).pays_as(1, NAME)).await;
    for other in [Payer::new(1).pays(1), Payer::new(1).pays_as(1, "another-name-of-today")] {
        assert_eq!(code(fixture.admit(other).await), "invalid_exact_evm_nonce_already_used");
    }
    assert_eq!(stored(fixture.admit(Payer::new(1).pays_as(1, NAME)).await), first);
    // Also during its run.
    let running = fixture.run(Payer::new(1).pays_as(2, "a-name-of-its-own")).await;
    assert_eq!(code(fixture.admit(Payer::new(1).pays(2)).await), "invalid_exact_evm_nonce_already_used");
    fixture.settle(running).await.unwrap();
    assert_eq!(fixture.earned().await, 2 * PRICE.0);
}

/// A tool that takes no calls has no terms, and no facilitator is asked.
#[tokio::test]
async fn named_answer_is_found_by_new_signatures_of_its_payer_only() {
    let fixture = Fixture::new().await;
    let (payer, other) = (Payer::new(1), Payer::new(2));
    let first = fixture.buy(payer.pays_as(1, NAME)).await;
    fixture.buy(payer.pays(2)).await;
    let verified = fixture.facilitator.verified.load(Ordering::SeqCst);
    let earlier = async |offered: OfferedPayment, request: &str| fixture.payments.earlier(&offered, request).await;
    for nonce in [1, 3] {
        let seen = earlier(payer.pays_as(nonce, NAME), REQUEST).await;
        assert!(matches!(&seen, Ok(Some(SeenPayment::Stored(_, answer))) if *answer == first), "{nonce}: {seen:?}");
    }
    assert!(matches!(earlier(payer.pays_as(3, NAME), "another request").await, Err(Refusal::Reused)));
    let signed = |signer: &Payer, authorization: Authorization| {
        let mut payload = payer.payload(&authorization);
        payload["payload"]["signature"] = json!(signer.sign(&authorization));
        payload["extensions"] = json!({ "payment-identifier": { "info": { "required": false, "id": NAME } } });
        offer(&payload)
    };
    let unspent = payer.authorization(3);
    let refused = [
        ("signed by another key", signed(&other, unspent.clone())),
        ("to another seller", signed(&payer, Authorization { to: other.address(), ..unspent.clone() })),
        ("expired", signed(&payer, Authorization { valid_before: NOW.as_secs().to_string(), ..unspent })),
        ("of another payer", other.pays_as(3, NAME)),
        ("under another name", payer.pays_as(3, "another-name-of-today")),
        ("without a name", payer.pays(3)),
    ];
    for (reason, offered) in refused {
        let seen = earlier(offered, REQUEST).await;
        assert!(matches!(seen, Ok(None)), "{reason}: {seen:?}");
    }
    // Everybody can read the signature of a settled payment, and add the name to it.
    let published = earlier(payer.pays_as(2, NAME), REQUEST).await;
    assert!(matches!(published, Err(Refusal::Invalid { .. })), "{published:?}");
    assert_eq!((fixture.facilitator.verified.load(Ordering::SeqCst), fixture.earned().await), (verified, 2 * PRICE.0));
}

#[tokio::test]
async fn another_payers_same_name_is_another_payment() {
    let fixture = Fixture::new().await;
    let first = fixture.buy(Payer::new(1).pays_as(1, NAME)).await;
    let second = fixture.buy(Payer::new(2).pays_as(1, NAME)).await;
    assert_ne!(first.receipt_id, second.receipt_id);
    assert_eq!(fixture.earned().await, 2 * PRICE.0);
}

#[tokio::test]
async fn the_name_of_a_released_payment_is_free() {
    let fixture = Fixture::new().await;
    fixture.run(Payer::new(1).pays_as(1, NAME)).await.release().await;
    let second = fixture.buy(Payer::new(1).pays_as(2, NAME)).await;
    // The first one, sent again, gets the answer that its name has bought.
    assert_eq!(stored(fixture.admit(Payer::new(1).pays_as(1, NAME)).await), second);
    assert_eq!(fixture.earned().await, PRICE.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_authorizations_with_one_name_run_once() {
    let fixture = Arc::new(Fixture::new().await);
    for round in 0..20u64 {
        let tasks: Vec<_> = (0..8)
            .map(|n| {
                let fixture = Arc::clone(&fixture);
                tokio::spawn(async move { fixture.admit(Payer::new(1).pays_as(round * 8 + n, &format!("{NAME}-{round}"))).await })
            })
            .collect();
        let mut running = vec![];
        for task in tasks {
            match task.await.unwrap() {
                Ok(Admit::Run(admission)) => running.push(admission),
                Ok(Admit::Seen(SeenPayment::InFlight(_))) => {}
                other => panic!("{}", what(&other)),
            }
        }
        assert_eq!(running.len(), 1);
        fixture.settle(running.remove(0)).await.unwrap();
    }
    assert_eq!((fixture.earned().await, fixture.receipts().await.len()), (20 * PRICE.0, 20));
}

/// Regression test: a released payment was used again just before another payment took over its name, so two ran with the
/// same name.
#[tokio::test]
async fn a_name_is_not_taken_from_a_payment_that_came_back_to_life() {
    let memory = Arc::new(MemoryStore::new());
    let (first, running) = (Fixture::over(Arc::clone(&memory) as _), Arc::new(Mutex::new(None)));
    first.fund().await;
    first.run(Payer::new(1).pays_as(1, NAME)).await.release().await;
    let interrupted = Interrupted::before_commit(1, memory);
    let second = first.restarted_over(Arc::clone(&interrupted) as _);
    let (payments, stored) = (Arc::clone(&first.payments), Arc::clone(&running));
    interrupted.by(async move {
        let admission = run(payments.admit(&terms(), Payer::new(1).pays_as(1, NAME), REQUEST).await);
        *stored.lock().unwrap() = Some(admission);
    });
    let admit = second.admit(Payer::new(1).pays_as(2, NAME)).await;
    assert!(matches!(admit, Ok(Admit::Seen(SeenPayment::InFlight(_)))), "{}", what(&admit));
    assert!(running.lock().unwrap().is_some());
}

/// Two replicas get the same new payment at the same time.
#[tokio::test]
async fn a_payment_that_another_replica_admits_at_the_same_time_is_admitted_once() {
    let memory = Arc::new(MemoryStore::new());
    let (first, running) = (Fixture::over(Arc::clone(&memory) as _), Arc::new(Mutex::new(None)));
    first.fund().await;
    let interrupted = Interrupted::before_commit(1, memory);
    let second = first.restarted_over(Arc::clone(&interrupted) as _);
    let (payments, stored) = (Arc::clone(&first.payments), Arc::clone(&running));
    interrupted.by(async move {
        let admission = run(payments.admit(&terms(), Payer::new(1).pays(1), REQUEST).await);
        *stored.lock().unwrap() = Some(admission);
    });
    let admit = second.admit(Payer::new(1).pays(1)).await;
    assert!(matches!(admit, Ok(Admit::Seen(SeenPayment::InFlight(_)))), "{}", what(&admit));
    assert!(running.lock().unwrap().is_some());
}

/// Regression test: two replicas found the outcome of a settlement at the same time, and the slower one left it open
/// forever.
#[tokio::test]
async fn a_settlement_that_another_replica_ended_is_not_open() {
    let memory = Arc::new(MemoryStore::new());
    let other = Fixture::over(Arc::clone(&memory) as _);
    other.fund().await;
    let interrupted = Interrupted::before_commit(4, memory);
    let fixture = other.restarted_over(Arc::clone(&interrupted) as _);
    let payments = Arc::clone(&other.payments);
    // Reservation, intent and transfer, then an interruption before the outcome:
    interrupted.by(async move {
        payments.recover().await.unwrap();
        payments.tick().await.unwrap();
    });
    let answer = fixture.buy(Payer::new(1).pays(1)).await;
    assert_eq!(answer.body, ANSWER);
    assert_eq!((fixture.payments.open_intents(), other.payments.open_intents()), (0, 0));
    assert_eq!((fixture.earned().await, fixture.receipts().await.len()), (PRICE.0, 1));
}

#[tokio::test]
async fn payment_that_was_never_sent_is_released_and_can_be_used_again() {
    let fixture = Fixture::new().await;
    fixture.facilitator.feel(FacilitatorMood::Away);
    // None of these runs counts against the payer.
    for _ in 0..=FailedRuns::default().of_payer.unwrap().get() {
        let admission = fixture.run(Payer::new(1).pays(1)).await;
        let id = admission.id().clone();
        let settled = fixture.settle(admission).await;
        assert!(matches!(&settled, Err(SettleError::Refused { reason, .. }) if reason == NOT_SERVED), "{settled:?}");
        assert_eq!((fixture.state(&id).await, fixture.payments.open_intents()), (Some(PaymentState::Released), 0));
    }
    fixture.facilitator.feel(FacilitatorMood::Honest);
    assert_eq!(fixture.buy(Payer::new(1).pays(1)).await.body, ANSWER);
}

/// Regression test: a host whose settings had changed would have let play money pay, or the other way round.
#[tokio::test]
async fn other_facilitator_never_decides_a_settlement_that_was_sent_elsewhere() {
    let fixture = Fixture::new().await;
    fixture.facilitator.feel(FacilitatorMood::Unsure);
    let admission = fixture.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    fixture.settle(admission).await.unwrap_err();
    let other = fixture.restarted();
    other.facilitator.call_yourself("another");
    other.payments.recover().await.unwrap();
    other.payments.tick().await.unwrap();
    assert_eq!((other.state(&id).await, other.earned().await), (Some(PaymentState::Settling), 0), "it was sent to another facilitator");
    let again = fixture.restarted();
    again.payments.recover().await.unwrap();
    again.payments.tick().await.unwrap();
    assert_eq!((again.state(&id).await, again.earned().await), (Some(PaymentState::Settled), PRICE.0));
}

#[tokio::test]
async fn a_facilitator_that_readies_nothing_and_watches_nothing_reports_it() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.facilitator.prepare(&Payer::new(1).payment(1)).await.ok(), Some(None));
    assert_eq!(fixture.payments.facilitators().status(), None);
}

#[tokio::test]
async fn signed_offers_hold_to_the_end_of_the_minute_and_as_long_as_a_payment_may_take() {
    let (fixture, terms) = (Fixture::new().await, terms());
    for (millis, minute) in [(0, 60), (59_999, 60), (60_000, 120)] {
        fixture.clock.set(NOW.plus_millis(millis));
        let offer = &fixture.payments.challenge(&terms, EntryMethod::Post, "payment required").v2["extensions"]["offer-receipt"]["info"]["offers"]
            [0];
        let message = URL_SAFE_NO_PAD.decode(offer["signature"].as_str().unwrap().split('.').nth(1).unwrap()).unwrap();
        let message: Value = serde_json::from_slice(&message).unwrap();
        assert_eq!(message["validUntil"], json!(NOW.as_secs() + minute + terms.timeout_secs), "{millis}");
    }
}
