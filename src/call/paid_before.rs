//! Calls of tools that are charged before they run.
//!
//! ```text
//! admit payment → check input → settle, receipt → run → check output → keep the answer
//! ```
//!
//! Once the money has moved, the payer is owed an answer. After a failed run, the same request with the same payment
//! runs the tool again at no further charge.

use std::sync::Arc;

use tollhouse_catalog::ValidationSubject;
use tollhouse_money::{Admission, Delivery, OwedPayment, OwedRun, ReceiptFinisher, Refusal, Unanswered};
use tollhouse_store::StoreError;
use tollhouse_telemetry::{Stage, enter};

use super::{
    Calls,
    completed::{CompletedCall, SharedResult},
    error::{CallError, PaidCause, PaidFailure},
    execute::{Funds, PaidBy},
    history::Charge,
    input,
    new_call::{FailureReason, NewCall},
    run::HandlerResult,
    settled_after::end_unused,
    write_behind::Failed,
};

impl Calls {
    /// Settles the payment if the input is valid, and then runs the tool.
    pub(super) async fn paid_before(
        &self,
        task: NewCall,
        input: input::Parsed,
        hash: String,
        admission: Admission,
    ) -> Result<CompletedCall, CallError> {
        // An invalid input is rejected before anything is charged. Money that has moved is charged already. No schema applies
        // to a body that is not JSON.
        let fits = if admission.has_moved() || input.raw.is_some() {
            Ok(())
        } else {
            let paid = PaidBy::from(&admission);
            tokio::select! {
                biased;
                () = self.canceled(&task, Some(&paid)) => Err(CallError::Cancelled),
                fits = self.parts.runner.check_input(&task.live, input.text.clone(), ValidationSubject::Call(&task.turn)) => fits,
            }
        };
        if let Err(error) = fits {
            end_unused(admission, Some(&error)).await;
            self.failed(&task, &error);
            return Err(error);
        }
        let closing = ReceiptFinisher::encode(&self.closing(&task, hash, None));
        let settled = self.parts.payments.settle_before(admission, &closing).await;
        let owed = settled.map_err(|error| self.record_unsettled(&task, error))?;
        self.run_owed(task, input, owed).await
    }

    /// Runs the tool again for a payment that was settled before. `None` if another request was faster.
    pub(super) async fn paid_earlier(&self, task: NewCall, parsed: input::Parsed, owed: OwedPayment) -> Option<SharedResult> {
        let terms = Arc::clone(&task.quoted.terms);
        // Whatever prevents the run, the answer says that the payment was charged.
        let unanswered = self.parts.payments.unanswered_by(&owed);
        let not_run = |error: CallError| {
            let cause = Some(PaidCause::Error(Box::new(error)));
            let failure = PaidFailure { unanswered: unanswered.clone(), cause };
            Some(Err(CallError::PaidRunFailed(Arc::new(failure)).into()))
        };
        let checked = match parsed.check() {
            Ok(checked) => checked,
            Err(error) => return not_run(error),
        };
        let request = tollhouse_money::PaymentRequest { binding: "", from: Some(task.from) };
        let owed = match self.parts.payments.resume(owed, &terms, request).await {
            Ok(owed) => owed?,
            Err(refusal @ (Refusal::NoMoreRuns { .. } | Refusal::Reorganized(_))) => {
                return Some(Err(self.refused(&terms, task.entry_method, refusal).into()));
            }
            Err(refusal) => return not_run(self.refused(&terms, task.entry_method, refusal)),
        };
        let tracked = self.in_flight.track(owed.payment());
        Some(tracked.end(self.run_owed(task, checked, owed).await.map_err(Arc::new)))
    }

    async fn run_owed(&self, mut task: NewCall, input: input::Parsed, owed: OwedRun) -> Result<CompletedCall, CallError> {
        if let Ok(receipt) = owed.receipt().parse() {
            task.receipt = receipt;
        }
        (task.payment, task.input_bytes) = (owed.kind, input.bytes());
        if self.parts.replica.is_fenced() {
            // Another host may be running it by now.
            let away = StoreError::Away("the host has lost its lease".to_owned());
            return Err(self.unanswered(&task, charge_of(&owed), PaidCause::Error(Box::new(away.into())), owed.fail(false).await));
        }
        if let Some(caller) = task.take_stream() {
            return Box::pin(self.streamed(task, input, String::new(), Funds::Settled(Box::new(owed)), caller)).await;
        }
        let ran = self.run(&task, input, Some((&owed).into())).await;
        self.end_owed(&task, owed, ran).await
    }

    /// Ends a run that was charged before.
    pub(super) async fn end_owed(
        &self,
        task: &NewCall,
        owed: OwedRun,
        ran: Result<HandlerResult, CallError>,
    ) -> Result<CompletedCall, CallError> {
        let charged = charge_of(&owed);
        let ran = match ran {
            Ok(ran) if ran.success => ran,
            other => {
                enter(Stage::Commit);
                let (ran, cause) = match other {
                    Ok(ran) => (true, PaidCause::Answered(ran.into_answer(String::new()))),
                    Err(error) => (error.is_of_a_run(), PaidCause::Error(Box::new(error))),
                };
                return Err(self.unanswered(task, charged, cause, owed.fail(ran).await));
            }
        };
        let payment = owed.payment().clone();
        let delivery = Delivery {
            call: task.call.clone(),
            owner: task.live.endpoint.owner.clone(),
            version: task.live.endpoint.version.clone(),
            result_hash: ran.result_hash.clone(),
            repeated: !owed.is_first,
            started_at: task.started,
        };
        match owed.deliver(ran.into_answer(String::new()), &delivery).await {
            Ok(answer) => {
                self.record(task, None, charged);
                Ok(CompletedCall::paid(payment, answer))
            }
            Err((error, reported)) => Err(self.unanswered(task, charged, PaidCause::Error(Box::new(error.into())), reported)),
        }
    }

    /// Records that a charged call has no answer.
    pub(super) fn unanswered(&self, task: &NewCall, charged: Charge, cause: PaidCause, unanswered: Unanswered) -> CallError {
        let reason = match &cause {
            PaidCause::Answered(_) => FailureReason::answered(),
            PaidCause::Error(error) => self.reason(error),
        };
        let failed = Failed { paid: Some(charged == Charge::Yes), ..task.failed(reason.code, self.parts.clock.now()) };
        self.record(task, Some(reason), charged);
        self.parts.write_behind.failed(failed);
        CallError::PaidRunFailed(Arc::new(PaidFailure { unanswered, cause: Some(cause) }))
    }
}

/// Returns whether a run is the one that its payment was charged for.
fn charge_of(owed: &OwedRun) -> Charge {
    if owed.is_first { Charge::Yes } else { Charge::No }
}
