//! A turn of the processor for what is computed here for a caller.

use axum::{extract::FromRequestParts, http::request::Parts};

use super::services::Http;
use crate::{
    base::share::Turn,
    front::{Fault, peer},
};

/// A turn of the caller's, for what is computed here for it: the handler says what that cost.
pub(super) struct ProcessorTurn(pub(super) Turn);

impl FromRequestParts<Http> for ProcessorTurn {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Fault> {
        Ok(Self(http.shared.limits.turn(peer(&parts.extensions)).await?))
    }
}
