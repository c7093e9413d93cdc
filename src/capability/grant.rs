//! What an endpoint may touch, now.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tollhouse_protocol::OpFailure;
use tollhouse_tool::{Capabilities, Capability, capabilities};

use super::{AllowedHosts, failure};

/// What an endpoint may touch at one moment. Default: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Granted {
    /// Which of `ctx`.
    pub capabilities: Capabilities,
    /// The hosts that those reach which reach out.
    pub hosts: AllowedHosts,
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

    /// The grant at this moment, if the capability is there.
    fn having(&self, capability: Capability) -> Result<Guard<Arc<Granted>>, Denied> {
        let granted = self.0.load();
        if granted.capabilities.has(capability) { Ok(granted) } else { Err(Denied(capability)) }
    }
}

/// What the call was not granted.
#[derive(Debug)]
pub(super) struct Denied(Capability);

impl From<Denied> for OpFailure {
    fn from(Denied(capability): Denied) -> Self {
        failure::not_granted(&format!("ctx.{}", capability.row().member), &capability.asked_by())
    }
}

/// A gate for each capability, under the name that its ops go by: an op of another name does not compile.
macro_rules! gates {
    ($($field:ident $capability:ident $name:literal $member:literal $touches:ident $($said:literal)+;)*) => {
        impl Grant {
            $(pub(super) fn $field(&self) -> Result<Guard<Arc<Granted>>, Denied> {
                self.having(Capability::$capability)
            })*
        }
    };
}

capabilities!(gates);
