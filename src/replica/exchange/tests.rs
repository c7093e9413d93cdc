use std::{num::NonZeroU32, sync::atomic::Ordering, time::Instant};

use tollhouse_base::{clock::Timestamp, failure_limiter::FailureLimiter, rate_limit::RateLimiter};
use tollhouse_store::{faulty::FaultyStore, memory::MemoryStore};

use super::*;

const NOW: Timestamp = Timestamp(1_800_000_000_000);

type Shared = Arc<FaultyStore<MemoryStore>>;

fn shared() -> (Shared, Clock) {
    let clock = Clock::fixed(NOW);
    (Arc::new(FaultyStore::new(MemoryStore::shared(clock.clone()))), clock)
}

/// A replica that counts requests and failures.
struct Counting {
    replica: Arc<Replica>,
    rate: Arc<RateLimiter<u8>>,
    failures: Arc<FailureLimiter<u8>>,
}

impl Counting {
    fn of(store: &Shared, clock: &Clock) -> Self {
        let replica = Replica::new(Arc::clone(store) as _);
        let rate = Arc::new(RateLimiter::new(NonZeroU32::new(50).unwrap()));
        let failures = Arc::new(FailureLimiter::new(NonZeroU32::new(10).unwrap(), Duration::from_secs(3_600)));
        replica.exchange(clock.clone(), vec![("rate", Arc::clone(&rate) as _), ("failures", Arc::clone(&failures) as _)]);
        Self { replica, rate, failures }
    }

    fn is_locked(&self, key: u8) -> bool {
        self.failures.wait(&key, now()).is_some()
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Advances the clock by `millis` milliseconds and runs `each` in each of them.
async fn pass(clock: &Clock, millis: u64, mut each: impl FnMut()) {
    for _ in 0..millis {
        each();
        clock.set(clock.now().plus_millis(1));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn sums(store: &Shared) -> usize {
    USED.rows().count(&**store, &USED.rows().all(), 1_000).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn three_hosts_exceed_the_limit_only_until_they_exchange_counts() {
    let (store, clock) = shared();
    let replicas = [(); 3].map(|()| Counting::of(&store, &clock));
    pass(&clock, 300, || {}).await;
    let (mut let_through, mut of_few) = (0, 0);
    let mut request = 0_u32;
    pass(&clock, 20_000, || {
        let all = replicas.iter().filter(|one| one.rate.wait(&1).is_none()).count();
        let_through += all;
        // Another key, whose rate at each replica is within the limit.
        request += 1;
        if request.is_multiple_of(100) {
            of_few += usize::from(replicas[(request / 100) as usize % 3].rate.wait(&2).is_none());
        }
    })
    .await;
    // A burst of a hundred, then fifty per second. Requests that the other two admit at first are deducted later.
    assert!((1_000..=100 + 20 * 50 + 3 * 50).contains(&let_through), "{let_through}");
    assert_eq!(of_few, 200);
}

#[tokio::test(start_paused = true)]
async fn a_lockout_spreads_to_other_hosts_within_half_a_second() {
    let (store, clock) = shared();
    let [one, other] = [(); 2].map(|()| Counting::of(&store, &clock));
    pass(&clock, 300, || {}).await;
    (0..10).for_each(|_| one.failures.count(7, now()));
    assert!(one.is_locked(7) && !other.is_locked(7));
    pass(&clock, 500, || {}).await;
    assert!(other.is_locked(7) && !other.is_locked(8));
    // A replica's own counts must not come back as if they were another replica's.
    let wait = one.failures.wait(&7, now()).unwrap();
    pass(&clock, 5_000, || {}).await;
    assert!(one.failures.wait(&7, now()).unwrap() < wait);
    pass(&clock, 2_000, || {}).await;
    assert!(!one.is_locked(7) && !other.is_locked(7));
    // A replica that starts later does not know of the failures, and one that cannot read continues on its own.
    let third = Counting::of(&store, &clock);
    store.fail_reads();
    pass(&clock, 1_000, || {}).await;
    assert!(!third.is_locked(7));
    (0..10).for_each(|_| one.failures.count(9, now()));
    pass(&clock, 1_000, || {}).await;
    assert!(one.is_locked(9) && !other.is_locked(9));
    store.heal();
    pass(&clock, 500, || {}).await;
    assert!(other.is_locked(9));
}

#[tokio::test(start_paused = true)]
async fn old_sums_are_deleted_and_idle_hosts_write_nothing() {
    let (store, clock) = shared();
    let [one, _other] = [(); 2].map(|()| Counting::of(&store, &clock));
    pass(&clock, 1_000, || {}).await;
    assert_eq!((store.commits(), sums(&store).await), (0, 0));
    (0..3).for_each(|_| one.failures.count(7, now()));
    pass(&clock, 500, || {}).await;
    assert_eq!((store.commits(), sums(&store).await), (1, 1));
    pass(&clock, 3 * PERIOD_MS + 1_000, || {}).await;
    assert_eq!(sums(&store).await, 0);
    let commits = store.commits();
    let ended = Arc::downgrade(&one.replica);
    drop(one.replica);
    assert_eq!(ended.strong_count(), 0);
    (0..3).for_each(|_| one.failures.count(7, now()));
    pass(&clock, 1_000, || {}).await;
    assert_eq!(store.commits(), commits, "nobody is left to tell for");
}

/// A state that follows no changes.
struct Stateless;

#[async_trait::async_trait]
impl crate::FollowedState for Stateless {
    async fn apply(&self, _: &[tollhouse_store::CommittedChange]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn reload(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Regression test: a host learned of a new one up to five seconds late, so both admitted the whole of a limit.
#[tokio::test(start_paused = true)]
async fn replica_is_counted_by_the_others_before_it_takes_calls() {
    let (store, clock) = shared();
    let replicas = [(); 3].map(|()| Counting::of(&store, &clock).replica);
    let state = Arc::new(Stateless);
    for (before, replica) in replicas.iter().enumerate() {
        replica.follow(Arc::clone(&state) as _).await.unwrap();
        let begun = tokio::time::Instant::now();
        replica.wait_until_counted().await;
        let counts: Vec<_> = replicas[..=before].iter().map(|replica| replica.counted().load(Ordering::Relaxed)).collect();
        assert!(counts.iter().all(|count| *count as usize == before + 1), "{counts:?}");
        assert_eq!(begun.elapsed().is_zero(), before == 0, "the first one waits for nobody");
    }
    replicas[2].leave().await;
    pass(&clock, 500, || {}).await;
    assert_eq!(replicas[0].counted().load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_store_exchanges_no_counts() {
    let (store, clock) = (Arc::new(FaultyStore::new(MemoryStore::new())), Clock::fixed(NOW));
    let one = Counting::of(&store, &clock);
    store.fail_reads();
    (0..10).for_each(|_| one.failures.count(7, now()));
    pass(&clock, 1_000, || {}).await;
    assert!(one.is_locked(7));
    assert_eq!((store.commits(), one.failures.take_used(9)), (0, vec![]));
}
