//! What a request offers as payment, and who it says it is.

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, request::Parts},
};

use super::error::ApiError;
use crate::{
    app::App,
    payment::{CreditOffer, Offered, WireVersion},
};
use std::sync::Arc;

/// The payment that a request's headers carry. Never an error: a bad one is refused by the gate.
pub(super) fn offered(headers: &HeaderMap) -> Offered {
    let text = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    if let Some(payload) = text("payment-signature") {
        return Offered::X402 { version: WireVersion::V2, header: payload };
    }
    if let Some(payload) = text("x-payment") {
        return Offered::X402 { version: WireVersion::V1, header: payload };
    }
    match text("x-developer-credit") {
        Some(token) => Offered::Credit(CreditOffer { token, idempotency_key: text("idempotency-key") }),
        None => Offered::Nothing,
    }
}

/// A request with the admin token.
pub(super) struct Admin;

impl FromRequestParts<Arc<App>> for Admin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let given = parts.headers.get("x-admin-token").ok_or_else(ApiError::unauthorized)?;
        if app.admin.matches(given.as_bytes()) { Ok(Self) } else { Err(ApiError::unauthorized()) }
    }
}
