//! Errors of calls that were charged before their run.

use std::sync::Arc;

use serde_json::{Value, json};
use tollhouse_call::{CallError, Content, PaidCause, PaidFailure};
use tollhouse_money::{SettlementNotice, StoredAnswer, Unanswered};

use super::ApiError;

/// Maximum size of a handler's answer shown in an error, in bytes.
const MAX_SHOWN: usize = 16 << 10;

impl ApiError {
    /// Adds the charge, why there is no answer, and how often the call can be repeated.
    pub(super) fn paid(mut self, failure: &Arc<PaidFailure>) -> Self {
        let PaidFailure { unanswered, cause } = &**failure;
        let Unanswered { payment, receipt, runs_left, until, .. } = unanswered;
        self.paid = Some(Arc::clone(failure));
        let fault = self.with("paymentId", json!(payment)).with("receiptId", json!(receipt)).with("runsLeft", json!(runs_left));
        let fault = fault.with("repeatUntil", json!(until));
        let fault = match cause {
            Some(PaidCause::Answered(answer)) => fault.with("answer", shown(answer)),
            Some(PaidCause::Error(error)) => fault.because(error),
            None => fault,
        };
        let takes_no_such_input = match cause {
            Some(PaidCause::Error(error)) => {
                matches!(**error, CallError::Input(_) | CallError::BodyTooLarge { .. } | CallError::InvalidJson(_))
            }
            Some(PaidCause::Answered(_)) | None => false,
        };
        match runs_left {
            0 => fault.hint("The receipt stays valid. Ask the tool's builder or the operator of the host for a refund"),
            _ if takes_no_such_input => fault.hint(
                "The tool does not accept this input now. Retry with the same payment once it does, or ask its builder or the operator of \
                 the host for a refund",
            ),
            _ => fault,
        }
    }

    /// Adds the error that the call would have returned if it had not been charged.
    fn because(mut self, error: &CallError) -> Self {
        let cause = Self::from(error);
        self.retry_after_secs = cause.retry_after_secs;
        self.message = format!("{}: {error}", self.message);
        let mut problem = cause.problem();
        if let Some(fields) = problem.as_object_mut() {
            // The hint of the cause is for calls that were not charged. The wait is beside the cause.
            fields.retain(|name, _| !matches!(name.as_str(), "hint" | "retryAfterSeconds"));
        }
        self.with("cause", problem)
    }

    /// Returns the charge that bought no answer, if there is one.
    #[must_use]
    pub fn unanswered(&self) -> Option<&Unanswered> {
        self.paid.as_deref().map(|failure| &failure.unanswered)
    }

    /// Returns the settle response for the payer: of a charge that bought no answer, or of a refused settlement.
    #[must_use]
    pub fn settlement(&self) -> Option<&SettlementNotice> {
        match self.unanswered() {
            Some(unanswered) => unanswered.notice.as_ref(),
            None => self.challenge()?.failed.as_ref(),
        }
    }
}

/// Returns the handler's answer as far as an error can show it.
fn shown(answer: &StoredAnswer) -> Value {
    let mut shown = json!({ "status": answer.status });
    if answer.body.len() <= MAX_SHOWN {
        match Content::of(answer) {
            Content::Json { json, .. } => shown["body"] = serde_json::from_str(json.get()).unwrap_or_default(),
            Content::Text { text, .. } => shown["body"] = json!(text),
            Content::Bytes { .. } | Content::Nothing => {}
        }
    }
    shown
}
