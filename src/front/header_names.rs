//! Names of HTTP headers beyond the standard ones: the host's, those of x402 and those of its clients. They are parsed
//! once.

use axum::http::{HeaderMap, HeaderName};

/// An admin's credential.
pub static ADMIN_TOKEN: HeaderName = HeaderName::from_static("x-admin-token");
/// A builder's credential.
pub static BUILDER_KEY: HeaderName = HeaderName::from_static("x-builder-key");
/// The token of a developer credit.
pub static DEVELOPER_CREDIT: HeaderName = HeaderName::from_static("x-developer-credit");
/// The idempotency key of a call.
pub static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The session of an MCP client.
pub static MCP_SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// A payment whose answer is read again.
pub static PAYMENT_ID: HeaderName = HeaderName::from_static("x-payment-id");
/// x402 v2 over HTTP: a challenge and a settlement.
pub(crate) static PAYMENT_REQUIRED: HeaderName = HeaderName::from_static("payment-required");
pub(crate) static PAYMENT_RESPONSE: HeaderName = HeaderName::from_static("payment-response");
/// An x402 v2 payment.
pub static PAYMENT_SIGNATURE: HeaderName = HeaderName::from_static("payment-signature");
/// The quote of a call.
pub static QUOTE_ID: HeaderName = HeaderName::from_static("x-quote-id");
pub(crate) static RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(crate) static RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// The receipt of an answer.
pub static RECEIPT_ID: HeaderName = HeaderName::from_static("x-receipt-id");
pub(crate) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The trace of a call, as in the W3C Trace Context drafts.
pub(crate) static TRACE_RESPONSE: HeaderName = HeaderName::from_static("traceresponse");
/// x402 v1: a payment and a settlement.
pub static X_PAYMENT: HeaderName = HeaderName::from_static("x-payment");
pub(crate) static X_PAYMENT_RESPONSE: HeaderName = HeaderName::from_static("x-payment-response");

/// Returns whether the request shows a credential of an admin or a builder.
pub fn shows_caller(headers: &HeaderMap) -> bool {
    headers.contains_key(&ADMIN_TOKEN) || headers.contains_key(&BUILDER_KEY)
}
