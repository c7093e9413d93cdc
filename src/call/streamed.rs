//! Calls whose answer is streamed.
//!
//! ```text
//! admit payment → check input → run … first chunk → settle, receipt → head → chunks … → keep the answer
//! ```
//!
//! A fixed price is taken before the first byte, as for a tool that is charged before it runs. From then on the answer
//! is owed until all of it was sent: if the tool breaks it off, or the host dies, the same payment runs the tool again.
//! A metered price is settled at the end. Until its first chunk, the call is like any other.

use std::{pin::pin, time::Duration};

use bytes::Bytes;
use tollhouse_money::{
    Admission, Delivery, OwedRun, ReceiptContext, ReceiptFinisher, StoredAnswer, receipt::PaymentKind, refund::RefundRequest,
};
use tollhouse_protocol::StopReason;

use super::{
    Calls,
    completed::CompletedCall,
    error::{CallError, PaidCause},
    execute::{Funds, PaidBy},
    history::Charge,
    input,
    new_call::{FailureReason, NewCall},
    run::HandlerResult,
    settled_after::end_unused,
    stream::{AnswerSink, Opening, Sent, StreamEnd, StreamPlace, StreamSender},
    write_behind::Failed,
};

/// When to retry if there is no place for another stream.
const RETRY: Duration = Duration::from_secs(5);

/// An answer that is being streamed.
struct OpenStream {
    status: u16,
    headers: Vec<(String, String)>,
    funds: Funds,
    end: StreamEnd,
    _place: StreamPlace,
}

impl Calls {
    /// Runs a tool for a caller who takes a streamed answer.
    pub(super) async fn streamed(
        &self,
        task: NewCall,
        input: input::Parsed,
        hash: String,
        funds: Funds,
        caller: StreamSender,
    ) -> Result<CompletedCall, CallError> {
        let (sink, mut openings) = AnswerSink::new(self.parts.streams, task.live.endpoint.limits.stream_bytes);
        let paid_by = funds.payment();
        let paid = paid_by.as_ref().map(|(payment, payer)| PaidBy::uncancelable(payment, payer.clone()));
        let mut funds = Some(funds);
        let (mut opened, mut caller) = (None, Some(caller));
        let ran = {
            let mut running = pin!(self.run_with(&task, input, paid, Some(&sink)));
            loop {
                let opening = tokio::select! {
                    biased;
                    ran = &mut running => break ran,
                    Some(opening) = openings.recv() => opening,
                };
                let Some(caller) = caller.take() else { continue };
                let mut open = pin!(self.open(&task, &hash, &mut funds, (opening, &sink, caller)));
                // The run goes on while its payment is settled, which nothing interrupts.
                let mut ended = None;
                opened = Some(loop {
                    tokio::select! {
                        biased;
                        opened = &mut open => break opened,
                        ran = &mut running, if ended.is_none() => ended = Some(ran),
                    }
                });
                if let Some(ran) = ended {
                    break ran;
                }
            }
        };
        let sent = sink.finish();
        match (opened, funds) {
            (Some(Ok(open)), _) => self.end_stream(task, hash, open, sent, ran).await,
            (Some(Err(error)), None | Some(Funds::Free)) => Err(error),
            (Some(Err(error)), Some(Funds::Admitted(admission))) => {
                // The handler has run, even if there was no place for its answer.
                admission.fail().await;
                Err(error)
            }
            (Some(Err(error)), Some(Funds::Settled(owed))) => self.end_owed(&task, *owed, Err(error)).await,
            (None, funds) => {
                let ran = sent.error.map_or(ran, Err);
                match funds {
                    Some(Funds::Admitted(admission)) => self.end_paid(task, hash, admission, ran).await,
                    Some(Funds::Settled(owed)) => self.end_owed(&task, *owed, ran).await,
                    Some(Funds::Free) | None => self.end_unpaid(&task, hash, ran).await,
                }
            }
        }
    }

