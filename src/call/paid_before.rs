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
use tollhouse_money::{Admission, Delivery, OwedPayment, OwedRun, ReceiptFinisher, Refusal, StoredAnswer, Unanswered};
use tollhouse_store::StoreError;
use tollhouse_telemetry::{Stage, enter};

use super::{
    Calls,
    completed::{CompletedCall, SharedResult},
    error::{CallError, PaidCause, PaidFailure},
    history::Charge,
    input,
    new_call::{FailureReason, NewCall},
    run::HandlerResult,
    with_payment::PaidBy,
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
        // An invalid input is rejected before anything is charged.
        let fits = {
            let paid = PaidBy::from(&admission);
            tokio::select! {
                biased;
                () = self.taken_back(&task, Some(&paid)) => Err(CallError::Cancelled),
                fits = self.runner.check_input(&task.live, input.text.clone(), ValidationSubject::Call(&task.turn)) => fits,
            }
        };
        if let Err(error) = fits {
            match error.is_of_a_run() {
                true => admission.fail().await,
                false => admission.release().await,
            }
            self.failed(&task, &error);
            return Err(error);
        }
        let closing = ReceiptFinisher::encode(&task.settling(hash, self.clock.now(), self.fee));
        let settled = self.payments.settle_before(admission, &closing).await;
        let owed =
            settled.map_err(|error| self.unsettled(&task.quoted.terms, task.entry_method, error)).inspect_err(|error| match error {
                CallError::Store(_) => self.failed(&task, error),
                CallError::SettlementUnknown(_) => self.record(&task, Some(self.reason(error)), Charge::Unknown),
                _ => self.record(&task, Some(self.reason(error)), Charge::No),
            })?;
        self.run_owed(task, input, owed).await
    }

    /// Runs the tool again for a payment that was settled before. `None` if another request was faster.
    pub(super) async fn paid_earlier(&self, task: NewCall, parsed: input::Parsed, owed: OwedPayment) -> Option<SharedResult> {
        let terms = Arc::clone(&task.quoted.terms);
        // Whatever prevents the run, the payer is told that the payment was charged.
        let unanswered = self.payments.unanswered_by(&owed);
        let not_run = |error: CallError| {
            let cause = Some(PaidCause::Error(Box::new(error)));
            Some(Err(Arc::new(CallError::PaidRunFailed(Arc::new(PaidFailure { unanswered: unanswered.clone(), cause })))))
        };
        let checked = match parsed.check() {
            Ok(checked) => checked,
            Err(error) => return not_run(error),
        };
        let request = tollhouse_money::PaymentRequest { binding: "", from: Some(task.from) };
        let owed = match self.payments.resume(owed, &terms, request).await {
            Ok(owed) => owed?,
            Err(refusal @ (Refusal::NoMoreRuns { .. } | Refusal::Reorganized(_))) => {
                return Some(Err(Arc::new(self.refused(&terms, task.entry_method, refusal))));
            }
            Err(refusal) => return not_run(self.refused(&terms, task.entry_method, refusal)),
        };
        let tracked = self.in_flight.track(owed.payment());
        let ended = self.run_owed(task, checked, owed).await.map_err(Arc::new);
        tracked.end(ended.clone());
        Some(ended)
    }

    async fn run_owed(&self, mut task: NewCall, input: input::Parsed, owed: OwedRun) -> Result<CompletedCall, CallError> {
        if let Ok(receipt) = owed.receipt().parse() {
            task.receipt = receipt;
        }
        (task.payment, task.input_bytes) = (owed.kind(), input.text.len());
        let charged = if owed.is_first() { Charge::Yes } else { Charge::No };
        if self.replica.is_fenced() {
            // Another host may be running it by now.
            let away = StoreError::Away("the host has lost its lease".to_owned());
            return Err(self.unanswered(&task, charged, PaidCause::Error(Box::new(away.into())), owed.fail(false).await));
        }
        let ran = match self.run(&task, input, Some((&owed).into())).await {
            Ok(ran) if ran.success() => ran,
            other => {
                enter(Stage::Commit);
                let ran = match &other {
                    Ok(_) => true,
                    Err(error) => error.is_of_a_run(),
                };
                let cause = match other {
                    Ok(ran) => PaidCause::Answered(answer_of(ran)),
                    Err(error) => PaidCause::Error(Box::new(error)),
                };
                return Err(self.unanswered(&task, charged, cause, owed.fail(ran).await));
            }
        };
        let (payment, delivery) = (owed.payment().clone(), task.delivery(&ran, !owed.is_first()));
        match owed.deliver(answer_of(ran), &delivery).await {
            Ok(answer) => {
                self.record(&task, None, charged);
                Ok(CompletedCall::paid(payment, answer))
            }
            Err((error, reported)) => Err(self.unanswered(&task, charged, PaidCause::Error(Box::new(error.into())), reported)),
        }
    }

    /// Records that a charged call has no answer.
    fn unanswered(&self, task: &NewCall, charged: Charge, cause: PaidCause, unanswered: Unanswered) -> CallError {
        let reason = match &cause {
            PaidCause::Answered(_) => FailureReason::answered(),
            PaidCause::Error(error) => self.reason(error),
        };
        let failed = task.failed(reason.code, self.clock.now());
        self.record(task, Some(reason), charged);
        self.write_behind.failed(super::write_behind::Failed { paid: Some(charged == Charge::Yes), ..failed });
        CallError::PaidRunFailed(Arc::new(PaidFailure { unanswered, cause: Some(cause) }))
    }
}

fn answer_of(ran: HandlerResult) -> StoredAnswer {
    let HandlerResult { status, headers, body, .. } = ran;
    StoredAnswer { status, headers, body, receipt_id: String::new(), settlement: None }
}

impl NewCall {
    fn delivery(&self, ran: &HandlerResult, repeated: bool) -> Delivery {
        let endpoint = &self.live.endpoint;
        Delivery {
            call: self.call.clone(),
            owner: endpoint.owner.clone(),
            version: endpoint.version.clone(),
            result_hash: ran.result_hash.clone(),
            repeated,
            started_at: self.started,
        }
    }
}
