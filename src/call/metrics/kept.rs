//! What is kept of the calls of late.

use std::collections::HashMap;

use super::bucket::Lengths;
use crate::base::id::EndpointId;

/// How an endpoint was called of late.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Runs, succeeded and failed.
    pub calls: u64,
    /// Half of them took no longer, in milliseconds within 5 %; `None` where there were none.
    pub median_ms: Option<f64>,
}

/// How long the calls of each endpoint took that was called of late.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Whether all of it was counted since the process began.
    is_counted: bool,
    of: HashMap<EndpointId, Lengths>,
}

impl Kept {
    /// Of an endpoint; `None` before all was counted.
    pub(super) fn figures(&self, endpoint: &EndpointId) -> Option<Figures> {
        let lengths = self.of.get(endpoint);
        let calls = lengths.map_or(0, Lengths::calls);
        self.is_counted.then(|| Figures { calls, median_ms: lengths.and_then(|lengths| lengths.percentile(0.5)) })
    }

    /// Those that were called.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = &EndpointId> {
        self.of.keys()
    }

    /// Adds what was stored just now.
    pub(super) fn add(&mut self, stored: HashMap<EndpointId, Lengths>) {
        for (endpoint, more) in stored {
            *self.of.entry(endpoint).or_default() += more;
        }
    }

    /// Takes what was counted of an endpoint for what was kept of it.
    pub(super) fn set(&mut self, endpoint: EndpointId, counted: Lengths) {
        if counted.calls() > 0 {
            self.of.insert(endpoint, counted)
        } else {
            self.of.remove(&endpoint)
        };
    }

    /// From now on all of it is known.
    pub(super) fn counted(&mut self) {
        self.is_counted = true;
    }
}
