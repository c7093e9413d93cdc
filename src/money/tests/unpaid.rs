//! Limits on unpaid runs: runs in flight and those with open settlements count, and a balance admits only what it pays
//! for.

use super::*;

const PAYER_LIMIT: u64 = 30;

/// Returns the limit that refused a payment.
fn bound(admit: Result<Admit, Refusal>) -> RunLimit {
    match admit {
        Err(Refusal::Slowed(slowed)) => slowed.bound,
        other => panic!("not slowed: {}", what(&other)),
    }
}

impl Fixture {
    /// Returns a payer who can afford this many calls.
    async fn payer(&self, seed: u8, calls: u64) -> Payer {
        let payer = Payer::new(seed);
        self.ledger.faucet(&payer.address(), MicroUsd(calls * PRICE.0)).await.unwrap();
        payer
    }

    /// Admits a payment for a request from an address.
    async fn admit_from(&self, offered: OfferedPayment, binding: &str, last: u8) -> Result<Admit, Refusal> {
        let request = PaymentRequest { binding, from: Some([192, 0, 2, last].into()) };
        self.payments.admit(&terms(), offered, request).await
    }

    fn verified(&self) -> usize {
        self.facilitator.verified.load(Ordering::SeqCst)
    }
}

/// Regression test: one cent was used 57 times at once, and moved away while the runs ended: 741 runs, 13 paid.
#[tokio::test]
async fn no_more_runs_are_in_flight_than_the_payers_balance_pays_for() {
    let fixture = Fixture::new().await;
    let payer = fixture.payer(9, 2).await;
    let mut admissions = vec![fixture.run(payer.pays(1)).await, fixture.run(payer.pays(2)).await];
    for nonce in 3..57 {
        assert_eq!(bound(fixture.admit(payer.pays(nonce)).await), RunLimit::Balance, "{nonce}");
    }
    assert_eq!(fixture.balance(&payer.address()).await, 2 * PRICE.0);
    // A released run makes room for another one, and so does a paid one if money is left.
    admissions.pop().unwrap().release().await;
    let again = fixture.run(payer.pays(3)).await;
    fixture.settle(again).await.unwrap();
    assert_eq!(bound(fixture.admit(payer.pays(4)).await), RunLimit::Balance);
    fixture.settle(admissions.pop().unwrap()).await.unwrap();
    assert_eq!(code(fixture.admit(payer.pays(5)).await), "invalid_exact_evm_insufficient_balance");
    assert_eq!(fixture.earned().await, 2 * PRICE.0);
}

#[tokio::test]
async fn concurrent_runs_of_a_payer_are_limited_to_its_failures() {
    let fixture = Fixture::new().await;
    let mut admissions = vec![];
    for nonce in 0..PAYER_LIMIT {
        admissions.push(fixture.run(Payer::new(1).pays(nonce)).await);
    }
    assert_eq!(bound(fixture.admit(Payer::new(1).pays(99)).await), RunLimit::Payer);
    drop(fixture.run(Payer::new(2).pays(99)).await);
    admissions.pop().unwrap().fail().await;
    assert_eq!(bound(fixture.admit(Payer::new(1).pays(99)).await), RunLimit::Payer, "it has failed instead");
    admissions.pop().unwrap().release().await;
    let paid = fixture.run(Payer::new(1).pays(99)).await;
    fixture.settle(paid).await.unwrap();
    drop(fixture.run(Payer::new(1).pays(100)).await);
}

