//! GCRA state of keys: how much of a recovering budget each key has used, on this host and on others that share the
//! count.

use std::{
    collections::HashMap,
    hash::Hash,
    time::{Duration, Instant},
};

use serde::{Serialize, de::DeserializeOwned};

/// Maximum length of a key's name that is shared with other hosts, in bytes.
const MAX_NAME: usize = 512;

/// A counter whose keys are also counted by other hosts.
pub trait Tally: Send + Sync + 'static {
    /// Takes up to `most` uses that were not yet reported to other hosts, of keys that used more than a tenth of their
    /// burst. Uses before the first call are not included.
    fn take_used(&self, most: usize) -> Vec<(String, u64)>;

    /// Adds `used` uses of the named key on other hosts.
    fn used_elsewhere(&self, name: &str, used: u64);
}

/// The uses of keys, and when each key's budget is full again.
#[derive(Debug)]
pub(super) struct Uses<K> {
    keys: HashMap<K, Use>,
    /// Keys with uses to report. `None` until somebody asks for them.
    untold: Option<Vec<K>>,
}

#[derive(Debug)]
struct Use {
    whole_at: Instant,
    untold: u64,
    /// Whether it is among the keys with uses to report.
    is_listed: bool,
}

/// Returns the current monotonic time. Tests can pause it.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl<K> Default for Uses<K> {
    fn default() -> Self {
        Self { keys: HashMap::new(), untold: None }
    }
}

impl<K: Hash + Eq + Clone> Uses<K> {
    /// Returns how long it takes from `now` until the key's budget is full again.
    pub(super) fn behind(&self, key: &K, now: Instant) -> Duration {
        self.keys.get(key).map_or(Duration::ZERO, |used| used.whole_at.saturating_duration_since(now))
    }

    /// Records `some` uses on this host. The key's budget is full again after `behind`. The uses are reported once
    /// `behind` exceeds `least`.
    pub(super) fn use_here(&mut self, key: &K, some: u64, now: Instant, behind: Duration, least: Duration) {
        let used = self.keys.entry(key.clone()).or_insert_with(|| Use::at(now));
        if used.whole_at <= now {
            // Earlier uses have recovered, so that other hosts need not know of them.
            used.untold = 0;
        }
        (used.whole_at, used.untold) = (now + behind, used.untold + some);
        if let Some(untold) = &mut self.untold
            && behind > least
            && !used.is_listed
        {
            used.is_listed = true;
            untold.push(key.clone());
        }
    }

    /// Records uses on other hosts. The key's budget is full again after `behind`.
    pub(super) fn use_elsewhere(&mut self, key: K, now: Instant, behind: Duration) {
        self.keys.entry(key).or_insert_with(|| Use::at(now)).whole_at = now + behind;
    }

    /// Implements [`Tally::take_used`].
    pub(super) fn take(&mut self, most: usize) -> Vec<(String, u64)>
    where
        K: Serialize,
    {
        let Self { keys, untold } = self;
        let untold = untold.get_or_insert_default();
        let some = untold.drain(..untold.len().min(most));
        let told = some.filter_map(|key| {
            let used = keys.get_mut(&key)?;
            used.is_listed = false;
            Some((name(&key)?, std::mem::take(&mut used.untold)))
        });
        told.collect()
    }

    /// Makes room for a key if there are `most` already: the eighth with the least debt is forgotten at once, so that
    /// each new key costs little when the map is full.
    pub(super) fn make_room(&mut self, key: &K, most: usize, now: Instant) {
        if self.keys.len() < most || self.keys.contains_key(key) {
            return;
        }
        self.forget_quiet(now);
        if self.keys.len() < most {
            return;
        }
        let mut times: Vec<_> = self.keys.values().map(|used| used.whole_at).collect();
        let eighth = times.len() / 8;
        let (_, last, _) = times.select_nth_unstable(eighth);
        // Several keys can have the same debt as the last of the eighth. Remove only as many as needed.
        let (last, mut spare) = (*last, eighth + 1);
        self.keys.retain(|_, used| {
            let goes = used.whole_at <= last && spare > 0;
            spare -= usize::from(goes);
            !goes
        });
    }

    /// Forgets what the key has used.
    pub(super) fn forget(&mut self, key: &K) {
        self.keys.remove(key);
    }

    /// Forgets keys whose budget is full.
    pub(super) fn forget_quiet(&mut self, now: Instant) {
        self.keys.retain(|_, used| used.whole_at > now);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }
}

impl Use {
    fn at(now: Instant) -> Self {
        Self { whole_at: now, untold: 0, is_listed: false }
    }
}

/// Returns the name by which other hosts know a key, or `None` if it would be too long.
fn name(key: &impl Serialize) -> Option<String> {
    serde_json::to_string(key).ok().filter(|name| name.len() <= MAX_NAME)
}

/// Parses a key from its name.
pub(super) fn named<K: DeserializeOwned>(name: &str) -> Option<K> {
    serde_json::from_str(name).ok()
}
