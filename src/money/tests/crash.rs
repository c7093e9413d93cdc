//! The host stops between intent and outcome.

use super::*;

/// Kills the host while a payment settles in `mood`. Returns the restarted host.
async fn killed(mood: FacilitatorMood) -> (Fixture, PaymentId) {
    let fixture = Fixture::new().await;
    let admission = fixture.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    fixture.facilitator.feel(mood);
    let payments = Arc::clone(&fixture.payments);
    let task = tokio::spawn(async move { payments.settle(admission, answer(ANSWER), &draft()).await });
    if mood == FacilitatorMood::SettlesInSilence {
        while fixture.earned().await == 0 {
            tokio::task::yield_now().await;
        }
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    } else {
        assert!(matches!(task.await.unwrap(), Err(SettleError::Unknown { .. })));
    }
    assert_eq!(fixture.state(&id).await, Some(PaymentState::Settling));
    assert!(fixture.receipts().await.is_empty(), "nothing is served before the outcome is known");
    (fixture.restarted(), id)
}

async fn settled_once(fixture: &Fixture, id: &PaymentId) {
    assert_eq!((fixture.state(id).await, fixture.payments.open_intents()), (Some(PaymentState::Settled), 0));
    assert_eq!((fixture.earned().await, fixture.balance(&Payer::new(1).address()).await), (PRICE.0, FUNDS.0 - PRICE.0));
    let receipts = fixture.receipts().await;
    assert_eq!(receipts.len(), 1);
    let state = fixture.payments.state(id).await.unwrap().unwrap();
    assert_eq!((state.receipt_id.as_deref(), &state.transaction), (Some(receipts[0].draft.receipt_id.as_str()), &receipts[0].transaction));
    let answer = stored(fixture.admit(Payer::new(1).pays(1)).await);
    assert_eq!((&answer.body[..], &answer.receipt_id), (ANSWER, &state.receipt_id.unwrap()));
    assert!(answer.settlement.is_some());
    assert!(fixture.all(Space::OpenIntents).await.is_empty());
}

#[tokio::test]
async fn a_settlement_that_was_cut_off_after_the_money_moved_is_found() {
    let (fixture, id) = killed(FacilitatorMood::SettlesInSilence).await;
    fixture.payments.recover().await.unwrap();
    fixture.payments.tick().await.unwrap();
    settled_once(&fixture, &id).await;
    // A second time: nothing is left to do.
    fixture.payments.recover().await.unwrap();
    fixture.payments.tick().await.unwrap();
    settled_once(&fixture, &id).await;
    assert_eq!(fixture.facilitator.settled.load(Ordering::SeqCst), 0, "asked, not settled again");
}

#[tokio::test]
async fn an_open_intent_that_does_not_read_holds_up_no_other() {
    let (fixture, id) = killed(FacilitatorMood::SettlesInSilence).await;
    let damaged = Write::put(Space::OpenIntents, b"pmt_!".to_vec(), vec![]);
    fixture.store.apply(Batch::of(vec![], vec![damaged]), Durability::Buffered).await.unwrap();
    fixture.payments.recover().await.unwrap();
    fixture.payments.tick().await.unwrap();
    assert_eq!(
        (fixture.state(&id).await, fixture.earned().await, fixture.receipts().await.len()),
        (Some(PaymentState::Settled), PRICE.0, 1)
    );
}

#[tokio::test]
async fn a_settlement_without_an_answer_is_found() {
    let (fixture, id) = killed(FacilitatorMood::SettlesUnsure).await;
    fixture.payments.recover().await.unwrap();
    fixture.payments.tick().await.unwrap();
    settled_once(&fixture, &id).await;
}

#[tokio::test]
async fn settlement_that_had_not_started_is_sent() {
    let (fixture, id) = killed(FacilitatorMood::Unsure).await;
    assert_eq!(fixture.earned().await, 0);
    fixture.payments.recover().await.unwrap();
    fixture.payments.tick().await.unwrap();
    settled_once(&fixture, &id).await;
}

