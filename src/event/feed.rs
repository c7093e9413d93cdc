//! Live feeds: whoever follows one gets what is published from then on, through a buffer of fixed size.
//!
//! Publishing never waits. Who follows too slowly misses the oldest of what waits, and is told how much at the place where
//! it is missing. Where several hosts share a store, followers hear what it holds, whoever has put it there: see [`super::pull`].

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{
    broadcast::{self, error::RecvError},
    watch,
};
use tollhouse_base::clock::{Clock, Timestamp};
use tollhouse_store::Store;

/// Entries that wait for a slow follower; it misses those before.
pub const BUFFER: usize = 256;
/// Followers of one subject at once.
pub const MAX_FOLLOWERS: usize = 64;

/// What is published, by subject. `T` should be cheap to clone.
pub struct Feed<T> {
    /// Those that somebody follows.
    subjects: Mutex<HashMap<String, Subject<T>>>,
    /// There where what is told is pulled from a store that others share.
    pulled: Option<Clock>,
}

struct Subject<T> {
    followers: broadcast::Sender<T>,
    /// Since when somebody follows it.
    since: Timestamp,
    /// Whether all that is stored from now on is told.
    begun: watch::Sender<bool>,
}

/// One who follows. Dropping it ends that.
#[derive(Debug)]
pub struct Follower<T> {
    entries: broadcast::Receiver<T>,
    begun: watch::Receiver<bool>,
}

/// What a follower gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedItem<T> {
    /// What was published.
    Entry(T),
    /// So many entries were published here and did not fit.
    Missed(u64),
}

/// A subject has [`MAX_FOLLOWERS`] followers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_FOLLOWERS} others follow this already")]
pub struct Crowded;

/// Where an entry stands among the stored ones of its subject: by its time, then by what tells it from others of that time.
pub trait Position: Clone + Ord + Send + Sync {
    /// Before all entries of `at`.
    fn start_of(at: Timestamp) -> Self;

    /// The time of it.
    fn at(&self) -> Timestamp;

    /// As [`Position::to_cursor`] gave it; `None` for other texts.
    fn from_cursor(text: &str) -> Option<Self>;

    /// As clients show it again.
    fn to_cursor(&self) -> String;
}

impl<T> fmt::Debug for Feed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("subjects", &self.subjects().len()).finish()
    }
}

impl<T: Clone> Feed<T> {
    /// What is published of what `store` holds. Where others share that, nothing is told before it is pulled from there.
    #[must_use]
    pub fn of(store: &(impl Store + ?Sized), clock: &Clock) -> Arc<Self> {
        Arc::new(Self { subjects: Mutex::default(), pulled: store.is_shared().then(|| clock.clone()) })
    }

    /// Hands the entry that `make` makes to all who follow `subject`; makes none when nobody does, or when it is to be pulled.
    pub fn publish(&self, subject: &str, make: impl FnOnce() -> T) {
        if self.pulled.is_none() {
            self.tell(subject, make);
        }
    }

    pub(super) fn tell(&self, subject: &str, make: impl FnOnce() -> T) {
        let mut subjects = self.subjects();
        let Some(Subject { followers, .. }) = subjects.get(subject) else { return };
        if followers.receiver_count() == 0 || followers.send(make()).is_err() {
            subjects.remove(subject);
        }
    }

    /// All that is published about `subject` from now on.
    ///
    /// # Errors
    ///
    /// [`Crowded`].
    pub fn follow(&self, subject: &str) -> Result<Follower<T>, Crowded> {
        let mut subjects = self.subjects();
        // Whatever is published of a subject, a buffer that nobody reads is not kept for long.
        subjects.retain(|_, subject| subject.followers.receiver_count() > 0);
        let subject = subjects.entry(subject.to_owned()).or_insert_with(|| Subject {
            followers: broadcast::Sender::new(BUFFER),
            since: self.pulled.as_ref().map_or(Timestamp(0), Clock::now),
            begun: watch::Sender::new(self.pulled.is_none()),
        });
        if subject.followers.receiver_count() >= MAX_FOLLOWERS {
            return Err(Crowded);
        }
        Ok(Follower { entries: subject.followers.subscribe(), begun: subject.begun.subscribe() })
    }

    /// Says that all that is stored of `subject` from now on is told.
    pub(super) fn begin(&self, subject: &str) {
        if let Some(Subject { begun, .. }) = self.subjects().get(subject) {
            begun.send_if_modified(|begun| !std::mem::replace(begun, true));
        }
    }

    /// What somebody follows, and since when.
    pub(super) fn followed(&self) -> HashMap<String, Timestamp> {
        let mut subjects = self.subjects();
        subjects.retain(|_, subject| subject.followers.receiver_count() > 0);
        subjects.iter().map(|(name, subject)| (name.clone(), subject.since)).collect()
    }

    /// The time that is pulled by, where anything is.
    pub(super) fn clock(&self) -> Option<&Clock> {
        self.pulled.as_ref()
    }
}

impl<T> Feed<T> {
    fn subjects(&self) -> MutexGuard<'_, HashMap<String, Subject<T>>> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Follower<T> {
    /// Waits until whatever is stored from then on comes here: who reads the store behind this misses nothing between.
    pub async fn begun(&mut self) {
        _ = self.begun.wait_for(|begun| *begun).await;
    }

    /// What comes next; `None` when the feed has ended. Dropping the future loses nothing.
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
    async fn a_slow_follower_is_told_what_it_missed_where_it_is_missing() {
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
    async fn a_subject_that_nobody_follows_any_more_keeps_no_buffer() {
        let feed = feed::<u8>();
        let _one = feed.follow("one").unwrap();
        drop(feed.follow("other").unwrap());
        let _third = feed.follow("third").unwrap();
        assert!(!feed.subjects().contains_key("other") && feed.subjects().len() == 2);
    }

    #[tokio::test]
    async fn followers_are_bounded_and_forgotten_when_they_go() {
        let feed = feed::<u8>();
        let mut followers: Vec<_> = (0..MAX_FOLLOWERS).map(|_| feed.follow("one").unwrap()).collect();
        assert_eq!(feed.follow("one").unwrap_err(), Crowded);
        followers.pop();
        followers.push(feed.follow("one").unwrap());
        drop(followers);
        feed.publish("one", || 1);
        assert!(feed.subjects().is_empty());
    }
}
