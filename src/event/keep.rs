//! How long events are kept: by age, and by count.

use std::{
    ops::Bound,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{Events, all_of, prefix};
use crate::store::{Direction, Durability, KeyRange, Space, StoreError, Write};

/// How often events that are too many are looked for.
const TRIM_EVERY: Duration = Duration::from_secs(1);
/// Every so many times, those that are too old as well.
const SWEEP_EVERY: u64 = 3_600;
/// Events read or removed at once.
const SCAN: usize = 500;

impl Events {
    /// Starts the task that removes old events; it ends when nobody holds the events any more. Must be called
    /// inside a tokio runtime.
    pub fn start(self: &Arc<Self>) {
        let events = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut tick = tokio::time::interval(TRIM_EVERY);
            for turn in 0_u64.. {
                tick.tick().await;
                let Some(events) = Weak::upgrade(&events) else { return };
                let swept = if turn.is_multiple_of(SWEEP_EVERY) { events.sweep().await } else { Ok(()) };
                if let Err(error) = swept.and(events.trim().await) {
                    tracing::warn!(%error, "the store was not there for sweeping events");
                }
            }
        });
    }

    /// Keeps count. An owner's first event since the last sweep has the others counted.
    pub(super) fn count(&self, share: &str) {
        let mut stored = self.stored();
        match stored.get_mut(share) {
            Some(count) => *count = count.map(|count| count + 1),
            None => _ = stored.insert(share.to_owned(), None),
        }
    }

    /// Removes what owners have beyond the count, once it is a tenth.
    ///
    /// # Errors
    ///
    /// The store's; the rest is tried again the next time.
    pub async fn trim(&self) -> Result<(), StoreError> {
        let most = self.settings.count + self.settings.count / 10;
        let many = |count: &Option<u64>| count.is_none_or(|count| count > most);
        let due: Vec<_> = self.stored().iter().filter(|(_, count)| many(count)).map(|(share, count)| (share.clone(), *count)).collect();
        for (share, known) in due {
            let stored = match known {
                Some(stored) => stored,
                None => self.count_stored(&share).await?,
            };
            let excess = stored.saturating_sub(self.settings.count);
            self.remove(&all_of(&share), excess).await?;
            let mut all = self.stored();
            // What came while they were counted for the first time may be missing, until they are counted anew.
            let now = all.get(&share).copied().flatten().unwrap_or(stored);
            all.insert(share, Some(now.saturating_sub(excess)));
        }
        Ok(())
    }

    async fn count_stored(&self, share: &str) -> Result<u64, StoreError> {
        let (mut range, mut stored) = (all_of(share), 0_u64);
        loop {
            let page = self.store.scan(Space::Events, range.clone(), SCAN, Direction::Forward).await?;
            let Some((last, _)) = page.last() else { return Ok(stored) };
            stored += page.len() as u64;
            range = range.after(last);
        }
    }

    /// Removes what is too old. Counts from before are wrong after.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn sweep(&self) -> Result<(), StoreError> {
        self.stored().clear();
        let oldest = self.oldest().0.to_be_bytes();
        let mut start = Bound::Unbounded;
        loop {
            let range = KeyRange { start, end: Bound::Unbounded };
            let first = self.store.scan(Space::Events, range, 1, Direction::Forward).await?;
            let Some((key, _)) = first.into_iter().next() else { return Ok(()) };
            let share = String::from_utf8_lossy(key.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
            let mut old = all_of(&share);
            old.end = Bound::Excluded([&prefix(&share)[..], &oldest].concat());
            self.remove(&old, u64::MAX).await?;
            start = Bound::Included([share.as_bytes(), &[1]].concat());
        }
    }

    /// Removes at most `limit` of the oldest events of `range`.
    async fn remove(&self, range: &KeyRange, mut limit: u64) -> Result<(), StoreError> {
        while limit > 0 {
            let some = usize::try_from(limit).unwrap_or(SCAN).min(SCAN);
            let page = self.store.scan(Space::Events, range.clone(), some, Direction::Forward).await?;
            if page.is_empty() {
                return Ok(());
            }
            limit -= page.len() as u64;
            let writes = page.into_iter().map(|(key, _)| Write::delete(Space::Events, key)).collect();
            self.store.commit(vec![], writes, Durability::Buffered).await?;
        }
        Ok(())
    }
}
