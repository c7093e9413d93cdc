//! What a run answers.

use bytes::Bytes;
use serde_json::Value;

use crate::{
    call::CallError,
    catalog::{Live, Unfit},
    money::receipt,
    tool::Mismatch,
};

/// What a handler answered: an answer that fits the tool's schema, or an error status that the handler chose itself.
#[derive(Debug)]
pub struct Produced {
    /// HTTP status that the handler chose.
    pub status: u16,
    /// Headers that the handler chose.
    pub headers: Vec<(String, String)>,
    /// What it answered.
    pub body: Bytes,
    /// Of the canonical form where that is JSON and a success; else of the bytes.
    pub result_hash: String,
}

impl Produced {
    /// The host's own answer.
    pub(super) fn json(live: &Live, value: &Value) -> Result<Self, CallError> {
        Self::check(live, 200, vec![], crate::call::json_bytes(value), Some(value))
    }

    /// `value` is `body` as JSON; `None` when it is something else. Where only the tool's worker can tell whether it fits,
    /// that was asked.
    pub(super) fn check(
        live: &Live,
        status: u16,
        headers: Vec<(String, String)>,
        body: Bytes,
        value: Option<&Value>,
    ) -> Result<Self, CallError> {
        let mut produced = Self { status, headers, body, result_hash: String::new() };
        if produced.success() {
            live.output.check_answer(&produced.headers, value).map_err(CallError::Output)?;
        }
        produced.result_hash = match value.filter(|_| produced.success()) {
            Some(value) => receipt::json_hash(value),
            None => receipt::bytes_hash(&produced.body),
        };
        Ok(produced)
    }

    /// True for an answer that is charged: 2xx.
    #[must_use]
    pub fn success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Why a value does not pass; `mismatch` says whose it is.
pub(super) fn unfitting(unfit: Unfit, mismatch: impl FnOnce(Mismatch) -> CallError) -> CallError {
    match unfit {
        Unfit::Mismatch(problems) => mismatch(problems),
        Unfit::Stopped(reason) => CallError::Stopped(reason),
        Unfit::Pool(error) => error.into(),
    }
}