#[tokio::test]
async fn a_settlement_that_stays_unsure_stays_open() {
    let (fixture, id) = killed(FacilitatorMood::SettlesUnsure).await;
    fixture.facilitator.feel(FacilitatorMood::Unsure);
    fixture.payments.recover().await.unwrap();
    fixture.payments.tick().await.unwrap();
    assert_eq!((fixture.state(&id).await, fixture.payments.open_intents()), (Some(PaymentState::Settling), 1));
    assert!(matches!(fixture.admit(Payer::new(1).pays(1)).await, Ok(Admit::Seen(SeenPayment::InFlight(_)))));
    assert!(fixture.receipts().await.is_empty());
    fixture.facilitator.feel(FacilitatorMood::Honest);
    // The settlement is not due yet, since it was looked up a moment ago.
    fixture.payments.tick().await.unwrap();
    assert_eq!(fixture.state(&id).await, Some(PaymentState::Settling));
    fixture.payments.recover().await.unwrap();
    fixture.payments.tick().await.unwrap();
    settled_once(&fixture, &id).await;
}

#[tokio::test]
async fn an_authorization_that_expired_unspent_in_the_crash_is_refused() {
    let (fixture, id) = killed(FacilitatorMood::Unsure).await;
    fixture.clock.set(NOW.plus_millis(400_000));
    fixture.payments.recover().await.unwrap();
    fixture.payments.tick().await.unwrap();
    assert_eq!((fixture.state(&id).await, fixture.earned().await, fixture.receipts().await.len()), (Some(PaymentState::Refused), 0, 0));
    assert_eq!(fixture.payments.open_intents(), 0);
}

#[tokio::test]
async fn a_spent_authorization_that_expired_in_the_crash_is_settled() {
    let (fixture, id) = killed(FacilitatorMood::SettlesInSilence).await;
    fixture.clock.set(NOW.plus_millis(400_000));
    fixture.payments.recover().await.unwrap();
    fixture.payments.tick().await.unwrap();
    settled_once(&fixture, &id).await;
}

#[tokio::test]
async fn a_reservation_that_a_crash_left_is_released() {
    let fixture = Fixture::new().await;
    let admission = fixture.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    std::mem::forget(admission);
    let fixture = fixture.restarted();
    assert!(matches!(fixture.admit(Payer::new(1).pays(1)).await, Ok(Admit::Seen(SeenPayment::InFlight(_)))));
    fixture.payments.recover().await.unwrap();
    fixture.payments.tick().await.unwrap();
    assert_eq!(fixture.state(&id).await, Some(PaymentState::Released));
    assert!(fixture.all(Space::OpenIntents).await.is_empty());
    fixture.buy(Payer::new(1).pays(1)).await;
    assert_eq!((fixture.earned().await, fixture.receipts().await.len()), (PRICE.0, 1));
}

/// Regression test: a call whose task died while settling left its payment open until the next start.
#[tokio::test]
async fn a_settlement_whose_task_died_is_resolved_without_a_restart() {
    let fixture = Fixture::new().await;
    let admission = fixture.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    fixture.facilitator.feel(FacilitatorMood::SettlesInSilence);
    let settling = tokio::time::timeout(Duration::from_millis(50), fixture.settle(admission)).await;
    assert!(settling.is_err());
    fixture.facilitator.feel(FacilitatorMood::Honest);
    fixture.payments.tick().await.unwrap();
    assert_eq!(fixture.state(&id).await, Some(PaymentState::Settling), "it may still be at it");
    fixture.clock.set(NOW.plus_millis(180_001));
    fixture.payments.tick().await.unwrap();
    settled_once(&fixture, &id).await;
}

