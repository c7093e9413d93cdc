//! How long events are kept: by age, and by count.

use std::{sync::Arc, time::Duration};

use tollhouse_store::{Direction, StoreError, Trimmed, keep_up};

use super::{EVENTS, EventPlace, Events, feed::Position as _, of, read::stored_after};

/// How often events that are too many are looked for.
const TRIM_EVERY: Duration = Duration::from_secs(1);

impl Events {
    /// What the store calls the round of [`Events::sweep`].
    pub const ROUND: &str = "events";

    /// Starts the tasks that remove what are too many, and tell what other hosts store; they end when nobody holds the events any more. Must
    /// be called inside a tokio runtime.
    pub fn start(self: &Arc<Self>) {
        self.pull();
        keep_up(self, TRIM_EVERY, "removing events that are too many", |events, _| async move { events.trim().await });
    }

    /// Starts to tell what other hosts store.
    pub(super) fn pull(self: &Arc<Self>) {
        let store = Arc::clone(&self.store);
        self.feed.pull(
            |event| EventPlace::of(&event.id),
            move |share, place, limit| {
                let store = Arc::clone(&store);
                async move { stored_after(&*store, &share, place, limit).await }
            },
        );
    }

    /// Keeps count. An owner's first event since the last sweep has the others counted.
    pub(super) fn count(&self, share: &str) {
        let mut stored = self.counts();
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
        let due: Vec<_> = self.counts().iter().filter(|(_, count)| many(count)).map(|(share, count)| (share.clone(), *count)).collect();
        for (share, known) in due {
            // What other hosts of the store have added or removed is not counted here.
            let known = known.filter(|_| !self.store.is_shared());
            let trimmed = EVENTS.trim(&*self.store, &EVENTS.under(&of(&share)), self.settings.count, known).await?;
            EVENTS.expired(trimmed.map_or(0, |trimmed| trimmed.removed));
            let mut all = self.counts();
            // What came while they were counted for the first time may be missing, until they are counted anew.
            let now = all.get(&share).copied().flatten().filter(|_| known.is_some());
            all.insert(share, trimmed.map(|Trimmed { stored, removed }| now.unwrap_or(stored).saturating_sub(removed)));
        }
        Ok(())
    }

    /// Removes what is too old of [some owners](tollhouse_store::round), those behind whom the last sweep had. Counts from before are wrong after.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn sweep(&self) -> Result<(), StoreError> {
        let mut round = EVENTS.round(&*self.store, Self::ROUND, Direction::Forward, self.clock.now()).await?;
        if round.begins() {
            self.counts().clear();
        }
        let oldest = EventPlace::start_of(self.oldest());
        while let Some((owner, first)) = round.next().await? {
            if first < oldest.0 {
                let old = EVENTS.under(&owner).before(&(owner.clone(), oldest.0.clone()));
                EVENTS.expire(&*self.store, &old).await?;
                self.counts().remove(&owner.0);
            }
            round.past(&owner);
        }
        round.end().await
    }
}