/// Regression test: 539 calls ended as `settlement_unknown` in a minute, and none of them counted.
#[tokio::test]
async fn settlement_that_is_not_known_counts_as_unpaid_until_it_is_found_settled() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1);
    fixture.facilitator.feel(FacilitatorMood::Unsure);
    for nonce in 0..PAYER_LIMIT {
        let admission = fixture.run(payer.pays(nonce)).await;
        assert!(matches!(fixture.settle(admission).await, Err(SettleError::Unknown { .. })));
    }
    assert_eq!(bound(fixture.admit(payer.pays(99)).await), RunLimit::Payer);
    assert_eq!(fixture.payments.unpaid()["runsLastMinute"], PAYER_LIMIT);
    fixture.facilitator.feel(FacilitatorMood::Honest);
    fixture.restart_questions().await;
    assert_eq!((fixture.payments.open_intents(), fixture.earned().await), (0, PAYER_LIMIT * PRICE.0));
    assert_eq!(fixture.payments.unpaid()["runsLastMinute"], 0, "all were paid for after all");
    drop(fixture.run(payer.pays(99)).await);
}

/// Regression test: a wallet accepted before the run and used up its gas after it: 713 runs in 64 s, and none of them
/// counted.
#[tokio::test]
async fn run_of_a_contract_that_nobody_settles_counts_as_unpaid() {
    let fixture = Fixture::new().await;
    fixture.facilitator.contracts.store(true, Ordering::SeqCst);
    fixture.facilitator.feel(FacilitatorMood::Away);
    for nonce in 0..PAYER_LIMIT {
        let admission = fixture.run(Payer::new(1).pays(nonce)).await;
        fixture.settle(admission).await.unwrap_err();
    }
    assert_eq!(bound(fixture.admit(Payer::new(1).pays(99)).await), RunLimit::Payer);
    assert_eq!(fixture.payments.unpaid()["runsLastMinute"], PAYER_LIMIT);
}

/// A facilitator that fails for everybody excuses as many runs an hour as may be unpaid in a minute.
#[tokio::test]
async fn runs_that_no_facilitator_settles_are_excused_only_so_often() {
    let fixture = Fixture::new().await;
    fixture.facilitator.feel(FacilitatorMood::Away);
    for nonce in 0..2 * PAYER_LIMIT {
        let admission = fixture.run(Payer::new(1).pays(nonce)).await;
        fixture.settle(admission).await.unwrap_err();
    }
    assert_eq!(bound(fixture.admit(Payer::new(1).pays(99)).await), RunLimit::Payer);
    assert_eq!(fixture.payments.unpaid()["runsLastMinute"], PAYER_LIMIT);
}

/// Regression test: payments without money, as many as a node answers, kept others from being verified.
#[tokio::test(start_paused = true)]
async fn refused_payments_of_an_address_are_limited_and_others_are_served() {
    let fixture = Fixture::new().await;
    let from = |last: u8| Some([192, 0, 2, last].into());
    let admit =
        async |offered, last| fixture.payments.admit(&terms(), offered, PaymentRequest { binding: REQUEST, from: from(last) }).await;
    for nonce in 0..60 {
        assert_eq!(code(admit(Payer::new(9).pays(nonce), 1).await), "invalid_exact_evm_insufficient_balance");
    }
    for nonce in 60..90 {
        assert_eq!(bound(admit(Payer::new(9).pays(nonce), 1).await), RunLimit::RefusedPayments);
    }
    assert_eq!(fixture.facilitator.verified.load(Ordering::SeqCst), 60, "nobody is asked about the others");
    drop(run(admit(Payer::new(1).pays(1), 2).await));
    tokio::time::advance(Duration::from_secs(2)).await;
    let admission = run(admit(Payer::new(1).pays(2), 1).await);
    fixture.settle(admission).await.unwrap();
    let again = admit(Payer::new(1).pays(2), 1).await;
    assert_eq!(stored(again).body, ANSWER, "answers that were bought are served");
}

/// Regression test: a client name that was used for another request was refused after each verification, without limit.
#[tokio::test(start_paused = true)]
async fn verified_payments_that_begin_no_run_count_as_refused() {
    const NAME: &str = "order-0001-of-today";
    let (fixture, payer) = (Fixture::new().await, Payer::new(1));
    fixture.buy(payer.pays_as(1, NAME)).await;
    for nonce in 2..62 {
        let refused = fixture.admit_from(payer.pays_as(nonce, NAME), "another request", 1).await;
        assert!(matches!(refused, Err(Refusal::Reused)), "{}", what(&refused));
    }
    assert_eq!(bound(fixture.admit_from(payer.pays_as(62, NAME), "another request", 1).await), RunLimit::RefusedPayments);
    assert_eq!(fixture.verified(), 1 + 60);
    drop(run(fixture.admit_from(payer.pays(99), REQUEST, 2).await));
}

