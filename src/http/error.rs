//! The one table from errors to answers, and the envelope they come in.

use std::{num::NonZeroU32, sync::Arc};

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};
use tollhouse_protocol::StopReason;

use super::{names, reply};
use crate::{
    base::id::RequestId,
    call::{CallError, Charged, Fault},
    capability::secret::SecretError,
    catalog::PublishError,
    money::{Challenge, Refusal, SettleError},
    store::StoreError,
    tool::finding::Finding,
};

tokio::task_local! {
    /// The id of the request being answered.
    pub(crate) static REQUEST: RequestId;
}

/// A refusal on its way out: a row of the table, with what it says of this request.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    fault: Fault,
    charged: Charged,
    message: String,
    hint: Option<String>,
    /// More members of `error`.
    details: Option<Box<Map<String, Value>>>,
    retry_after_secs: Option<u64>,
    /// What was used up, of a 429.
    policy: Option<Box<Policy>>,
    /// A 402 is an x402 challenge, not the envelope.
    challenge: Option<Box<Challenge>>,
}

/// So much in so much time, as headers tell it: draft-ietf-httpapi-ratelimit-headers.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: &'static str,
    pub(super) most: NonZeroU32,
    pub(super) window_secs: u64,
}

/// The `code` of an answer that is an error, for the layers around its handler.
#[derive(Debug, Clone, Copy)]
pub(super) struct Code(pub(super) &'static str);

/// Whether an answer is that of an [`ApiError`].
pub(crate) fn is_error(response: &Response) -> bool {
    response.extensions().get::<Code>().is_some()
}

/// The answer to a call's error: status and fault.
type Row = (StatusCode, Fault);

/// Every `code` of the envelope with its status, for the documents that list them.
#[must_use]
pub fn code_table() -> &'static [(u16, &'static str)] {
    &[
        (400, "invalid_json"),
        (400, "invalid_request"),
        (401, "unauthorized"),
        (403, "builder_suspended"),
        (403, "not_owner"),
        (404, "not_found"),
        (404, "unknown_endpoint"),
        (404, "unknown_version"),
        (404, "unknown_receipt"),
        (404, "unknown_builder"),
        (404, "unknown_credit"),
        (404, "unknown_payment"),
        (404, "unknown_payout"),
        (404, "unknown_secret"),
        (405, "method_not_allowed"),
        (408, "body_too_slow"),
        (409, "cancelled"),
        (409, "credit_revoked"),
        (409, "endpoint_paused"),
        (409, "payment_reused"),
        (409, "payment_in_progress"),
        (409, "master_key_given"),
        (409, "nothing_to_review"),
        (409, "slug_taken"),
        (409, "payout_settings_missing"),
        (409, "below_minimum"),
        (409, "wrong_state"),
        (409, "streaming_required"),
        (412, "revision_changed"),
        (413, "body_too_large"),
        (415, "unsupported_media_type"),
        (409, "taken_down"),
        (409, "too_many_endpoints"),
        (409, "under_review"),
        (422, "attestation_required"),
        (422, "content_blocked"),
        (422, "invalid_input"),
        (422, "invalid_request"),
        (422, "invalid_credit"),
        (422, "invalid_decision"),
        (422, "invalid_endpoint"),
        (422, "invalid_handler"),
        (422, "invalid_payout"),
        (422, "invalid_policy"),
        (422, "invalid_registration"),
        (422, "invalid_secret"),
        (429, "rate_limited"),
        (500, "internal"),
        (502, "handler_failed"),
        (502, "invalid_output"),
        (502, "memory_exceeded"),
        (502, "output_too_large"),
        (502, "op_limit_exceeded"),
        (502, "sandbox_crashed"),
        (502, "schema_too_costly"),
        (502, "settlement_unknown"),
        (502, "facilitator_unavailable"),
        (503, "busy"),
        (503, "secrets_unavailable"),
        (503, "store_unavailable"),
        (504, "wall_time_exceeded"),
        (504, "cpu_time_exceeded"),
    ]
}

