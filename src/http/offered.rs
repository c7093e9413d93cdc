//! What a request offers as payment.

use axum::http::{HeaderMap, HeaderName};

use super::names;
use crate::payment::{CreditOffer, Offered, WireVersion};

/// The payment that a request's headers carry. Never an error: a bad one is refused by the gate.
pub(crate) fn offered(headers: &HeaderMap) -> Offered {
    let text = |name: &HeaderName| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    if let Some(payload) = text(&names::PAYMENT_SIGNATURE) {
        return Offered::X402 { version: WireVersion::V2, header: payload };
    }
    if let Some(payload) = text(&names::X_PAYMENT) {
        return Offered::X402 { version: WireVersion::V1, header: payload };
    }
    match text(&names::DEVELOPER_CREDIT) {
        Some(token) => Offered::Credit(CreditOffer { token, idempotency_key: text(&names::IDEMPOTENCY_KEY), witness: None }),
        None => Offered::Nothing,
    }
}
