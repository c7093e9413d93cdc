//! Replicas: the processes that serve one store, and what each knows of the others.
//!
//! Where a store is of one process there is no other replica, and all of this costs nothing: whoever was there before is known to be
//! gone. Where it is [shared](Store::is_shared), each replica
//!
//! - holds a lease, which it renews once a second, and which the store's clock judges: what it left is taken up by others once that is
//!   over ([`Replica::living`]), by commits that want it to be there still as it was left;
//! - hears each tenth of a second what others have changed of what it holds in memory ([`Replica::follow`]), and says how far it has
//!   heeded that, for whose change is answered once all have ([`Replica::told`]);
//! - tells others what it counts of keys that they count too, and hears theirs ([`Replica::exchange`]);
//! - does alone what one of them is to do at a time ([`Replica::alone`]);
//! - reads what each other writes, also of the version before or behind its own ([`formats`]);
//! - is [fenced](Replica::is_fenced) when it has not heard for two seconds, or holds no lease: what it holds in memory may be of yesterday.
//!
//! Two clocks decide, and each has a task of its own that waits for nothing else:
//!
//! - *Hearing* says whether memory is up to date. A replica that has not heard for two seconds takes no call, and the ops of its running
//!   calls fail. It keeps its lease: what it has reserved stays its own, and its payments settle once it hears again. Whoever makes a change
//!   waits for it for at most 2.5 seconds, by when it is fenced.
//! - The *lease* says whether the replica lives. While it lasts, nobody takes up the payments, jobs and tasks of the replica. It depends on the
//!   store alone: a change that takes long to apply, or a lock of the catalogue that somebody holds, ends no lease. Once it is over, others
//!   wait for the replica no more, so a replica that gets its lease back must hear again before it takes calls.
//!
//! A replica's id is of one life of its process, and never taken up again: there is no second number that tells lives apart.

#![warn(missing_docs)]

mod exchange;
mod follow;
mod formats;
mod jobs;
mod keys;
mod lease;
mod seen;
mod told;
mod versions;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, task::JoinHandle, time::Instant};
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::ReplicaId,
    steady::Steadiness,
};
use tollhouse_store::{Batch, Direction, Durability, Store, StoreError, update};

pub use self::{
    exchange::Tallies,
    follow::Followed,
    formats::{ANSWERS_APART, JoinError, PAYMENTS_UNRESOLVED, RECEIPTS_SHORT, SELLERS_KEPT, SOURCES_APART},
    jobs::Turn,
    keys::{ADMIN_TOKEN, MASTER_KEY, RECEIPT_KEY},
    lease::Living,
    seen::Seen,
    versions::readable,
};
use self::{
    formats::{Known, WRITTEN, are_read},
    lease::{KEPT_MS, LEASE_MS, Lease, REPLICAS},
};

/// How long a replica serves by what it has heard. Shorter than a lease: it stops before others take up what it has.
const HEEDED_FOR: Duration = Duration::from_secs(2);

/// How often a lease is renewed.
const RENEW_EVERY: Duration = Duration::from_secs(1);

/// How long one renewal may take before another is tried: two fit into a lease, with the wait before the first.
const RENEW_WITHIN: Duration = Duration::from_millis(1_500);

/// Between a renewal that failed and the next.
const RENEW_AGAIN: Duration = Duration::from_millis(50);

/// How far the clock of a replica may be from its store's, in milliseconds: payments and times of receipts go by its own.
pub const CLOCK_APART_MS: u64 = 1_000;

/// Leases that are read at once.
const SOME: usize = 1_000;

