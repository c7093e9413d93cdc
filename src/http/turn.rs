//! Processor turns for work done on behalf of a caller.

use axum::{extract::FromRequestParts, http::request::Parts};
use tollhouse_base::share::Turn;
use tollhouse_front::{Fault, peer};

use super::services::Http;

/// A processor turn of the caller. The handler records the cost of its work.
pub(super) struct ProcessorTurn(pub(super) Turn);

impl FromRequestParts<Http> for ProcessorTurn {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Fault> {
        Ok(Self(http.shared.limits.turn(peer(&parts.extensions)).await?))
    }
}
