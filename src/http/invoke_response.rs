//! An answer with its receipt: the response of `/ai/invoke`, and the last event of a stream.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::value::RawValue;
use tollhouse_api::InvokeResponse;
use tollhouse_call::{CompletedCall, Content, chosen_headers};
use tollhouse_front::ApiError;

use crate::Services;

/// How the answer is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseStyle {
    /// As a response, whose headers contain payment and settlement.
    Plain,
    /// As an event, which has no headers.
    Stream,
}

/// The body that `/tools` would return.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ResultBody<'a> {
    /// The handler's JSON text, unparsed, so that numbers keep their digits.
    Json(&'a RawValue),
    #[serde(rename_all = "camelCase")]
    Text {
        media_type: Cow<'a, str>,
        text: &'a str,
    },
    #[serde(rename_all = "camelCase")]
    Bytes {
        media_type: Cow<'a, str>,
        base64: String,
    },
    Nothing,
}

impl<'a> From<Content<'a>> for ResultBody<'a> {
    fn from(content: Content<'a>) -> Self {
        match content {
            Content::Json { json, .. } => Self::Json(json),
            Content::Text { media_type, text } => Self::Text { media_type, text },
            Content::Bytes { media_type, bytes } => Self::Bytes { media_type, base64: STANDARD.encode(bytes) },
            Content::Nothing => Self::Nothing,
        }
    }
}

/// Returns `{ok, status?, headers?, result, receipt}` as JSON. A result that is not JSON is `{mediaType, text}` or
/// `{mediaType, base64}`. For a status without a body it is `null`.
pub(super) async fn invoke_response_json(http: &Services, done: &CompletedCall, style: ResponseStyle) -> Result<String, ApiError> {
    let answer = &done.answer;
    let receipt = if answer.receipt_id.is_empty() { None } else { http.receipts.find(&answer.receipt_id).await? };
    let paid = done.payment.as_ref().filter(|_| style == ResponseStyle::Stream);
    let settlement = || answer.settlement.as_ref().and_then(|settled| serde_json::from_str(&settled.body).ok()).unwrap_or_default();
    let response = InvokeResponse {
        ok: done.success,
        status: Some(answer.status).filter(|status| *status != 200),
        headers: chosen_headers(answer).into_iter().map(|(name, value)| (name, value.to_owned())).collect(),
        result: ResultBody::from(Content::of(answer)),
        receipt,
        payment_id: paid.cloned(),
        settlement: paid.map(|_| settlement()),
    };
    Ok(serde_json::to_string(&response).expect("an answer has text keys"))
}
