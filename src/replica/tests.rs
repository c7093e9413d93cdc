mod formats;

use std::sync::{Mutex, atomic::AtomicBool};

use async_trait::async_trait;
use tollhouse_base::clock::Clock;
use tollhouse_store::{
    Changes, CommittedChange, Space,
    faulty::{Fault, FaultyStore},
    memory::MemoryStore,
    test_wrappers::InterleavingStore,
};

use super::*;

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const LEASE: Duration = Duration::from_millis(LEASE_MS);

/// A replica's state: the numbers of the changes that it has applied.
#[derive(Debug, Default)]
struct AppliedChanges {
    applied: Mutex<Vec<u64>>,
    reloads: Mutex<usize>,
    fails: AtomicBool,
    /// Applying changes waits while a test locks this.
    pause: tokio::sync::Mutex<()>,
}

impl AppliedChanges {
    fn applied(&self) -> Vec<u64> {
        self.applied.lock().unwrap().clone()
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.fails.load(Ordering::SeqCst) { Err(StoreError::Away("a test".to_owned())) } else { Ok(()) }
    }
}

#[async_trait]
impl FollowedState for AppliedChanges {
    async fn apply(&self, changes: &[CommittedChange]) -> Result<(), StoreError> {
        self.check()?;
        _ = self.pause.lock().await;
        self.applied.lock().unwrap().extend(changes.iter().map(|change| change.number));
        Ok(())
    }

    async fn reload(&self) -> Result<(), StoreError> {
        self.check()?;
        *self.reloads.lock().unwrap() += 1;
        Ok(())
    }
}

/// Returns a store shared by several replicas, and its clock.
fn shared() -> (Arc<FaultyStore<MemoryStore>>, Clock) {
    let clock = Clock::fixed(NOW);
    (Arc::new(FaultyStore::new(MemoryStore::shared(clock.clone()))), clock)
}

/// Returns a replica that follows changes, and its state, on which it depends.
async fn replica(store: &Arc<FaultyStore<MemoryStore>>) -> (Arc<Replica>, Arc<AppliedChanges>) {
    let replica = Replica::new(Arc::clone(store) as _);
    replica.begin().await.unwrap();
    let holds = Arc::new(AppliedChanges::default());
    replica.follow(Arc::clone(&holds) as _).await.unwrap();
    (replica, holds)
}

