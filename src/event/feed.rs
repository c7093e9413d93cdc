//! Live feeds: followers get entries as they are published, through a buffer of fixed size.
//!
//! Publishing never waits. A follower that is too slow misses the oldest buffered entries, and learns how many at the
//! point where they are missing. If several hosts share a store, followers get the entries of all hosts from the store:
//! see [`super::pull`].

use std::{collections::HashMap, sync::Arc};

use tokio::sync::{
    broadcast::{self, error::RecvError},
    watch,
};
use tollhouse_base::{
    clock::{Clock, Timestamp},
    lock::Lock,
};
use tollhouse_store::Store;

/// Number of entries buffered for a slow follower. Older ones are dropped.
pub const BUFFER: usize = 256;
/// Maximum number of followers of one subject.
pub const MAX_FOLLOWERS: usize = 64;

/// A feed of entries by subject. `T` should be cheap to clone.
pub struct Feed<T> {
    /// The subjects that have followers.
    subjects: Lock<HashMap<String, Subject<T>>>,
    /// The clock for pulling entries from the store, if the store is shared.
    pulled: Option<Clock>,
}

struct Subject<T> {
    followers: broadcast::Sender<T>,
    /// When the first follower came.
    since: Timestamp,
    /// Whether everything stored from now on is delivered.
    started: watch::Sender<bool>,
}

/// A follower. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Follower<T> {
    entries: broadcast::Receiver<T>,
    started: watch::Receiver<bool>,
}

/// An item for a follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedItem<T> {
    /// A published entry.
    Entry(T),
    /// The number of entries that were dropped at this point because the buffer was full.
    Missed(u64),
}

/// The subject already has [`MAX_FOLLOWERS`] followers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_FOLLOWERS} clients already follow this stream, the maximum")]
pub struct TooManyFollowers;

/// The position of an entry among the stored ones of its subject: by time, then by what distinguishes entries of the
/// same time.
pub trait Position: Clone + Ord + Send + Sync {
    /// Returns the position before all entries of `at`.
    fn start_of(at: Timestamp) -> Self;

    /// Returns the time.
    fn at(&self) -> Timestamp;

    /// Parses a cursor from [`Position::to_cursor`]. Returns `None` for other texts.
    fn from_cursor(text: &str) -> Option<Self>;

    /// Formats the position as a cursor for clients.
    fn to_cursor(&self) -> String;
}

impl<T: Clone> Feed<T> {
    /// Creates a feed of entries in `store`. If the store is shared, entries are delivered only after they have been
    /// pulled from it.
    pub fn of(store: &(impl Store + ?Sized), clock: &Clock) -> Arc<Self> {
        Arc::new(Self { subjects: Lock::default(), pulled: store.is_shared().then(|| clock.clone()) })
    }

    /// Delivers the entry from `make` to all followers of `subject`. Does not call `make` if there are none or if
    /// entries are pulled.
    pub fn publish(&self, subject: &str, make: impl FnOnce() -> T) {
        if self.pulled.is_none() {
            self.send(subject, make);
        }
    }

    pub(super) fn send(&self, subject: &str, make: impl FnOnce() -> T) {
        let mut subjects = self.subjects.lock();
        let Some(Subject { followers, .. }) = subjects.get(subject) else { return };
        if followers.receiver_count() == 0 || followers.send(make()).is_err() {
            subjects.remove(subject);
        }
    }

    /// Follows all entries published about `subject` from now on.
    pub fn follow(&self, subject: &str) -> Result<Follower<T>, TooManyFollowers> {
        let mut subjects = self.subjects.lock();
        // Drop buffers without followers, whichever subject is published to.
        subjects.retain(|_, subject| subject.followers.receiver_count() > 0);
        let subject = subjects.entry(subject.to_owned()).or_insert_with(|| Subject {
            followers: broadcast::Sender::new(BUFFER),
            since: self.pulled.as_ref().map_or(Timestamp(0), Clock::now),
            started: watch::Sender::new(self.pulled.is_none()),
        });
        if subject.followers.receiver_count() >= MAX_FOLLOWERS {
            return Err(TooManyFollowers);
        }
        Ok(Follower { entries: subject.followers.subscribe(), started: subject.started.subscribe() })
    }

    /// Marks that everything stored about `subject` from now on is delivered.
    pub(super) fn begin(&self, subject: &str) {
        if let Some(Subject { started, .. }) = self.subjects.lock().get(subject) {
            started.send_if_modified(|started| !std::mem::replace(started, true));
        }
    }

    /// Returns the subjects with followers, each with the time of its first follower.
    pub(super) fn followed(&self) -> HashMap<String, Timestamp> {
        let mut subjects = self.subjects.lock();
        subjects.retain(|_, subject| subject.followers.receiver_count() > 0);
        subjects.iter().map(|(name, subject)| (name.clone(), subject.since)).collect()
    }

    /// Returns the clock for pulling, if entries are pulled.
    pub(super) fn clock(&self) -> Option<&Clock> {
        self.pulled.as_ref()
    }
}

impl<T: Clone> Follower<T> {
    /// Waits until everything stored from then on is delivered here. A caller that reads the store after that misses
    /// nothing in between.
    pub async fn started(&mut self) {
        _ = self.started.wait_for(|started| *started).await;
    }

    /// Returns the next item, or `None` when the feed has ended. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<FeedItem<T>> {
        match self.entries.recv().await {
            Ok(entry) => Some(FeedItem::Entry(entry)),
            Err(RecvError::Lagged(missed)) => Some(FeedItem::Missed(missed)),
            Err(RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollhouse_store::memory::MemoryStore;

    fn feed<T: Clone>() -> Arc<Feed<T>> {
        Feed::of(&MemoryStore::new(), &Clock::default())
    }

    #[tokio::test]
    async fn slow_follower_learns_how_many_it_missed() {
        let feed = feed();
        let mut follower = feed.follow("one").unwrap();
        let past = BUFFER + 5;
        for n in 0..past {
            feed.publish("one", || n);
            feed.publish("other", || n);
        }
        assert_eq!(follower.next().await, Some(FeedItem::Missed(5)));
        for n in 5..past {
            assert_eq!(follower.next().await, Some(FeedItem::Entry(n)));
        }
        for n in 0..=BUFFER {
            feed.publish("one", || n);
        }
        assert_eq!(follower.next().await, Some(FeedItem::Missed(1)));
        assert_eq!(follower.next().await, Some(FeedItem::Entry(1)));
        feed.publish("one", || 1_000);
        for n in 2..=BUFFER {
            assert_eq!(follower.next().await, Some(FeedItem::Entry(n)));
        }
        assert_eq!(follower.next().await, Some(FeedItem::Entry(1_000)));
    }

    #[tokio::test]
    async fn subject_without_followers_has_no_buffer() {
        let feed = feed::<u8>();
        let _one = feed.follow("one").unwrap();
        drop(feed.follow("other").unwrap());
        let _third = feed.follow("third").unwrap();
        assert!(!feed.subjects.lock().contains_key("other") && feed.subjects.lock().len() == 2);
    }

    #[tokio::test]
    async fn followers_are_limited_and_dropped() {
        let feed = feed::<u8>();
        let mut followers: Vec<_> = (0..MAX_FOLLOWERS).map(|_| feed.follow("one").unwrap()).collect();
        assert_eq!(feed.follow("one").unwrap_err(), TooManyFollowers);
        followers.pop();
        followers.push(feed.follow("one").unwrap());
        drop(followers);
        feed.publish("one", || 1);
        assert!(feed.subjects.lock().is_empty());
    }
}
