//! The outcome of a call that was answered.

use std::sync::Arc;

use tollhouse_money::{PaymentId, StoredAnswer, receipt};

use super::{error::CallError, run::HandlerResult};

/// The outcome of a call, for everyone who shares it.
pub(super) type SharedResult = Result<CompletedCall, Arc<CallError>>;

/// A call that was answered. `Clone` is cheap.
#[derive(Debug, Clone)]
pub struct CompletedCall {
    /// The answer to the caller.
    pub answer: Arc<StoredAnswer>,
    /// The payment that was taken, or `None` for free calls.
    pub payment: Option<PaymentId>,
    /// False if the tool answered with an error status. Then nothing was charged and there is no receipt.
    pub success: bool,
    /// Whether this request created the builder that it is answered with: false if it joined another request or was
    /// repeated.
    pub first: bool,
}

impl CompletedCall {
    /// Constructs an outcome without a payment.
    pub(super) fn of(produced: HandlerResult, draft: &receipt::ReceiptDraft) -> Self {
        let success = produced.success();
        let HandlerResult { status, headers, body, .. } = produced;
        let receipt_id = if success { draft.receipt_id.to_string() } else { String::new() };
        let answer = StoredAnswer { status, headers, body, receipt_id, settlement: None };
        Self { answer: Arc::new(answer), payment: None, success, first: false }
    }

    /// Constructs the outcome of a call that `payment` paid for.
    pub(super) fn paid(payment: PaymentId, answer: StoredAnswer) -> Self {
        Self { answer: Arc::new(answer), payment: Some(payment), success: true, first: false }
    }
}
