//! What a request offers as payment.

use axum::http::HeaderMap;

use crate::payment::{CreditOffer, Offered, WireVersion};

/// The payment that a request's headers carry. Never an error: a bad one is refused by the gate.
pub(crate) fn offered(headers: &HeaderMap) -> Offered {
    let text = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    if let Some(payload) = text("payment-signature") {
        return Offered::X402 { version: WireVersion::V2, header: payload };
    }
    if let Some(payload) = text("x-payment") {
        return Offered::X402 { version: WireVersion::V1, header: payload };
    }
    match text("x-developer-credit") {
        Some(token) => Offered::Credit(CreditOffer { token, idempotency_key: text("idempotency-key"), witness: None }),
        None => Offered::Nothing,
    }
}