/// This process among those that serve its store.
pub struct Replica {
    store: Arc<dyn Store>,
    id: ReplicaId,
    shared: bool,
    /// This machine's.
    clock: Clock,
    /// What has that clock as it was, where nobody else is asked for the time.
    steadiness: Steadiness,
    /// The host's, which goes by the store's where that is shared.
    told: Clock,
    known: Known,
    /// Up to which form rows may be written, as far as it was asked for.
    written: AtomicU32,
    /// The number of the newest change that is heeded.
    applied: AtomicU64,
    contact: Mutex<Contact>,
    /// Wakes the task that renews the lease: others wait to read in it how far this replica has heeded changes.
    has_heeded: Arc<Notify>,
    /// What follows the others, and what renews the lease.
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// How this replica and the store stand.
#[derive(Debug, Clone, Copy, Default)]
struct Contact {
    /// When it was asked for what is heeded by now.
    heard: Option<Instant>,
    lease: Option<Held>,
    /// When the first lease was there of those that have followed each other without a gap. What was asked before counts as not heard.
    unbroken_from: Option<Instant>,
    /// How far this machine's clock was ahead of the store's when the lease was renewed, in milliseconds, as far as that is sure.
    ahead_ms: i64,
}

/// A lease, as its holder knows it.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// When it was asked for.
    asked: Instant,
    /// By the store's clock.
    until: Timestamp,
    /// Since when one followed the other without a gap, by the store's clock.
    since: Timestamp,
}

impl Contact {
    /// Counts as heard what was asked for at this moment, unless others may have gone without this replica since.
    fn hear(&mut self, asked: Instant) {
        if self.unbroken_from.is_none_or(|from| asked >= from) {
            self.heard = Some(asked);
        }
    }
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("id", &self.id).field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Replica {
    /// A replica of this store, which holds no lease yet.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Self::knowing(store, Clock::default(), formats::OWN)
    }

    /// A replica of this store which says to `told` what time it is there, from its [beginning](Replica::begin) on: days, ages and whatever
    /// else hosts have to agree on go by that.
    #[must_use]
    pub fn telling(store: Arc<dyn Store>, told: Clock) -> Arc<Self> {
        Self::on(store, Clock::default(), formats::OWN, told)
    }

    /// One on a machine with this clock.
    #[cfg(any(test, feature = "testing"))]
    pub fn with_clock(store: Arc<dyn Store>, clock: Clock) -> Arc<Self> {
        Self::knowing(store, clock, formats::OWN)
    }

    /// One of a version that reads and writes so, on a machine with this clock.
    fn knowing(store: Arc<dyn Store>, clock: Clock, known: Known) -> Arc<Self> {
        let told = clock.clone();
        Self::on(store, clock, known, told)
    }

    fn on(store: Arc<dyn Store>, clock: Clock, known: Known, told: Clock) -> Arc<Self> {
        let (id, shared) = (ReplicaId::generate(), store.is_shared());
        let written = AtomicU32::new(known.writes);
        Arc::new(Self {
            store,
            id,
            shared,
            steadiness: Steadiness::of(clock.clone()),
            clock,
            told,
            known,
            written,
            applied: AtomicU64::new(0),
            contact: Mutex::default(),
            has_heeded: Arc::default(),
            tasks: Mutex::default(),
        })
    }

    /// What others know it by.
    #[must_use]
    pub fn id(&self) -> &ReplicaId {
        &self.id
    }

