//! Live feeds: whoever follows one gets what is published from then on, through a buffer of fixed size.
//!
//! Publishing never waits. What does not fit into a follower's buffer is counted, and the follower is
//! told how much it missed at the place where it is missing.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::mpsc::{self, error::TrySendError};

/// Entries that wait for a slow follower; it misses those beyond.
pub const BUFFER: usize = 256;
/// Followers of one subject at once.
pub const MAX_FOLLOWERS: usize = 64;

/// What is published, by subject. `T` should be cheap to clone.
pub struct Feed<T> {
    subjects: Mutex<HashMap<String, Vec<Follows<T>>>>,
}

struct Follows<T> {
    sender: mpsc::Sender<(u64, T)>,
    missed: Arc<AtomicU64>,
}

/// One who follows. Dropping it ends that.
#[derive(Debug)]
pub struct Follower<T> {
    receiver: mpsc::Receiver<(u64, T)>,
    missed: Arc<AtomicU64>,
    /// Received, and told only after what was missed before it.
    next: Option<T>,
}

/// What a follower gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told<T> {
    /// The next entry.
    Entry(T),
    /// So many entries were published here and did not fit.
    Missed(u64),
}

/// A subject has [`MAX_FOLLOWERS`] followers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_FOLLOWERS} others follow this already")]
pub struct Crowded;

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
        let Some(follows) = subjects.get_mut(subject) else { return };
        let entry = make();
        follows.retain(|one| one.hand(entry.clone()));
        if follows.is_empty() {
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
        let follows = subjects.entry(subject.to_owned()).or_default();
        follows.retain(|one| !one.sender.is_closed());
        if follows.len() >= MAX_FOLLOWERS {
            return Err(Crowded);
        }
        let (sender, receiver) = mpsc::channel(BUFFER);
        let missed = Arc::new(AtomicU64::new(0));
        follows.push(Follows { sender, missed: Arc::clone(&missed) });
        Ok(Follower { receiver, missed, next: None })
    }
}

impl<T> Feed<T> {
    fn subjects(&self) -> MutexGuard<'_, HashMap<String, Vec<Follows<T>>>> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Follows<T> {
    /// False when the follower is gone. The feed's lock is held: nobody else counts meanwhile but the follower.
    fn hand(&self, entry: T) -> bool {
        match self.sender.try_reserve() {
            Ok(place) => {
                place.send((self.missed.swap(0, Ordering::AcqRel), entry));
                true
            }
            Err(TrySendError::Full(())) => {
                self.missed.fetch_add(1, Ordering::AcqRel);
                true
            }
            Err(TrySendError::Closed(())) => false,
        }
    }
}

impl<T> Follower<T> {
    /// What comes next; `None` when the feed has ended. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Told<T>> {
        if let Some(entry) = self.next.take() {
            return Some(Told::Entry(entry));
        }
        if self.receiver.is_empty() {
            // Nothing may follow for long: what is missing at the end is told without waiting for it.
            let missed = self.missed.swap(0, Ordering::AcqRel);
            if missed > 0 && self.receiver.is_empty() {
                return Some(Told::Missed(missed));
            }
            self.missed.fetch_add(missed, Ordering::AcqRel);
        }
        let (missed, entry) = self.receiver.recv().await?;
        if missed == 0 {
            return Some(Told::Entry(entry));
        }
        self.next = Some(entry);
        Some(Told::Missed(missed))
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
        for n in 0..BUFFER {
            assert_eq!(follower.next().await, Some(Told::Entry(n)));
        }
        assert_eq!(follower.next().await, Some(Told::Missed(5)));
        for n in 0..=BUFFER {
            feed.publish("one", || n);
        }
        assert_eq!(follower.next().await, Some(Told::Entry(0)));
        feed.publish("one", || 1_000);
        for n in 1..BUFFER {
            assert_eq!(follower.next().await, Some(Told::Entry(n)));
        }
        assert_eq!(follower.next().await, Some(Told::Missed(1)));
        assert_eq!(follower.next().await, Some(Told::Entry(1_000)));
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
