//! Runs and ends calls of free tools, and of tools whose payment is settled after the run.

use std::sync::Arc;

use tollhouse_money::{Admission, ReceiptContext, ReceiptFinisher, receipt};
use tollhouse_telemetry::{Stage, enter};

use super::{
    Calls,
    completed::CompletedCall,
    error::CallError,
    execute::Funds,
    history::Charge,
    input,
    new_call::{FailureReason, NewCall},
    run::HandlerResult,
};

impl Calls {
    pub(super) async fn free(&self, mut task: NewCall, input: input::Parsed, hash: String) -> Result<CompletedCall, CallError> {
        task.input_bytes = input.bytes();
        if let Some(caller) = task.take_stream() {
            return Box::pin(self.streamed(task, input, hash, Funds::Free, caller)).await;
        }
        let ran = self.run(&task, input, None).await;
        self.end_unpaid(&task, hash, ran).await
    }

    /// Ends a call of a free tool.
    pub(super) async fn end_unpaid(
        &self,
        task: &NewCall,
        hash: String,
        ran: Result<HandlerResult, CallError>,
    ) -> Result<CompletedCall, CallError> {
        let ran = ran.inspect_err(|error| self.failed(task, error))?;
        self.end_free(task, hash, ran).await
    }

    /// Ends a call that nobody pays for.
    pub(super) async fn end_free(&self, task: &NewCall, hash: String, ran: HandlerResult) -> Result<CompletedCall, CallError> {
        enter(Stage::Commit);
        let closing = self.closing(task, hash, Some(&ran));
        let answer = CompletedCall::of(ran, &closing.receipt);
        if answer.success {
            self.parts.write_behind.succeeded(closing).await.map_err(CallError::Store).inspect_err(|error| self.failed(task, error))?;
            self.record(task, None, Charge::No);
        } else {
            self.record_failed_call(task, FailureReason::answered());
        }
        Ok(answer)
    }

    pub(super) async fn paid(
        &self,
        mut task: NewCall,
        parsed: input::Parsed,
        hash: String,
        admission: Admission,
    ) -> Result<CompletedCall, CallError> {
        (task.payment, task.input_bytes) = (admission.kind(), parsed.bytes());
        let checked = match parsed.check() {
            Ok(checked) => checked,
            Err(error) => {
                admission.unused().await;
                return Err(error);
            }
        };
        if task.quoted.terms.is_upfront() || (admission.has_moved() && !task.quoted.terms.metered) {
            return Box::pin(self.paid_before(task, checked, hash, admission)).await;
        }
        if let Some(caller) = task.take_stream() {
            return Box::pin(self.streamed(task, checked, hash, Funds::Admitted(admission), caller)).await;
        }
        let ran = self.run(&task, checked, Some((&admission).into())).await;
        self.end_paid(task, hash, admission, ran).await
    }

    /// Ends a call whose payment is settled after the run.
    pub(super) async fn end_paid(
        &self,
        mut task: NewCall,
        hash: String,
        mut admission: Admission,
        ran: Result<HandlerResult, CallError>,
    ) -> Result<CompletedCall, CallError> {
        let payment = admission.id().clone();
        let ran = match ran {
            Ok(ran) if ran.success => ran,
            // Not charged, because the tool failed or reported a failure.
            other => {
                enter(Stage::Commit);
                end_unused(admission, other.as_ref().err()).await;
                let ran = other.inspect_err(|error| self.failed(&task, error))?;
                self.record_failed_call(&task, FailureReason::answered());
                let closing = self.closing(&task, hash, Some(&ran));
                return Ok(CompletedCall::of(ran, &closing.receipt));
            }
        };
        if task.price().is_zero() {
            // The tool set a price of zero, so the offered payment is not used.
            admission.unused().await;
            task.payment = receipt::PaymentKind::Free;
            return self.end_free(&task, hash, ran).await;
        }
        admission.charge(task.price());
        let closing = self.closing(&task, hash, Some(&ran));
        let answer = Arc::unwrap_or_clone(CompletedCall::of(ran, &closing.receipt).answer);
        let settled = self.parts.payments.settle(admission, answer, &ReceiptFinisher::encode(&closing)).await;
        let answer = settled.map_err(|error| self.record_unsettled(&task, error))?;
        self.record(&task, None, Charge::Yes);
        Ok(CompletedCall::paid(payment, answer))
    }

    /// Builds the data of the call's last commit, or of a settlement before the run.
    pub(super) fn closing(&self, task: &NewCall, request_hash: String, ran: Option<&HandlerResult>) -> ReceiptContext {
        task.closing(request_hash, ran, self.parts.clock.now(), self.parts.fee)
    }
}

/// Ends an admission that is not charged: as failed if the handler ran, so that nobody pays for its work.
pub(super) async fn end_unused(admission: Admission, error: Option<&CallError>) {
    if error.is_none_or(CallError::is_of_a_run) { admission.fail().await } else { admission.unused().await }
}
