//! Deletes old and excess calls.

use std::{sync::Arc, time::Duration};

use tollhouse_base::{boxed, id::EndpointId};
use tollhouse_store::{Batch, Direction, Durability, StoreError, maintain};

use super::{CALLS, History, Key, StoredCall, all_of, read::stored_after};

/// Interval between searches for excess calls.
const TRIM_EVERY: Duration = Duration::from_secs(1);
/// Number of packs read or deleted at once.
const SOME: usize = 256;

impl History {
    /// The store's name for the sweep of [`History::sweep`].
    pub const ROUND: &str = "calls";

    /// Starts the tasks that delete excess calls and announce calls stored by other hosts. They end when the history is
    /// dropped. Call it inside a tokio runtime.
    pub fn start(self: &Arc<Self>) {
        self.feed.pull(&self.store, |call: &StoredCall| call.position.clone(), stored_after);
        maintain(self, TRIM_EVERY, "removing the oldest calls over the limit", |history, _| async move { history.trim().await });
    }

    /// Deletes the excess calls of tools.
    ///
    /// # Errors
    ///
    /// Errors of the store. The next run deletes the rest.
    #[boxed]
    pub async fn trim(&self) -> Result<(), StoreError> {
        let max = self.settings.count + self.settings.count / 10;
        let due: Vec<_> =
            self.counts.lock().iter().filter(|(_, count)| count.is_none_or(|count| count > max)).map(|(id, _)| id.clone()).collect();
        for endpoint in due {
            // The count does not include what other hosts of the store have added or deleted.
            let known = self.counts.lock().get(&endpoint).copied().flatten().filter(|_| !self.store.is_shared());
            // Read the first pack before counting: a concurrent deletion deletes it, and is detected by that.
            let first = CALLS.first(&*self.store, &all_of(&endpoint)).await?;
            let stored = match known {
                Some(stored) => stored,
                None => self.count(&endpoint).await?,
            };
            let removed = self.remove(&endpoint, first, stored.saturating_sub(self.settings.count)).await?;
            // A counted tool may lack calls that came meanwhile, so it is counted again now and then.
            let mut counts = self.counts.lock();
            let now = counts.get(&endpoint).copied().flatten().filter(|_| known.is_some()).unwrap_or(stored);
            counts.insert(endpoint, removed.map(|removed| now.saturating_sub(removed)));
        }
        Ok(())
    }

    async fn count(&self, endpoint: &EndpointId) -> Result<u64, StoreError> {
        let (mut range, mut count) = (all_of(endpoint), 0);
        loop {
            let packs = CALLS.page(&*self.store, &range, SOME, Direction::Forward).await?;
            let Some(last) = packs.last() else { return Ok(count) };
            count += packs.iter().map(|row| row.value.items().count() as u64).sum::<u64>();
            range = range.after(&last.key);
        }
    }

    /// Deletes the oldest packs, starting at `first`, that have at most `excess` calls together. Returns the number of
    /// their calls, or `None` if somebody else deletes some. Then the next run finds the excess.
    async fn remove(&self, endpoint: &EndpointId, mut first: Option<Key>, excess: u64) -> Result<Option<u64>, StoreError> {
        let mut removed = 0;
        while removed < excess {
            let packs = CALLS.page(&*self.store, &all_of(endpoint), SOME, Direction::Forward).await?;
            let Some(oldest) = packs.first().filter(|oldest| first.as_ref() == Some(&oldest.key)) else { return Ok(None) };
            let mut batch = Batch::new();
            batch.holds(&CALLS, oldest);
            // The last pack of a full page is the first of the next.
            let whole = if packs.len() == SOME { SOME - 1 } else { packs.len() };
            let mut missing = 0;
            for pack in &packs[..whole] {
                let calls = pack.value.items().count() as u64;
                if removed + calls > excess {
                    break;
                }
                (removed, missing) = (removed + calls, missing + 1);
                batch.sweep(&CALLS, pack);
            }
            if missing == 0 {
                break;
            }
            match batch.commit(&*self.store, Durability::Buffered).await {
                Ok(_) => CALLS.expired(missing as u64),
                Err(StoreError::Conflict) => return Ok(None),
                Err(error) => return Err(error),
            }
            match packs.get(missing) {
                Some(next) => first = Some(next.key.clone()),
                None => break,
            }
        }
        Ok(Some(removed))
    }

    /// Deletes old calls of [some tools](tollhouse_store::sweep_cursor). Each call continues after the last tool of the
    /// previous one. Earlier counts are no longer valid afterwards.
    #[boxed]
    pub async fn sweep(&self) -> Result<(), StoreError> {
        let mut round = CALLS.round(&*self.store, Self::ROUND, Direction::Forward, self.clock.now()).await?;
        if round.begins() {
            self.counts.lock().clear();
        }
        let oldest = self.oldest();
        while let Some((own, first, ..)) = round.next().await? {
            if first < oldest {
                CALLS.expire(&*self.store, &CALLS.under(&own).before(&(own.clone(), oldest))).await?;
                self.counts.lock().remove(&own.0);
            }
            round.past(&own);
        }
        round.end().await
    }
}
