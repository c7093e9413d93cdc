//! Changes between the moment when a front finds a tool and the moment when its call begins, on hosts that share a
//! store.

use tollhouse_replica::FollowedState;
use tollhouse_store::{CommittedChange, StoreError};

use super::*;

struct Nothing;

#[async_trait]
impl FollowedState for Nothing {
    async fn apply(&self, _changes: &[CommittedChange]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn reload(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Returns a bench on a shared store, with a current replica.
async fn shared() -> Fixture {
    let fixture = Fixture::over(MemoryStore::shared(Clock::default())).await;
    fixture.calls.parts.replica.follow(Arc::new(Nothing)).await.unwrap();
    fixture
}

/// Regression test: the price and version that the front had found were used.
#[tokio::test]
async fn call_runs_under_the_price_and_version_that_are_in_force_when_it_begins() {
    let fixture = shared().await;
    let before = fixture.tool(0.01).await;
    let now = fixture.repriced(0.05).await;
    let done = fixture.perform(&before, pays(1)).await.unwrap();
    let receipt = fixture.receipts.find(&done.answer.receipt_id).await.unwrap().unwrap();
    assert_eq!((&receipt["priceUsd"], &receipt["version"]), (&json!(0.05), &json!(now.endpoint.version)));
}

/// The name may belong to another owner by now.
#[tokio::test]
async fn owner_of_a_deleted_tool_does_not_call_its_successor_for_nothing() {
    let fixture = shared().await;
    let before = fixture.tool(0.01).await;
    fixture.catalog.delete("some-tool", None, ChangedBy::Admin).await.unwrap();
    let another = Fixture { owner: Owner::Builder(BuilderId::generate()), ..fixture };
    another.tool(0.01).await;
    let owners = Call { by: CalledBy::Owner, ..another.call(&before, OfferedPayment::Nothing) };
    let ended = another.calls.perform(owners).await;
    assert!(matches!(ended.as_ref().map_err(|error| &**error), Err(CallError::PaymentRequired(_))), "{ended:?}");
}
