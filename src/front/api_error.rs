//! API errors: a row of the error table, with the details of a request.

mod from;
mod paid;
mod response;

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use tollhouse_base::{id::RequestId, sentence::sentence_case};
use tollhouse_call::{CallError, PaidFailure};
use tollhouse_money::{OfferedPayment, X402Challenge};

pub use self::{from::AboutBody, response::code_of};
use super::error_codes::{Charged, Code};

tokio::task_local! {
    /// The id of the request being answered.
    pub static REQUEST: RequestId;
}

/// An error that a front end returns for a request.
#[derive(Debug)]
pub struct ApiError {
    code: Code,
    message: String,
    /// Replaces the hint of the row.
    hint: Option<Box<str>>,
    /// Further fields of `error`.
    details: Option<Box<Map<String, Value>>>,
    retry_after_secs: Option<u64>,
    /// The rate limit that was exceeded, if any.
    policy: Option<RateLimitPolicy>,
    /// The payment challenge of a 402, or of a payment that was made for something else.
    challenge: Option<Arc<X402Challenge>>,
    /// Whether the payment may be charged, although the row says that it is not.
    may_be_charged: bool,
    /// The charge of a call that was charged before its run and returned no answer.
    paid: Option<Arc<PaidFailure>>,
}

/// Returns a time in whole seconds, rounded up, for `Retry-After`.
pub(crate) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// A rate limit, as the `RateLimit` headers describe it (draft-ietf-httpapi-ratelimit-headers).
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateLimitPolicy {
    pub(crate) name: &'static str,
    pub(crate) max: NonZeroU32,
    pub(crate) window_secs: u64,
}

impl From<Code> for ApiError {
    /// Returns an error with the row's sentence as its message.
    fn from(code: Code) -> Self {
        Self::new(code, code.row().sentence)
    }
}

impl ApiError {
    /// Returns an error with this code and message. The message and the hint are shown in sentence case.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let message = sentence_case(message.into());
        let (details, challenge, paid) = (None, None, None);
        Self { code, message, hint: None, details, retry_after_secs: None, policy: None, challenge, may_be_charged: false, paid }
    }

    /// Returns an `invalid_request` error: the request itself cannot be read.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidRequest, message)
    }

    /// Returns an error for an invalid field of a body. `code` names the kind of body.
    pub fn invalid(code: Code, message: impl Into<String>, pointer: &str) -> Self {
        Self::new(code, message).with("pointer", json!(pointer))
    }

    /// Returns the error for a slug that no tool has.
    pub fn unknown_endpoint(slug: &str) -> Self {
        CallError::unknown_endpoint(slug).into()
    }

    /// Returns the error for an address that has used up `policy`. It can retry after this many seconds.
    pub(crate) fn rate_limited(policy: RateLimitPolicy, seconds: u64, message: impl Into<String>) -> Self {
        Self { policy: Some(policy), ..Self::new(Code::RateLimited, message).retry_after(seconds) }
    }

    /// Sets the hint: the next step for the caller.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(sentence_case(hint.into()).into());
        self
    }

    /// Sets `Retry-After` and `retryAfterSeconds`, in seconds.
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_secs = Some(seconds);
        self
    }

    /// Says that it is unknown whether the payment is charged: an earlier request with it may have been.
    pub(crate) fn maybe_charged(mut self) -> Self {
        self.may_be_charged = true;
        self
    }

    /// Does so if `offered` can have been sent before. For a refusal that comes before the payment is looked up.
    pub fn before_lookup(self, offered: &OfferedPayment) -> Self {
        if offered.repeatable() { self.maybe_charged() } else { self }
    }

    /// Adds a field to `error`.
    pub fn with(mut self, name: &'static str, value: Value) -> Self {
        self.details.get_or_insert_default().insert(name.to_owned(), value);
        self
    }

    /// Returns the code, which selects the status and the texts.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Returns the message for the caller.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the seconds after which a retry may succeed, if known.
    pub fn retry_after_secs(&self) -> Option<u64> {
        self.retry_after_secs
    }

    /// Returns the payment challenge. Every 402 has one, and so does a payment that was made for something else.
    pub fn challenge(&self) -> Option<&X402Challenge> {
        self.challenge.as_deref()
    }

    /// Returns the `error` object of the envelope.
    pub fn error(&self) -> Value {
        let row = self.code.row();
        let mut error = json!({ "code": row.name, "fault": row.fault.as_str(), "message": self.message });
        if let Ok(request) = REQUEST.try_with(RequestId::to_string) {
            error["requestId"] = json!(request);
        }
        error["charged"] = json!(if self.may_be_charged { Charged::Unknown } else { row.charged });
        if let Some(seconds) = self.retry_after_secs {
            error["retryAfterSeconds"] = json!(seconds);
        }
        if let Some(hint) = self.hint.as_deref().or(row.hint) {
            error["hint"] = json!(hint);
        }
        for (name, value) in self.details.iter().flat_map(|details| details.iter()) {
            error[name] = value.clone();
        }
        error
    }

    /// Returns the error as one entry of a list: `error` without `requestId` and `charged`.
    pub fn problem(&self) -> Value {
        let mut error = self.error();
        if let Some(members) = error.as_object_mut() {
            members.retain(|name, _| !matches!(name.as_str(), "requestId" | "charged"));
        }
        error
    }

    /// Returns the envelope. A 402 has its challenge under `paymentRequired`, for streams, which have no headers.
    pub fn envelope(&self) -> Value {
        match (self.code, &self.challenge) {
            (Code::PaymentRequired, Some(challenge)) => {
                let error = json!({ "code": self.code.row().name, "fault": "caller", "message": self.message, "charged": false });
                json!({ "ok": false, "error": error, "paymentRequired": challenge.v2 })
            }
            _ => json!({ "ok": false, "error": self.error() }),
        }
    }
}
