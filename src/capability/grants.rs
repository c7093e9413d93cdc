//! What one call was granted.

use std::{fmt, sync::Arc};

use tollhouse_base::id::{CallId, EndpointId};
use tollhouse_protocol::Limits;
use tollhouse_tool::Owner;

use super::{grant::Grant, secret::Secret};

/// All that decides about the ops of one call.
#[derive(Clone)]
pub struct CallGrants {
    /// Whose endpoint it is.
    pub owner: Owner,
    /// The endpoint that the call is of.
    pub endpoint_id: EndpointId,
    /// The call.
    pub call_id: CallId,
    /// Whether the endpoint's owner made it.
    pub by_owner: bool,
    /// The endpoint's grant, shared with the catalogue and asked anew at every op.
    pub grant: Arc<Grant>,
    /// The endpoint's secrets, opened for this call.
    pub secrets: Vec<Secret>,
    /// The call's limits, narrowed already.
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
