//! Runs of handlers with their payment.

use tollhouse_money::{Admission, OwedRun, PaymentId};

use super::{
    Calls,
    error::CallError,
    input,
    new_call::NewCall,
    run::{HandlerResult, Task},
};

/// The payment of a run.
pub(super) struct PaidBy<'a> {
    payment: &'a PaymentId,
    /// The payer's address, shortened. `None` for credit.
    payer: Option<String>,
    /// Whether the money has moved.
    is_settled: bool,
}

impl<'a> From<&'a Admission> for PaidBy<'a> {
    fn from(admission: &'a Admission) -> Self {
        Self { payment: admission.id(), payer: admission.payer(), is_settled: false }
    }
}

impl<'a> From<&'a OwedRun> for PaidBy<'a> {
    fn from(owed: &'a OwedRun) -> Self {
        Self { payment: owed.payment(), payer: owed.payer(), is_settled: true }
    }
}

impl Calls {
    /// Runs the handler, or the host's own code.
    pub(super) async fn run(&self, task: &NewCall, input: input::Parsed, paid: Option<PaidBy<'_>>) -> Result<HandlerResult, CallError> {
        let call = task.call.clone();
        let before = task.turn.total();
        let running = self.runner.run(Task {
            live: &task.live,
            by: task.by,
            price: task.max(),
            call,
            receipt: &task.receipt,
            head: &task.head,
            input: &input,
            payer: paid.as_ref().and_then(|paid| paid.payer.clone()),
            payment: paid.as_ref().map(|paid| paid.payment),
            now: task.started,
            progress: task.progress.as_ref(),
            scratch: None,
            charge: &task.charge,
            turn: &task.turn,
            elapsed: &task.elapsed,
        });
        // Usage is reported when it ends or is dropped here.
        let produced = tokio::select! {
            biased;
            produced = running => produced,
            () = self.taken_back(task, paid.as_ref()) => Err(CallError::Cancelled),
        };
        if let Ok(produced) = &produced {
            _ = task.status.set(produced.status);
        }
        let used = task.turn.total().saturating_sub(before);
        if !used.is_zero() {
            task.live.usual_cost.add(used);
        }
        produced
    }

    /// Returns once nobody wants the call any more.
    pub(super) async fn taken_back(&self, task: &NewCall, paid: Option<&PaidBy<'_>>) {
        if paid.is_some_and(|paid| paid.is_settled) {
            // The payer is owed the answer, even if canceled.
            return std::future::pending().await;
        }
        task.cancel.cancelled().await;
        if let Some(paid) = paid {
            self.in_flight.remaining(paid.payment).await;
        }
    }
}
