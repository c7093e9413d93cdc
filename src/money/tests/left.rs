//! Reservations that no call holds anymore, and records that a wrong clock would delete.

use tollhouse_store::faulty::{Fault, FaultyStore};

use super::*;

const DAY: u64 = 24 * 60 * 60 * 1_000;

/// Returns a bench on a store that fails as scripted.
async fn faulty() -> (Fixture, Arc<FaultyStore<MemoryStore>>) {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let signer = Arc::new(ReceiptSigner::open(folder.path()).unwrap());
    let fixture = Fixture::assemble(config(), Arc::clone(&store) as _, Clock::fixed(NOW), signer, folder);
    fixture.fund().await;
    (fixture, store)
}

impl Fixture {
    /// Returns the same host on a machine whose clock is that of the test.
    fn with_machine_clock(self) -> Self {
        let store = || Arc::clone(&self.store);
        let replica = Replica::with_clock(store(), self.clock.clone());
        let events = Arc::new(Events::new(store(), self.clock.clone(), EventSettings::default()));
        let finisher = Arc::new(ReceiptFinisher::new(Arc::clone(&self.signer), true, events, Sales::new(store())));
        let (facilitator, others, apart) = (Arc::clone(&self.facilitator), Arc::clone(&replica), Arc::clone(&self.objects));
        let payments = Payments::new(store(), facilitator, self.clock.clone(), config(), finisher, others, apart);
        Self { replica, payments, ..self }
    }
}

#[tokio::test]
async fn reservation_whose_call_is_gone_is_released_by_its_own_host() {
    let fixture = Fixture::new().await;
    let running = fixture.run(Payer::new(1).pays(1)).await;
    let removed = fixture.run(Payer::new(2).pays(1)).await;
    let (held, remaining) = (running.id().clone(), removed.id().clone());
    removed.vanish();
    assert_eq!(fixture.state(&remaining).await, Some(PaymentState::Reserved));
    fixture.payments.tick().await.unwrap();
    assert_eq!((fixture.state(&held).await, fixture.state(&remaining).await), (Some(PaymentState::Reserved), Some(PaymentState::Released)));
    fixture.settle(running).await.unwrap();
    fixture.buy(Payer::new(2).pays(1)).await;
    assert_eq!((fixture.earned().await, fixture.receipts().await.len()), (2 * PRICE.0, 2));
}

#[tokio::test]
async fn release_that_meets_a_locked_row_is_done_later_and_nothing_else_is_read_from_it() {
    let (fixture, store) = faulty().await;
    let admission = fixture.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    store.fail_all(Fault::Locked);
    admission.fail().await;
    fixture.payments.tick().await.ok();
    assert_eq!(fixture.state(&id).await, Some(PaymentState::Reserved));
    store.heal();
    fixture.payments.tick().await.unwrap();
    assert_eq!(fixture.state(&id).await, Some(PaymentState::Released));
    fixture.buy(Payer::new(1).pays(1)).await;
    assert_eq!((fixture.earned().await, fixture.receipts().await.len()), (PRICE.0, 1));
}

#[tokio::test(start_paused = true)]
async fn clock_that_is_days_ahead_for_a_moment_forgets_no_payment() {
    let fixture = Fixture::new().await.with_machine_clock();
    let (credit, token) =
        fixture.payments.credits().mint(MicroUsd(1_000_000), "test", None).await.map(|minted| (minted.credit, minted.token)).unwrap();
    let calls =
        || OfferedPayment::Credit(CreditOffer { token: token.clone().unwrap(), idempotency_key: Some("one".to_owned()), observer: None });
    let first = fixture.buy(calls()).await;
    fixture.clock.set(NOW.plus_millis(8 * DAY));
    for _ in 0..3 {
        fixture.payments.tick().await.unwrap();
        tokio::time::advance(Duration::from_secs(3)).await;
    }
    fixture.clock.set(NOW.plus_millis(9_000));
    fixture.payments.tick().await.unwrap();
    assert_eq!(stored(fixture.admit(calls()).await), first, "the key still names the call");
    assert_eq!(fixture.payments.credits().get(&credit.id).await.unwrap().unwrap().balance, MicroUsd(1_000_000 - PRICE.0));
}

#[tokio::test]
async fn repeated_credit_call_is_told_that_its_answer_expired() {
    let fixture = Fixture::new().await;
    let minted = fixture.payments.credits().mint(MicroUsd(1_000_000), "test", None).await.unwrap();
    let token = minted.token.unwrap();
    let calls = || OfferedPayment::Credit(CreditOffer { token: token.clone(), idempotency_key: Some("one".to_owned()), observer: None });
    fixture.buy(calls()).await;
    fixture.clock.set(NOW.plus_millis(DAY + 1));
    fixture.payments.tick().await.unwrap();
    for refused in [fixture.admit(calls()).await.map(drop), fixture.payments.earlier(&calls(), REQUEST).await.map(drop)] {
        assert!(matches!(refused, Err(Refusal::AnswerExpired(_))), "{refused:?}");
    }
}
