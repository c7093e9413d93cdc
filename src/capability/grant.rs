//! What an endpoint may touch, now.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tollhouse_protocol::OpFailure;

use super::{AllowedHosts, failure};

/// The capabilities of an endpoint at one moment. Default: none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Granted {
    /// `ctx.kv`.
    pub kv: bool,
    /// `ctx.files`.
    pub files: bool,
    /// `ctx.httpGetJson`, and the hosts it reaches.
    pub http: Option<AllowedHosts>,
    /// `ctx.log` and `console`.
    pub logs: bool,
}

/// The grant of one endpoint, live: the catalogue sets it, running calls ask it at every op.
///
/// All calls of an endpoint share one, so that taking a capability back needs no list of calls.
#[derive(Debug, Default)]
pub struct Grant(ArcSwap<Granted>);

impl Grant {
    /// A grant to share with the calls that run under it.
    #[must_use]
    pub fn new(granted: Granted) -> Arc<Self> {
        Arc::new(Self(ArcSwap::from_pointee(granted)))
    }

    /// Replaces the grant. Ops that come after see the new one; those under way end as they began.
    pub fn set(&self, granted: Granted) {
        self.0.store(Arc::new(granted));
    }

    /// The grant at this moment.
    #[must_use]
    pub fn now(&self) -> Arc<Granted> {
        self.0.load_full()
    }

    pub(super) fn kv(&self) -> Result<(), OpFailure> {
        if self.0.load().kv { Ok(()) } else { Err(failure::not_granted("ctx.kv", "`capabilities.kv: true`")) }
    }

    pub(super) fn files(&self) -> Result<(), OpFailure> {
        if self.0.load().files { Ok(()) } else { Err(failure::not_granted("ctx.files", "`capabilities.files: true`")) }
    }

    pub(super) fn http(&self) -> Result<AllowedHosts, OpFailure> {
        let refused = || failure::not_granted("ctx.httpGetJson", "`capabilities.httpGetJson: true` and `allowedHosts`");
        self.0.load().http.clone().ok_or_else(refused)
    }

    pub(super) fn logs(&self) -> bool {
        self.0.load().logs
    }
}
