//! Returns the answers that payments have already bought, whatever has become of their tools since. A paused or deleted
//! tool takes no calls, but a paid answer is not a new call.

use futures_util::future::BoxFuture;
use std::{net::IpAddr, sync::Arc, time::Duration};

use tollhouse_money::{OfferedPayment, OwedPayment, PaymentId, Refusal, SeenPayment};
use tollhouse_protocol::limits::Limits;

use super::{
    Call, CallError, Calls, CompletedCall, Input, RunningCall,
    completed::SharedResult,
    in_flight::{JoinEnd, join_timeout},
    input,
    joins::Waiter,
    new_call::NewCall,
};

/// A request for a tool that takes no calls now.
#[derive(Debug)]
pub struct ReplayRequest<'a> {
    /// The tool's current or former slug.
    pub slug: &'a str,
    /// `GET` or `POST`.
    pub method: &'static str,
    pub query: Option<&'a str>,
    pub input: Input,
    pub offered: OfferedPayment,
    /// The caller's address, for its share of the processor.
    pub from: IpAddr,
}

impl Calls {
    /// Returns the call that this request's payment has bought or is buying. `None` if there is none; then the tool's
    /// own refusal applies.
    ///
    /// # Errors
    ///
    /// [`CallError::OverShare`], [`CallError::AnswerOwed`], or errors of the store.
    pub fn find_paid<'a>(
        self: &'a Arc<Self>,
        request: ReplayRequest<'a>,
    ) -> BoxFuture<'a, Result<Option<RunningCall<CompletedCall>>, Arc<CallError>>> {
        Box::pin(async move {
            let from = request.from;
            let Some(seen) = self.seen(request).await? else { return Ok(None) };
            if let SeenPayment::Owed(owed) = &seen {
                return Err(CallError::AnswerOwed(owed.payment().clone()).into());
            }
            let this = Arc::clone(self);
            let replay = |gone| async move { this.replay(seen, Limits::ceilings().wall_ms, &Waiter { from, gone }).await };
            Ok(Some(self.detached(replay)))
        })
    }

    /// Returns what a call's payment has bought while its quote was valid, or else `refused`, since the quote is no
    /// longer valid. `None` if an answer is owed.
    pub(super) async fn paid_under(&self, call: &Call, refused: CallError, waiter: &Waiter) -> Option<SharedResult> {
        let Call { live, input, offered, head, from, .. } = call;
        let slug = live.endpoint.slug.as_str();
        let (input, offered) = (input.clone(), offered.clone());
        let request = ReplayRequest { slug, method: head.method, query: head.raw_query(), input, offered, from: *from };
        match self.seen(request).await {
            Ok(Some(SeenPayment::Owed(_))) => None,
            Ok(Some(seen)) => Some(self.replay(seen, live.endpoint.limits.wall_ms, waiter).await),
            Ok(None) => Some(Err(refused.into())),
            Err(error) => Some(Err(error.into())),
        }
    }

    async fn seen(&self, request: ReplayRequest<'_>) -> Result<Option<SeenPayment>, CallError> {
        let ReplayRequest { slug, method, query, input, offered, from } = request;
        if !offered.repeatable() {
            return Ok(None);
        }
        let turn = self.parts.shares.turn(from, Duration::ZERO).await;
        let turn = turn.map_err(|over| CallError::from(over).before_lookup(&offered))?;
        match turn.during(input.bound(slug, method, query)).await {
            Some(binding) => self.earlier(&offered, &binding).await,
            None => Ok(None),
        }
    }

    /// Returns what the offered payment has already bought for this request.
    pub(super) async fn earlier(&self, offered: &OfferedPayment, binding: &str) -> Result<Option<SeenPayment>, CallError> {
        match self.parts.payments.earlier(offered, binding).await {
            Ok(seen) => Ok(seen),
            Err(Refusal::Store(error)) => Err(error.into()),
            Err(refusal @ (Refusal::Slowed(_) | Refusal::AnswerLost(_) | Refusal::AnswerExpired(_) | Refusal::NoMoreRuns { .. })) => {
                Err(CallError::Refused(refusal))
            }
            Err(_) => Ok(None),
        }
    }

    /// Runs the tool again for a payment that was charged before. Of concurrent requests with the same payment, one
    /// runs it.
    pub(super) async fn owed(&self, task: NewCall, parsed: input::Parsed, owed: OwedPayment, waiter: &Waiter) -> SharedResult {
        task.note_payment(owed.payment());
        let (payment, wall_ms) = (owed.payment().clone(), task.live.endpoint.limits.wall_ms);
        match Box::pin(self.paid_earlier(task, parsed, owed)).await {
            Some(ended) => ended,
            None => self.join(&payment, wall_ms, waiter).await,
        }
    }

    /// Returns what a payment bought, for a tool with the time limit `wall_ms`.
    pub(super) async fn replay(&self, seen: SeenPayment, wall_ms: u64, waiter: &Waiter) -> SharedResult {
        match seen {
            SeenPayment::Stored(payment, answer) => Ok(CompletedCall::paid(payment, answer)),
            SeenPayment::InFlight(payment) => self.join(&payment, wall_ms, waiter).await,
            SeenPayment::Owed(owed) => Err(CallError::AnswerOwed(owed.payment().clone()).into()),
        }
    }

    /// Waits for the run that uses the payment, for a tool with the time limit `wall_ms`.
    async fn join(&self, payment: &PaymentId, wall_ms: u64, waiter: &Waiter) -> SharedResult {
        match self.join_running(payment, wall_ms, waiter).await {
            JoinEnd::Shared(ended) => ended,
            JoinEnd::Abandoned => Err(CallError::Joined(payment.clone()).into()),
        }
    }

    /// Waits for the run that uses the payment. If that was stopped, the caller may start another one.
    pub(super) async fn join_running(&self, payment: &PaymentId, wall_ms: u64, waiter: &Waiter) -> JoinEnd {
        self.in_flight.join(&self.parts.payments, payment, waiter, join_timeout(wall_ms)).await
    }
}
