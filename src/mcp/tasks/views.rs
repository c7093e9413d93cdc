//! Conversions of task results to MCP.

use std::sync::Arc;

use rmcp::{ErrorData, model::JsonObject};
use serde_json::value::{RawValue, to_raw_value};
use tollhouse_call::{CallError, CompletedCall};
use tollhouse_front::ApiError;
use tollhouse_money::{PaymentId, StoredAnswer};

use super::record::as_object;
use crate::{answer::ToolAnswer, revision::Era};

/// Returns the JSON-RPC error for a payment whose answer is lost.
pub(super) fn lost(payment: &PaymentId) -> JsonObject {
    let fault = ApiError::from(&CallError::AnswerLost(payment.clone()));
    as_object(&ErrorData::internal_error(fault.message().to_owned(), Some(fault.error())))
}

/// Returns the error for a task whose process died before its end, with nothing charged.
pub(super) fn restarted(payment: Option<&PaymentId>) -> JsonObject {
    let message = match payment {
        Some(payment) => {
            format!("the host was restarted while the call ran; nothing was charged, and payment `{payment}` is good for another call")
        }
        None => "the host was restarted since, and no longer has the answer; call again, with the same payment if there was one".to_owned(),
    };
    as_object(&ErrorData::internal_error(message, None))
}

/// Returns the error for a task whose process died before its end, with a payment charged before the run.
pub(super) fn owed(payment: &PaymentId) -> JsonObject {
    let message = format!(
        "the host was restarted while the call ran; payment `{payment}` was charged before that: call again with the same payment, which runs \
         the tool and charges nothing more"
    );
    let fault = ApiError::from(&CallError::AnswerOwed(payment.clone()));
    as_object(&ErrorData::internal_error(message, Some(fault.error())))
}

/// Returns the answer that a payment bought.
pub(super) fn paid(payment: &PaymentId, answer: StoredAnswer) -> CompletedCall {
    CompletedCall { answer: Arc::new(answer), payment: Some(payment.clone()), success: true, first: false }
}

/// Serializes the result of a task. Only the newest revision has tasks, and challenges come before the task.
pub(super) fn completed(reported: ToolAnswer) -> Box<RawValue> {
    to_raw_value(&reported.written(Era::Modern, false)).expect("results have text keys")
}
