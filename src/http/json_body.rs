//! JSON bodies of requests. Their errors name the field that does not fit.

use axum::extract::FromRequest;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use tollhouse_api as api;
use tollhouse_base::{
    boxed, deserialize_error,
    offload::{DropOffThread, run_blocking},
};
use tollhouse_catalog::KeepsResponse;
use tollhouse_front::{ApiError, Code, body, peer};
use tollhouse_tool::StaticResponse;

use crate::{Http, Json, Request, Response};

/// A response, or the error in the envelope.
pub(super) type Answer = Result<Response, ApiError>;
/// A JSON body, or the error in the envelope.
pub(super) type JsonResult<T> = Result<Json<T>, ApiError>;

/// A type read from a request body, with the error code for a body that does not fit.
pub(super) trait Subject {
    const CODE: Code;
}

macro_rules! subjects {
    ($($body:ty: $code:expr,)*) => {
        $(impl Subject for $body {
            const CODE: Code = $code;
        })*
    };
}

subjects! {
    api::Budget: Code::InvalidCredit,
    api::BuilderVerdict: Code::InvalidDecision,
    api::ConversionRequest: Code::InvalidMember,
    api::CreditVerdict: Code::InvalidDecision,
    api::FaucetRequest: Code::InvalidMember,
    api::MintCreditRequest: Code::InvalidCredit,
    api::PayoutSettingsDraft: Code::InvalidPayout,
    api::PayoutVerdict: Code::InvalidDecision,
    api::PolicyDraft: Code::InvalidPolicy,
    api::QuoteRequest: Code::InvalidMember,
    api::RefundRequest: Code::InvalidRefund,
    api::RegistrationRequest: Code::InvalidRegistration,
    api::ReviewVerdict: Code::InvalidDecision,
    api::SellerQuoteRequest: Code::InvalidMember,
    api::SetSecretRequest: Code::InvalidSecret,
    api::SettlementVerdict: Code::InvalidDecision,
}

/// A JSON body of a management request with at most `MAX_BYTES` bytes. Errors name the field that does not fit.
pub(super) struct Body<T, const MAX_BYTES: usize = { body::MANAGEMENT_BODY_BYTES }>(pub(super) T);

impl<T: DeserializeOwned + Subject + Send, const MAX_BYTES: usize> FromRequest<Http> for Body<T, MAX_BYTES> {
    type Rejection = ApiError;

    async fn from_request(request: Request, http: &Http) -> Result<Self, ApiError> {
        let (text, value) = json_body(request, http, MAX_BYTES).await?;
        let read = run_blocking(text.len(), || deserialize_error::json(&value).map(Self)).await;
        read.map_err(|error| ApiError::invalid(T::CODE, error.message, &error.pointer))
    }
}

/// The JSON body of an upload, whose static response keeps the text of its numbers. Errors name the field that does not fit.
pub(super) struct Uploaded<T>(pub(super) T);

impl<T: DeserializeOwned + KeepsResponse + Send> FromRequest<Http> for Uploaded<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, http: &Http) -> Result<Self, ApiError> {
        let text = management_body(request, http, body::MANAGEMENT_BODY_BYTES).await?;
        let (rest, value, response) = cut_json(&text).await?;
        let read = run_blocking(rest.len(), || deserialize_error::json::<T>(&value)).await;
        let mut read = read.map_err(|error| ApiError::invalid(Code::InvalidEndpoint, error.message, &error.pointer))?;
        if let Some(response) = response {
            read.keep_response(response);
        }
        Ok(Self(read))
    }
}

/// Reads a body of at most `max` bytes as JSON. So JSON that does not fit its type differs from invalid JSON.
#[boxed]
async fn json_body(request: Request, http: &Http, max: usize) -> Result<(Bytes, DropOffThread), ApiError> {
    let text = management_body(request, http, max).await?;
    let value = body::json(&text).await?;
    Ok((text, value))
}

/// Returns the body of an upload without its static response, as text and as JSON, and the static response.
#[boxed]
async fn cut_json(text: &Bytes) -> Result<(Bytes, DropOffThread, Option<StaticResponse>), ApiError> {
    let (rest, response) = cut_response(text).await;
    let value = body::json(&rest).await?;
    Ok((rest, value, response))
}

/// Cuts a static response out of the body of an upload. The caller must put it back into the value that the rest is parsed as.
pub(super) async fn cut_response(text: &Bytes) -> (Bytes, Option<StaticResponse>) {
    match run_blocking(text.len(), || StaticResponse::cut(text)).await {
        Some((rest, response)) => (rest.into(), Some(response)),
        None => (text.clone(), None),
    }
}

/// Reads the text of a JSON body of at most `max` bytes.
#[boxed]
pub(super) async fn management_body(request: Request, http: &Http, max: usize) -> Result<Bytes, ApiError> {
    let (parts, body) = request.into_parts();
    body::check_json(&parts.headers)?;
    body::read(&http.shared.intake, peer(&parts.extensions), &parts.headers, body, max).await
}