    /// Settles what must be settled before the first byte, and sends the head. Records why if that fails.
    async fn open(
        &self,
        task: &NewCall,
        hash: &str,
        funds: &mut Option<Funds>,
        (opening, sink, caller): (Opening, &AnswerSink, StreamSender),
    ) -> Result<OpenStream, CallError> {
        let Opening { status, headers, settled } = opening;
        // A caller who is gone by now has got nothing, and is not charged.
        let place = match caller.is_closed() {
            true => Err(CallError::Cancelled),
            false => self.streams.take(task.live.endpoint.owner.share(), task.from).ok_or(CallError::Busy { retry_after: RETRY }),
        };
        let place = place.inspect_err(|error| {
            // The end of an owed run is recorded with its payment.
            if !matches!(funds, Some(Funds::Settled(_))) {
                self.failed(task, error);
            }
        })?;
        _ = task.status.set(status);
        let is_charged = (200..300).contains(&status);
        let is_owed = matches!(funds, Some(Funds::Settled(_)));
        let payment = funds.as_ref().and_then(Funds::payment).filter(|_| is_charged || is_owed).map(|(payment, _)| payment);
        let mut head = StoredAnswer { status, headers: headers.clone(), ..StoredAnswer::default() };
        if is_charged {
            head.receipt_id = task.receipt.to_string();
        }
        let funds = match funds.take() {
            Some(Funds::Admitted(admission)) if !is_charged => {
                end_unused(admission, None).await;
                Funds::Free
            }
            Some(Funds::Admitted(admission)) if !task.quoted.terms.metered => {
                let mut closing = self.closing(task, hash.to_owned(), None);
                closing.receipt.streamed = true;
                let settled = self.parts.payments.settle_before(admission, &ReceiptFinisher::encode(&closing)).await;
                Funds::Settled(Box::new(settled.map_err(|error| self.record_unsettled(task, error))?))
            }
            // A metered price is settled at the end.
            Some(funds) => funds,
            None => Funds::Free,
        };
        if let Funds::Settled(owed) = &funds {
            (head.receipt_id, head.settlement) = (owed.receipt().to_owned(), owed.notice().cloned());
        }
        let (end, answer) = sink.begin(head, payment);
        // If the caller is gone, the first write fails.
        _ = caller.send(answer);
        _ = settled.send(());
        Ok(OpenStream { status, headers, funds, end, _place: place })
    }

    async fn end_stream(
        &self,
        task: NewCall,
        hash: String,
        open: OpenStream,
        sent: Sent,
        ran: Result<HandlerResult, CallError>,
    ) -> Result<CompletedCall, CallError> {
        let OpenStream { status, headers, funds, end, .. } = open;
        let Sent { kept, hash: sent_hash, error, unread } = sent;
        let mut error = error.or(ran.err().map(|error| match (error, unread) {
            // The tool had no time left because its caller did not read.
            (CallError::Stopped(StopReason::WallTime { .. }), Some(unread)) => CallError::StreamUnread(unread),
            (error, _) => error,
        }));
        if error.is_none() && matches!(funds, Funds::Settled(_)) && !(200..300).contains(&status) {
            // The payer is owed an answer.
            error = Some(CallError::Misbehaved(format!("it answered with status {status}")));
        }
        let is_complete = error.is_none();
        let answer = match kept.filter(|_| error.is_none()) {
            Some(body) => StoredAnswer { status, headers, body, ..StoredAnswer::default() },
            None => StoredAnswer::unkept(status),
        };
        let answer = (answer, if error.is_none() { sent_hash } else { String::new() });
        let ended = match funds {
            Funds::Settled(owed) => match error {
                Some(error) if !is_the_callers(&error) => {
                    let (charged, cause) = (charge_of(owed.is_first), PaidCause::Error(Box::new(error)));
                    // First, so that no other run begins that is refunded as well.
                    self.refund(&task).await;
                    let unanswered = owed.fail(true).await;
                    return Err(self.unanswered(&task, charged, cause, unanswered));
                }
                // A caller who does not read cannot turn the sale into another run.
                ref error => self.deliver_stream(&task, *owed, answer, error.as_ref()).await?,
            },
            Funds::Admitted(admission) => self.settle_metered(task, hash, admission, answer, error.as_ref()).await?,
            Funds::Free => {
                let ended = self.end_free_stream(&task, hash, answer, error.as_ref()).await?;
                match error {
                    Some(error) => return Err(error),
                    None => ended,
                }
            }
        };
        // Last, so that the receipt is complete when the caller sees the end.
        if is_complete {
            end.complete();
        }
        Ok(ended)
    }

