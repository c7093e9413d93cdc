//! A fault on its way out: a row of the table, with what it says of this request.

mod from;
mod paid;
mod response;

use std::{borrow::Cow, num::NonZeroU32, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use tollhouse_base::id::RequestId;
use tollhouse_call::{CallError, PaidFailure};
use tollhouse_money::Challenge;

pub use self::{from::AboutBody, response::code_of};
use super::faults::{Charged, Code};

tokio::task_local! {
    /// The id of the request being answered.
    pub static REQUEST: RequestId;
}

/// Why a front refuses a request, or did not answer it well.
#[derive(Debug)]
pub struct Fault {
    code: Code,
    message: String,
    /// In place of the row's.
    hint: Option<Cow<'static, str>>,
    /// More members of `error`.
    details: Option<Box<Map<String, Value>>>,
    retry_after_secs: Option<u64>,
    /// What was used up, where something was.
    policy: Option<Policy>,
    /// What is asked for, where it is for a payment that the request was refused.
    challenge: Option<Arc<Challenge>>,
    /// What was charged before its run, and not answered.
    paid: Option<Arc<PaidFailure>>,
}

/// A time as `Retry-After` tells it: no less than it is.
pub(crate) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// So much in so much time, as headers tell it: draft-ietf-httpapi-ratelimit-headers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    pub(crate) name: &'static str,
    pub(crate) most: NonZeroU32,
    pub(crate) window_secs: u64,
}

impl From<Code> for Fault {
    /// With the row's sentence as its message.
    fn from(code: Code) -> Self {
        Self::new(code, code.row().sentence)
    }
}

impl Fault {
    /// A refusal by this row of the table, with a message of its own.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, details: None, retry_after_secs: None, policy: None, challenge: None, paid: None }
    }

    /// `invalid_request`: the request itself cannot be read.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidRequest, message)
    }

    /// A member of a body that cannot be; `code` says of what.
    pub fn invalid(code: Code, message: impl Into<String>, pointer: &str) -> Self {
        Self::new(code, message).with("pointer", json!(pointer))
    }

    /// No tool has this slug.
    pub fn unknown_endpoint(slug: &str) -> Self {
        CallError::unknown_endpoint(slug).into()
    }

    /// An address has used up what `policy` gives it, for so many seconds.
    pub(crate) fn rate_limited(policy: Policy, seconds: u64, message: impl Into<String>) -> Self {
        Self { policy: Some(policy), ..Self::new(Code::RateLimited, message).retry_after(seconds) }
    }

    /// Adds what the caller can do next.
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds `Retry-After`, in seconds.
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_secs = Some(seconds);
        self
    }

    /// Adds a member to `details`.
    pub fn with(mut self, name: &'static str, value: Value) -> Self {
        self.details.get_or_insert_default().insert(name.to_owned(), value);
        self
    }

    fn challenged(mut self, challenge: &Arc<Challenge>) -> Self {
        self.challenge = Some(Arc::clone(challenge));
        self
    }

    /// Its row of the table.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Its message, as the caller reads it.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// After how many seconds it may go well, where that is known.
    pub fn retry_after_secs(&self) -> Option<u64> {
        self.retry_after_secs
    }

    pub(crate) fn policy(&self) -> Option<Policy> {
        self.policy
    }

    /// What is asked for: of each 402, and of a payment that was made for something else.
    pub fn challenge(&self) -> Option<&Challenge> {
        self.challenge.as_deref()
    }

    /// `error` of the envelope.
    pub fn error(&self) -> Value {
        let row = self.code.row();
        let mut error = json!({ "code": row.name, "fault": row.fault.as_str(), "message": self.message });
        if let Ok(request) = REQUEST.try_with(RequestId::to_string) {
            error["requestId"] = json!(request);
        }
        error["charged"] = match row.charged {
            Charged::No => json!(false),
            Charged::Earlier => json!(true),
            Charged::Unknown => json!("unknown"),
        };
        if let Some(hint) = self.hint.as_deref().or(row.hint) {
            error["hint"] = json!(hint);
        }
        for (name, value) in self.details.iter().flat_map(|details| details.iter()) {
            error[name] = value.clone();
        }
        error
    }

    /// What is wrong, as one of several: all of it but who asked.
    pub fn problem(&self) -> Value {
        let mut error = self.error();
        if let Some(members) = error.as_object_mut() {
            members.retain(|name, _| !matches!(name.as_str(), "requestId" | "charged"));
        }
        error
    }

    /// The envelope. Of a 402 it is for streams, which have no headers: with the challenge under `paymentRequired`.
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