    /// Whether others may serve the store.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Says what this version writes, and notes how far changes have come. Called before anything else of the store is read.
    ///
    /// # Errors
    ///
    /// Where the store, or another that serves it, is of a version too far from this one; the store's.
    pub async fn begin(&self) -> Result<(), JoinError> {
        self.agree_on_formats().await?;
        if self.shared {
            let asked = std::time::Instant::now();
            let there = self.store.now().await?;
            self.told.follow(there, asked);
            self.applied.store(self.store.changes(0, 0).await?.newest, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Whether others may have changed what this replica has not heard of: it takes no new call, and does nothing for those that run.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        if !self.shared {
            return false;
        }
        let Contact { heard, lease, .. } = *self.contact();
        let holds = |asked: Option<Instant>, long: Duration| asked.is_some_and(|asked| asked.elapsed() < long);
        !holds(heard, HEEDED_FOR) || !holds(lease.map(|lease| lease.asked), Duration::from_millis(LEASE_MS))
    }

    /// How far this machine's clock is ahead of the store's, in milliseconds, where that is too far: payments are judged by this machine's,
    /// and leases by the store's.
    #[must_use]
    pub fn clock_apart_ms(&self) -> Option<i64> {
        let ahead = self.contact().ahead_ms;
        is_apart(ahead).then_some(ahead)
    }

    /// Whether what is old may be told: not while this machine's clock is far from the store's, or has just jumped where nobody else is asked
    /// for the time.
    #[must_use]
    pub fn can_tell_ages(&self) -> bool {
        if self.shared { self.clock_apart_ms().is_none() } else { self.steadiness.is_steady() }
    }

    /// Says at what time something was done here last, before the start: [ages](Replica::can_tell_ages) are not told for an hour by a clock that
    /// is more than a day on, where nobody else is asked for the time.
    pub fn was_at(&self, before: Timestamp) {
        self.steadiness.doubt_since(before);
    }

    /// Why this replica takes no calls at the moment, where it is the clock of its machine.
    #[must_use]
    pub fn clock_is_wrong(&self) -> Option<String> {
        let (ms, side) = self.clock_apart_ms().map(|ahead| (ahead.unsigned_abs(), if ahead > 0 { "ahead of" } else { "behind" }))?;
        Some(format!("this machine's clock is {ms} ms {side} the database's: have both follow one time server"))
    }

    /// Who may be running now. Whoever was away from the store itself takes nobody for gone as long as a lease lasts: the others may have
    /// been away with it, and come back.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn living(&self) -> Result<Living, StoreError> {
        if !self.shared {
            return Ok(Living(Some([self.id.clone()].into())));
        }
        let now = self.store.now().await?;
        if !self.is_steady(now) {
            return Ok(Living(None));
        }
        Ok(Living(Some(self.holders(now).await?.chain([self.id.clone()]).collect())))
    }

    /// Whether this one has been in touch with the store for as long as a lease lasts: whoever has none by then is gone.
    fn is_steady(&self, now: Timestamp) -> bool {
        let steady = |held: Held| held.until > now && held.since.plus_millis(LEASE_MS) <= now;
        self.contact().lease.is_some_and(steady)
    }

    /// Gives the lease up: nobody waits for this replica any more. For the end of a process whose calls have ended.
    pub async fn leave(&self) {
        if !self.stop().await {
            return;
        }
        let mut batch = Batch::new();
        batch.delete(&REPLICAS, &self.id);
        Self::forget_formats(&mut batch, &self.id);
        if let Err(error) = batch.commit(&*self.store, Durability::Buffered).await {
            tracing::warn!(%error, "a lease could not be given up; it ends by itself");
        }
    }

    /// Ends what follows the others and what renews the lease; whether there was anything to end.
    async fn stop(&self) -> bool {
        let tasks = std::mem::take(&mut *self.tasks());
        for task in &tasks {
            task.abort();
        }
        let any = !tasks.is_empty();
        for task in tasks {
            _ = task.await;
        }
        any
    }

    /// Takes a lease from now on, in place of the one before. On disk: of one that a crash of the store took back others would see the
    /// end before its holder does.
    async fn renew(&self) -> Result<(), JoinError> {
        let renewing = update(&*self.store, Durability::Durable, |mut tx| async move {
            let (asked, here) = (Instant::now(), self.clock.now());
            // Whoever was away for longer than a lease counted for nothing meanwhile: the rows may be of a later version by now.
            are_read(tx.get(&WRITTEN, &()).await?.as_ref(), self.known.reads)?;
            // A commit that was given up and comes late does not put an earlier end in the place of this one.
            _ = tx.found(&REPLICAS, &self.id).await?;
            let (asked_now, now) = (std::time::Instant::now(), self.store.now().await?);
            self.told.follow(now, asked_now);
            let ahead_ms = ahead_for_sure(here, now, asked.elapsed());
            let until = now.plus_millis(LEASE_MS);
            let lease = Lease {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                started_ms: self.id.made_at().0,
                until_ms: until.0,
                applied: self.applied.load(Ordering::SeqCst),
            };
            tx.put(&REPLICAS, &self.id, &lease);
            self.say_formats(&mut tx);
            tx.answer::<_, JoinError>((Held { asked, until, since: now }, ahead_ms))
        });
        let (held, ahead_ms) = renewing.await?;
        let mut contact = self.contact();
        if contact.lease.is_none_or(|before| before.asked.elapsed() >= Duration::from_millis(LEASE_MS)) {
            // Who saw that it was over has waited for nobody here: what was heard before may be of yesterday.
            contact.heard = None;
            contact.unbroken_from = Some(Instant::now());
        }
        let since = contact.lease.filter(|before| before.until > held.since).map_or(held.since, |before| before.since);
        contact.lease = Some(Held { since, ..held });
        let was_apart = is_apart(std::mem::replace(&mut contact.ahead_ms, ahead_ms));
        drop(contact);
        if is_apart(ahead_ms) && !was_apart {
            tracing::warn!(
                ahead_ms,
                "this machine's clock is far from the database's: the host takes no calls, is not ready, and removes nothing for its age"
            );
        }
        Ok(())
    }

    /// Takes away the leases that ended long ago.
    async fn sweep(&self) -> Result<(), StoreError> {
        let now = self.store.now().await?;
        let mut batch = Batch::new();
        for (id, lease) in self.leases().await? {
            if lease.is_some_and(|lease| lease.until_ms.saturating_add(KEPT_MS) <= now.0) {
                batch.delete(&REPLICAS, &id);
                Self::forget_formats(&mut batch, &id);
            }
        }
        if batch.changes_nothing() { Ok(()) } else { batch.commit(&*self.store, Durability::Buffered).await.map(|_| ()) }
    }

    /// Whether another one serves the store.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn has_others(&self) -> Result<bool, StoreError> {
        if !self.shared {
            return Ok(false);
        }
        let now = self.store.now().await?;
        Ok(self.holders(now).await?.any(|id| id != self.id))
    }

