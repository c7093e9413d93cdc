//! The host stops between intent and outcome.

use super::*;

/// Kills the host while a payment settles in `mood`. Returns the restarted host.
async fn killed(mood: Mood) -> (Bench, PaymentId) {
    let bench = Bench::new().await;
    let admission = bench.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    bench.facilitator.feel(mood);
    let gate = Arc::clone(&bench.gate);
    let task = tokio::spawn(async move { gate.settle(admission, answer(ANSWER), &draft()).await });
    if mood == Mood::SettlesInSilence {
        while bench.earned().await == 0 {
            tokio::task::yield_now().await;
        }
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    } else {
        assert!(matches!(task.await.unwrap(), Err(SettleError::Unknown { .. })));
    }
    assert_eq!(bench.state(&id).await, Some(State::Settling));
    assert!(bench.receipts().await.is_empty(), "nothing is served before the outcome is known");
    (bench.restarted(), id)
}

async fn settled_once(bench: &Bench, id: &PaymentId) {
    assert_eq!((bench.state(id).await, bench.gate.open_intents()), (Some(State::Settled), 0));
    assert_eq!((bench.earned().await, bench.balance(&Payer::new(1).address()).await), (PRICE.0, FUNDS.0 - PRICE.0));
    let receipts = bench.receipts().await;
    assert_eq!(receipts.len(), 1);
    let state = bench.gate.state(id).await.unwrap().unwrap();
    assert_eq!((state.receipt_id.as_deref(), &state.transaction), (Some(receipts[0].draft.receipt_id.as_str()), &receipts[0].transaction));
    let answer = stored(bench.admit(Payer::new(1).pays(1)).await);
    assert_eq!((&answer.body[..], &answer.receipt_id), (ANSWER, &state.receipt_id.unwrap()));
    assert!(answer.settlement.is_some());
    assert!(bench.all(Space::OpenIntents).await.is_empty());
}

#[tokio::test]
async fn a_settlement_that_was_cut_off_after_the_money_moved_is_found() {
    let (bench, id) = killed(Mood::SettlesInSilence).await;
    bench.gate.recover().await.unwrap();
    bench.gate.tick().await.unwrap();
    settled_once(&bench, &id).await;
    // A second time: nothing is left to do.
    bench.gate.recover().await.unwrap();
    bench.gate.tick().await.unwrap();
    settled_once(&bench, &id).await;
    assert_eq!(bench.facilitator.settled.load(Ordering::SeqCst), 0, "asked, not settled again");
}

#[tokio::test]
async fn an_open_intent_that_does_not_read_holds_up_no_other() {
    let (bench, id) = killed(Mood::SettlesInSilence).await;
    let damaged = Write::put(Space::OpenIntents, b"pmt_!".to_vec(), vec![]);
    bench.store.apply(Batch::of(vec![], vec![damaged]), Durability::Buffered).await.unwrap();
    bench.gate.recover().await.unwrap();
    bench.gate.tick().await.unwrap();
    assert_eq!((bench.state(&id).await, bench.earned().await, bench.receipts().await.len()), (Some(State::Settled), PRICE.0, 1));
}

#[tokio::test]
async fn a_settlement_without_an_answer_is_found() {
    let (bench, id) = killed(Mood::SettlesUnsure).await;
    bench.gate.recover().await.unwrap();
    bench.gate.tick().await.unwrap();
    settled_once(&bench, &id).await;
}

#[tokio::test]
async fn a_settlement_that_had_not_begun_is_made() {
    let (bench, id) = killed(Mood::Unsure).await;
    assert_eq!(bench.earned().await, 0);
    bench.gate.recover().await.unwrap();
    bench.gate.tick().await.unwrap();
    settled_once(&bench, &id).await;
}

#[tokio::test]
async fn a_settlement_that_stays_unsure_stays_open() {
    let (bench, id) = killed(Mood::SettlesUnsure).await;
    bench.facilitator.feel(Mood::Unsure);
    bench.gate.recover().await.unwrap();
    bench.gate.tick().await.unwrap();
    assert_eq!((bench.state(&id).await, bench.gate.open_intents()), (Some(State::Settling), 1));
    assert!(matches!(bench.admit(Payer::new(1).pays(1)).await, Ok(Admit::InFlight(_))));
    assert!(bench.receipts().await.is_empty());
    bench.facilitator.feel(Mood::Honest);
    // It is not due yet, since it was looked up a moment ago.
    bench.gate.tick().await.unwrap();
    assert_eq!(bench.state(&id).await, Some(State::Settling));
    bench.gate.recover().await.unwrap();
    bench.gate.tick().await.unwrap();
    settled_once(&bench, &id).await;
}

#[tokio::test]
async fn an_authorization_that_expired_unspent_in_the_crash_is_refused() {
    let (bench, id) = killed(Mood::Unsure).await;
    bench.clock.set(NOW.plus_millis(400_000));
    bench.gate.recover().await.unwrap();
    bench.gate.tick().await.unwrap();
    assert_eq!((bench.state(&id).await, bench.earned().await, bench.receipts().await.len()), (Some(State::Refused), 0, 0));
    assert_eq!(bench.gate.open_intents(), 0);
}

#[tokio::test]
async fn a_spent_authorization_that_expired_in_the_crash_is_settled() {
    let (bench, id) = killed(Mood::SettlesInSilence).await;
    bench.clock.set(NOW.plus_millis(400_000));
    bench.gate.recover().await.unwrap();
    bench.gate.tick().await.unwrap();
    settled_once(&bench, &id).await;
}