/// Makes a change to a followed table.
async fn change(store: &(impl Store + ?Sized)) {
    let mut batch = Batch::new();
    batch.changelog.push((Space::Meta, b"policy".to_vec()));
    batch.commit(store, Durability::Buffered).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_change_is_confirmed_once_all_live_replicas_applied_it() {
    let (store, _) = shared();
    change(&*store).await;
    let ((one, ours), (_other, theirs)) = (replica(&store).await, replica(&store).await);
    tokio::time::sleep(Duration::from_millis(50)).await;
    change(&*store).await;
    let started = Instant::now();
    one.wait_until_applied().await;
    assert_eq!((ours.applied(), theirs.applied()), (vec![2], vec![2]), "what was before was read, and is not reported again");
    assert!(started.elapsed() <= Duration::from_millis(120), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn barrier_ignores_departed_replicas_and_outlasts_no_silent_lease() {
    let (store, clock) = shared();
    let ((one, _ours), (other, theirs), (third, _holds)) = (replica(&store).await, replica(&store).await, replica(&store).await);
    third.leave().await;
    let silent = Arc::clone(&other);
    drop(theirs);
    change(&*store).await;
    let started = Instant::now();
    one.wait_until_applied().await;
    assert!(started.elapsed() > APPLY_WINDOW && started.elapsed() < LEASE, "{:?}", started.elapsed());
    assert!(silent.is_fenced() && !one.is_fenced());
    clock.set(NOW.plus_millis(LEASE_MS - 1));
    one.renew().await.unwrap();
    clock.set(NOW.plus_millis(LEASE_MS));
    change(&*store).await;
    let started = Instant::now();
    one.wait_until_applied().await;
    assert!(started.elapsed() <= Duration::from_millis(120), "its lease is over");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_reads_no_changes_is_fenced_until_it_does() {
    let (store, _) = shared();
    let early = Replica::new(Arc::clone(&store) as _);
    assert!(early.is_fenced(), "it has read nothing yet");
    let (one, ours) = replica(&store).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!one.is_fenced());
    let heals = async |replica: &Replica| {
        tokio::time::sleep(Duration::from_millis(1_700)).await;
        assert!(!replica.is_fenced());
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert!(replica.is_fenced());
    };
    store.fail_reads();
    heals(&one).await;
    store.heal();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!one.is_fenced());
    // Changes that were read but not applied do not count as read.
    ours.fails.store(true, Ordering::SeqCst);
    change(&*store).await;
    heals(&one).await;
    ours.fails.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!one.is_fenced());
    assert_eq!(ours.applied(), [1]);
}

/// Regression: deleting a tool with many files ended the lease of its host.
#[tokio::test(start_paused = true)]
async fn a_replica_that_cannot_apply_changes_is_fenced_and_keeps_its_lease() {
    let (store, clock) = shared();
    let ((one, ours), (other, _theirs)) = (replica(&store).await, replica(&store).await);
    let still = ours.pause.lock().await;
    change(&*store).await;
    for second in 1..=10 {
        clock.set(NOW.plus_millis(second * 1_000));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(one.is_fenced(), "its memory is stale");
    assert!(other.living().await.unwrap().has(Some(one.id())), "nobody takes over its reservations");
    drop(still);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!one.is_fenced());
    assert_eq!(ours.applied(), [1]);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_renewal_is_retried() {
    let clock = Clock::fixed(NOW);
    let memory = Arc::new(MemoryStore::shared(clock.clone()));
    let watched = Replica::new(Arc::clone(&memory) as _);
    watched.begin().await.unwrap();
    // The third renewal of this replica never returns.
    let store = InterleavingStore::before_commit(3, Arc::clone(&memory), std::future::pending());
    let one = Replica::new(store as _);
    one.begin().await.unwrap();
    let holds = Arc::new(AppliedChanges::default());
    one.follow(Arc::clone(&holds) as _).await.unwrap();
    for second in 1..=10 {
        clock.set(NOW.plus_millis(second * 1_000));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!one.is_fenced(), "after {second} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_renewal_does_not_shorten_the_lease() {
    let clock = Clock::fixed(NOW);
    let memory = Arc::new(MemoryStore::shared(clock.clone()));
    let one = Replica::new(Arc::clone(&memory) as _);
    let id = one.id().clone();
    // A later renewal of the same replica is written just before this one.
    let (others, time) = (Arc::clone(&memory), clock.clone());
    let later = async move {
        time.set(NOW.plus_millis(1_000));
        let lease = Lease { version: String::new(), reads: 0, started_ms: 0, until_ms: NOW.0 + 1_000 + LEASE_MS, applied: 0 };
        REPLICAS.put(&id, &lease).commit(&*others, Durability::Buffered).await.unwrap();
    };
    let store = InterleavingStore::before_commit(1, Arc::clone(&memory), later);
    let late = Arc::new(Replica { id: one.id().clone(), ..Arc::into_inner(Replica::new(store as _)).unwrap() });
    late.renew().await.unwrap();
    let lease = REPLICAS.get(&*memory, one.id()).await.unwrap().unwrap();
    assert_eq!(lease.until_ms, NOW.0 + 1_000 + LEASE_MS);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_cannot_renew_its_lease_is_fenced() {
    let (store, _) = shared();
    let (one, _ours) = replica(&store).await;
    store.fail_all(tollhouse_store::faulty::Fault::Before);
    tokio::time::sleep(Duration::from_millis(3_100)).await;
    assert!(one.is_fenced());
    store.heal();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!one.is_fenced());
}

#[tokio::test(start_paused = true)]
async fn a_replica_with_an_expired_lease_is_fenced_until_it_caught_up() {
    let (store, _) = shared();
    let (one, _ours) = replica(&store).await;
    store.fail_all(tollhouse_store::faulty::Fault::Before);
    tokio::time::sleep(LEASE).await;
    store.heal();
    one.renew().await.unwrap();
    assert!(one.is_fenced());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!one.is_fenced());
    // A lease renewed in time leaves no gap.
    one.renew().await.unwrap();
    assert!(!one.is_fenced());
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_missed_too_much_reloads_everything() {
    let (store, _) = shared();
    let (one, ours) = replica(&store).await;
    for _ in 0..=tollhouse_store::MAX_CHANGES {
        change(store.inner()).await;
    }
    one.wait_until_applied().await;
    let reloads = *ours.reloads.lock().unwrap();
    assert_eq!((reloads, ours.applied()), (1, vec![]));
    change(&*store).await;
    one.wait_until_applied().await;
    let Changes { newest, .. } = store.changes(0, 0).await.unwrap();
    assert_eq!(ours.applied(), [newest]);
}

#[tokio::test(start_paused = true)]
async fn old_leases_are_deleted() {
    let (store, clock) = shared();
    let ((one, _ours), (_other, _theirs)) = (replica(&store).await, replica(&store).await);
    clock.set(NOW.plus_millis(LEASE_MS + RETENTION_MS - 1));
    one.sweep().await.unwrap();
    assert_eq!(one.leases().await.unwrap().len(), 2);
    clock.set(NOW.plus_millis(LEASE_MS + RETENTION_MS));
    one.renew().await.unwrap();
    one.sweep().await.unwrap();
    let remaining: Vec<_> = one.leases().await.unwrap().into_iter().map(|(id, _)| id).collect();
    assert_eq!(remaining, [one.id().clone()]);
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_store_has_one_replica_and_no_lease() {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let (one, _ours) = replica(&store).await;
    store.fail_reads();
    tokio::time::sleep(Duration::from_secs(60)).await;
    one.wait_until_applied().await;
    assert!(!one.is_fenced());
    let living = one.living().await.unwrap();
    assert!(living.has(Some(one.id())) && !living.has(Some(Replica::new(Arc::clone(&store) as _).id())) && !living.has(None));
    for _ in 0..2 {
        let hour = Duration::from_secs(3_600);
        assert_eq!(
            one.alone("job", hour, |_| async { Ok::<_, StoreError>(1) }).await.unwrap(),
            Some(1),
            "who is alone knows when it is due"
        );
    }
    assert_eq!(store.commits(), 1, "which forms of rows there are");
}

#[tokio::test(start_paused = true)]
async fn a_due_job_runs_at_one_replica_at_a_time() {
    const EVERY: Duration = Duration::from_secs(60);
    let (store, clock) = shared();
    let ((one, _ours), (other, _theirs)) = (replica(&store).await, replica(&store).await);
    let does = async |replica: &Arc<Replica>, done: Result<(), StoreError>| replica.alone("job", EVERY, |_| async { done }).await;
    let done = one.alone("job", EVERY, |_| async {
        assert_eq!(does(&other, Ok(())).await?, None, "somebody is at it");
        Ok::<_, StoreError>(())
    });
    assert_eq!(done.await.unwrap(), Some(()));
    for (later, replica, done) in [(59_999, &one, None), (59_999, &other, None), (60_000, &other, Some(())), (60_000, &one, None)] {
        clock.set(NOW.plus_millis(later));
        assert_eq!(does(replica, Ok(())).await.unwrap(), done, "after {later} ms");
    }
    clock.set(NOW.plus_millis(120_000));
    does(&one, Err(StoreError::Conflict)).await.unwrap_err();
    assert_eq!(does(&other, Ok(())).await.unwrap(), Some(()), "a failed job is due at once");
}

#[tokio::test(start_paused = true)]
async fn a_job_of_a_dead_replica_is_taken_over_and_its_late_writes_are_fenced() {
    let (store, clock) = shared();
    let ((one, _ours), (removed, theirs)) = (replica(&store).await, replica(&store).await);
    let late = removed.take_turn("job").await.unwrap().unwrap();
    drop(theirs);
    clock.set(NOW.plus_millis(LEASE_MS - 1));
    one.renew().await.unwrap();
    assert!(one.take_turn("job").await.unwrap().is_none(), "its lease is not over");
    clock.set(NOW.plus_millis(LEASE_MS));
    let taken = one.take_turn("job").await.unwrap().unwrap();
    let happens = async |turn: &JobRun| {
        let mut batch = Batch::new();
        batch.writes.push(tollhouse_store::Write::put(Space::Meta, "effect", "done"));
        turn.holds(&mut batch);
        batch.commit(&*store, Durability::Buffered).await.map(drop)
    };
    assert!(matches!(happens(&late).await, Err(StoreError::Conflict)));
    happens(&taken).await.unwrap();
    removed.end_turn(late, Duration::from_secs(3_600)).await.unwrap();
    one.end_turn(taken, Duration::ZERO).await.unwrap();
    assert!(one.take_turn("job").await.unwrap().is_some(), "the next turn is set by the replica that took it");
}

#[tokio::test(start_paused = true)]
async fn a_job_is_released_once_the_store_is_available() {
    let (store, _) = shared();
    let ((one, _ours), (other, _theirs)) = (replica(&store).await, replica(&store).await);
    let work = |_| async {
        store.fail_all(Fault::Before);
        Ok::<_, StoreError>(())
    };
    one.alone("job", Duration::ZERO, work).await.unwrap();
    store.heal();
    assert!(other.take_turn("job").await.unwrap().is_none(), "it is not given back yet");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(other.take_turn("job").await.unwrap().is_some());
}

#[test]
fn clock_difference_excludes_the_duration_of_the_request() {
    let ahead = |here: u64, there: u64, elapsed: u64| ahead_for_sure(Timestamp(here), Timestamp(there), Duration::from_millis(elapsed));
    assert_eq!(ahead(10_000, 10_000, 0), 0);
    assert_eq!(ahead(12_000, 10_000, 5_000), 2_000, "it was ahead before the question");
    assert_eq!(ahead(10_000, 12_000, 0), -2_000);
    assert_eq!(ahead(10_000, 12_000, 500), -1_500);
    assert_eq!(ahead(10_000, 12_000, 5_000), 0, "the answer took as long");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_clock_is_reported_until_it_is_fixed() {
    let (store, _) = shared();
    for (millis, apart) in [(NOW.0 + 1_001, Some(1_001)), (NOW.0 - 1_001, Some(-1_001)), (NOW.0 + 1_000, None)] {
        let clock = Clock::fixed(Timestamp(millis));
        let replica = Replica::knowing(Arc::clone(&store) as _, clock.clone(), super::formats::OWN);
        replica.begin().await.unwrap();
        let holds = Arc::new(AppliedChanges::default());
        replica.follow(Arc::clone(&holds) as _).await.unwrap();
        assert_eq!(replica.clock_apart_ms(), apart);
        clock.set(NOW);
        tokio::time::sleep(2 * RENEW_EVERY).await;
        assert_eq!(replica.clock_apart_ms(), None);
        replica.leave().await;
    }
}
