//! Replicas of one store: each leaves the payments of live replicas alone, and takes over those of stopped ones.

use tollhouse_replica::FollowedState;
use tollhouse_store::{CommittedChange, Sum};

use super::{
    upfront::{closing, delivery, pays, upfront},
    *,
};

/// Duration of a lease.
pub(super) const LEASE_MS: u64 = 3_000;

/// A follower without state.
struct Nothing;

#[async_trait]
impl FollowedState for Nothing {
    async fn apply(&self, _: &[CommittedChange]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn reload(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Fixture {
    /// Returns a replica of this store that has its lease.
    async fn replica_of(store: Arc<dyn Store>, clock: Clock) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let fixture = Self::assemble(config(), store, clock, Arc::new(ReceiptSigner::open(folder.path()).unwrap()), folder);
        fixture.renew().await;
        fixture
    }

    /// Returns another replica of the same store.
    async fn another(&self) -> Self {
        let other = self.restarted();
        other.renew().await;
        other
    }

    /// Renews the lease. The test controls the clock, and decides when leases are renewed.
    pub(super) async fn renew(&self) {
        self.replica.follow(Arc::new(Nothing)).await.unwrap();
    }
}

/// Moves the clock to `millis` after the start, while these replicas renew their leases.
async fn pass(millis: u64, living: &[&Fixture]) {
    for step in [millis / 3, millis * 2 / 3, millis] {
        living[0].clock.set(NOW.plus_millis(step));
        for fixture in living {
            fixture.renew().await;
        }
    }
}

pub(super) async fn two() -> (Fixture, Fixture) {
    let clock = Clock::fixed(NOW);
    let one = Fixture::replica_of(Arc::new(MemoryStore::shared(clock.clone())), clock).await;
    one.fund().await;
    let other = one.another().await;
    (one, other)
}

/// Ends the process during a call: nothing of it is dropped.
fn dies(admission: Admission) -> PaymentId {
    let id = admission.id().clone();
    std::mem::forget(admission);
    id
}

#[tokio::test]
async fn a_replica_that_starts_leaves_the_calls_of_others_alone() {
    let (one, _) = two().await;
    let admission = one.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    let other = one.another().await;
    other.payments.recover().await.unwrap();
    other.payments.tick().await.unwrap();
    assert_eq!(other.state(&id).await, Some(PaymentState::Reserved));
    assert!(matches!(other.admit(Payer::new(1).pays(1)).await, Ok(Admit::Seen(SeenPayment::InFlight(seen))) if seen == id), "one run");
    one.settle(admission).await.unwrap();
    assert_eq!((one.earned().await, one.receipts().await.len()), (PRICE.0, 1));
}

#[tokio::test]
async fn a_reservation_of_a_dead_replica_is_released_by_the_others_once_its_lease_is_over() {
    let (one, other) = two().await;
    let id = dies(one.run(Payer::new(1).pays(1)).await);
    pass(LEASE_MS - 1, &[&other]).await;
    other.payments.tick().await.unwrap();
    assert_eq!(other.state(&id).await, Some(PaymentState::Reserved), "it may be running");
    other.clock.set(NOW.plus_millis(LEASE_MS));
    other.payments.tick().await.unwrap();
    assert_eq!(other.state(&id).await, Some(PaymentState::Released));
    other.buy(Payer::new(1).pays(1)).await;
    assert_eq!((other.earned().await, other.receipts().await.len()), (PRICE.0, 1));
}

#[tokio::test]
async fn a_settlement_of_a_dead_replica_is_ended_by_another_once_its_lease_is_over() {
    let (one, other) = two().await;
    one.facilitator.feel(FacilitatorMood::SettlesInSilence);
    let admission = one.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    assert!(tokio::time::timeout(Duration::from_millis(50), one.settle(admission)).await.is_err());
    other.payments.recover().await.unwrap();
    pass(LEASE_MS - 1, &[&other]).await;
    other.payments.tick().await.unwrap();
    assert_eq!((other.state(&id).await, other.payments.open_intents()), (Some(PaymentState::Settling), 0), "it may still be at it");
    other.clock.set(NOW.plus_millis(LEASE_MS));
    other.payments.tick().await.unwrap();
    assert_eq!((other.state(&id).await, other.payments.open_intents()), (Some(PaymentState::Settled), 0));
    assert_eq!((other.earned().await, other.receipts().await.len()), (PRICE.0, 1));
}

#[tokio::test]
async fn one_replica_takes_over_the_settlements_of_a_dead_one() {
    let (one, other) = two().await;
    let third = one.another().await;
    one.facilitator.feel(FacilitatorMood::SettlesUnsure);
    let admission = one.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    one.settle(admission).await.unwrap_err();
    pass(LEASE_MS, &[&other, &third]).await;
    other.facilitator.feel(FacilitatorMood::Unsure);
    other.payments.tick().await.unwrap();
    assert_eq!((other.state(&id).await, other.payments.open_intents()), (Some(PaymentState::Settling), 1), "taken up");
    // Both would find the payment settled. But they do not look it up, because it belongs to another host.
    for fixture in [&third, &one] {
        fixture.renew().await;
        fixture.facilitator.feel(FacilitatorMood::Honest);
        fixture.payments.tick().await.unwrap();
        assert_eq!((fixture.state(&id).await, fixture.payments.open_intents()), (Some(PaymentState::Settling), 0));
    }
    other.facilitator.feel(FacilitatorMood::Honest);
    other.payments.recover().await.unwrap();
    other.payments.tick().await.unwrap();
    assert_eq!((other.state(&id).await, other.earned().await, other.receipts().await.len()), (Some(PaymentState::Settled), PRICE.0, 1));
}

#[tokio::test]
async fn replica_that_returns_after_its_lease_does_not_settle_a_released_payment() {
    let (one, other) = two().await;
    let late = one.run(Payer::new(1).pays(1)).await;
    pass(LEASE_MS, &[&other]).await;
    other.payments.tick().await.unwrap();
    let again = other.run(Payer::new(1).pays(1)).await;
    one.settle(late).await.unwrap_err();
    assert_eq!(one.earned().await, 0);
    other.settle(again).await.unwrap();
    assert_eq!((other.earned().await, other.receipts().await.len()), (PRICE.0, 1));
}

/// A replica that stalled between its intent and the transfer gets the refusal that the nonce is spent, by the replica
/// that took over its payment.
#[tokio::test]
async fn refusal_from_a_replica_that_lost_the_payment_is_ignored() {
    let clock = Clock::fixed(NOW);
    let inner = Arc::new(MemoryStore::shared(clock.clone()));
    let other = Fixture::replica_of(Arc::clone(&inner) as _, clock.clone()).await;
    other.fund().await;
    // After the lease, the reservation and the intent.
    let stopped = Interrupted::before_commit(4, inner);
    let one = Fixture::replica_of(Arc::clone(&stopped) as _, clock).await;
    let other = Arc::new(other);
    let taken = Arc::clone(&other);
    stopped.by(async move {
        pass(LEASE_MS, &[&taken]).await;
        taken.facilitator.feel(FacilitatorMood::SettlesUnsure);
        taken.payments.tick().await.unwrap();
        assert_eq!(taken.earned().await, PRICE.0);
    });
    let admission = one.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    assert!(matches!(one.settle(admission).await, Err(SettleError::Unknown { .. })));
    assert_eq!(one.state(&id).await, Some(PaymentState::Settling));
    other.facilitator.feel(FacilitatorMood::Honest);
    other.payments.recover().await.unwrap();
    other.payments.tick().await.unwrap();
    assert_eq!((other.state(&id).await, other.earned().await, other.receipts().await.len()), (Some(PaymentState::Settled), PRICE.0, 1));
}

/// Returns two hosts that share held balances, and a payer who can afford this many calls.
async fn holding(calls: u64) -> (Fixture, Fixture, Payer) {
    let (one, other) = two().await;
    let payer = Payer::new(9);
    one.ledger.faucet(&payer.address(), MicroUsd(calls * PRICE.0)).await.unwrap();
    (one, other, payer)
}

fn is_beyond_the_balance(admit: Result<Admit, Refusal>) -> bool {
    matches!(admit, Err(Refusal::Slowed(RunLimitReached { bound: RunLimit::Balance, .. })))
}

#[tokio::test]
async fn balance_for_one_call_begins_one_at_whichever_host() {
    let (one, other, payer) = holding(1).await;
    let first = one.run(payer.pays(1)).await;
    assert!(is_beyond_the_balance(other.admit(payer.pays(2)).await));
    assert!(matches!(other.admit(payer.pays(1)).await, Ok(Admit::Seen(SeenPayment::InFlight(_)))), "the same one is joined");
    first.release().await;
    let second = other.run(payer.pays(2)).await;
    assert!(is_beyond_the_balance(one.admit(payer.pays(3)).await));
    other.settle(second).await.unwrap();
    assert_eq!(code(one.admit(payer.pays(3)).await), "invalid_exact_evm_insufficient_balance", "it is spent");
    one.payments.forget().await.unwrap();
    let held = one.all(Space::Payments).await.into_iter().filter(|(key, _)| key.starts_with(b"held/")).count();
    assert_eq!(held, 0, "nothing is stored for idle payers");
}

/// Regression test: in the first seconds of its hosts, one balance paid for a run at each of them.
#[tokio::test]
async fn freshly_started_hosts_share_held_balances() {
    let (one, other) = two().await;
    let payer = Payer::new(9);
    one.ledger.faucet(&payer.address(), PRICE).await.unwrap();
    let first = one.run(payer.pays(1)).await;
    assert!(is_beyond_the_balance(other.admit(payer.pays(2)).await));
    first.release().await;
}

#[tokio::test]
async fn held_balance_is_released_once_a_payment_before_the_run_is_settled() {
    let (one, other, payer) = holding(1).await;
    let held = async || {
        let rows = one.all(Space::Payments).await.into_iter().filter(|(key, _)| key.starts_with(b"held/"));
        rows.map(|(_, sum)| Sum::of_bytes(&sum).unwrap().0).sum::<i128>()
    };
    let admission = run(one.payments.admit(&upfront(), pays(9, 1), REQUEST).await);
    assert_eq!(held().await, i128::from(PRICE.0), "as long as it is not settled");
    assert!(is_beyond_the_balance(other.admit(payer.pays(2)).await));
    let owed = one.payments.settle_before(admission, &closing()).await.unwrap();
    assert_eq!((held().await, one.state(owed.payment()).await), (0, Some(PaymentState::Owed)));
    owed.deliver(answer(ANSWER), &delivery(false)).await.unwrap();
    assert_eq!((held().await, one.earned().await), (0, PRICE.0));
}

#[tokio::test]
async fn balance_held_by_a_dead_replica_is_freed_by_another() {
    let (one, other, payer) = holding(1).await;
    dies(one.run(payer.pays(1)).await);
    assert!(is_beyond_the_balance(other.admit(payer.pays(2)).await));
    for step in 1..=4 {
        other.clock.set(NOW.plus_millis(LEASE_MS + step * LEASE_MS / 2));
        other.renew().await;
    }
    other.payments.tick().await.unwrap();
    drop(other.run(payer.pays(2)).await);
}

#[tokio::test]
async fn balance_of_an_open_settlement_is_held_at_every_host_until_its_nonce_is_spent() {
    let (one, other, payer) = holding(2).await;
    one.facilitator.feel(FacilitatorMood::SettlesUnsure);
    let admission = one.run(payer.pays(1)).await;
    one.settle(admission).await.unwrap_err();
    one.facilitator.feel(FacilitatorMood::Unsure);
    assert!(is_beyond_the_balance(other.admit(payer.pays(2)).await), "half is gone, and the other half is held");
    one.facilitator.spent.store(true, Ordering::SeqCst);
    one.payments.recover().await.unwrap();
    one.payments.tick().await.unwrap();
    drop(other.run(payer.pays(2)).await);
}

#[tokio::test]
async fn replica_that_lost_its_own_lease_waits_before_it_declares_others_dead() {
    let (one, other) = two().await;
    let admission = one.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    // The store was unavailable to all.
    other.clock.set(NOW.plus_millis(2 * LEASE_MS));
    other.payments.tick().await.unwrap();
    other.renew().await;
    other.payments.tick().await.unwrap();
    assert_eq!(other.state(&id).await, Some(PaymentState::Reserved));
    one.renew().await;
    one.settle(admission).await.unwrap();
    assert_eq!((one.earned().await, one.receipts().await.len()), (PRICE.0, 1));
}

#[tokio::test]
async fn a_fenced_replica_asks_nobody_for_money() {
    let clock = Clock::fixed(NOW);
    let one = Fixture::replica_of(Arc::new(MemoryStore::shared(clock.clone())), clock).await;
    one.fund().await;
    let admission = one.run(Payer::new(1).pays(1)).await;
    let id = admission.id().clone();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(matches!(one.settle(admission).await, Err(SettleError::Unknown { .. })));
    assert_eq!((one.state(&id).await, one.earned().await), (Some(PaymentState::Settling), 0));
    one.renew().await;
    one.payments.recover().await.unwrap();
    one.payments.tick().await.unwrap();
    assert_eq!((one.state(&id).await, one.earned().await), (Some(PaymentState::Settled), PRICE.0));
}

/// Regression test: a host shared its limits with a new one only after up to five seconds.
#[tokio::test]
async fn host_divides_the_limits_as_soon_as_another_one_is_counted() {
    let (one, _other) = two().await;
    one.replica.count().await.unwrap();
    let mut running = vec![];
    while let Ok(Admit::Run(admission)) = one.admit(Payer::new(1).pays(running.len() as u64)).await {
        running.push(admission);
    }
    assert_eq!(running.len(), 15);
}

/// Regression test: 30 runs of one payer began at each host of the store in the same second.
#[tokio::test]
async fn hosts_of_one_store_admit_no_more_runs_at_once_than_may_fail() {
    let (one, other) = two().await;
    for host in [&one, &other] {
        host.replica.count().await.unwrap();
    }
    let mut running = vec![];
    for (host, first) in [(&one, 0), (&other, 100)] {
        for nonce in first..first + 40 {
            match host.admit(Payer::new(1).pays(nonce)).await {
                Ok(Admit::Run(admission)) => running.push(admission),
                Err(Refusal::Slowed(slowed)) => assert_eq!(slowed.bound, RunLimit::Payer),
                unexpected => panic!("{}", what(&unexpected)),
            }
        }
    }
    assert_eq!(running.len(), 30);
    // A host that is alone again has the whole limit.
    drop(running);
    other.replica.leave().await;
    one.replica.count().await.unwrap();
    let mut again = vec![];
    while let Ok(Admit::Run(admission)) = one.admit(Payer::new(1).pays(200 + again.len() as u64)).await {
        again.push(admission);
    }
    assert_eq!(again.len(), 30);
}