/// No `_` arm: a new error does not compile until it has a row. Its code is [`CallError::code`].
fn row(error: &CallError) -> Row {
    use CallError as E;
    use Fault::{Caller, Host, Tool};
    match error {
        E::UnknownEndpoint(_) => (StatusCode::NOT_FOUND, Caller),
        E::Paused(_) | E::OwnerSuspended(_) | E::UnderReview(_) | E::TakenDown(_) => (StatusCode::CONFLICT, Tool),
        E::InvalidJson(_) => (StatusCode::BAD_REQUEST, Caller),
        E::BodyTooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, Caller),
        E::UnsupportedMediaType(_) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, Caller),
        E::Input(_) => (StatusCode::UNPROCESSABLE_ENTITY, Caller),
        E::Refused(refusal) => refusal_row(refusal),
        E::OverShare(_) => (StatusCode::TOO_MANY_REQUESTS, Caller),
        E::Busy { .. } | E::Held { .. } | E::NoSandbox => (StatusCode::SERVICE_UNAVAILABLE, Host),
        E::Threw(_) | E::Misbehaved(_) | E::Output(_) => (StatusCode::BAD_GATEWAY, Tool),
        E::Stopped(reason) => (stop_status(reason), Tool),
        E::Settle(SettleError::Refused { .. }) => (StatusCode::PAYMENT_REQUIRED, Caller),
        E::Settle(SettleError::Unknown { .. }) => (StatusCode::BAD_GATEWAY, Host),
        E::Settle(SettleError::Store(_)) | E::Store(_) => (StatusCode::SERVICE_UNAVAILABLE, Host),
        E::SecretsUnavailable => (StatusCode::SERVICE_UNAVAILABLE, Host),
        E::Joined(_) => (StatusCode::CONFLICT, Caller),
        E::Cancelled => (StatusCode::CONFLICT, Caller),
        E::Internal => (StatusCode::INTERNAL_SERVER_ERROR, Host),
    }
}

fn stop_status(reason: &StopReason) -> StatusCode {
    match reason {
        StopReason::CpuTime { .. } | StopReason::WallTime { .. } => StatusCode::GATEWAY_TIMEOUT,
        StopReason::Memory { .. }
        | StopReason::SchemaTime { .. }
        | StopReason::SchemaMemory { .. }
        | StopReason::OutputSize { .. }
        | StopReason::OutputDepth { .. }
        | StopReason::Ops { .. }
        | StopReason::Deadlock
        | StopReason::Crashed => StatusCode::BAD_GATEWAY,
    }
}

