//! The answer of a run.

use bytes::Bytes;
use serde_json::Value;
use tollhouse_catalog::{LiveEndpoint, ValidationError};
use tollhouse_money::{StoredAnswer, receipt};
use tollhouse_protocol::{FAILED, are_blocks};
use tollhouse_tool::Mismatch;

use crate::CallError;

/// A handler's answer: a valid result, or a failure that the handler reports itself by an error status or by MCP blocks
/// with `isError`.
#[derive(Debug)]
pub struct HandlerResult {
    /// The handler's HTTP status.
    pub status: u16,
    /// The handler's headers.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// Hash of the canonical form if it is JSON and a success, otherwise of the bytes.
    pub result_hash: String,
    /// Whether it is charged: a 2xx status, and no MCP blocks with `isError`.
    pub success: bool,
}

impl HandlerResult {
    /// Constructs an answer of the host's own code.
    pub(super) fn json(live: &LiveEndpoint, value: &Value) -> Result<Self, CallError> {
        Self::check(live, 200, vec![], crate::json_bytes(value), Some(value))
    }

    /// Constructs the result of a run that answers nobody.
    pub(super) fn nothing() -> Self {
        Self { status: 200, headers: vec![], body: Bytes::from_static(b"null"), result_hash: String::new(), success: true }
    }

    /// Validates an answer. `value` is `body` as JSON, or `None` if it is not JSON. If only the tool's worker can
    /// validate it, that has already happened.
    pub(super) fn check(
        live: &LiveEndpoint,
        status: u16,
        headers: Vec<(String, String)>,
        body: Bytes,
        value: Option<&Value>,
    ) -> Result<Self, CallError> {
        let good = (200..300).contains(&status);
        if good {
            live.output.check_answer(&headers, value).map_err(CallError::Output)?;
        }
        let failed = are_blocks(&headers) && value.is_some_and(|blocks| blocks[FAILED] == true);
        let success = good && !failed;
        let result_hash = match value.filter(|_| success) {
            Some(value) => receipt::json_hash(value),
            None => receipt::bytes_hash(&body),
        };
        Ok(Self { status, headers, body, result_hash, success })
    }

    /// Converts it to the answer that is stored.
    pub(crate) fn into_answer(self, receipt_id: String) -> StoredAnswer {
        let Self { status, headers, body, .. } = self;
        StoredAnswer { status, headers, body, receipt_id, settlement: None }
    }
}

/// Converts a failed validation. `mismatch` constructs the error for input or output.
pub(super) fn validation_error(error: ValidationError, mismatch: impl FnOnce(Mismatch) -> CallError) -> CallError {
    match error {
        ValidationError::Mismatch(problems) => mismatch(problems),
        ValidationError::Stopped(reason) => CallError::Stopped(reason),
        ValidationError::Pool(error) => error.into(),
    }
}
