//! A store has one kind of money, and hosts of another kind do not start.

use super::*;
use crate::{MoneyKind, MoneyKindError, check_kind, kind_in_use, settle_kind};

use MoneyKind::{Real, Simulated, Test};

/// Returns a host of an empty store that others can use too. It has no lease.
fn shared() -> Fixture {
    let clock = Clock::fixed(NOW);
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let signer = Arc::new(ReceiptSigner::open(folder.path()).unwrap());
    Fixture::assemble(config(), Arc::new(MemoryStore::shared(clock.clone())), clock, signer, folder)
}

/// Starts a host: it checks, takes its lease, and settles the kind. A refused one leaves.
async fn starts(host: &Fixture, kind: MoneyKind) -> Result<(), MoneyKindError> {
    check_kind(&*host.store, &host.replica, kind).await?;
    host.renew().await;
    let settled = settle_kind(&*host.store, &host.replica, kind).await;
    if settled.is_err() {
        host.replica.leave().await;
    }
    settled
}

fn is_refused(result: Result<(), MoneyKindError>) -> bool {
    match result {
        Ok(()) => false,
        Err(MoneyKindError::Other { .. }) => true,
        Err(MoneyKindError::Store(error)) => panic!("{error}"),
    }
}

/// Returns a host of a store that contains a credit, and money of `kind`.
async fn with_money_of(kind: MoneyKind) -> Fixture {
    let fixture = Fixture::over(Arc::new(MemoryStore::new()));
    starts(&fixture, kind).await.unwrap();
    let mut batch = Batch::new();
    batch.writes.push(Write { space: Space::Credits, key: b"crd_1".to_vec(), value: Some(vec![0]) });
    batch.commit(&*fixture.store, Durability::Durable).await.unwrap();
    fixture
}

#[tokio::test]
async fn store_with_play_money_refuses_hosts_that_take_real_money() {
    for fixture in [Fixture::over(Arc::new(MemoryStore::new())), shared()] {
        starts(&fixture, Simulated).await.unwrap();
        fixture.fund().await;
        fixture.replica.leave().await;
        let (store, replica) = (&*fixture.store, &fixture.replica);
        let refused = check_kind(store, replica, Real).await.unwrap_err().to_string();
        assert!(refused.starts_with("the store is for play money, and this host takes real money"), "{refused}");
        for named in ["`TOLLHOUSE_DATA`", "`TOLLHOUSE_STORE`", "`TOLLHOUSE_FACILITATOR` to `simulated`"] {
            assert!(refused.contains(named), "{refused}");
        }
        assert!(is_refused(settle_kind(store, replica, Real).await));
        check_kind(store, replica, Simulated).await.unwrap();
        assert_eq!(kind_in_use(store).await.unwrap(), Some(Simulated));
    }
}

#[tokio::test]
async fn store_with_real_money_refuses_hosts_that_take_play_money() {
    let fixture = with_money_of(Real).await;
    let refused = check_kind(&*fixture.store, &fixture.replica, Simulated).await.unwrap_err().to_string();
    assert!(refused.contains("`TOLLHOUSE_FACILITATOR` to `http` or `evm`"), "{refused}");
    starts(&fixture, Real).await.unwrap();
}

/// Regression test: builders were paid real money for what a store had sold for worthless tokens.
#[tokio::test]
async fn store_of_a_test_network_refuses_hosts_of_every_other_kind() {
    let fixture = with_money_of(Test).await;
    for (ours, named) in [(Real, "this host takes real money"), (Simulated, "this host takes play money")] {
        let refused = check_kind(&*fixture.store, &fixture.replica, ours).await.unwrap_err().to_string();
        let texts = ["the store is for tokens of a test network", named, "`TOLLHOUSE_NETWORK` to a test network", "`TOLLHOUSE_DATA`"];
        assert!(texts.iter().all(|text| refused.contains(text)), "{refused}");
        assert!(is_refused(starts(&fixture, ours).await));
    }
    starts(&fixture, Test).await.unwrap();
    assert!(is_refused(starts(&with_money_of(Real).await, Test).await));
}

#[tokio::test]
async fn store_without_money_takes_the_kind_of_its_next_host() {
    let fixture = Fixture::over(Arc::new(MemoryStore::new()));
    for kind in [Simulated, Test, Real, Simulated] {
        starts(&fixture, kind).await.unwrap();
        assert_eq!(kind_in_use(&*fixture.store).await.unwrap(), None);
    }
}

#[tokio::test]
async fn hosts_of_one_store_agree_before_it_contains_money() {
    let one = shared();
    starts(&one, Simulated).await.unwrap();
    let other = one.restarted();
    assert!(is_refused(starts(&other, Real).await));
    starts(&other, Simulated).await.unwrap();
    other.replica.leave().await;
    one.replica.leave().await;
    starts(&one.restarted(), Real).await.unwrap();
}

#[tokio::test]
async fn of_two_hosts_that_start_together_one_kind_remains() {
    let before = shared();
    starts(&before, Simulated).await.unwrap();
    before.replica.leave().await;
    let (one, other) = (before.restarted(), before.restarted());
    check_kind(&*one.store, &one.replica, Real).await.unwrap();
    check_kind(&*other.store, &other.replica, Simulated).await.unwrap();
    one.renew().await;
    other.renew().await;
    assert!(is_refused(settle_kind(&*one.store, &one.replica, Real).await));
    settle_kind(&*other.store, &other.replica, Simulated).await.unwrap();
}
