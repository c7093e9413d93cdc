//! Following: what others change of what a replica holds in memory, heard from the log of changes.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{Replica, formats::JoinError};
use crate::store::{Change, Changes, StoreError};

/// How often the log of changes is asked.
const HEAR_EVERY: Duration = Duration::from_millis(100);

/// Changes heard at once.
const SOME: usize = 256;

/// Every so many times that it is heard, leases of long ago are taken away.
const SWEEP_EVERY: u64 = 6_000;

/// Every so many times it is asked whether rows may be of the newest form, until they may: the last host of an earlier version may have left.
const ASK_EVERY: u64 = 50;

/// What is held in memory of the store.
#[async_trait]
pub trait Followed: Send + Sync + 'static {
    /// Makes what is held agree with what these have changed, some of which may be its own.
    ///
    /// # Errors
    ///
    /// The store's: it is asked again.
    async fn heed(&self, changes: &[Change]) -> Result<(), StoreError>;

    /// Makes all that is held agree with what is stored.
    ///
    /// # Errors
    ///
    /// The store's: it is asked again.
    async fn reload(&self) -> Result<(), StoreError>;
}

impl Replica {
    /// Takes a lease, and has `followed` heed from now on what others change, until nobody holds either of them. Nothing where nobody
    /// else can. Must be called inside a tokio runtime.
    ///
    /// # Errors
    ///
    /// As [`Replica::begin`]'s.
    pub async fn follow(self: &Arc<Self>, followed: Arc<dyn Followed>) -> Result<(), JoinError> {
        if !self.shared {
            return Ok(());
        }
        self.hear(&*followed).await?;
        self.renew().await?;
        // Again: another version may have begun since, which did not see the lease.
        self.agree_on_formats().await?;
        // What was changed before others saw the lease, and waited for nobody.
        self.hear(&*followed).await?;
        let (replica, followed) = (Arc::downgrade(self), Arc::downgrade(&followed));
        let task = tokio::spawn(async move {
            let mut tick = interval(HEAR_EVERY);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut away = false;
            for number in 1_u64.. {
                tick.tick().await;
                let (Some(replica), Some(followed)) = (replica.upgrade(), followed.upgrade()) else { return };
                let turned = replica.turn(&*followed, number).await;
                if let (Err(error), false) = (&turned, away) {
                    tracing::warn!(%error, "what other replicas change could not be heeded");
                }
                away = turned.is_err();
            }
        });
        *self.task() = Some(task);
        Ok(())
    }

    async fn turn(&self, followed: &dyn Followed, number: u64) -> Result<(), StoreError> {
        let before = self.applied.load(Ordering::SeqCst);
        self.hear(followed).await?;
        if self.applied.load(Ordering::SeqCst) != before || self.is_due() {
            self.renew().await.map_err(|error| match error {
                JoinError::Store(error) => error,
                // It stays fenced.
                JoinError::Later { .. } | JoinError::Earlier { .. } => StoreError::Away(error.to_string()),
            })?;
        }
        if number.is_multiple_of(ASK_EVERY) {
            self.write_what_all_read().await?;
        }
        if number.is_multiple_of(SWEEP_EVERY) { self.sweep().await } else { Ok(()) }
    }

    /// Hears what has changed since, and heeds it.
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
            self.applied.store(applied, Ordering::SeqCst);
            if applied >= newest {
                self.contact().heard = Some(asked);
                return Ok(());
            }
        }
    }
}
