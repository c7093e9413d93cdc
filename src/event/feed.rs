//! Live feeds: whoever follows one gets what is published from then on, through a buffer of fixed size.
//!
//! Publishing never waits. Who follows too slowly misses the oldest of what waits, and is told how much at the place where
//! it is missing.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::broadcast::{self, error::RecvError};

use crate::base::clock::Timestamp;

/// Entries that wait for a slow follower; it misses those before.
pub const BUFFER: usize = 256;
/// Followers of one subject at once.
pub const MAX_FOLLOWERS: usize = 64;

/// What is published, by subject. `T` should be cheap to clone.
pub struct Feed<T> {
    /// Of those that somebody follows.
    subjects: Mutex<HashMap<String, broadcast::Sender<T>>>,
}

/// One who follows. Dropping it ends that.
#[derive(Debug)]
pub struct Follower<T>(broadcast::Receiver<T>);

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

impl<T> Default for Feed<T> {
    fn default() -> Self {
        Self { subjects: Mutex::default() }
    }
}

impl<T> fmt::Debug for Feed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("subjects", &self.subjects().len()).finish()
    }
}

impl<T: Clone> Feed<T> {
    /// Hands the entry that `make` makes to all who follow `subject`; makes none when nobody does.
    pub fn publish(&self, subject: &str, make: impl FnOnce() -> T) {
        let mut subjects = self.subjects();
        let Some(followers) = subjects.get(subject) else { return };
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
        subjects.retain(|_, followers| followers.receiver_count() > 0);
        let followers = subjects.entry(subject.to_owned()).or_insert_with(|| broadcast::Sender::new(BUFFER));
        if followers.receiver_count() >= MAX_FOLLOWERS {
            return Err(Crowded);
        }
        Ok(Follower(followers.subscribe()))
    }
}

impl<T> Feed<T> {
    fn subjects(&self) -> MutexGuard<'_, HashMap<String, broadcast::Sender<T>>> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Follower<T> {
    /// What comes next; `None` when the feed has ended. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<FeedItem<T>> {
        match self.0.recv().await {
            Ok(entry) => Some(FeedItem::Entry(entry)),
            Err(RecvError::Lagged(missed)) => Some(FeedItem::Missed(missed)),
            Err(RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_follower_is_told_what_it_missed_where_it_is_missing() {
        let feed = Feed::default();
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
        let feed = Feed::<u8>::default();
        let _one = feed.follow("one").unwrap();
        drop(feed.follow("other").unwrap());
        let _third = feed.follow("third").unwrap();
        assert!(!feed.subjects().contains_key("other") && feed.subjects().len() == 2);
    }

    #[tokio::test]
    async fn followers_are_bounded_and_forgotten_when_they_go() {
        let feed = Feed::<u8>::default();
        let mut followers: Vec<_> = (0..MAX_FOLLOWERS).map(|_| feed.follow("one").unwrap()).collect();
        assert_eq!(feed.follow("one").unwrap_err(), Crowded);
        followers.pop();
        followers.push(feed.follow("one").unwrap());
        drop(followers);
        feed.publish("one", || 1);
        assert!(feed.subjects().is_empty());
    }
}
