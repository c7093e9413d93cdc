use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::json;
use tollhouse_base::clock::Clock;
use tollhouse_store::{
    Batch, Direction, Durability, KeyRange, KeyValues, Space, Store,
    faulty::{Fault, FaultyStore},
    memory::MemoryStore,
    test_wrappers::StoreWrapper,
};
use tollhouse_tool::Owner;

use super::*;
use crate::{
    EventPosition, EventSettings, Events, Kind,
    feed::{FeedItem, Follower},
};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// A store that counts its scans.
struct Counting {
    inner: Arc<FaultyStore<MemoryStore>>,
    scans: AtomicUsize,
}

#[async_trait]
impl StoreWrapper for Counting {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn on_scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<KeyValues, StoreError> {
        self.scans.fetch_add(1, Ordering::SeqCst);
        self.inner.scan(space, range, limit, direction).await
    }

    async fn on_apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        self.inner.apply(batch, durability).await
    }
}

/// The events of two hosts that share a store, with pulling but without trimming.
struct Fixture {
    clock: Clock,
    store: Arc<Counting>,
    hosts: [Arc<Events>; 2],
}

impl Fixture {
    fn of(memory: MemoryStore, clock: Clock) -> Self {
        let store = Arc::new(Counting { inner: Arc::new(FaultyStore::new(memory)), scans: AtomicUsize::new(0) });
        let host = || Arc::new(Events::new(Arc::clone(&store) as _, clock.clone(), EventSettings::default()));
        let hosts = [host(), host()];
        hosts.iter().for_each(Events::pull);
        Self { clock, hosts, store }
    }

    fn shared() -> Self {
        let clock = Clock::fixed(NOW);
        Self::of(MemoryStore::shared(clock.clone()), clock)
    }

    /// Stores an event with the time [`NOW`] plus `at` milliseconds.
    async fn record(&self, host: usize, at: u64) {
        let now = self.clock.now();
        self.clock.set(NOW.plus_millis(at));
        self.hosts[host].record(&Owner::Platform, Kind::SecretSet, None, json!({ "at": at })).await.unwrap();
        self.clock.set(now);
    }

    /// Lets `millis` milliseconds pass for the hosts.
    async fn pass(&self, millis: u64) {
        for _ in 0..millis / 50 {
            self.clock.set(self.clock.now().plus_millis(50));
            sleep(Duration::from_millis(50)).await;
        }
    }

    fn scans(&self) -> usize {
        self.store.scans.load(Ordering::SeqCst)
    }
}

/// Returns the events that the follower has received so far, as named by [`Fixture::record`].
async fn received(follower: &mut Follower<Arc<crate::Event>>) -> Vec<u64> {
    let mut listed = vec![];
    while let Ok(Some(item)) = tokio::time::timeout(Duration::from_millis(1), follower.next()).await {
        match item {
            FeedItem::Entry(event) => listed.push(event.data["at"].as_u64().unwrap()),
            FeedItem::Missed(missed) => panic!("{missed} were missed"),
        }
    }
    listed
}

#[tokio::test(start_paused = true)]
async fn followers_get_events_of_all_hosts_once_in_time_order() {
    let fixture = Fixture::shared();
    fixture.record(0, 0).await;
    fixture.pass(1_000).await;
    let mut followers = [0, 1].map(|host: usize| fixture.hosts[host].follow(&Owner::Platform).unwrap());
    // Events with later times are stored first.
    for at in [1_050, 1_040, 1_030, 1_020, 1_010] {
        fixture.record((at / 10 % 2) as usize, at).await;
    }
    fixture.pass(600).await;
    for follower in &mut followers {
        assert_eq!(received(follower).await, [1_010, 1_020, 1_030, 1_040, 1_050], "and nothing of before");
    }
    // This event takes long to reach the store.
    fixture.pass(8_000).await;
    fixture.record(0, 1_015).await;
    fixture.record(1, 9_600).await;
    fixture.pass(600).await;
    for follower in &mut followers {
        assert_eq!(received(follower).await, [1_015, 9_600]);
    }
    fixture.pass(60_000).await;
    for follower in &mut followers {
        assert_eq!(received(follower).await, [0; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn more_than_a_follower_has_room_for_comes_as_it_is_read() {
    let fixture = Fixture::shared();
    let mut follower = fixture.hosts[1].follow(&Owner::Platform).unwrap();
    let reads = tokio::spawn(async move {
        let mut listed = vec![];
        while listed.len() < 1_000 {
            let Some(FeedItem::Entry(event)) = follower.next().await else { panic!("some were missed") };
            listed.push(event.data["at"].as_u64().unwrap());
        }
        listed
    });
    for at in 0..1_000 {
        fixture.record(0, at).await;
    }
    fixture.pass(2_000).await;
    assert_eq!(reads.await.unwrap(), (0..1_000).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_while_the_store_is_away() {
    let fixture = Fixture::shared();
    let mut follower = fixture.hosts[1].follow(&Owner::Platform).unwrap();
    fixture.pass(1_000).await;
    fixture.store.inner.fail_reads();
    fixture.record(0, 1_000).await;
    fixture.pass(60_000).await;
    fixture.record(0, 60_000).await;
    fixture.store.inner.heal();
    fixture.pass(1_500).await;
    assert_eq!(received(&mut follower).await, [1_000, 60_000]);
    fixture.store.inner.fail_all(Fault::Before);
    fixture.pass(500).await;
    assert_eq!(received(&mut follower).await, [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn stored_events_are_joined_after_live_ones_are_followed() {
    let fixture = Fixture::shared();
    fixture.store.inner.fail_reads();
    let mut follower = fixture.hosts[1].follow(&Owner::Platform).unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(1), follower.started()).await.is_err(), "nothing could be read yet");
    fixture.store.inner.heal();
    tokio::time::timeout(Duration::from_secs(1), follower.started()).await.unwrap();
    let cursor = EventPosition::start_of(NOW);
    fixture.record(0, 1).await;
    assert_eq!(fixture.hosts[1].after(&Owner::Platform, &cursor, 9).await.unwrap().len(), 1);
    fixture.pass(600).await;
    assert_eq!(received(&mut follower).await, [1]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_where_nobody_follows_or_the_store_is_of_one_host() {
    let fixture = Fixture::shared();
    fixture.pass(10_000).await;
    assert_eq!(fixture.scans(), 0);
    let follower = fixture.hosts[1].follow(&Owner::Platform).unwrap();
    fixture.pass(1_000).await;
    let scans = fixture.scans();
    assert!((3..=6).contains(&scans), "{scans}");
    drop(follower);
    fixture.pass(10_000).await;
    assert!(fixture.scans() <= scans + 1, "{}", fixture.scans());

    let clock = Clock::fixed(NOW);
    let alone = Fixture::of(MemoryStore::new(), clock);
    let mut follower = alone.hosts[0].follow(&Owner::Platform).unwrap();
    follower.started().await;
    alone.record(0, 1).await;
    assert_eq!(received(&mut follower).await, [1], "at once");
    alone.pass(1_000).await;
    assert_eq!(alone.scans(), 0);
}
