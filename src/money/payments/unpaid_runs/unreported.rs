//! Unpaid runs that are yet to be sent to other hosts.

use std::{collections::HashMap, hash::Hash};

use tollhouse_tool::Slug;

/// Maximum number of waiting keys. Further ones are not sent.
const MAX_UNREPORTED: usize = 16_384;

/// Unpaid runs that were not sent to other hosts yet.
#[derive(Debug, Default)]
pub(super) struct UnreportedRuns {
    /// Whether counts are sent to other hosts.
    mark_reported: bool,
    payers: HashMap<String, u64>,
    tools: HashMap<Slug, u64>,
}

impl UnreportedRuns {
    pub(super) fn payer_failed(&mut self, payer: &str) {
        if self.mark_reported && (self.payers.len() < MAX_UNREPORTED || self.payers.contains_key(payer)) {
            *self.payers.entry(payer.to_owned()).or_default() += 1;
        }
    }

    pub(super) fn tool_failed(&mut self, tool: &Slug) {
        if self.mark_reported && (self.tools.len() < MAX_UNREPORTED || self.tools.contains_key(tool)) {
            *self.tools.entry(tool.clone()).or_default() += 1;
        }
    }

    /// Takes some counts to send to other hosts.
    pub(super) fn take_payers(&mut self, max: usize) -> Vec<(String, u64)> {
        self.mark_reported = true;
        take(&mut self.payers, max)
    }

    pub(super) fn take_tools(&mut self, max: usize) -> Vec<(String, u64)> {
        self.mark_reported = true;
        take(&mut self.tools, max).into_iter().map(|(tool, used)| (tool.to_string(), used)).collect()
    }
}

fn take<K: Hash + Eq + Clone>(unreported: &mut HashMap<K, u64>, max: usize) -> Vec<(K, u64)> {
    let some: Vec<_> = unreported.keys().take(max).cloned().collect();
    some.into_iter().filter_map(|key| unreported.remove_entry(&key)).collect()
}
