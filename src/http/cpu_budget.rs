//! Processor turns for work done on behalf of a caller.

use tollhouse_base::cpu_share::CpuTurn;
use tollhouse_front::{ApiError, peer};

use crate::{FromRequestParts, Http, Parts};

/// A processor turn of the caller. The handler records the cost of its work.
pub(super) struct CpuBudget(pub(super) CpuTurn);

impl FromRequestParts<Http> for CpuBudget {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, ApiError> {
        Ok(Self(http.shared.limits.turn(peer(&parts.extensions)).await?))
    }
}
