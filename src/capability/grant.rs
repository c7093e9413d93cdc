//! The permissions that a tool currently has, and those of one call.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tollhouse_base::id::{CallId, EndpointId};
use tollhouse_protocol::{Limits, OpFailure};
use tollhouse_tool::{Capabilities, Capability, Owner, capabilities};

use super::{AllowedHosts, failure, secret::Secret};

/// The grant of a tool at one moment. Default: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Granted {
    pub capabilities: Capabilities,
    /// The hosts that outgoing requests may reach.
    pub hosts: AllowedHosts,
    /// Capabilities that wait for an admin. They permit nothing, and only change the text of an error.
    pub requested: Capabilities,
    /// Hosts that wait for an admin.
    pub requested_hosts: AllowedHosts,
}

/// The live grant of a tool. The catalog sets it, and running calls read it at every op.
///
/// All calls of a tool share one grant, so that a capability can be revoked without a list of calls.
#[derive(Debug, Default)]
pub struct Grant(ArcSwap<Granted>);

impl Grant {
    /// Creates a grant to share with calls.
    pub fn new(granted: Granted) -> Arc<Self> {
        Arc::new(Self(ArcSwap::from_pointee(granted)))
    }

    /// Replaces the grant. Later ops see the new one. Running ops complete under the old one.
    pub fn set(&self, granted: Granted) {
        self.0.store(Arc::new(granted));
    }

    pub fn now(&self) -> Arc<Granted> {
        self.0.load_full()
    }

    /// Returns the current grant if it includes the capability.
    fn require(&self, capability: Capability) -> Result<Guard<Arc<Granted>>, Denied> {
        let granted = self.0.load();
        if granted.capabilities.has(capability) {
            return Ok(granted);
        }
        Err(Denied { capability, is_requested: granted.requested.has(capability) })
    }
}

/// The capability that was not granted.
#[derive(Debug)]
pub(super) struct Denied {
    capability: Capability,
    /// Whether it waits for an admin.
    is_requested: bool,
}

impl From<Denied> for OpFailure {
    fn from(Denied { capability, is_requested }: Denied) -> Self {
        let row = capability.row();
        if is_requested { failure::waits(row.member, row.name) } else { failure::not_granted(row.member, &capability.manifest_lines()) }
    }
}

/// Defines a gate for each capability, named like its ops. An op without a gate does not compile.
macro_rules! gates {
    ($($field:ident $capability:ident $name:literal $member:literal $touches:ident $($said:literal)+;)*) => {
        impl Grant {
            $(#[allow(dead_code, reason = "no op belongs to `wasm`: the tier of a worker has it")]
            pub(super) fn $field(&self) -> Result<Guard<Arc<Granted>>, Denied> {
                self.require(Capability::$capability)
            })*
        }
    };
}

capabilities!(gates);

/// Everything that determines what the ops of one call may do.
#[derive(Debug, Clone)]
pub struct CallGrants {
    pub owner: Owner,
    pub endpoint_id: EndpointId,
    pub call_id: CallId,
    /// Whether the tool's owner made the call.
    pub by_owner: bool,
    /// The tool's grant, shared with the catalog and read again at every op.
    pub grant: Arc<Grant>,
    /// The tool's secrets, decrypted for this call.
    pub secrets: Vec<Secret>,
    /// The call's effective limits.
    pub limits: Limits,
}
