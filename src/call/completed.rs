//! A call in flight, and the outcome of one that was answered.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::task::JoinHandle;
use tokio_util::sync::DropGuard;
use tollhouse_money::{PaymentId, StoredAnswer, receipt};

use super::{error::CallError, run::HandlerResult};

/// The outcome of a call, for everyone who shares it.
pub(super) type SharedResult = Result<CompletedCall, Arc<CallError>>;

/// A call that was answered. `Clone` is cheap.
#[derive(Debug, Clone)]
pub struct CompletedCall {
    pub answer: Arc<StoredAnswer>,
    /// The payment that was taken, or `None` for free calls.
    pub payment: Option<PaymentId>,
    /// False if the tool answered with an error status. Then nothing was charged and there is no receipt.
    pub success: bool,
    /// Whether this request created the builder in its answer: false if the request joined another one or was repeated.
    pub first: bool,
}

impl CompletedCall {
    /// Constructs an outcome without a payment.
    pub(super) fn of(produced: HandlerResult, draft: &receipt::ReceiptDraft) -> Self {
        let success = produced.success;
        let receipt_id = if success { draft.receipt_id.to_string() } else { String::new() };
        Self { answer: Arc::new(produced.into_answer(receipt_id)), payment: None, success, first: false }
    }

    /// Constructs the outcome of a call that `payment` paid for.
    pub(super) fn paid(payment: PaymentId, answer: StoredAnswer) -> Self {
        Self { answer: Arc::new(answer), payment: Some(payment), success: true, first: false }
    }
}

/// A handle to a call on its own task. Awaiting it waits for the end of the call. Dropping it does not stop the call,
/// but a call that only joined another one stops waiting.
#[derive(Debug)]
pub struct RunningCall<T> {
    pub(super) task: JoinHandle<Result<T, Arc<CallError>>>,
    /// Cancels the call's [`Waiter::gone`] when dropped.
    pub(super) _caller: DropGuard,
}

impl<T> Future for RunningCall<T> {
    type Output = Result<T, Arc<CallError>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.task).poll(cx).map(|ended| {
            ended.unwrap_or_else(|error| {
                tracing::error!(%error, "a call's task ended abnormally");
                Err(Arc::new(CallError::Internal))
            })
        })
    }
}
