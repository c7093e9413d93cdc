//! Unpaid runs that are yet to be sent to other hosts.

use std::{collections::HashMap, hash::Hash};

use tollhouse_tool::Slug;

/// Maximum number of waiting keys. Further ones are not sent.
const MOST_UNTOLD: usize = 16_384;

/// Unpaid runs that were not sent to other hosts yet.
#[derive(Debug, Default)]
pub(super) struct Untold {
    /// Whether counts are sent to other hosts.
    is_told: bool,
    payers: HashMap<String, u64>,
    tools: HashMap<Slug, u64>,
}

impl Untold {
    pub(super) fn payer_failed(&mut self, payer: &str) {
        if self.is_told && (self.payers.len() < MOST_UNTOLD || self.payers.contains_key(payer)) {
            *self.payers.entry(payer.to_owned()).or_default() += 1;
        }
    }

    pub(super) fn tool_failed(&mut self, tool: &Slug) {
        if self.is_told && (self.tools.len() < MOST_UNTOLD || self.tools.contains_key(tool)) {
            *self.tools.entry(tool.clone()).or_default() += 1;
        }
    }

    /// Takes some counts to send to other hosts.
    pub(super) fn take_payers(&mut self, most: usize) -> Vec<(String, u64)> {
        self.is_told = true;
        take(&mut self.payers, most)
    }

    pub(super) fn take_tools(&mut self, most: usize) -> Vec<(String, u64)> {
        self.is_told = true;
        take(&mut self.tools, most).into_iter().map(|(tool, used)| (tool.to_string(), used)).collect()
    }
}

fn take<K: Hash + Eq + Clone>(untold: &mut HashMap<K, u64>, most: usize) -> Vec<(K, u64)> {
    let some: Vec<_> = untold.keys().take(most).cloned().collect();
    some.into_iter().filter_map(|key| untold.remove_entry(&key)).collect()
}