fn refusal_row(refusal: &Refusal) -> Row {
    match refusal {
        Refusal::Reused | Refusal::InProgress(_) => (StatusCode::CONFLICT, Fault::Caller),
        Refusal::FacilitatorUnavailable(_) => (StatusCode::BAD_GATEWAY, Fault::Host),
        Refusal::Store(_) => (StatusCode::SERVICE_UNAVAILABLE, Fault::Host),
        Refusal::NoPayment
        | Refusal::Invalid { .. }
        | Refusal::CreditUnknown
        | Refusal::CreditRevoked
        | Refusal::InsufficientCredit { .. } => (StatusCode::PAYMENT_REQUIRED, Fault::Caller),
    }
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let fault = if status.is_server_error() { Fault::Host } else { Fault::Caller };
        Self {
            status,
            code,
            fault,
            charged: Charged::No,
            message: message.into(),
            hint: None,
            details: None,
            retry_after_secs: None,
            policy: None,
            challenge: None,
        }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// A member of a body that cannot be; `code` says of what.
    pub(super) fn invalid(code: &'static str, message: impl Into<String>, pointer: &str) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message).with("pointer", json!(pointer))
    }

    pub(super) fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message)
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "credential missing or wrong").hint("send `X-Admin-Token` or `X-Builder-Key`")
    }

    pub(super) fn not_owner() -> Self {
        Self::new(StatusCode::FORBIDDEN, "not_owner", "this belongs to another builder")
    }

    pub(super) fn suspended(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "builder_suspended", message)
            .hint("an admin restores a builder; revenue and payouts can be read meanwhile")
    }

    pub(super) fn unknown_endpoint(slug: &str) -> Self {
        Self::not_found("unknown_endpoint", format!("no endpoint is called `{slug}`"))
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn charged(&self) -> &'static str {
        match self.charged {
            Charged::No => "no",
            Charged::Unknown => "unknown",
        }
    }

    /// The challenge that a 402 consists of, or the error again.
    pub(crate) fn into_challenge(mut self) -> Result<Challenge, Self> {
        match self.challenge.take() {
            Some(challenge) => Ok(*challenge),
            None => Err(self),
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_secs = Some(seconds);
        self
    }

    /// An address has used up what `policy` gives it, for so many seconds.
    pub(super) fn rate_limited(policy: Policy, seconds: u64, message: impl Into<String>) -> Self {
        let mut error = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message).retry_after(seconds);
        error.policy = Some(Box::new(policy));
        error
    }

    pub(super) fn with(mut self, name: &'static str, value: Value) -> Self {
        self.details.get_or_insert_default().insert(name.to_owned(), value);
        self
    }

    /// What is wrong, as one of several: all of it but who asked.
    pub(super) fn problem(&self) -> Value {
        let mut error = self.body()["error"].take();
        if let Some(members) = error.as_object_mut() {
            members.retain(|name, _| !matches!(name.as_str(), "requestId" | "charged"));
        }
        error
    }

    /// A challenge in place of the envelope.
    pub(crate) fn challenge(challenge: Challenge) -> Self {
        let mut error = Self::new(StatusCode::PAYMENT_REQUIRED, "payment_required", challenge.error.clone());
        error.challenge = Some(Box::new(challenge));
        error
    }

    /// A call's error. `challenge` makes the x402 challenge that a 402 consists of.
    pub(crate) fn from_call(error: &CallError, challenge: impl FnOnce(&str) -> Challenge) -> Self {
        let (status, fault) = row(error);
        if status == StatusCode::PAYMENT_REQUIRED {
            let mut challenge = challenge(&payment_reason(error));
            if let CallError::Settle(SettleError::Refused { notice, .. }) = error {
                challenge.failed.clone_from(notice);
            }
            return Self::challenge(challenge);
        }
        let mut answer = Self { fault, charged: error.charged(), ..Self::new(status, error.code(), error.to_string()) };
        match error {
            CallError::Input(mismatch) | CallError::Output(mismatch) => answer = answer.with("problems", json!(mismatch.problems)),
            CallError::Busy { retry_after } | CallError::Held { retry_after } => {
                answer.retry_after_secs = Some(retry_after.as_secs().max(1))
            }
            CallError::OverShare(over) => answer = answer.retry_after(over.seconds),
            CallError::NoSandbox | CallError::Store(_) => answer.retry_after_secs = Some(1),
            CallError::Stopped(StopReason::SchemaTime { .. } | StopReason::SchemaMemory { .. }) => {
                answer = answer.hint("a smaller input may pass; a simpler schema is for the tool's builder to write");
            }
            CallError::Joined(payment)
            | CallError::Refused(Refusal::InProgress(payment))
            | CallError::Settle(SettleError::Unknown { payment, .. }) => {
                answer = answer
                    .hint(format!("ask GET /ai/payments/{payment} what became of it; do not pay again before it says so"))
                    .with("paymentId", json!(payment));
            }
            _ => {}
        }
        answer
    }

    /// The body: the envelope, or the v1 challenge. A stream has no headers, so there it is this and,
    /// under `paymentRequired`, the v2 challenge.
    pub(crate) fn body(&self) -> Value {
        if let Some(challenge) = &self.challenge {
            return json!({ "ok": false, "error": { "code": self.code, "fault": "caller", "message": self.message, "charged": false }, "paymentRequired": challenge.v2 });
        }
        let request = REQUEST.try_with(RequestId::to_string).unwrap_or_default();
        let mut error = json!({
            "code": self.code,
            "fault": match self.fault { Fault::Caller => "caller", Fault::Tool => "tool", Fault::Host => "host" },
            "message": self.message,
            "requestId": request,
            "charged": match self.charged { Charged::No => json!(false), Charged::Unknown => json!("unknown") },
        });
        if let Some(hint) = &self.hint {
            error["hint"] = json!(hint);
        }
        for (name, value) in self.details.iter().flat_map(|details| details.iter()) {
            error[name] = value.clone();
        }
        json!({ "ok": false, "error": error })
    }
}

