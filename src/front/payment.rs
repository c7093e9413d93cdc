//! Payments in request headers, and settlements in response headers.

use std::{borrow::Cow, sync::Arc};

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use tollhouse_call::{CallError, Calls, CompletedCall, ReplayRequest, RunningCall};
use tollhouse_money::{CREDIT_PREFIX, CreditOffer, OfferedPayment, SettlementNotice, WireVersion};

use super::{api_error::ApiError, error_codes::Code, header_names};

/// Returns the payment in the headers. It never fails: the payment check rejects an invalid payment later.
pub fn offered(headers: &HeaderMap) -> OfferedPayment {
    let text = |name: &HeaderName| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    if let Some(payload) = text(&header_names::PAYMENT_SIGNATURE) {
        return OfferedPayment::X402 { version: WireVersion::V2, header: payload };
    }
    if let Some(payload) = text(&header_names::X_PAYMENT) {
        return OfferedPayment::X402 { version: WireVersion::V1, header: payload };
    }
    match credit(headers) {
        Some(token) => OfferedPayment::Credit(CreditOffer {
            token: token.into_owned(),
            idempotency_key: text(&header_names::IDEMPOTENCY_KEY),
            observer: None,
        }),
        None => OfferedPayment::Nothing,
    }
}

/// Returns the quote id in the headers. It never fails: the call rejects an invalid one later.
pub fn quote(headers: &HeaderMap) -> Option<String> {
    headers.get(&header_names::QUOTE_ID).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Looks up whether the payment already bought a call that is now `refused` because the tool changed or was deleted.
/// Returns that call, or else `refused`.
pub async fn bought(calls: &Arc<Calls>, refused: ApiError, request: ReplayRequest<'_>) -> Result<RunningCall<CompletedCall>, ApiError> {
    match refused.code() {
        code @ (Code::UnknownEndpoint | Code::EndpointPaused | Code::StreamingRequired) => match calls.find_paid(request).await {
            Ok(performing) => performing.ok_or(refused),
            // Repeated in the way that the tool requires, the call runs.
            Err(error) if code == Code::StreamingRequired && matches!(*error, CallError::AnswerOwed(_)) => Err(refused),
            Err(error) => Err(error.into()),
        },
        _ => Err(refused),
    }
}

/// Returns the token of a developer credit: from its own header or from `Authorization: Bearer dc_…`, which is the only
/// field of many clients. Other bearer tokens are ignored.
pub fn credit(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    match headers.get(&header_names::DEVELOPER_CREDIT) {
        Some(token) => Some(String::from_utf8_lossy(token.as_bytes())),
        None => bearer_credit(headers).map(Cow::Borrowed),
    }
}

/// Rejects a request whose two headers show different developer credits.
pub(crate) fn check_credit(headers: &HeaderMap) -> Result<(), ApiError> {
    let (Some(own), Some(bearer)) = (headers.get(&header_names::DEVELOPER_CREDIT), bearer_credit(headers)) else { return Ok(()) };
    if own.as_bytes() == bearer.as_bytes() {
        return Ok(());
    }
    Err(ApiError::bad_request("`X-Developer-Credit` and `Authorization` show two credits").hint("send the one that is to pay"))
}

/// Returns the token of `Authorization: Bearer`, whatever it is for.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn bearer_credit(headers: &HeaderMap) -> Option<&str> {
    bearer(headers).filter(|token| token.starts_with(CREDIT_PREFIX))
}

/// Sets `PAYMENT-RESPONSE` for v2 or `X-PAYMENT-RESPONSE` for v1.
pub fn settlement(headers: &mut HeaderMap, settled: &SettlementNotice) {
    let name = match settled.version {
        WireVersion::V2 => &header_names::PAYMENT_RESPONSE,
        WireVersion::V1 => &header_names::X_PAYMENT_RESPONSE,
    };
    if let Ok(value) = HeaderValue::from_str(&STANDARD.encode(&settled.body)) {
        headers.insert(name, value);
    }
}
