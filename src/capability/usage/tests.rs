use futures_util::FutureExt as _;
use tollhouse_base::id::BuilderId;

use super::*;

fn builder() -> Owner {
    Owner::Builder(BuilderId::generate())
}

#[tokio::test]
async fn owner_that_changes_all_it_can_leaves_another_the_next_turn() {
    let (turns, greedy, other) = (WriteTurns::new(2), builder(), builder());
    let endpoints: Vec<_> = (0..9).map(|_| EndpointId::generate()).collect();
    let mut flood: Vec<_> = endpoints.iter().map(|endpoint| Box::pin(turns.take(&greedy, endpoint))).collect();
    let mut in_flight: Vec<_> = flood.iter_mut().filter_map(|turn| turn.now_or_never()).collect();
    assert_eq!(in_flight.len(), 2, "alone it has all there is");
    let endpoint = EndpointId::generate();
    let mut next = Box::pin(turns.take(&other, &endpoint));
    assert!((&mut next).now_or_never().is_none());
    in_flight.pop();
    assert!(next.now_or_never().is_some());
}

#[tokio::test]
async fn waiting_for_ones_own_endpoint_blocks_no_other() {
    let (turns, owner, busy, other) = (WriteTurns::new(2), builder(), EndpointId::generate(), EndpointId::generate());
    let _writing = turns.take(&owner, &busy).await;
    let mut waiting: Vec<_> = (0..9).map(|_| Box::pin(turns.take(&owner, &busy))).collect();
    assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()));
    assert!(turns.take(&owner, &other).now_or_never().is_some());
}

#[tokio::test]
async fn endpoints_that_nobody_writes_to_are_forgotten() {
    let (turns, owner, endpoint) = (WriteTurns::new(2), builder(), EndpointId::generate());
    let writing = turns.take(&owner, &endpoint).await;
    let mut removed = Box::pin(turns.take(&owner, &endpoint));
    let mut next = Box::pin(turns.take(&owner, &endpoint));
    assert!((&mut removed).now_or_never().is_none() && (&mut next).now_or_never().is_none());
    drop(writing);
    drop(removed);
    drop(next.await);
    assert!(turns.endpoints.lock().is_empty());
}

#[tokio::test]
async fn writers_of_one_endpoint_wait_in_order() {
    let (turns, owner, endpoint) = (WriteTurns::new(9), builder(), EndpointId::generate());
    let first = turns.take(&owner, &endpoint).await;
    let mut second = Box::pin(turns.take(&owner, &endpoint));
    assert!((&mut second).now_or_never().is_none());
    drop(first);
    let _second = second.await;
    assert!(turns.take(&owner, &endpoint).now_or_never().is_none());
}
