//! Payments in request headers, and settlements in response headers.

use std::{borrow::Cow, sync::Arc};

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_PAD_INDIFFERENT},
};
use tollhouse_call::{CallError, Calls, CompletedCall, ReplayRequest, RunningCall};
use tollhouse_money::{CREDIT_PREFIX, CreditOffer, OfferedPayment, SettlementNotice, WireVersion};
use tollhouse_tool::{PortabilityIssue, has_reserved_key};

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
        Some(token) => {
            OfferedPayment::Credit(CreditOffer { token: token.into_owned(), idempotency_key: idempotency_key(headers), observer: None })
        }
        None => OfferedPayment::Nothing,
    }
}

/// Rejects a payment with a key that the JSON parser reserves for itself. Bodies with such a key are rejected too. Other invalid
/// payments are rejected later, by the payment check.
pub(crate) fn check_payment(headers: &HeaderMap) -> Result<(), ApiError> {
    let is_reserved = |payload: &HeaderValue| {
        let payload = payload.as_bytes().trim_ascii();
        if payload.starts_with(b"{") {
            return has_reserved_key(payload);
        }
        // Several clients send the URL-safe alphabet.
        let standard = payload.iter().map(|byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            other => *other,
        });
        STANDARD_PAD_INDIFFERENT.decode(standard.collect::<Vec<_>>()).is_ok_and(|json| has_reserved_key(&json))
    };
    match [&header_names::PAYMENT_SIGNATURE, &header_names::X_PAYMENT].into_iter().filter_map(|name| headers.get(name)).any(is_reserved) {
        true => Err(reserved_key("payment")),
        false => Ok(()),
    }
}

/// Returns the error for JSON with a reserved key. `part` is the part of the request that contains it.
pub fn reserved_key(part: &str) -> ApiError {
    ApiError::new(Code::InvalidJson, format!("the {part} is not JSON: {}", PortabilityIssue::ReservedKey))
}

/// Returns the quote id in the headers. It never fails: the call rejects an invalid one later.
pub fn quote(headers: &HeaderMap) -> Option<String> {
    headers.get(&header_names::QUOTE_ID).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Returns the idempotency key in the headers. It never fails: the payment check rejects an invalid one later.
pub fn idempotency_key(headers: &HeaderMap) -> Option<String> {
    headers.get(&header_names::IDEMPOTENCY_KEY).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Looks up whether the payment already bought a call that is now `refused` because the tool changed or was deleted, or
/// because its source is lost or cannot be read now. Returns that call, or else `refused`.
pub async fn bought(calls: &Arc<Calls>, refused: ApiError, request: ReplayRequest<'_>) -> Result<RunningCall<CompletedCall>, ApiError> {
    let code = refused.code();
    let is_unreadable = matches!(code, Code::SourceUnavailable | Code::StoreUnavailable);
    if !is_unreadable && !matches!(code, Code::UnknownEndpoint | Code::EndpointPaused | Code::StreamingRequired) {
        return Err(refused);
    }
    match calls.find_paid(request).await {
        Ok(performing) => performing.ok_or(refused),
        Err(error) if code == Code::StreamingRequired && matches!(*error, CallError::AnswerOwed(_)) => {
            let hint = "Send `\"stream\": true` or `Accept: text/event-stream` with the same payment. The tool then runs without another \
                        charge";
            Err(ApiError::from(error).hint(hint))
        }
        Err(error) => Err(error.into()),
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
    Err(ApiError::bad_request("`X-Developer-Credit` and `Authorization` have two different credits").hint("Send only the one that pays"))
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

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    #[test]
    fn payments_with_a_reserved_key_are_rejected() {
        let code = |name: &HeaderName, payload: &str| {
            let headers = HeaderMap::from_iter([(name.clone(), HeaderValue::try_from(payload).unwrap())]);
            check_payment(&headers).err().map(|fault| fault.code())
        };
        let reserved = r#"{"x402Version":2,"extensions":{"$serde_json::private::RawValue":"[1]"},"note":"???>>>"}"#;
        let fine = r#"{"x402Version":2,"note":"$serde_json::private::RawValue"}"#;
        for name in [&header_names::PAYMENT_SIGNATURE, &header_names::X_PAYMENT] {
            for payload in [reserved.to_owned(), STANDARD.encode(reserved), URL_SAFE_NO_PAD.encode(reserved)] {
                assert_eq!(code(name, &payload), Some(Code::InvalidJson), "{payload}");
            }
            for payload in [fine.to_owned(), STANDARD.encode(fine), "no base64".to_owned()] {
                assert_eq!(code(name, &payload), None, "{payload}");
            }
        }
    }
}
