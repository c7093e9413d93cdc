//! Pulling: delivers entries that all hosts of a store write to followers on this host.
//!
//! Every quarter of a second, new entries of the followed subjects are read and delivered in order of time. Without
//! followers, nothing is read. Entries younger than [`SETTLED_MS`] are left for the next turn, so that an older entry
//! that takes longer to reach the store still comes first. An entry that arrives even later is delivered when it is
//! found, up to [`OVERLAP_MS`] after its time. Nothing is delivered twice.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tollhouse_base::clock::Timestamp;
use tollhouse_store::{Store, StoreError};

use super::feed::{BUFFER, Feed, Position};

/// How often the store is polled.
const PULL_INTERVAL: Duration = Duration::from_millis(250);

/// Minimum age of an entry to be delivered. Entries written after their answers reach the store sooner than that.
const SETTLED_MS: u64 = 250;

/// How far each read overlaps with the one before, which is how late after its time an entry may be stored.
const OVERLAP_MS: u64 = 10_000;

/// Number of entries read at once.
const PAGE: usize = 250;

/// Number of entries delivered at once. Then followers get time to take them.
const BURST: usize = BUFFER / 4;

/// Time for followers to take a burst of entries.
const PACE: Duration = Duration::from_millis(5);

/// Progress of pulling one subject.
struct PullProgress<P> {
    since: Timestamp,
    /// When everything stored so far was read.
    read_at: Timestamp,
    started: bool,
    /// Delivered entries that the next read will find again.
    published: BTreeSet<P>,
}

impl<T: Send + Sync + 'static> Feed<Arc<T>> {
    /// Starts the task that delivers stored entries. It ends when nobody holds the feed. Does nothing if the store is
    /// not shared. `read` returns up to a number of entries of a subject after a position, oldest first. `position`
    /// returns the position of an entry. Call it inside a tokio runtime.
    pub fn pull<P, Read, Reading>(self: &Arc<Self>, store: &Arc<dyn Store>, position: fn(&T) -> P, read: Read)
    where
        P: Position + 'static,
        Read: Fn(Arc<dyn Store>, String, P, usize) -> Reading + Send + Sync + 'static,
        Reading: Future<Output = Result<Vec<T>, StoreError>> + Send,
    {
        let Some(clock) = self.clock().cloned() else { return };
        let (feed, store) = (Arc::downgrade(self), Arc::clone(store));
        let read = move |subject, after, limit| read(Arc::clone(&store), subject, after, limit);
        tokio::spawn(async move {
            let (mut subjects, mut away) = (HashMap::<String, PullProgress<P>>::new(), false);
            let mut tick = interval(PULL_INTERVAL);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                let Some(feed) = feed.upgrade() else { return };
                let followed = feed.followed();
                subjects.retain(|subject, _| followed.contains_key(subject));
                for (subject, since) in followed {
                    subjects.entry(subject).or_insert_with(|| PullProgress::since(since));
                }
                let turns = subjects.iter_mut().map(|(subject, pulled)| pulled.turn(&feed, subject, clock.now(), position, &read));
                let failed = join_all(turns).await.into_iter().find_map(Result::err);
                if let (Some(error), false) = (&failed, away) {
                    tracing::warn!(%error, "new entries for followers could not be read yet");
                }
                away = failed.is_some();
            }
        });
    }
}

impl<P: Position> PullProgress<P> {
    fn since(since: Timestamp) -> Self {
        Self { since, read_at: since, started: false, published: BTreeSet::new() }
    }

    /// Delivers entries that are new at `now`.
    async fn turn<T, Read, Reading>(
        &mut self,
        feed: &Feed<Arc<T>>,
        subject: &str,
        now: Timestamp,
        position: fn(&T) -> P,
        read: &Read,
    ) -> Result<(), StoreError>
    where
        Read: Fn(String, P, usize) -> Reading,
        Reading: Future<Output = Result<Vec<T>, StoreError>>,
    {
        let settled = P::start_of(Timestamp(now.0.saturating_sub(SETTLED_MS)));
        let (mut from, mut reported) = (before::<P>(self.read_at), 0);
        'pages: loop {
            let page = read(subject.to_owned(), from.clone(), PAGE).await?;
            let is_last = page.len() < PAGE;
            for entry in page {
                from = position(&entry);
                let was_before = !self.started && from.at() < self.since;
                if !was_before && from >= settled {
                    break 'pages;
                }
                if self.published.insert(from.clone()) && !was_before {
                    feed.send(subject, || Arc::new(entry));
                    reported += 1;
                    if reported % BURST == 0 {
                        sleep(PACE).await;
                    }
                }
            }
            if is_last {
                break;
            }
        }
        (self.started, self.read_at) = (true, now);
        self.published = self.published.split_off(&before::<P>(now));
        feed.begin(subject);
        Ok(())
    }
}

/// Returns where to start the read that follows one at this time.
fn before<P: Position>(read_at: Timestamp) -> P {
    P::start_of(Timestamp(read_at.0.saturating_sub(OVERLAP_MS)))
}

#[cfg(test)]
mod tests;
