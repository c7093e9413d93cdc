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
    /// Number of keys visited to forget some.
    #[cfg(test)]
    looked_at: usize,
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
        Self {
            keys: HashMap::new(),
            untold: None,
            #[cfg(test)]
            looked_at: 0,
        }
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
        let Self { keys, untold, .. } = self;
        let untold = untold.get_or_insert_default();
        let some = untold.drain(..untold.len().min(most));
        let told = some.filter_map(|key| {
            let used = keys.get_mut(&key)?;
            used.is_listed = false;
            Some((name(&key)?, std::mem::take(&mut used.untold)))
        });
        told.collect()
    }

    /// Makes room for a key among at most `most`. At the limit, at least an eighth of the keys is forgotten: quiet keys
    /// first, then those with the smallest debt. So all keys are visited only once for many new ones, and each new key
    /// costs little.
    pub(super) fn make_room(&mut self, key: &K, most: usize, now: Instant) {
        if self.keys.len() < most || self.keys.contains_key(key) {
            return;
        }
        self.forget_quiet(now);
        let surplus = self.keys.len().saturating_sub(most - 1 - most / 8);
        if surplus == 0 {
            return;
        }
        let mut times: Vec<_> = self.keys.values().map(|used| used.whole_at).collect();
        let (_, last, _) = times.select_nth_unstable(surplus - 1);
        // Of the keys with the largest debt to forget, forget only as many as needed.
        let (last, mut spare) = (*last, surplus);
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
        #[cfg(test)]
        {
            self.looked_at += self.keys.len();
        }
        self.keys.retain(|_, used| used.whole_at > now);
        if let Some(untold) = &mut self.untold {
            untold.retain(|key| self.keys.contains_key(key));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_new_keys_have_each_key_looked_at_a_few_times() {
        const MOST: usize = 65_536;
        const NEW: u32 = 100_000;
        let (mut uses, begun) = (Uses::default(), Instant::now());
        // One key becomes quiet for each new one, so quiet keys alone make room for only one.
        for key in 0..NEW {
            let now = begun + Duration::from_millis(key.into());
            uses.make_room(&key, MOST, now);
            uses.use_here(&key, 1, now, Duration::from_millis(MOST as u64 - 1), Duration::ZERO);
            assert!(uses.len() <= MOST);
        }
        assert!(uses.looked_at < 10 * NEW as usize, "{} keys were looked at for {NEW} new ones", uses.looked_at);
    }

    #[test]
    fn what_is_to_be_told_is_of_keys_that_are_remembered() {
        const MOST: usize = 64;
        let (mut uses, now) = (Uses::default(), Instant::now());
        assert_eq!(uses.take(0), []);
        for key in 0..10_000_u32 {
            uses.make_room(&key, MOST, now);
            uses.use_here(&key, 1, now, Duration::from_secs(1), Duration::ZERO);
            assert!(uses.untold.as_ref().is_some_and(|untold| untold.len() <= 2 * MOST));
        }
        for most in [1, 2, 7, 8, 9] {
            let mut few = Uses::default();
            for key in 0..100_u32 {
                few.make_room(&key, most, now);
                few.use_here(&key, 1, now, Duration::from_secs(1), Duration::ZERO);
                assert!((1..=most).contains(&few.len()), "{most}");
            }
        }
    }
}
