//! What a request offers as payment, and how it is told of a settlement.

use std::{borrow::Cow, sync::Arc};

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use tollhouse_call::{Asked, CallError, Calls, Done, UnderWay};
use tollhouse_money::{CREDIT_PREFIX, CreditOffer, Offered, SettlementNotice, WireVersion};

use super::{fault::Fault, faults::Code, names};

/// The payment that a request's headers carry. Never an error: a bad one is refused by the gate.
pub fn offered(headers: &HeaderMap) -> Offered {
    let text = |name: &HeaderName| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    if let Some(payload) = text(&names::PAYMENT_SIGNATURE) {
        return Offered::X402 { version: WireVersion::V2, header: payload };
    }
    if let Some(payload) = text(&names::X_PAYMENT) {
        return Offered::X402 { version: WireVersion::V1, header: payload };
    }
    match credit(headers) {
        Some(token) => {
            Offered::Credit(CreditOffer { token: token.into_owned(), idempotency_key: text(&names::IDEMPOTENCY_KEY), observer: None })
        }
        None => Offered::Nothing,
    }
}

/// The quote that a request's headers name. Never an error: one that is none is refused by the call.
pub fn quote(headers: &HeaderMap) -> Option<String> {
    headers.get(&names::QUOTE_ID).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// What the payment of a request has bought already that is `refused` for what its tool is now, or is no more; else the refusal.
pub async fn bought(calls: &Arc<Calls>, refused: Fault, asked: Asked<'_>) -> Result<UnderWay<Done>, Fault> {
    match refused.code() {
        code @ (Code::UnknownEndpoint | Code::EndpointPaused | Code::StreamingRequired) => match calls.bought(asked).await {
            Ok(performing) => performing.ok_or(refused),
            // Asked as the tool wants it, it runs.
            Err(error) if code == Code::StreamingRequired && matches!(*error, CallError::AnswerOwed(_)) => Err(refused),
            Err(error) => Err(error.into()),
        },
        _ => Err(refused),
    }
}

/// The token of a developer credit: in the header that is for it, or as `Authorization: Bearer dc_…`, since many clients
/// have no other field. A bearer token that is no credit's is left alone.
pub fn credit(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    match headers.get(&names::DEVELOPER_CREDIT) {
        Some(token) => Some(String::from_utf8_lossy(token.as_bytes())),
        None => bearer_credit(headers).map(Cow::Borrowed),
    }
}

/// Refuses a request that shows one credit in one header and another one in the other.
pub(crate) fn check_credit(headers: &HeaderMap) -> Result<(), Fault> {
    let (Some(own), Some(bearer)) = (headers.get(&names::DEVELOPER_CREDIT), bearer_credit(headers)) else { return Ok(()) };
    if own.as_bytes() == bearer.as_bytes() {
        return Ok(());
    }
    Err(Fault::bad_request("`X-Developer-Credit` and `Authorization` show two credits").hint("send the one that is to pay"))
}

/// The token of `Authorization: Bearer`, whatever it is for.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn bearer_credit(headers: &HeaderMap) -> Option<&str> {
    bearer(headers).filter(|token| token.starts_with(CREDIT_PREFIX))
}

/// `PAYMENT-RESPONSE` for v2, `X-PAYMENT-RESPONSE` for v1.
pub fn settlement(headers: &mut HeaderMap, settled: &SettlementNotice) {
    let name = match settled.version {
        WireVersion::V2 => &names::PAYMENT_RESPONSE,
        WireVersion::V1 => &names::X_PAYMENT_RESPONSE,
    };
    if let Ok(value) = HeaderValue::from_str(&STANDARD.encode(&settled.body)) {
        headers.insert(name, value);
    }
}