/// Regression test: a facilitator that hung delayed a start for minutes.
#[tokio::test]
async fn start_does_not_wait_for_facilitators_and_queries_open_settlements_at_once() {
    let fixture = Fixture::new().await;
    fixture.facilitator.feel(FacilitatorMood::Unsure);
    for nonce in 0..8 {
        let admission = fixture.run(Payer::new(1).pays(nonce)).await;
        assert!(fixture.settle(admission).await.is_err());
    }
    let fixture = fixture.restarted();
    fixture.facilitator.feel(FacilitatorMood::SettlesInSilence);
    fixture.payments.recover().await.unwrap();
    assert_eq!((fixture.earned().await, fixture.payments.open_intents()), (0, 8), "no facilitator was queried");
    assert!(tokio::time::timeout(Duration::from_secs(1), fixture.payments.tick()).await.is_err());
    assert_eq!(fixture.earned().await, 8 * PRICE.0);
    // An interrupted lookup is found again.
    let fixture = fixture.restarted();
    fixture.payments.recover().await.unwrap();
    fixture.payments.tick().await.unwrap();
    assert_eq!((fixture.earned().await, fixture.receipts().await.len(), fixture.payments.open_intents()), (8 * PRICE.0, 8, 0));
}

#[tokio::test]
async fn many_open_settlements_are_all_resolved() {
    let fixture = Fixture::unlimited().await;
    // The held balance includes open settlements, even if their money has already moved.
    fixture.fund().await;
    for seed in 1..=3 {
        for nonce in 0..90 {
            let admission = fixture.run(Payer::new(seed).pays(nonce)).await;
            fixture.facilitator.feel(if nonce % 2 == 0 { FacilitatorMood::SettlesUnsure } else { FacilitatorMood::Unsure });
            assert!(fixture.settle(admission).await.is_err());
        }
    }
    let fixture = fixture.restarted();
    fixture.payments.recover().await.unwrap();
    fixture.payments.tick().await.unwrap();
    assert_eq!((fixture.earned().await, fixture.receipts().await.len(), fixture.payments.open_intents()), (270 * PRICE.0, 270, 0));
}

impl Fixture {
    /// Waits until burned gas with this key is in the store.
    async fn until_noted(&self, key: &str) {
        let noted = async {
            while !self.all(Space::Meta).await.iter().any(|(at, _)| String::from_utf8_lossy(at).contains(key)) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), noted).await.unwrap();
    }
}

/// Regression test: after a restart, a lookup counted the same burned gas again, and then excused it for all parties but
/// the address.
#[tokio::test]
async fn gas_burned_before_a_restart_counts_once_and_is_excused_for_all_parties() {
    let fixture = Fixture::new().await;
    fixture.facilitator.contracts.store(true, Ordering::SeqCst);
    let burned = Some(BurnedGas { gas: 70_000, wei: 1 });
    let payer = Payer::new(1).address().to_lowercase();
    let [first, other] = [1_u8, 2].map(|last| std::net::IpAddr::from([192, 0, 2, last]));
    let at = |from| PaymentRequest { binding: REQUEST, from: Some(from) };
    fixture.payments.recover().await.unwrap();
    fixture.facilitator.feel(FacilitatorMood::SettlesUnsure);
    *fixture.facilitator.burned.lock().unwrap() = burned;
    let admission = run(fixture.payments.admit(&terms(), Payer::new(1).pays(1), at(first)).await);
    let id = admission.id().clone();
    fixture.settle(admission).await.unwrap_err();
    fixture.until_noted(&format!("counted/{id}/builder/platform")).await;
    let restarted = fixture.restarted();
    restarted.facilitator.feel(FacilitatorMood::Unsure);
    restarted.facilitator.contracts.store(true, Ordering::SeqCst);
    *restarted.facilitator.burned.lock().unwrap() = burned;
    drop(run(restarted.payments.admit(&terms(), Payer::new(1).pays(2), at(other)).await));
    restarted.restart_questions().await;
    let counted = |address| restarted.payments.gas_burned_by(&payer, address, "platform");
    assert_eq!((counted(first), counted(other)), ([70_000; 3], [70_000, 0, 70_000]));
    assert_eq!(restarted.payments.reverts_of(&payer), 1);
    restarted.facilitator.feel(FacilitatorMood::Honest);
    restarted.restart_questions().await;
    assert_eq!(restarted.state(&id).await, Some(PaymentState::Settled));
    assert_eq!((counted(first), restarted.payments.reverts_of(&payer)), ([0; 3], 0));
    assert_eq!(restarted.payments.unpaid()["gas"]["burnedLastHour"], 70_000, "the gas was spent, so it counts in total");
}
