//! Pulling: what all hosts of a store put there, told to those who follow it at one of them.
//!
//! Each quarter of a second what is new of the subjects that somebody follows is read, and told in the order of its time; where
//! nobody follows, nothing is read. What is younger than [`SETTLED_MS`] is left for the next time, so that what is older and takes
//! longer on its way to the store still comes before it. What comes later than that is told when it is found, for
//! [`OVERLAP_MS`] behind its time. Nothing is told twice.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tollhouse_base::clock::Timestamp;
use tollhouse_store::StoreError;

use super::feed::{BUFFER, Feed, Position};

/// How often the store is asked.
const PULL_EVERY: Duration = Duration::from_millis(250);

/// How old an entry is that is told: what is written behind answers takes less to the store.
const SETTLED_MS: u64 = 250;

/// How far each reading goes back behind the one before: as much later than its time may an entry be stored.
const OVERLAP_MS: u64 = 10_000;

/// Entries read at once.
const PAGE: usize = 250;

/// Entries told at once. After those, readers who wait are let to take them.
const BURST: usize = BUFFER / 4;

/// How long they are let.
const PACE: Duration = Duration::from_millis(5);

/// How far the pulling of one subject has come.
struct Pulled<P> {
    since: Timestamp,
    /// When all was read that was there.
    read_at: Timestamp,
    begun: bool,
    /// What the next reading finds again.
    told: BTreeSet<P>,
}

impl<T: Send + Sync + 'static> Feed<Arc<T>> {
    /// Starts the task that tells what is stored, which ends when nobody holds the feed any more: none where the store is of one host.
    /// `read` answers so many entries of a subject behind a place, oldest first, and `place` where one stands. Must be called inside a
    /// tokio runtime.
    pub fn pull<P, Read, Reading>(self: &Arc<Self>, place: fn(&T) -> P, read: Read)
    where
        P: Position + 'static,
        Read: Fn(String, P, usize) -> Reading + Send + Sync + 'static,
        Reading: Future<Output = Result<Vec<T>, StoreError>> + Send,
    {
        let Some(clock) = self.clock().cloned() else { return };
        let feed = Arc::downgrade(self);
        tokio::spawn(async move {
            let (mut subjects, mut away) = (HashMap::<String, Pulled<P>>::new(), false);
            let mut tick = interval(PULL_EVERY);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                let Some(feed) = feed.upgrade() else { return };
                let followed = feed.followed();
                subjects.retain(|subject, _| followed.contains_key(subject));
                for (subject, since) in followed {
                    subjects.entry(subject).or_insert_with(|| Pulled::since(since));
                }
                let turns = subjects.iter_mut().map(|(subject, pulled)| pulled.turn(&feed, subject, clock.now(), place, &read));
                let failed = join_all(turns).await.into_iter().find_map(Result::err);
                if let (Some(error), false) = (&failed, away) {
                    tracing::warn!(%error, "what those who follow are to be told could not be read yet");
                }
                away = failed.is_some();
            }
        });
    }
}

impl<P: Position> Pulled<P> {
    fn since(since: Timestamp) -> Self {
        Self { since, read_at: since, begun: false, told: BTreeSet::new() }
    }

    /// Tells what is new by `now`.
    async fn turn<T, Read, Reading>(
        &mut self,
        feed: &Feed<Arc<T>>,
        subject: &str,
        now: Timestamp,
        place: fn(&T) -> P,
        read: &Read,
    ) -> Result<(), StoreError>
    where
        Read: Fn(String, P, usize) -> Reading,
        Reading: Future<Output = Result<Vec<T>, StoreError>>,
    {
        let settled = P::start_of(Timestamp(now.0.saturating_sub(SETTLED_MS)));
        let (mut from, mut told) = (before::<P>(self.read_at), 0);
        'pages: loop {
            let page = read(subject.to_owned(), from.clone(), PAGE).await?;
            let is_last = page.len() < PAGE;
            for entry in page {
                from = place(&entry);
                let was_before = !self.begun && from.at() < self.since;
                if !was_before && from >= settled {
                    break 'pages;
                }
                if self.told.insert(from.clone()) && !was_before {
                    feed.tell(subject, || Arc::new(entry));
                    told += 1;
                    if told % BURST == 0 {
                        sleep(PACE).await;
                    }
                }
            }
            if is_last {
                break;
            }
        }
        (self.begun, self.read_at) = (true, now);
        self.told = self.told.split_off(&before::<P>(now));
        feed.begin(subject);
        Ok(())
    }
}

/// Where the reading begins that follows one at this time.
fn before<P: Position>(read_at: Timestamp) -> P {
    P::start_of(Timestamp(read_at.0.saturating_sub(OVERLAP_MS)))
}

#[cfg(test)]
mod tests;
