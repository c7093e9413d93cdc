//! Headers that HTTP itself does not know: the host's own, and those of x402 and of its clients. Parsed once.

use axum::http::{HeaderMap, HeaderName};

pub(super) static ADMIN_TOKEN: HeaderName = HeaderName::from_static("x-admin-token");
pub(super) static BUILDER_KEY: HeaderName = HeaderName::from_static("x-builder-key");
pub(super) static DEVELOPER_CREDIT: HeaderName = HeaderName::from_static("x-developer-credit");
pub(super) static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(super) static PAYMENT_ID: HeaderName = HeaderName::from_static("x-payment-id");
/// x402 v2, HTTP transport: a challenge, a payment, a settlement.
pub(super) static PAYMENT_REQUIRED: HeaderName = HeaderName::from_static("payment-required");
pub(super) static PAYMENT_RESPONSE: HeaderName = HeaderName::from_static("payment-response");
pub(super) static PAYMENT_SIGNATURE: HeaderName = HeaderName::from_static("payment-signature");
pub(super) static RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(super) static RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
pub(super) static RECEIPT_ID: HeaderName = HeaderName::from_static("x-receipt-id");
pub(super) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// x402 v1: a payment, a settlement.
pub(super) static X_PAYMENT: HeaderName = HeaderName::from_static("x-payment");
pub(super) static X_PAYMENT_RESPONSE: HeaderName = HeaderName::from_static("x-payment-response");

/// Whether the request says that it comes from an admin or a builder.
pub(super) fn shows_caller(headers: &HeaderMap) -> bool {
    headers.contains_key(&ADMIN_TOKEN) || headers.contains_key(&BUILDER_KEY)
}