#[tokio::test]
async fn a_reservation_that_a_crash_left_is_released() {
    let bench = Bench::new().await;
    let admission = bench.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    std::mem::forget(admission);
    let bench = bench.restarted();
    assert!(matches!(bench.admit(Payer::new(1).pays(1)).await, Ok(Admit::InFlight(_))));
    bench.gate.recover().await.unwrap();
    bench.gate.tick().await.unwrap();
    assert_eq!(bench.state(&id).await, Some(State::Released));
    assert!(bench.all(Space::OpenIntents).await.is_empty());
    bench.buy(Payer::new(1).pays(1)).await;
    assert_eq!((bench.earned().await, bench.receipts().await.len()), (PRICE.0, 1));
}

/// Regression test: a call whose task died while settling left its payment open until the next start.
#[tokio::test]
async fn a_settlement_whose_task_died_is_resolved_without_a_restart() {
    let bench = Bench::new().await;
    let admission = bench.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    bench.facilitator.feel(Mood::SettlesInSilence);
    let settling = tokio::time::timeout(Duration::from_millis(50), bench.settle(admission)).await;
    assert!(settling.is_err());
    bench.facilitator.feel(Mood::Honest);
    bench.gate.tick().await.unwrap();
    assert_eq!(bench.state(&id).await, Some(State::Settling), "it may still be at it");
    bench.clock.set(NOW.plus_millis(180_001));
    bench.gate.tick().await.unwrap();
    settled_once(&bench, &id).await;
}

/// Regression test: a facilitator that hung delayed a start for minutes.
#[tokio::test]
async fn a_start_waits_for_no_facilitator_and_open_settlements_are_asked_about_at_once() {
    let bench = Bench::new().await;
    bench.facilitator.feel(Mood::Unsure);
    for nonce in 0..8 {
        let admission = bench.run(Payer::new(1).pays(nonce)).await;
        assert!(bench.settle(admission).await.is_err());
    }
    let bench = bench.restarted();
    bench.facilitator.feel(Mood::SettlesInSilence);
    bench.gate.recover().await.unwrap();
    assert_eq!((bench.earned().await, bench.gate.open_intents()), (0, 8), "nobody was asked");
    assert!(tokio::time::timeout(Duration::from_secs(1), bench.gate.tick()).await.is_err());
    assert_eq!(bench.earned().await, 8 * PRICE.0);
    // An interrupted lookup is found again.
    let bench = bench.restarted();
    bench.gate.recover().await.unwrap();
    bench.gate.tick().await.unwrap();
    assert_eq!((bench.earned().await, bench.receipts().await.len(), bench.gate.open_intents()), (8 * PRICE.0, 8, 0));
}

#[tokio::test]
async fn many_open_settlements_are_all_resolved() {
    let bench = Bench::unlimited().await;
    // The held balance includes open settlements, even if their money has already moved.
    bench.fund().await;
    for seed in 1..=3 {
        for nonce in 0..90 {
            let admission = bench.run(Payer::new(seed).pays(nonce)).await;
            bench.facilitator.feel(if nonce % 2 == 0 { Mood::SettlesUnsure } else { Mood::Unsure });
            assert!(bench.settle(admission).await.is_err());
        }
    }
    let bench = bench.restarted();
    bench.gate.recover().await.unwrap();
    bench.gate.tick().await.unwrap();
    assert_eq!((bench.earned().await, bench.receipts().await.len(), bench.gate.open_intents()), (270 * PRICE.0, 270, 0));
}

impl Bench {
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
    let bench = Bench::new().await;
    bench.facilitator.contracts.store(true, Ordering::SeqCst);
    let burned = Some(BurnedGas { gas: 70_000, wei: 1 });
    let payer = Payer::new(1).address().to_lowercase();
    let [first, other] = [1_u8, 2].map(|last| std::net::IpAddr::from([192, 0, 2, last]));
    let at = |from| Request { binding: REQUEST, from: Some(from) };
    bench.gate.recover().await.unwrap();
    bench.facilitator.feel(Mood::SettlesUnsure);
    *bench.facilitator.burned.lock().unwrap() = burned;
    let admission = run(bench.gate.admit(&terms(), Payer::new(1).pays(1), at(first)).await);
    let id = admission.id().clone();
    bench.settle(admission).await.unwrap_err();
    bench.until_noted(&format!("counted/{id}/builder/platform")).await;
    let restarted = bench.restarted();
    restarted.facilitator.feel(Mood::Unsure);
    restarted.facilitator.contracts.store(true, Ordering::SeqCst);
    *restarted.facilitator.burned.lock().unwrap() = burned;
    drop(run(restarted.gate.admit(&terms(), Payer::new(1).pays(2), at(other)).await));
    restarted.restart_questions().await;
    let counted = |address| restarted.gate.gas_burned_by(&payer, address, "platform");
    assert_eq!((counted(first), counted(other)), ([70_000; 3], [70_000, 0, 70_000]));
    assert_eq!(restarted.gate.reverts_of(&payer), 1);
    restarted.facilitator.feel(Mood::Honest);
    restarted.restart_questions().await;
    assert_eq!(restarted.state(&id).await, Some(State::Settled));
    assert_eq!((counted(first), restarted.gate.reverts_of(&payer)), ([0; 3], 0));
    assert_eq!(restarted.gate.unpaid()["gas"]["burnedLastHour"], 70_000, "the gas was spent, so it counts in total");
}
