//! Counts to send to the other hosts of the store.

use std::collections::HashMap;

/// Maximum number of waiting keys. Further ones are not sent.
const MAX_KEYS: usize = 16_384;

/// Counts that were not sent to other hosts yet.
#[derive(Debug, Default)]
pub(super) struct UnsentCounts {
    /// Whether anybody has asked for counts to send.
    is_in_use: bool,
    counts: HashMap<String, u64>,
}

impl UnsentCounts {
    /// Adds to a count. A total is sent however many keys are waiting.
    pub(super) fn add(&mut self, key: &str, amount: u64, is_total: bool) {
        let has_room = self.is_in_use && (is_total || self.counts.len() < MAX_KEYS);
        match self.counts.get_mut(key) {
            Some(count) => *count = count.saturating_add(amount),
            None if has_room => _ = self.counts.insert(key.to_owned(), amount),
            None => {}
        }
    }

    /// Subtracts from a count that was not sent yet.
    pub(super) fn subtract(&mut self, key: &str, amount: u64) {
        if let Some(count) = self.counts.get_mut(key) {
            *count = count.saturating_sub(amount);
        }
    }

    /// Takes up to `max` counts to send.
    pub(super) fn take(&mut self, max: usize) -> Vec<(String, u64)> {
        self.is_in_use = true;
        let some: Vec<_> = self.counts.keys().take(max).cloned().collect();
        some.into_iter().filter_map(|key| self.counts.remove_entry(&key)).filter(|(_, count)| *count > 0).collect()
    }
}
