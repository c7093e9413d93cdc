//! Following: keeps a replica's in-memory state up to date with changes by others, read from the change log. A change
//! is confirmed once every live replica has applied it.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tollhouse_store::{Changes, CommittedChange, StoreError};

use super::{RENEW_AGAIN, RENEW_EVERY, RENEW_WITHIN, Replica, formats::JoinError, outage};

/// How often the change log is polled.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// Maximum number of changes read at once.
const SOME: usize = 256;

/// How often old leases are deleted.
const SWEEP_EVERY: Duration = Duration::from_secs(600);

/// How often the progress of other replicas is read.
const PROGRESS_EVERY: Duration = Duration::from_millis(20);

/// Maximum wait for other replicas. A replica that has not read a change by then has been [fenced](super::APPLY_WINDOW)
/// for a while, and what it did before is over.
const WAITS: Duration = Duration::from_millis(2_500);

/// State in memory that is derived from the store.
#[async_trait]
pub trait FollowedState: Send + Sync + 'static {
    /// Updates the state for these changes, some of which may be this replica's own.
    /// After an error it is called again.
    async fn apply(&self, changes: &[CommittedChange]) -> Result<(), StoreError>;

    /// Reloads all of the state from the store.
    /// After an error it is called again.
    async fn reload(&self) -> Result<(), StoreError>;
}

impl Replica {
    /// Takes a lease, and keeps `followed` up to date until nobody holds it or the replica. Does nothing if the store
    /// is not shared. Call it inside a tokio runtime.
    pub async fn follow(self: &Arc<Self>, followed: Arc<dyn FollowedState>) -> Result<(), JoinError> {
        if !self.shared {
            return Ok(());
        }
        self.poll(&*followed).await?;
        self.renew().await?;
        // Check again: another version may have started meanwhile without seeing the lease.
        self.agree_on_formats().await?;
        // Apply changes made before others saw the lease, which did not wait for this replica.
        self.poll(&*followed).await?;
        let followed = Arc::downgrade(&followed);
        let (watched, while_followed) = (Arc::downgrade(self), followed.clone());
        let is_fenced = move || Some(watched.upgrade().filter(|_| while_followed.strong_count() > 0)?.is_fenced());
        let tasks = [
            tokio::spawn(poll_loop(Arc::downgrade(self), followed.clone())),
            tokio::spawn(hold_lease(Arc::downgrade(self), followed.clone(), Arc::clone(&self.last_applied))),
            tokio::spawn(run_sweeps(Arc::downgrade(self), followed)),
            tokio::spawn(outage::watch(is_fenced)),
        ];
        self.tasks.lock().extend(tasks);
        Ok(())
    }

    /// Reads and applies the changes since the last call.
    async fn poll(&self, followed: &dyn FollowedState) -> Result<(), StoreError> {
        loop {
            let request = Instant::now();
            let after = self.applied.load(Ordering::SeqCst);
            let Changes { changes, newest, truncated: removed } = self.store.changes(after, SOME).await?;
            let applied = match changes.last() {
                _ if removed => {
                    followed.reload().await?;
                    newest
                }
                Some(last) => {
                    followed.apply(&changes).await?;
                    last.number
                }
                None => after,
            };
            if self.applied.swap(applied, Ordering::SeqCst) != applied {
                self.last_applied.notify_one();
            }
            if applied >= newest {
                self.contact.lock().note_contact(request);
                return Ok(());
            }
        }
    }

    /// Waits until all replicas have applied all changes so far or are fenced. Returns at once if the store is not
    /// shared.
    pub async fn wait_until_applied(&self) {
        if !self.shared {
            return;
        }
        match tokio::time::timeout(WAITS, self.wait_for_all()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the progress of other replicas could not be read"),
            Err(_) => tracing::warn!("a replica did not apply a change in time; it accepts no calls until it does"),
        }
    }

    async fn wait_for_all(&self) -> Result<(), StoreError> {
        let newest = self.store.changes(self.applied.load(Ordering::SeqCst), 0).await?.newest;
        loop {
            let now = self.store.now().await?;
            let leases = self.leases().await?;
            if leases.iter().flat_map(|(_, lease)| lease).all(|lease| lease.is_over(now) || lease.applied >= newest) {
                return Ok(());
            }
            tokio::time::sleep(PROGRESS_EVERY).await;
        }
    }
}

/// Follows changes until nobody holds the replica or the followed state.
async fn poll_loop(replica: Weak<Replica>, followed: Weak<dyn FollowedState>) {
    let mut tick = interval(POLL_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut away = false;
    loop {
        tick.tick().await;
        let (Some(replica), Some(followed)) = (replica.upgrade(), followed.upgrade()) else { return };
        let received = replica.poll(&*followed).await;
        if let (Err(error), false) = (&received, away) {
            tracing::warn!(%error, "the changes of other replicas could not be applied");
        }
        away = received.is_err();
    }
}

/// Renews the lease once a second, and at once when changes were applied, until nobody holds the replica or the
/// followed state. It waits only for the store, and for no commit longer than [`RENEW_WITHIN`].
async fn hold_lease(replica: Weak<Replica>, followed: Weak<dyn FollowedState>, has_applied: Arc<tokio::sync::Notify>) {
    let (mut next, mut away) = (Instant::now() + RENEW_EVERY, false);
    loop {
        tokio::select! {
            () = sleep_until(next) => {}
            () = has_applied.notified() => {}
        }
        let Some(replica) = replica.upgrade().filter(|_| followed.strong_count() > 0) else { return };
        let started = Instant::now();
        let failed = match timeout(RENEW_WITHIN, replica.renew()).await {
            Ok(Ok(())) => None,
            // If a later version has written rows since, the replica stays fenced.
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("the store did not answer within {} ms", RENEW_WITHIN.as_millis())),
        };
        if let (Some(error), false) = (&failed, away) {
            tracing::warn!(error, "the lease of this replica could not be renewed; the host will try again");
        }
        away = failed.is_some();
        next = if away { Instant::now() + RENEW_AGAIN } else { started + RENEW_EVERY };
    }
}

/// Deletes old leases.
async fn run_sweeps(replica: Weak<Replica>, followed: Weak<dyn FollowedState>) {
    let mut tick = interval(SWEEP_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tick.tick().await;
    loop {
        tick.tick().await;
        let Some(replica) = replica.upgrade().filter(|_| followed.strong_count() > 0) else { return };
        if let Err(error) = replica.sweep().await {
            tracing::debug!(%error, "old leases could not be deleted: the store is unavailable");
        }
    }
}
