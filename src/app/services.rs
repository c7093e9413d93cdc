//! The services of the host, created once.

use std::{ops::Deref, sync::Arc};

use tollhouse_call::WriteBehind;
use tollhouse_http as http;
use tollhouse_mcp::McpOptions;
use tollhouse_objects::Objects;

use super::object_check::ObjectCheck;

/// The services that front ends use: those of the HTTP API, and what it does not need.
pub(super) struct Services {
    pub(super) http: Arc<http::Services>,
    pub(super) write_behind: Arc<WriteBehind>,
    pub(super) objects: Arc<Objects>,
    /// Whether objects that rows name can be read here.
    pub(super) object_check: Arc<ObjectCheck>,
    pub(super) mcp: Arc<McpOptions>,
}

impl Deref for Services {
    type Target = http::Services;

    fn deref(&self) -> &http::Services {
        &self.http
    }
}

impl Services {
    /// Shares counters about callers with the other hosts of the store.
    pub(super) fn exchange(&self) {
        let tallies = self.shared.limits.tallies().into_iter().chain(self.mcp.tallies()).chain(self.payments.tallies());
        self.replica.exchange(self.clock.clone(), tallies.collect());
    }
}