/// Regression test: 78 payments a second were verified for inputs that did not match the schema.
#[tokio::test(start_paused = true)]
async fn calls_that_do_not_run_count_as_refused_payments() {
    let (fixture, payer) = (Fixture::new().await, Payer::new(1));
    for nonce in 0..60 {
        run(fixture.admit_from(payer.pays(nonce), REQUEST, 1).await).unused().await;
    }
    assert_eq!(bound(fixture.admit_from(payer.pays(60), REQUEST, 1).await), RunLimit::RefusedPayments);
    assert_eq!(fixture.verified(), 60);
    // A run that fails counts as unpaid, and not as refused too.
    for nonce in 100..130 {
        run(fixture.admit_from(payer.pays(nonce), REQUEST, 2).await).fail().await;
    }
    drop(run(fixture.admit_from(Payer::new(2).pays(1), REQUEST, 2).await));
}

#[tokio::test(start_paused = true)]
async fn payment_of_a_call_that_did_not_run_is_not_verified_again_for_some_seconds() {
    let (fixture, payer) = (Fixture::new().await, Payer::new(1));
    let again = async |nonce| run(fixture.admit_from(payer.pays(nonce), REQUEST, 1).await);
    for _ in 0..100 {
        again(1).await.unused().await;
    }
    assert_eq!(fixture.verified(), 1, "and counted once");
    again(2).await.release().await;
    again(1).await.unused().await;
    assert_eq!(fixture.verified(), 3, "the other payment might have taken the money");
    tokio::time::advance(Duration::from_secs(6)).await;
    again(1).await.unused().await;
    assert_eq!(fixture.verified(), 4);
    let admission = again(1).await;
    fixture.settle(admission).await.unwrap();
    assert_eq!((fixture.verified(), fixture.earned().await), (4, PRICE.0));
}

#[tokio::test(start_paused = true)]
async fn held_balance_is_checked_before_a_payment_is_verified() {
    let fixture = Fixture::new().await;
    let payer = fixture.payer(9, 1).await;
    let running = run(fixture.admit_from(payer.pays(1), REQUEST, 2).await);
    for nonce in 2..100 {
        assert_eq!(bound(fixture.admit_from(payer.pays(nonce), REQUEST, 1).await), RunLimit::Balance);
    }
    assert_eq!(fixture.verified(), 1);
    // A balance that was read two seconds ago is read again.
    fixture.ledger.faucet(&payer.address(), PRICE).await.unwrap();
    tokio::time::advance(Duration::from_secs(2)).await;
    drop(run(fixture.admit_from(payer.pays(200), REQUEST, 1).await));
    assert_eq!(fixture.verified(), 2);
    drop(running);
}

#[tokio::test]
async fn balance_is_held_while_a_settlement_is_open() {
    let fixture = Fixture::new().await;
    let payer = fixture.payer(9, 1).await;
    fixture.facilitator.feel(FacilitatorMood::Unsure);
    let admission = fixture.run(payer.pays(1)).await;
    fixture.settle(admission).await.unwrap_err();
    for nonce in 2..40 {
        assert_eq!(bound(fixture.admit(payer.pays(nonce)).await), RunLimit::Balance);
    }
    fixture.facilitator.feel(FacilitatorMood::Honest);
    fixture.restart_questions().await;
    assert_eq!(code(fixture.admit(payer.pays(99)).await), "invalid_exact_evm_insufficient_balance", "it is spent");
    assert_eq!(fixture.payments.held_balances(), 0);
}

