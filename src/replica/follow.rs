//! Following: keeps a replica's in-memory state up to date with changes by others, read from the change log.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tollhouse_store::{Change, Changes, StoreError};

use super::{RENEW_AGAIN, RENEW_EVERY, RENEW_WITHIN, Replica, formats::JoinError};

/// How often the change log is polled.
const HEAR_EVERY: Duration = Duration::from_millis(100);

/// Maximum number of changes read at once.
const SOME: usize = 256;

/// How often to check whether rows may be written in the newest format, until they may. The last host of an earlier
/// version may have left.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// Old leases are deleted once in this many checks.
const SWEEP_EVERY: u64 = 120;

/// State in memory that is derived from the store.
#[async_trait]
pub trait Followed: Send + Sync + 'static {
    /// Updates the state for these changes, some of which may be this replica's own.
    ///
    /// # Errors
    ///
    /// Errors of the store. The call is repeated.
    async fn heed(&self, changes: &[Change]) -> Result<(), StoreError>;

    /// Reloads all of the state from the store.
    ///
    /// # Errors
    ///
    /// Errors of the store. The call is repeated.
    async fn reload(&self) -> Result<(), StoreError>;
}

impl Replica {
    /// Takes a lease, and keeps `followed` up to date until nobody holds it or the replica. Does nothing if the store
    /// is not shared. Call it inside a tokio runtime.
    ///
    /// # Errors
    ///
    /// The same as for [`Replica::begin`].
    pub async fn follow(self: &Arc<Self>, followed: Arc<dyn Followed>) -> Result<(), JoinError> {
        if !self.shared {
            return Ok(());
        }
        self.hear(&*followed).await?;
        self.renew().await?;
        // Check again: another version may have started meanwhile without seeing the lease.
        self.agree_on_formats().await?;
        // Apply changes made before others saw the lease, which did not wait for this replica.
        self.hear(&*followed).await?;
        let followed = Arc::downgrade(&followed);
        let tasks = [
            tokio::spawn(hear_on(Arc::downgrade(self), followed.clone())),
            tokio::spawn(hold_lease(Arc::downgrade(self), followed.clone(), Arc::clone(&self.has_heeded))),
            tokio::spawn(keep_house(Arc::downgrade(self), followed)),
        ];
        self.tasks().extend(tasks);
        Ok(())
    }

    /// Reads and applies the changes since the last call.
    async fn hear(&self, followed: &dyn Followed) -> Result<(), StoreError> {
        loop {
            let asked = Instant::now();
            let after = self.applied.load(Ordering::SeqCst);
            let Changes { changes, newest, gone } = self.store.changes(after, SOME).await?;
            let applied = match changes.last() {
                _ if gone => {
                    followed.reload().await?;
                    newest
                }
                Some(last) => {
                    followed.heed(&changes).await?;
                    last.number
                }
                None => after,
            };
            if self.applied.swap(applied, Ordering::SeqCst) != applied {
                self.has_heeded.notify_one();
            }
            if applied >= newest {
                self.contact().hear(asked);
                return Ok(());
            }
        }
    }
}

/// Follows changes until nobody holds the replica or the followed state.
async fn hear_on(replica: Weak<Replica>, followed: Weak<dyn Followed>) {
    let mut tick = interval(HEAR_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut away = false;
    loop {
        tick.tick().await;
        let (Some(replica), Some(followed)) = (replica.upgrade(), followed.upgrade()) else { return };
        let heard = replica.hear(&*followed).await;
        if let (Err(error), false) = (&heard, away) {
            tracing::warn!(%error, "what other replicas change could not be heeded");
        }
        away = heard.is_err();
    }
}

/// Renews the lease once a second, and at once when changes were applied, until nobody holds the replica or the
/// followed state. It waits only for the store, and for no commit longer than [`RENEW_WITHIN`].
async fn hold_lease(replica: Weak<Replica>, followed: Weak<dyn Followed>, has_heeded: Arc<tokio::sync::Notify>) {
    let (mut next, mut away) = (Instant::now() + RENEW_EVERY, false);
    loop {
        tokio::select! {
            () = sleep_until(next) => {}
            () = has_heeded.notified() => {}
        }
        let Some(replica) = replica.upgrade().filter(|_| followed.strong_count() > 0) else { return };
        let began = Instant::now();
        let failed = match timeout(RENEW_WITHIN, replica.renew()).await {
            Ok(Ok(())) => None,
            // If a later version has written rows since, the replica stays fenced.
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("the store did not answer within {} ms", RENEW_WITHIN.as_millis())),
        };
        if let (Some(error), false) = (&failed, away) {
            tracing::warn!(error, "the lease of this replica could not be renewed; it is tried again");
        }
        away = failed.is_some();
        next = if away { Instant::now() + RENEW_AGAIN } else { began + RENEW_EVERY };
    }
}

/// Runs work without urgency: checks which formats rows may have, and deletes old leases.
async fn keep_house(replica: Weak<Replica>, followed: Weak<dyn Followed>) {
    let mut tick = interval(ASK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tick.tick().await;
    for number in 1_u64.. {
        tick.tick().await;
        let Some(replica) = replica.upgrade().filter(|_| followed.strong_count() > 0) else { return };
        let mut kept = replica.write_what_all_read().await;
        if number.is_multiple_of(SWEEP_EVERY) {
            kept = kept.and(replica.sweep().await);
        }
        if let Err(error) = kept {
            tracing::debug!(%error, "the store was not there for what replicas say of themselves");
        }
    }
}
