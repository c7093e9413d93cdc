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
    /// Takes up to `max` uses that were not yet reported to other hosts, of keys that used more than a tenth of their
    /// burst. Uses before the first call are not included.
    fn take_used(&self, most: usize) -> Vec<(String, u64)>;

    /// Adds `used` uses of the named key on other hosts.
    fn used_elsewhere(&self, name: &str, used: u64);
}

/// The uses of keys, and when each key's budget is full again.
#[derive(Debug)]
pub(super) struct Gcra<K> {
    keys: HashMap<K, GcraState>,
    /// Keys with uses to report. `None` until the first request for them.
    unreported: Option<Vec<K>>,
    /// Number of keys visited to forget some.
    #[cfg(test)]
    checked_at: usize,
}

#[derive(Debug)]
struct GcraState {
    full_at: Instant,
    unreported: u64,
    /// Whether it is among the keys with uses to report.
    is_listed: bool,
}

/// Returns the current monotonic time. Tests can pause it.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl<K> Default for Gcra<K> {
    fn default() -> Self {
        Self {
            keys: HashMap::new(),
            unreported: None,
            #[cfg(test)]
            checked_at: 0,
        }
    }
}

impl<K: Hash + Eq + Clone> Gcra<K> {
    /// Returns how long it takes from `now` until the key's budget is full again.
    pub(super) fn behind(&self, key: &K, now: Instant) -> Duration {
        self.keys.get(key).map_or(Duration::ZERO, |used| used.full_at.saturating_duration_since(now))
    }

    /// Records `some` uses on this host. The key's budget is full again after `behind`. The uses are reported once
    /// `behind` exceeds `least`.
    pub(super) fn use_here(&mut self, key: &K, some: u64, now: Instant, behind: Duration, least: Duration) {
        let used = self.keys.entry(key.clone()).or_insert_with(|| GcraState::at(now));
        if used.full_at <= now {
            // Earlier uses have recovered, so that other hosts need not know of them.
            used.unreported = 0;
        }
        (used.full_at, used.unreported) = (now + behind, used.unreported + some);
        if let Some(unreported) = &mut self.unreported
            && behind > least
            && !used.is_listed
        {
            used.is_listed = true;
            unreported.push(key.clone());
        }
    }

    /// Records uses on other hosts. The key's budget is full again after `behind`.
    pub(super) fn use_elsewhere(&mut self, key: K, now: Instant, behind: Duration) {
        self.keys.entry(key).or_insert_with(|| GcraState::at(now)).full_at = now + behind;
    }

    /// Implements [`Tally::take_used`].
    pub(super) fn take(&mut self, max: usize) -> Vec<(String, u64)>
    where
        K: Serialize,
    {
        let Self { keys, unreported, .. } = self;
        let unreported = unreported.get_or_insert_default();
        let some = unreported.drain(..unreported.len().min(max));
        let reported = some.filter_map(|key| {
            let used = keys.get_mut(&key)?;
            used.is_listed = false;
            Some((name(&key)?, std::mem::take(&mut used.unreported)))
        });
        reported.collect()
    }

    /// Makes room for a key among at most `max`. At the limit, at least an eighth of the keys is forgotten: quiet keys
    /// first, then those with the smallest debt. So all keys are visited only once for many new ones, and each new key
    /// costs little.
    pub(super) fn evict(&mut self, key: &K, max: usize, now: Instant) {
        if self.keys.len() < max || self.keys.contains_key(key) {
            return;
        }
        self.prune_idle(now);
        let surplus = self.keys.len().saturating_sub(max - 1 - max / 8);
        if surplus == 0 {
            return;
        }
        let mut times: Vec<_> = self.keys.values().map(|used| used.full_at).collect();
        let (_, last, _) = times.select_nth_unstable(surplus - 1);
        // Of the keys with the largest debt to forget, forget only as many as needed.
        let (last, mut spare) = (*last, surplus);
        self.keys.retain(|_, used| {
            let goes = used.full_at <= last && spare > 0;
            spare -= usize::from(goes);
            !goes
        });
    }

    /// Forgets what the key has used.
    pub(super) fn forget(&mut self, key: &K) {
        self.keys.remove(key);
    }

    /// Forgets keys whose budget is full.
    pub(super) fn prune_idle(&mut self, now: Instant) {
        #[cfg(test)]
        {
            self.checked_at += self.keys.len();
        }
        self.keys.retain(|_, used| used.full_at > now);
        if let Some(unreported) = &mut self.unreported {
            unreported.retain(|key| self.keys.contains_key(key));
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }
}

impl GcraState {
    fn at(now: Instant) -> Self {
        Self { full_at: now, unreported: 0, is_listed: false }
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

#[cfg(test)]
mod tests;