/// Regression test: the chain showed that the money had moved, but the host held the same amount until the settlement
/// had ended.
#[tokio::test]
async fn balance_is_free_as_soon_as_the_nonce_of_an_open_settlement_is_spent() {
    let fixture = Fixture::new().await;
    let payer = fixture.payer(9, 3).await;
    fixture.facilitator.feel(FacilitatorMood::SettlesUnsure);
    let admission = fixture.run(payer.pays(1)).await;
    fixture.settle(admission).await.unwrap_err();
    fixture.facilitator.feel(FacilitatorMood::Unsure);
    let first = fixture.run(payer.pays(2)).await;
    assert_eq!(bound(fixture.admit(payer.pays(3)).await), RunLimit::Balance, "of two that are left one is held");
    fixture.restart_questions().await;
    assert_eq!(bound(fixture.admit(payer.pays(3)).await), RunLimit::Balance, "nobody says that the nonce is spent");
    fixture.facilitator.spent.store(true, Ordering::SeqCst);
    fixture.restart_questions().await;
    let second = fixture.run(payer.pays(3)).await;
    assert_eq!(bound(fixture.admit(payer.pays(4)).await), RunLimit::Balance, "it is released once");
    drop((first, second));
}

/// Regression test: a settlement was taken over after a restart and found settled, but the count of its burned gas was
/// forgotten.
#[tokio::test]
async fn gas_of_a_settlement_that_is_taken_up_after_a_restart_is_excused() {
    let fixture = Fixture::new().await;
    fixture.facilitator.feel(FacilitatorMood::SettlesUnsure);
    let admission = fixture.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    fixture.settle(admission).await.unwrap_err();
    let restarted = fixture.restarted();
    restarted.facilitator.feel(FacilitatorMood::Unsure);
    *restarted.facilitator.burned.lock().unwrap() = Some(BurnedGas { gas: 70_000, wei: 1 });
    restarted.restart_questions().await;
    let payer = Payer::new(1).address().to_lowercase();
    assert_eq!(restarted.payments.reverts_of(&payer), 1);
    restarted.facilitator.feel(FacilitatorMood::Honest);
    restarted.restart_questions().await;
    assert_eq!((restarted.state(&id).await, restarted.payments.reverts_of(&payer)), (Some(PaymentState::Settled), 0));
    assert_eq!(restarted.payments.unpaid()["gas"]["revertedLastHour"], 1, "the gas is gone");
}

/// Regression test: a payer sent its own authorization first. The host's transaction was reverted, and its gas counted
/// nowhere.
#[tokio::test]
async fn reverted_settlement_of_a_settled_payment_counts_and_is_excused() {
    let fixture = Fixture::new().await;
    let payer = Payer::new(1).address().to_lowercase();
    let burned = Some(BurnedGas { gas: 70_000, wei: 7 });
    *fixture.facilitator.burned.lock().unwrap() = burned;
    fixture.buy(Payer::new(1).pays(1)).await;
    let counted = |reverts: u64, gas: u64, wei: &str| {
        let reported = fixture.payments.unpaid()["gas"].clone();
        assert_eq!(
            (&reported["revertedLastHour"], &reported["burnedLastHour"], &reported["burnedWei"]),
            (&json!(reverts), &json!(gas), &json!(wei))
        );
        assert_eq!(fixture.payments.reverts_of(&payer), 0, "excused");
    };
    counted(1, 70_000, "7");
    // The same, found by a lookup.
    fixture.facilitator.feel(FacilitatorMood::Unsure);
    let admission = fixture.run(Payer::new(1).pays(2)).await;
    fixture.settle(admission).await.unwrap_err();
    *fixture.facilitator.burned.lock().unwrap() = burned;
    fixture.facilitator.feel(FacilitatorMood::Honest);
    fixture.restart_questions().await;
    counted(2, 140_000, "14");
}

