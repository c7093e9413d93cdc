use std::sync::Arc;

use serde_json::json;
use tollhouse_base::id::BuilderId;
use tollhouse_store::{
    memory::MemoryStore,
    sweep_cursor::TURN,
    test_wrappers::{CountingStore, InterleavingStore},
};

use super::*;
use crate::feed::{FeedItem, Position as _};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn events(settings: EventSettings) -> (Arc<Events>, Clock, Owner) {
    let clock = Clock::fixed(NOW);
    let events = Arc::new(Events::new(Arc::new(MemoryStore::new()), clock.clone(), settings));
    (events, clock, Owner::Builder(BuilderId::generate()))
}

async fn numbers(events: &Events, owner: &Owner, query: EventQuery) -> Vec<u64> {
    let (mut query, mut numbers) = (EventQuery { limit: 7, ..query }, Vec::new());
    loop {
        let page = events.list(owner, &query).await.unwrap();
        numbers.extend(page.events.iter().map(|event| event.data["n"].as_u64().unwrap()));
        query.cursor = page.next;
        if query.cursor.is_none() {
            return numbers;
        }
    }
}

#[tokio::test]
async fn events_are_listed_newest_first_with_filters() {
    let (events, clock, owner) = events(EventSettings::default());
    let (one, other): (Slug, Slug) = ("one-tool".parse().unwrap(), "other-tool".parse().unwrap());
    for n in 0..20_u64 {
        clock.set(Timestamp(NOW.0 + n));
        let (slug, kind) = if n % 5 == 0 { (&one, Kind::CallFailed) } else { (&other, Kind::CallSucceeded) };
        events.record(&owner, kind, Some(slug), json!({ "n": n })).await.unwrap();
        events.record(&Owner::Builder(BuilderId::generate()), kind, Some(slug), json!({ "n": 99 })).await.unwrap();
    }
    assert_eq!(numbers(&events, &owner, EventQuery::default()).await, (0..20).rev().collect::<Vec<_>>());
    let since = EventQuery { since: Some(Timestamp(NOW.0 + 17)), ..EventQuery::default() };
    assert_eq!(numbers(&events, &owner, since).await, [19, 18, 17]);
    let between = EventQuery { since: Some(Timestamp(NOW.0 + 7)), until: Some(Timestamp(NOW.0 + 17)), ..EventQuery::default() };
    assert_eq!(numbers(&events, &owner, between).await, (7..17).rev().collect::<Vec<_>>());
    let of_one = EventQuery { slug: Some(one), ..EventQuery::default() };
    assert_eq!(numbers(&events, &owner, of_one).await, [15, 10, 5, 0]);
    let failed = EventQuery { kind: Some(Kind::CallFailed), ..EventQuery::default() };
    assert_eq!(numbers(&events, &owner, failed).await, [15, 10, 5, 0]);
    assert_eq!(numbers(&events, &Owner::Platform, EventQuery::default()).await, Vec::<u64>::new());
}

#[tokio::test]
async fn event_id_determines_its_position() {
    let (events, clock, owner) = events(EventSettings::default());
    let mut ids = vec![];
    for n in 0..10_u64 {
        clock.set(Timestamp(NOW.0 + n));
        events.record(&owner, Kind::SecretSet, None, json!({ "n": n })).await.unwrap();
        ids.push(events.list(&owner, &EventQuery { limit: 1, ..EventQuery::default() }).await.unwrap().events[0].id.clone());
    }
    let after = events.after(&owner, &EventPosition::of(&ids[5]), 3).await.unwrap();
    assert_eq!(after.iter().map(|event| event.id.clone()).collect::<Vec<_>>(), ids[6..9]);
    let cursor = EventPosition::of(&ids[5]).to_cursor();
    assert_eq!(EventPosition::from_cursor(&cursor), Some(EventPosition::of(&ids[5])));
}

#[tokio::test]
async fn old_and_excess_events_are_removed() {
    let (events, clock, owner) = events(EventSettings { count: 50, age_ms: 1_000 });
    let other = Owner::Builder(BuilderId::generate());
    for n in 0..80_u64 {
        clock.set(Timestamp(NOW.0 + n));
        events.record(&owner, Kind::SecretSet, None, json!({ "n": n })).await.unwrap();
        if n < 10 {
            events.record(&other, Kind::SecretSet, None, json!({ "n": n })).await.unwrap();
        }
    }
    let stored = async || EVENTS.count(&*events.store, &EVENTS.all(), 1_000).await.unwrap();
    assert_eq!(stored().await, 90);
    events.trim().await.unwrap();
    assert_eq!(stored().await, 60, "the oldest 30 of one owner");
    assert_eq!(numbers(&events, &owner, EventQuery::default()).await, (30..80).rev().collect::<Vec<_>>());
    clock.set(Timestamp(NOW.0 + 1_040));
    assert_eq!(numbers(&events, &owner, EventQuery::default()).await, (40..80).rev().collect::<Vec<_>>(), "old ones are not shown");
    events.sweep().await.unwrap();
    assert_eq!(stored().await, 40);
}

