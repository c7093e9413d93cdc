//! What is kept of the calls of late.

use std::collections::HashMap;

use tollhouse_base::id::EndpointId;

use super::bucket::Lengths;

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
    /// The number of the count that is under way.
    count: u64,
    of: HashMap<EndpointId, Of>,
}

#[derive(Debug, Default)]
struct Of {
    lengths: Lengths,
    /// The last count that it was counted in, or was called during.
    count: u64,
}

impl Kept {
    /// Of an endpoint; `None` before all was counted.
    pub(super) fn figures(&self, endpoint: &EndpointId) -> Option<Figures> {
        let lengths = self.of.get(endpoint).map(|of| &of.lengths);
        let calls = lengths.map_or(0, Lengths::calls);
        self.is_counted.then(|| Figures { calls, median_ms: lengths.and_then(|lengths| lengths.percentile(0.5)) })
    }

    /// Whether all was counted since the process began.
    pub(super) fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Adds what was stored just now.
    pub(super) fn add(&mut self, stored: HashMap<EndpointId, Lengths>) {
        for (endpoint, more) in stored {
            let of = self.of.entry(endpoint).or_default();
            of.lengths += more;
            of.count = self.count;
        }
    }

    /// Takes what was counted of an endpoint for what was kept of it.
    pub(super) fn set(&mut self, endpoint: EndpointId, lengths: Lengths) {
        if lengths.calls() > 0 {
            self.of.insert(endpoint, Of { lengths, count: self.count });
        } else {
            self.of.remove(&endpoint);
        }
    }

    /// From now on all of it is known. Of what was not come by nothing is stored any more.
    pub(super) fn counted(&mut self) {
        let now = self.count;
        self.of.retain(|_, of| of.count == now);
        self.count += 1;
        self.is_counted = true;
    }
}
