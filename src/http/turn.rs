//! A turn of the processor for what is computed here for a caller.

use axum::{extract::FromRequestParts, http::request::Parts};
use tollhouse_base::share::Turn;
use tollhouse_front::{Fault, peer};

use super::services::Http;

/// A turn of the caller's, for what is computed here for it: the handler says what that cost.
pub(super) struct ProcessorTurn(pub(super) Turn);

impl FromRequestParts<Http> for ProcessorTurn {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Fault> {
        Ok(Self(http.shared.limits.turn(peer(&parts.extensions)).await?))
    }
}
