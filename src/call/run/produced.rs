//! What a run answers.

use bytes::Bytes;
use serde_json::Value;
use tollhouse_catalog::{Live, Unfit};
use tollhouse_money::receipt;
use tollhouse_protocol::{FAILED, are_blocks};
use tollhouse_tool::Mismatch;

use crate::CallError;

/// What a handler answered: an answer that fits the tool's schema, or a failure that the handler tells of itself: an error status,
/// or MCP's own blocks with `isError`.
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
    /// Whether it is charged.
    pub(super) success: bool,
}

impl Produced {
    /// The host's own answer.
    pub(super) fn json(live: &Live, value: &Value) -> Result<Self, CallError> {
        Self::check(live, 200, vec![], crate::json_bytes(value), Some(value))
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

    /// True for an answer that is charged: 2xx, and no blocks of MCP's by which the tool says that it failed.
    #[must_use]
    pub fn success(&self) -> bool {
        self.success
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
