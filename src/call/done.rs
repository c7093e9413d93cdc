//! What a call that was answered came to.

use std::sync::Arc;

use tollhouse_money::{PaymentId, StoredAnswer, receipt};

use super::{error::CallError, run::Produced};

/// How a call ended, for all that share it.
pub(super) type Shared = Result<Done, Arc<CallError>>;

/// A call that was answered. `Clone` is cheap.
#[derive(Debug, Clone)]
pub struct Done {
    /// What the caller is given.
    pub answer: Arc<StoredAnswer>,
    /// Which wire version the settlement is told in; `None` for free calls and credit.
    pub payment: Option<PaymentId>,
    /// False when the tool itself answered with an error status: then nothing was charged and there is no receipt.
    pub success: bool,
    /// Whether this request made what it is answered, as far as that is a registration: not where it joined another, or asked again.
    pub first: bool,
}

impl Done {
    /// An answer as it is stored and told. Nothing is paid with it yet.
    pub(super) fn of(produced: Produced, draft: &receipt::Draft) -> Self {
        let success = produced.success();
        let Produced { status, headers, body, .. } = produced;
        let receipt_id = if success { draft.receipt_id.to_string() } else { String::new() };
        let answer = StoredAnswer { status, headers, body, receipt_id, settlement: None };
        Self { answer: Arc::new(answer), payment: None, success, first: false }
    }

    /// A call that `payment` was taken for, with its one answer.
    pub(super) fn paid(payment: PaymentId, answer: StoredAnswer) -> Self {
        Self { answer: Arc::new(answer), payment: Some(payment), success: true, first: false }
    }
}