    /// Whether this one holds a lease that is not over, by what the store has of it.
    async fn holds_lease(&self, id: Option<&ReplicaId>) -> Result<bool, StoreError> {
        let now = self.store.now().await?;
        Ok(self.holders(now).await?.any(|holder| Some(&holder) == id))
    }

    /// Whose leases are not over. What does not read is of a later version, which knows better.
    async fn holders(&self, now: Timestamp) -> Result<impl Iterator<Item = ReplicaId> + use<>, StoreError> {
        let held = move |lease: &Option<Lease>| lease.as_ref().is_none_or(|lease| !lease.is_over(now));
        Ok(self.leases().await?.into_iter().filter(move |(_, lease)| held(lease)).map(|(id, _)| id))
    }

    /// All leases; `None` stands for one that does not read.
    async fn leases(&self) -> Result<Vec<(ReplicaId, Option<Lease>)>, StoreError> {
        let (mut all, mut rest) = (Vec::new(), REPLICAS.all());
        loop {
            let page = REPLICAS.readable(&*self.store, &rest, SOME, Direction::Forward).await?;
            let Some((last, _)) = page.last() else { return Ok(all) };
            rest = rest.after(last);
            all.extend(page);
        }
    }

    fn contact(&self) -> MutexGuard<'_, Contact> {
        self.contact.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tasks(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_apart(ahead_ms: i64) -> bool {
    ahead_ms.unsigned_abs() > CLOCK_APART_MS
}

/// How far a clock that said `here` is ahead of one that said `there` within `took` from then on: by so much at least.
fn ahead_for_sure(here: Timestamp, there: Timestamp, took: Duration) -> i64 {
    let apart = |a: u64, b: u64| i64::try_from(a).unwrap_or(i64::MAX).saturating_sub(i64::try_from(b).unwrap_or(i64::MAX));
    let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let (least, most) = (apart(here.0, there.0), apart(here.0.saturating_add(took), there.0));
    if least > 0 { least } else { most.min(0) }
}

#[cfg(test)]
mod tests;
