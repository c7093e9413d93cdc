//! API errors as HTTP responses: status, headers, and the envelope or the x402 challenge.

use axum::{
    Json,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use tollhouse_money::X402Challenge;

use super::{ApiError, RateLimitPolicy};
use crate::{error_codes::Code, header_names, payment::settlement};

/// Returns the code of an error response, for middleware. `None` if the response is not an error.
pub fn code_of(response: &Response) -> Option<Code> {
    response.extensions().get().copied()
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let code = self.code();
        let mut response = match (code, self.challenge()) {
            (Code::PaymentRequired, Some(challenge)) => challenged(challenge),
            _ => Json(self.envelope()).into_response(),
        };
        *response.status_mut() = code.row().status;
        response.extensions_mut().insert(code);
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if code == Code::UnsupportedMediaType {
            // RFC 9110, section 15.5.16: `identity` says that no content coding is supported.
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        if let Some(unanswered) = self.unanswered() {
            let ids = [(&header_names::RECEIPT_ID, unanswered.receipt.as_str()), (&header_names::PAYMENT_ID, unanswered.payment.as_str())];
            headers.extend(ids.into_iter().filter_map(|(name, id)| Some((name.clone(), HeaderValue::try_from(id).ok()?))));
            unanswered.notice.iter().for_each(|notice| settlement(headers, notice));
        }
        if let Some(seconds) = self.retry_after_secs() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if let Some(RateLimitPolicy { name, max, window_secs }) = self.policy {
            let wait = self.retry_after_secs().unwrap_or_default();
            let reported = [
                (&header_names::RATE_LIMIT_POLICY, format!("\"{name}\";q={max};w={window_secs}")),
                (&header_names::RATE_LIMIT, format!("\"{name}\";r=0;t={wait}")),
            ];
            headers.extend(reported.into_iter().filter_map(|(name, value)| Some((name.clone(), HeaderValue::try_from(value).ok()?))));
        }
        response
    }
}

/// Returns the challenge for both protocol versions: v1 in the body, v2 in its header.
fn challenged(challenge: &X402Challenge) -> Response {
    let mut response = Json(&challenge.v1).into_response();
    if let Ok(value) = HeaderValue::from_str(&challenge.v2_header) {
        response.headers_mut().insert(&header_names::PAYMENT_REQUIRED, value);
    }
    if let Some(failed) = &challenge.failed {
        settlement(response.headers_mut(), failed);
    }
    response
}
