//! Replicas: the processes that serve one store, and what each knows of the others.
//!
//! If the store is not shared, there is only one replica, and all of this costs nothing: any earlier process is known
//! to be gone. If it is [shared](Store::is_shared), each replica
//!
//! - holds a lease, which it renews once a second and which expires by the store's clock. After that, others take over
//!   its work ([`Replica::living`]), with commits that require it to be unchanged;
//! - reads ten times a second what others have changed of its in-memory state ([`Replica::follow`]), and publishes how
//!   far it has applied changes, because a change is confirmed once all replicas have applied it ([`Replica::wait_until_applied`]);
//! - exchanges counts of common keys with the others, and counts them ([`Replica::exchange`]);
//! - runs jobs that only one replica may run at a time ([`Replica::alone`]);
//! - reads rows that the others write, including those of the previous or next version ([`formats`]);
//! - is [fenced](Replica::is_fenced) if it has not read changes for two seconds or holds no lease, because its
//!   in-memory state may be stale.
//!
//! There are two time limits, and each has a task of its own that waits for nothing else:
//!
//! - *Reading changes* keeps memory up to date. A replica that has read none for two seconds accepts no calls, and the
//!   ops of its running calls fail. It keeps its lease: its reservations stay its own, and its payments settle once it
//!   reads changes again. The author of a change waits for it for at most 2.5 seconds, by which time it is fenced.
//! - The *lease* shows whether the replica lives. While it lasts, nobody takes over the replica's payments, jobs and
//!   tasks. It depends on the store alone: a change that takes long to apply, or a held lock of the catalog, does not
//!   end a lease. Once it has expired, others no longer wait for the replica, so a replica that gets its lease back
//!   must read all changes before it accepts calls.
//!
//! A replica's id belongs to one run of its process and is never reused, so that no other number is needed to tell runs
//! apart.

#![warn(missing_docs)]

mod exchange;
mod follow;
mod formats;
mod jobs;
mod keys;
mod lease;
mod outage;
mod versions;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, task::JoinHandle, time::Instant};
use tollhouse_base::{
    clock::{Clock, Timestamp},
    clock_steadiness::Steadiness,
    id::ReplicaId,
    lock::Lock,
};
use tollhouse_store::{Batch, Direction, Durability, Store, StoreError, update};

pub use self::{
    exchange::SharedCounts,
    follow::FollowedState,
    formats::JoinError,
    jobs::JobRun,
    keys::{ADMIN_TOKEN, MASTER_KEY, PAYMENT_SETTINGS, RECEIPT_KEY},
    lease::LiveReplicas,
    versions::{SeenReplica, readable},
};
use self::{
    formats::{KnownFormats, WRITTEN, are_read},
    lease::{LEASE_MS, Lease, REPLICAS, RETENTION_MS},
};

/// How long a replica serves after it last read changes. It is shorter than a lease, so that the replica stops before
/// others take over.
const APPLY_WINDOW: Duration = Duration::from_secs(2);

/// How often a lease is renewed.
const RENEW_EVERY: Duration = Duration::from_secs(1);

/// Timeout of one renewal before another attempt. Two attempts fit into a lease, including the interval before the
/// first.
const RENEW_WITHIN: Duration = Duration::from_millis(1_500);

/// Delay after a failed renewal.
const RENEW_AGAIN: Duration = Duration::from_millis(50);

/// How far a replica's clock may differ from the store's, in milliseconds. Payments and the times of receipts use the
/// replica's clock.
pub const CLOCK_APART_MS: u64 = 1_000;

/// Maximum number of leases read at once.
const SOME: usize = 1_000;

/// This process, as one of the replicas of its store.
pub struct Replica {
    store: Arc<dyn Store>,
    id: ReplicaId,
    shared: bool,
    /// This machine's clock.
    clock: Clock,
    /// Watches that clock for jumps if the store is not shared.
    steadiness: Steadiness,
    /// The host's clock. It follows the store's clock if that is shared.
    db_clock: Clock,
    known: KnownFormats,
    /// Number of the newest change that was applied.
    applied: AtomicU64,
    /// Number of replicas, including this one, when they were last counted.
    counted: Arc<AtomicU32>,
    contact: Lock<StoreContact>,
    /// Wakes the task that renews the lease, in which others read how far this replica has applied changes.
    last_applied: Arc<Notify>,
    /// The tasks that follow changes and renew the lease.
    tasks: Lock<Vec<JoinHandle<()>>>,
}