#[tokio::test]
async fn sweep_is_bounded_by_owners() {
    let (store, clock) = (CountingStore::of(MemoryStore::new()), Clock::fixed(NOW));
    let settings = EventSettings { age_ms: 1_000, ..EventSettings::default() };
    let events = Events::new(Arc::clone(&store) as _, clock.clone(), settings);
    let mut owners: Vec<_> = (0..TURN + 20).map(|_| Owner::Builder(BuilderId::generate())).collect();
    owners.sort_by_key(|owner| owner.share().to_owned());
    record(&events, owners.last().unwrap(), 2).await;
    clock.set(NOW.plus_millis(1_001));
    for owner in &owners {
        record(&events, owner, 2).await;
    }
    let all = 2 * owners.len();
    store.rows();
    events.sweep().await.unwrap();
    assert!(store.rows() <= TURN + 1);
    assert_eq!(EVENTS.count(&*store, &EVENTS.all(), usize::MAX).await.unwrap(), all + 2, "old events are on later pages");
    events.sweep().await.unwrap();
    assert_eq!(EVENTS.count(&*store, &EVENTS.all(), usize::MAX).await.unwrap(), all);
}

/// Returns events in a shared store: as many as are kept, and thirty more.
async fn too_many() -> (Arc<MemoryStore>, Arc<Events>, Owner) {
    let store = Arc::new(MemoryStore::shared(Clock::fixed(NOW)));
    let events = keeping_fifty(Arc::clone(&store) as _);
    let owner = Owner::Builder(BuilderId::generate());
    record(&events, &owner, 80).await;
    (store, events, owner)
}

fn keeping_fifty(store: Arc<dyn Store>) -> Arc<Events> {
    Arc::new(Events::new(store, Clock::fixed(NOW), EventSettings { count: 50, age_ms: 1_000 }))
}

async fn record(events: &Events, owner: &Owner, count: u64) {
    for n in 0..count {
        events.record(owner, Kind::SecretSet, None, json!({ "n": n })).await.unwrap();
    }
}

async fn stored(store: &dyn Store) -> usize {
    EVENTS.count(store, &EVENTS.all(), 1_000).await.unwrap()
}

#[tokio::test]
async fn trimmed_events_are_not_trimmed_again() {
    let (store, one, owner) = too_many().await;
    one.trim().await.unwrap();
    record(&one, &owner, 9).await;
    // All of them are new to this host, so it counts them.
    let other = keeping_fifty(Arc::clone(&store) as _);
    record(&other, &owner, 1).await;
    other.trim().await.unwrap();
    assert_eq!(stored(&*store).await, 50);
    one.trim().await.unwrap();
    assert_eq!(stored(&*store).await, 50);
}

#[tokio::test]
async fn concurrent_trims_remove_as_many_as_one() {
    let (store, one, owner) = too_many().await;
    let meanwhile = async move { one.trim().await.unwrap() };
    // By the second scan, the other host has read the oldest event and counted all.
    let other = keeping_fifty(InterleavingStore::before_scan(2, Arc::clone(&store), meanwhile));
    record(&other, &owner, 1).await;
    other.trim().await.unwrap();
    assert_eq!(stored(&*store).await, 50, "by the first, of all that there were");
    record(&other, &owner, 10).await;
    other.trim().await.unwrap();
    assert_eq!(stored(&*store).await, 50);
}

#[tokio::test]
async fn followers_get_events_of_their_own_owner() {
    let (events, _, owner) = events(EventSettings::default());
    let mut follower = events.follow(&owner).unwrap();
    events.record(&Owner::Platform, Kind::SecretSet, None, json!({ "n": 1 })).await.unwrap();
    events.record(&owner, Kind::SecretSet, None, json!({ "n": 2 })).await.unwrap();
    let Some(FeedItem::Entry(event)) = follower.next().await else { panic!("nothing came") };
    assert_eq!(event.data["n"], 2);
}
