//! Headers that HTTP itself does not know: the host's own, and those of x402 and of its clients. Parsed once.

use axum::http::{HeaderMap, HeaderName};

/// An admin's credential.
pub static ADMIN_TOKEN: HeaderName = HeaderName::from_static("x-admin-token");
/// A builder's credential.
pub static BUILDER_KEY: HeaderName = HeaderName::from_static("x-builder-key");
/// A prepaid credit.
pub static DEVELOPER_CREDIT: HeaderName = HeaderName::from_static("x-developer-credit");
/// Names a call, so that a repeated one is the same call.
pub static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// What names an MCP client's session.
pub static MCP_SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Names a payment, to read its answer again.
pub static PAYMENT_ID: HeaderName = HeaderName::from_static("x-payment-id");
/// x402 v2, HTTP transport: a challenge, a payment, a settlement.
pub(crate) static PAYMENT_REQUIRED: HeaderName = HeaderName::from_static("payment-required");
pub(crate) static PAYMENT_RESPONSE: HeaderName = HeaderName::from_static("payment-response");
/// A payment of x402 v2.
pub static PAYMENT_SIGNATURE: HeaderName = HeaderName::from_static("payment-signature");
/// The quote that a call is made under.
pub static QUOTE_ID: HeaderName = HeaderName::from_static("x-quote-id");
pub(crate) static RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(crate) static RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// The receipt of an answer.
pub static RECEIPT_ID: HeaderName = HeaderName::from_static("x-receipt-id");
pub(crate) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Which trace the call belongs to, as W3C's drafts have it.
pub(crate) static TRACE_RESPONSE: HeaderName = HeaderName::from_static("traceresponse");
/// x402 v1: a payment, a settlement.
pub static X_PAYMENT: HeaderName = HeaderName::from_static("x-payment");
pub(crate) static X_PAYMENT_RESPONSE: HeaderName = HeaderName::from_static("x-payment-response");

/// Whether the request says that it comes from an admin or a builder.
pub fn shows_caller(headers: &HeaderMap) -> bool {
    headers.contains_key(&ADMIN_TOKEN) || headers.contains_key(&BUILDER_KEY)
}
