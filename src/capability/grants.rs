//! The grants of one call.

use std::{fmt, sync::Arc};

use tollhouse_base::id::{CallId, EndpointId};
use tollhouse_protocol::Limits;
use tollhouse_tool::Owner;

use super::{grant::Grant, secret::Secret};

/// Everything that determines what the ops of one call may do.
#[derive(Clone)]
pub struct CallGrants {
    /// The owner of the tool.
    pub owner: Owner,
    /// The tool that is called.
    pub endpoint_id: EndpointId,
    /// The call's id.
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

impl fmt::Debug for CallGrants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallGrants")
            .field("endpoint_id", &self.endpoint_id)
            .field("call_id", &self.call_id)
            .field("grant", &self.grant)
            .field("secrets", &self.secrets)
            .finish_non_exhaustive()
    }
}