/// Regression test: a wallet used 947,000 gas in each settlement, paid $0.000001, and nothing counted.
#[tokio::test]
async fn gas_beyond_an_ordinary_settlement_counts_for_its_payer_though_it_paid() {
    let fixture = Fixture::new().await;
    let (ordinary, excess) = (BurnedGas { gas: 200_000, wei: 1 }, BurnedGas { gas: 747_000, wei: 1 });
    let used = Some(SettlementGas { ordinary, excess });
    *fixture.facilitator.used.lock().unwrap() = used;
    fixture.buy(Payer::new(1).pays(1)).await;
    fixture.facilitator.feel(FacilitatorMood::Unsure);
    let admission = fixture.run(Payer::new(1).pays(2)).await;
    fixture.settle(admission).await.unwrap_err();
    *fixture.facilitator.used.lock().unwrap() = used;
    fixture.facilitator.feel(FacilitatorMood::Honest);
    fixture.restart_questions().await;
    let reported = fixture.payments.unpaid()["gas"].clone();
    assert_eq!((&reported["burnedLastHour"], &reported["revertedLastHour"]), (&json!(1_494_000), &json!(0)), "{reported}");
}

/// A forged payment that names somebody else takes none of their slots.
#[tokio::test]
async fn payments_that_do_not_verify_take_no_place() {
    let fixture = Fixture::new().await;
    let (victim, thief) = (Payer::new(1), Payer::new(2));
    for nonce in 0..100 {
        let authorization = victim.authorization(nonce);
        let mut forged = victim.payload(&authorization);
        forged["payload"]["signature"] = json!(thief.sign(&authorization));
        assert_eq!(code(fixture.admit(offer(&forged)).await), "invalid_exact_evm_signature");
    }
    assert_eq!(fixture.buy(victim.pays(1_000)).await.body, ANSWER);
}

/// Regression test: one cent in six wallets ran a tool 384 times in twelve seconds.
#[tokio::test]
async fn fresh_payers_run_one_tool_a_hundred_times_a_minute_and_its_customers_are_served() {
    let fixture = Fixture::new().await;
    fixture.buy(Payer::new(1).pays(1)).await;
    let mut runs = 0;
    'all: for seed in 10..200 {
        let payer = fixture.payer(seed, 10).await;
        for nonce in 0..10 {
            match fixture.admit(payer.pays(nonce)).await {
                Ok(Admit::Run(admission)) => admission.fail().await,
                refused => {
                    assert!(matches!(bound(refused), RunLimit::Tool(_)));
                    break 'all;
                }
            }
            runs += 1;
        }
    }
    assert_eq!(runs, 100);
    assert_eq!(fixture.buy(Payer::new(1).pays(2)).await.body, ANSWER, "an earlier customer");
    let other = CallTerms { slug: "another".parse().unwrap(), ..terms() };
    let elsewhere = fixture.payments.admit(&other, fixture.payer(201, 1).await.pays(1), REQUEST).await;
    assert!(matches!(elsewhere, Ok(Admit::Run(_))), "{}", what(&elsewhere));
}

/// The first request holds the whole balance, and the others join it instead of being refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_payment_that_takes_the_whole_balance_is_joined_by_its_twins() {
    let fixture = Arc::new(Fixture::new().await);
    for nonce in 0..50 {
        let payer = fixture.payer(100 + u8::try_from(nonce).unwrap(), 1).await;
        let offered = payer.pays(nonce);
        let twins = (0..8).map(|_| {
            let (fixture, offered) = (Arc::clone(&fixture), offered.clone());
            tokio::spawn(async move { fixture.admit(offered).await })
        });
        let mut running = vec![];
        for twin in twins.collect::<Vec<_>>() {
            match twin.await.unwrap() {
                Ok(Admit::Run(admission)) => running.push(admission),
                Ok(Admit::Seen(SeenPayment::InFlight(_))) => {}
                other => panic!("round {nonce}: {}", what(&other)),
            }
        }
        assert_eq!(running.len(), 1);
        fixture.settle(running.remove(0)).await.unwrap();
    }
}

impl Fixture {
    /// Looks up all open settlements, even if they are not due.
    pub(crate) async fn restart_questions(&self) {
        self.payments.recover().await.unwrap();
        self.payments.tick().await.unwrap();
    }
}