    /// Ends a stream whose payment was settled before its first byte.
    async fn deliver_stream(
        &self,
        task: &NewCall,
        owed: OwedRun,
        (answer, result_hash): (StoredAnswer, String),
        error: Option<&CallError>,
    ) -> Result<CompletedCall, CallError> {
        let (payment, charged) = (owed.payment().clone(), charge_of(owed.is_first));
        let delivery = Delivery {
            call: task.call.clone(),
            owner: task.live.endpoint.owner.clone(),
            version: task.live.endpoint.version.clone(),
            result_hash,
            repeated: !owed.is_first,
            started_at: task.started,
        };
        let answer = match owed.deliver(answer, &delivery).await {
            Ok(answer) => answer,
            Err((error, reported)) => {
                let cause = PaidCause::Error(Box::new(error.into()));
                return Err(self.unanswered(task, charged, cause, reported));
            }
        };
        self.record(task, error.map(|error| self.reason(error)), charged);
        Ok(CompletedCall::paid(payment, answer))
    }

    /// Settles a metered stream with the charge that its handler has set. If the tool broke it off, that is at most what
    /// it has charged explicitly.
    async fn settle_metered(
        &self,
        mut task: NewCall,
        hash: String,
        mut admission: Admission,
        (answer, result_hash): (StoredAnswer, String),
        error: Option<&CallError>,
    ) -> Result<CompletedCall, CallError> {
        task.charge.close();
        let payment = admission.id().clone();
        let is_unset = error.is_some_and(|error| !is_the_callers(error)) && task.charge.charged().is_none();
        if is_unset || task.price().is_zero() {
            match error {
                Some(error) => end_unused(admission, Some(error)).await,
                None => admission.unused().await,
            }
            task.payment = PaymentKind::Free;
            let ended = self.end_free_stream(&task, hash, (answer, result_hash), error).await?;
            return if error.is_some() { Err(CallError::Joined(payment)) } else { Ok(ended) };
        }
        admission.charge(task.price());
        let closing = self.closing_stream(&task, hash, result_hash);
        let settled = self.parts.payments.settle(admission, answer, &ReceiptFinisher::encode(&closing)).await;
        let answer = settled.map_err(|error| self.record_unsettled(&task, error))?;
        let reason = error.map(|error| self.reason(error));
        if let Some(reason) = &reason {
            self.parts.write_behind.failed(Failed { paid: Some(true), ..task.failed(reason.code, self.parts.clock.now()) });
        }
        self.record(&task, reason, Charge::Yes);
        if error.is_some_and(|error| !is_the_callers(error)) {
            self.refund(&task).await;
        }
        Ok(CompletedCall::paid(payment, answer))
    }

    /// Refunds a stream that its tool has broken off, if the tool's owner wants that. A payment on a network cannot be
    /// sent back without an admin.
    async fn refund(&self, task: &NewCall) {
        if !task.live.endpoint.refund_broken_streams || task.payment != PaymentKind::Credit {
            return;
        }
        let reason = Some("the tool broke its streamed answer off".to_owned());
        let request = RefundRequest { receipt: task.receipt.clone(), amount: None, transaction: None, reason };
        if let Err(error) = self.parts.refunds.issue(&request, None).await {
            tracing::warn!(receipt.id = %task.receipt, %error, "a broken stream was not refunded");
        }
    }

    /// Ends a stream that nobody pays for.
    async fn end_free_stream(
        &self,
        task: &NewCall,
        hash: String,
        (answer, result_hash): (StoredAnswer, String),
        error: Option<&CallError>,
    ) -> Result<CompletedCall, CallError> {
        let success = (200..300).contains(&answer.status);
        match error {
            Some(error) => self.failed(task, error),
            None if success => {
                let closing = self.closing_stream(task, hash, result_hash);
                let written = self.parts.write_behind.succeeded(closing).await.map_err(CallError::Store);
                written.inspect_err(|error| self.failed(task, error))?;
                self.record(task, None, Charge::No);
            }
            None => self.record_failed_call(task, FailureReason::answered()),
        }
        Ok(CompletedCall { answer: answer.into(), payment: None, success, first: false })
    }

    /// Builds the data of the last commit of a stream that is settled at its end.
    fn closing_stream(&self, task: &NewCall, hash: String, result_hash: String) -> ReceiptContext {
        let nothing = HandlerResult { status: 200, headers: vec![], body: Bytes::new(), result_hash, success: true };
        let mut closing = self.closing(task, hash, Some(&nothing));
        closing.receipt.streamed = true;
        closing
    }
}

/// Returns whether the caller was charged for this run, or for an earlier one.
fn charge_of(is_first: bool) -> Charge {
    if is_first { Charge::Yes } else { Charge::No }
}

/// Returns whether a stream ended because its caller did not read it.
fn is_the_callers(error: &CallError) -> bool {
    matches!(error, CallError::Cancelled | CallError::StreamUnread(_))
}
