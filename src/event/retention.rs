//! Retention of events: by age and by count.

use std::{sync::Arc, time::Duration};

use tollhouse_store::{Direction, StoreError, TrimReport, maintain};

use super::{EVENTS, EventPosition, Events, feed::Position as _, of, read::stored_after};

/// How often excess events are removed.
const TRIM_INTERVAL: Duration = Duration::from_secs(1);

impl Events {
    /// Name of the round of [`Events::sweep`] in the store.
    pub const ROUND: &str = "events";

    /// Starts the tasks that remove excess events and deliver events of other hosts. They end when nobody holds the
    /// events. Call it inside a tokio runtime.
    pub fn start(self: &Arc<Self>) {
        self.pull();
        maintain(self, TRIM_INTERVAL, "removing excess events", |events, _| async move { events.trim().await });
    }

    /// Starts to deliver events that other hosts store.
    pub(super) fn pull(self: &Arc<Self>) {
        self.feed.pull(&self.store, |event| EventPosition::of(&event.id), stored_after);
    }

    /// Removes owners' events beyond the limit, once they exceed it by a tenth.
    ///
    /// # Errors
    ///
    /// Errors of the store. The next call tries the rest again.
    pub async fn trim(&self) -> Result<(), StoreError> {
        let max = self.settings.count + self.settings.count / 10;
        let many = |count: &Option<u64>| count.is_none_or(|count| count > max);
        let due: Vec<_> =
            self.counts.lock().iter().filter(|(_, count)| many(count)).map(|(share, count)| (share.clone(), *count)).collect();
        for (share, known) in due {
            // This count does not include what other hosts of the store have added or removed.
            let known = known.filter(|_| !self.store.is_shared());
            let trimmed = EVENTS.trim(&*self.store, &EVENTS.under(&of(&share)), self.settings.count, known).await?;
            EVENTS.expired(trimmed.map_or(0, |trimmed| trimmed.removed));
            let mut all = self.counts.lock();
            // The first count may miss events that were added meanwhile. They are counted again later.
            let now = all.get(&share).copied().flatten().filter(|_| known.is_some());
            all.insert(share, trimmed.map(|TrimReport { stored, removed }| now.unwrap_or(stored).saturating_sub(removed)));
        }
        Ok(())
    }

    /// Removes old events, in one turn of a [round](tollhouse_store::sweep_cursor) through owners that continues where the
    /// last sweep stopped. Counts from before become invalid.
    pub async fn sweep(&self) -> Result<(), StoreError> {
        let mut round = EVENTS.round(&*self.store, Self::ROUND, Direction::Forward, self.clock.now()).await?;
        if round.begins() {
            self.counts.lock().clear();
        }
        let oldest = EventPosition::start_of(self.oldest());
        while let Some((owner, first)) = round.next().await? {
            if first < oldest.0 {
                let old = EVENTS.under(&owner).before(&(owner.clone(), oldest.0.clone()));
                EVENTS.expire(&*self.store, &old).await?;
                self.counts.lock().remove(&owner.0);
            }
            round.past(&owner);
        }
        round.end().await
    }
}