/// The state of the contact between this replica and the store.
#[derive(Debug, Clone, Copy, Default)]
struct StoreContact {
    /// When the request for the changes applied so far was sent.
    last_contact: Option<Instant>,
    lease: Option<HeldLease>,
    /// When the current unbroken series of leases began. Changes requested before that do not count as read.
    unbroken_from: Option<Instant>,
    /// How far this machine's clock was certainly ahead of the store's at the last renewal, in milliseconds.
    ahead_ms: i64,
}

/// A lease, from its holder's point of view.
#[derive(Debug, Clone, Copy)]
struct HeldLease {
    /// When it was requested.
    requested: Instant,
    /// Its expiry by the store's clock.
    until: Timestamp,
    /// Start of the unbroken series of leases, by the store's clock.
    since: Timestamp,
}

impl StoreContact {
    /// Records that changes requested at `request` have been read, unless there was a gap in the leases since.
    fn note_contact(&mut self, request: Instant) {
        if self.unbroken_from.is_none_or(|from| request >= from) {
            self.last_contact = Some(request);
        }
    }
}

impl Replica {
    /// Creates a replica of this store, without a lease.
    pub fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Self::knowing(store, Clock::default(), formats::OWN)
    }

    /// Creates a replica of this store that sets `db_clock` to the store's time, from [`Replica::begin`] on.
    /// Days, ages and everything else that hosts must agree on use that clock.
    pub fn with_db_clock(store: Arc<dyn Store>, db_clock: Clock) -> Arc<Self> {
        Self::on(store, Clock::default(), formats::OWN, db_clock)
    }

    /// Creates a replica on a machine with this clock.
    #[cfg(any(test, feature = "testing"))]
    pub fn with_clock(store: Arc<dyn Store>, clock: Clock) -> Arc<Self> {
        Self::knowing(store, clock, formats::OWN)
    }

    /// Creates a replica of a version with these formats, on a machine with this clock.
    fn knowing(store: Arc<dyn Store>, clock: Clock, known: KnownFormats) -> Arc<Self> {
        let db_clock = clock.clone();
        Self::on(store, clock, known, db_clock)
    }

    fn on(store: Arc<dyn Store>, clock: Clock, known: KnownFormats, db_clock: Clock) -> Arc<Self> {
        let (id, shared) = (ReplicaId::generate(), store.is_shared());
        Arc::new(Self {
            store,
            id,
            shared,
            steadiness: Steadiness::of(clock.clone()),
            clock,
            db_clock,
            known,
            applied: AtomicU64::new(0),
            counted: Arc::new(AtomicU32::new(1)),
            contact: Lock::default(),
            last_applied: Arc::default(),
            tasks: Lock::default(),
        })
    }

    /// Returns the id of this replica.
    pub fn id(&self) -> &ReplicaId {
        &self.id
    }

    /// Returns whether others can serve the store.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Records the formats that this version writes, and notes the newest change. Call it before anything else is read
    /// from the store.
    ///
    /// # Errors
    ///
    /// The version of the store or of another host is too far from this one. Errors of the store.
    pub async fn begin(&self) -> Result<(), JoinError> {
        self.agree_on_formats().await?;
        if self.shared {
            let request = std::time::Instant::now();
            let there = self.store.now().await?;
            self.db_clock.follow_remote(there, request);
            self.applied.store(self.store.changes(0, 0).await?.newest, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Returns whether others may have made changes that this replica does not know of. It then accepts no new calls,
    /// and its running calls fail.
    pub fn is_fenced(&self) -> bool {
        if !self.shared {
            return false;
        }
        let StoreContact { last_contact: received, lease, .. } = *self.contact.lock();
        let holds = |request: Option<Instant>, long: Duration| request.is_some_and(|request| request.elapsed() < long);
        !holds(received, APPLY_WINDOW) || !holds(lease.map(|lease| lease.requested), Duration::from_millis(LEASE_MS))
    }

    /// Returns how far this machine's clock is ahead of the store's, in milliseconds, if that is too far. Payments are
    /// judged by this machine's clock, leases by the store's.
    pub fn clock_apart_ms(&self) -> Option<i64> {
        let ahead = self.contact.lock().ahead_ms;
        is_apart(ahead).then_some(ahead)
    }

    /// Returns whether ages can be trusted. They cannot while this machine's clock is far from the store's, or, if the
    /// store is not shared, has just jumped.
    pub fn can_expire(&self) -> bool {
        if self.shared { self.clock_apart_ms().is_none() } else { self.steadiness.is_steady() }
    }

    /// Records when something was last done here before the start. If the store is not shared and the clock is more
    /// than a day further on, [ages](Replica::can_expire) are not trusted for an hour.
    pub fn was_at(&self, before: Timestamp) {
        self.steadiness.unsteady_since(before);
    }

    /// Returns why this replica accepts no calls at the moment, if the reason is its machine's clock.
    pub fn clock_is_wrong(&self) -> Option<String> {
        let (ms, side) = self.clock_apart_ms().map(|ahead| (ahead.unsigned_abs(), if ahead > 0 { "ahead of" } else { "behind" }))?;
        Some(format!("this machine's clock is {ms} ms {side} the database's: use the same time server for both"))
    }

    /// Returns the replicas that may be running. If this replica itself has lost contact with the store, nobody counts
    /// as gone for the duration of a lease, because the others may have lost contact with it too.
    pub async fn living(&self) -> Result<LiveReplicas, StoreError> {
        if !self.shared {
            return Ok(LiveReplicas(Some([self.id.clone()].into())));
        }
        let now = self.store.now().await?;
        if !self.is_steady(now) {
            return Ok(LiveReplicas(None));
        }
        Ok(LiveReplicas(Some(self.holders(now).await?.chain([self.id.clone()]).collect())))
    }

    /// Returns the number of replicas with valid leases, including this one. A replica that was killed counts until its
    /// lease is over.
    pub async fn count(&self) -> Result<u32, StoreError> {
        if !self.shared {
            return Ok(1);
        }
        let holders = self.holders(self.store.now().await?).await?;
        let counted = u32::try_from(holders.filter(|id| *id != self.id).count()).unwrap_or(u32::MAX).saturating_add(1);
        self.counted.store(counted, Ordering::Relaxed);
        Ok(counted)
    }

    /// Returns the last [count](Self::count) of replicas, at least 1, to read at any time. Each exchange updates it.
    pub fn counted(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.counted)
    }

    /// Returns whether this replica has been in contact with the store for the duration of a lease. By then, replicas
    /// without a lease are gone.
    fn is_steady(&self, now: Timestamp) -> bool {
        let steady = |held: HeldLease| held.until > now && held.since.plus_millis(LEASE_MS) <= now;
        self.contact.lock().lease.is_some_and(steady)
    }

    /// Gives up the lease, so that nobody waits for this replica. Call it at shutdown, after all calls have ended.
    pub async fn leave(&self) {
        if !self.stop().await {
            return;
        }
        let mut batch = Batch::new();
        batch.delete(&REPLICAS, &self.id);
        if let Err(error) = batch.commit(&*self.store, Durability::Buffered).await {
            tracing::warn!(%error, "a lease could not be released; it expires on its own");
        }
    }

    /// Stops the tasks that follow changes and renew the lease. Returns whether there were any.
    async fn stop(&self) -> bool {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in &tasks {
            task.abort();
        }
        let any = !tasks.is_empty();
        for task in tasks {
            _ = task.await;
        }
        any
    }

    /// Takes or renews the lease. The commit is durable: if a crash of the store undid it, others would see the lease
    /// expire before its holder does.
    async fn renew(&self) -> Result<(), JoinError> {
        let renewing = update(&*self.store, Durability::Durable, |mut tx| async move {
            let (request, here) = (Instant::now(), self.clock.now());
            // After a gap longer than a lease, others ignored this replica, and rows may now be of a later version.
            are_read(tx.get(&WRITTEN, &()).await?.as_ref(), self.known.reads)?;
            // A renewal that was given up and arrives late must not replace a later expiry with an earlier one.
            _ = tx.found(&REPLICAS, &self.id).await?;
            let (asked_now, now) = (std::time::Instant::now(), self.store.now().await?);
            self.db_clock.follow_remote(now, asked_now);
            let ahead_ms = ahead_for_sure(here, now, request.elapsed());
            let until = now.plus_millis(LEASE_MS);
            let lease = Lease {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                reads: self.known.reads,
                started_ms: self.id.made_at().0,
                until_ms: until.0,
                applied: self.applied.load(Ordering::SeqCst),
            };
            tx.put(&REPLICAS, &self.id, &lease);
            tx.answer::<_, JoinError>((HeldLease { requested: request, until, since: now }, ahead_ms))
        });
        let (held, ahead_ms) = renewing.await?;
        let mut contact = self.contact.lock();
        if contact.lease.is_none_or(|before| before.requested.elapsed() >= Duration::from_millis(LEASE_MS)) {
            // A replica that saw the lease expire has not waited for this one, so what was read before may be stale.
            contact.last_contact = None;
            contact.unbroken_from = Some(Instant::now());
        }
        let since = contact.lease.filter(|before| before.until > held.since).map_or(held.since, |before| before.since);
        contact.lease = Some(HeldLease { since, ..held });
        let was_apart = is_apart(std::mem::replace(&mut contact.ahead_ms, ahead_ms));
        drop(contact);
        if is_apart(ahead_ms) && !was_apart {
            tracing::warn!(
                ahead_ms,
                "this machine's clock differs too much from the database's: the host accepts no calls, is not ready, and removes nothing because of its age"
            );
        }
        Ok(())
    }

    /// Deletes leases that expired long ago.
    async fn sweep(&self) -> Result<(), StoreError> {
        let now = self.store.now().await?;
        let mut batch = Batch::new();
        for (id, lease) in self.leases().await? {
            if lease.is_some_and(|lease| lease.until_ms.saturating_add(RETENTION_MS) <= now.0) {
                batch.delete(&REPLICAS, &id);
            }
        }
        if batch.changes_nothing() { Ok(()) } else { batch.commit(&*self.store, Durability::Buffered).await.map(|_| ()) }
    }

    /// Returns whether another replica serves the store.
    pub async fn has_others(&self) -> Result<bool, StoreError> {
        if !self.shared {
            return Ok(false);
        }
        let now = self.store.now().await?;
        Ok(self.holders(now).await?.any(|id| id != self.id))
    }

    /// Returns whether the store has a valid lease of this replica.
    async fn holds_lease(&self, id: Option<&ReplicaId>) -> Result<bool, StoreError> {
        let now = self.store.now().await?;
        Ok(self.holders(now).await?.any(|holder| Some(&holder) == id))
    }

    /// Returns the replicas with valid leases. A malformed lease is of a later version and counts as valid.
    async fn holders(&self, now: Timestamp) -> Result<impl Iterator<Item = ReplicaId> + use<>, StoreError> {
        let held = move |lease: &Option<Lease>| lease.as_ref().is_none_or(|lease| !lease.is_over(now));
        Ok(self.leases().await?.into_iter().filter(move |(_, lease)| held(lease)).map(|(id, _)| id))
    }

    /// Returns all leases, with `None` for a malformed one.
    async fn leases(&self) -> Result<Vec<(ReplicaId, Option<Lease>)>, StoreError> {
        let (mut all, mut rest) = (Vec::new(), REPLICAS.all());
        loop {
            let page = REPLICAS.readable(&*self.store, &rest, SOME, Direction::Forward).await?;
            let Some((last, _)) = page.last() else { return Ok(all) };
            rest = rest.after(last);
            all.extend(page);
        }
    }
}

fn is_apart(ahead_ms: i64) -> bool {
    ahead_ms.unsigned_abs() > CLOCK_APART_MS
}

/// Returns how far a clock that showed `here` is certainly ahead of one that showed `there` at some time within `elapsed`
/// after that.
fn ahead_for_sure(here: Timestamp, there: Timestamp, elapsed: Duration) -> i64 {
    let difference = |a: u64, b: u64| i64::try_from(a).unwrap_or(i64::MAX).saturating_sub(i64::try_from(b).unwrap_or(i64::MAX));
    let elapsed = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    let (least, max) = (difference(here.0, there.0), difference(here.0.saturating_add(elapsed), there.0));
    if least > 0 { least } else { max.min(0) }
}

#[cfg(test)]
mod tests;