/// The reason that a challenge repeats: a code of x402 where there is one.
fn payment_reason(error: &CallError) -> String {
    match error {
        CallError::Refused(Refusal::Invalid { reason, .. }) | CallError::Settle(SettleError::Refused { reason, .. }) => reason.clone(),
        other => other.to_string(),
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = match &self.challenge {
            Some(challenge) => {
                let mut response = (self.status, Json(challenge.v1.clone())).into_response();
                if let Ok(value) = HeaderValue::from_str(&challenge.v2_header) {
                    response.headers_mut().insert(&names::PAYMENT_REQUIRED, value);
                }
                if let Some(failed) = &challenge.failed {
                    reply::settlement(response.headers_mut(), failed);
                }
                response
            }
            None => (self.status, Json(self.body())).into_response(),
        };
        response.extensions_mut().insert(Code(self.code));
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after_secs {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if let Some(Policy { name, most, window_secs }) = self.policy.as_deref() {
            let wait = self.retry_after_secs.unwrap_or_default();
            let told = [
                (&names::RATE_LIMIT_POLICY, format!("\"{name}\";q={most};w={window_secs}")),
                (&names::RATE_LIMIT, format!("\"{name}\";r=0;t={wait}")),
            ];
            headers.extend(told.into_iter().filter_map(|(name, value)| Some((name.clone(), HeaderValue::try_from(value).ok()?))));
        }
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the store did not answer a request");
        let mut answer = Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", "the store is away");
        answer.retry_after_secs = Some(1);
        answer
    }
}

impl From<PublishError> for ApiError {
    fn from(error: PublishError) -> Self {
        Self::from_publish("invalid_endpoint", error)
    }
}

impl ApiError {
    /// Why the catalogue refused something; a field that cannot be has this `code`.
    pub(super) fn from_publish(code: &'static str, error: PublishError) -> Self {
        let message = error.to_string();
        match error {
            PublishError::Field { pointer, .. } => Self::invalid(code, message, &pointer),
            PublishError::SlugTaken(_) => Self::new(StatusCode::CONFLICT, "slug_taken", message),
            PublishError::Unknown(_) => Self::not_found("unknown_endpoint", message),
            PublishError::Changed(revision) => {
                Self::new(StatusCode::PRECONDITION_FAILED, "revision_changed", message).with("revision", json!(revision))
            }
            PublishError::Load(place) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_handler", message)
                .with("at", json!({ "line": place.line, "column": place.column })),
            PublishError::AttestationRequired => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "attestation_required", message),
            PublishError::Blocked(findings) => {
                let findings: Vec<_> = findings.iter().map(Finding::brief).collect();
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "content_blocked", message).with("findings", json!(findings))
            }
            PublishError::UnderReview => Self::new(StatusCode::CONFLICT, "under_review", message),
            PublishError::OwnerSuspended => Self::suspended(message),
            PublishError::TakenDown => Self::new(StatusCode::CONFLICT, "taken_down", message),
            PublishError::TooMany(_) => Self::new(StatusCode::CONFLICT, "too_many_endpoints", message),
            PublishError::Crowded(_) => Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message).retry_after(1),
            PublishError::NothingToDecide => Self::new(StatusCode::CONFLICT, "nothing_to_review", message),
            PublishError::Pool(pool) => Self::from_call(&CallError::from(pool), |_| Challenge::default()),
            PublishError::Store(store) => store.into(),
            PublishError::Corrupt(_) | PublishError::Shipped(_) => {
                tracing::error!(message, "an endpoint could not be read or published");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the host failed")
            }
        }
    }
}

impl From<SecretError> for ApiError {
    fn from(error: SecretError) -> Self {
        let message = error.to_string();
        match error {
            SecretError::Field { pointer, .. } => Self::invalid("invalid_secret", message, pointer),
            SecretError::Unknown(_) => Self::not_found("unknown_secret", message),
            SecretError::GivenKey => Self::new(StatusCode::CONFLICT, "master_key_given", message),
            SecretError::Store(store) => store.into(),
            SecretError::Unopened => Self::new(StatusCode::SERVICE_UNAVAILABLE, "secrets_unavailable", message),
            SecretError::Random | SecretError::Key(_) => {
                tracing::error!(message, "a secret or the master key could not be changed");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the host failed")
            }
        }
    }
}

/// Unknown paths.
pub(super) async fn not_found(uri: axum::http::Uri) -> ApiError {
    ApiError::not_found("not_found", format!("nothing is at `{}`", uri.path()))
}

/// Known paths, other methods. The router adds `Allow`.
pub(super) async fn method_not_allowed(method: axum::http::Method) -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", format!("`{method}` is not for this path; see `Allow`"))
}

/// An error of a call, shared by all that joined it.
pub(super) type SharedCallError = Arc<CallError>;
