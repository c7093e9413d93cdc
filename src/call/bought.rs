//! What a payment has bought already: given again, whatever has become of its tool since. A tool that is paused or gone takes
//! no calls, and what was paid for is no call of it any more.

use std::{net::IpAddr, sync::Arc, time::Duration};

use tollhouse_money::{Offered, OwedPayment, PaymentId, Refusal, Seen};
use tollhouse_protocol::limits::Limits;

use super::{
    Call, CallError, Calls, Done, Input, UnderWay,
    done::Shared,
    in_flight::{JoinEnd, patience},
    input,
    new_call::NewCall,
};

/// A request for a tool that takes no calls now.
#[derive(Debug)]
pub struct Asked<'a> {
    /// What the tool is called, or was.
    pub slug: &'a str,
    /// `GET` or `POST`.
    pub method: &'static str,
    /// As it stands in the URL.
    pub query: Option<&'a str>,
    /// What it was to be called with.
    pub input: Input,
    /// What it is paid with.
    pub offered: Offered,
    /// Whose network asks, for its share of the processor.
    pub from: IpAddr,
}

impl Calls {
    /// What the payment of this request has bought, or is buying; `None` where that is nothing: then there is nothing but the
    /// tool's own refusal to tell.
    ///
    /// # Errors
    ///
    /// [`CallError::OverShare`], [`CallError::AnswerOwed`], or the store's.
    pub async fn bought(self: &Arc<Self>, asked: Asked<'_>) -> Result<Option<UnderWay<Done>>, Arc<CallError>> {
        let Some(seen) = self.seen(asked).await? else { return Ok(None) };
        if let Seen::Owed(owed) = &seen {
            return Err(Arc::new(CallError::AnswerOwed(owed.payment().clone())));
        }
        let this = Arc::clone(self);
        Ok(Some(self.detached(async move { this.again(seen, Limits::ceilings().wall_ms).await })))
    }

    /// What the payment of a call has bought while its quote held; else that it is `refused`, since that holds no more. `None` where an
    /// answer is owed.
    pub(super) async fn bought_under(&self, call: &Call, refused: CallError) -> Option<Shared> {
        let Call { live, input, offered, head, from, .. } = call;
        let slug = live.endpoint.slug.as_str();
        let (input, offered) = (input.clone(), offered.clone());
        let asked = Asked { slug, method: head.method, query: head.raw_query(), input, offered, from: *from };
        match self.seen(asked).await {
            Ok(Some(Seen::Owed(_))) => None,
            Ok(Some(seen)) => Some(self.again(seen, live.endpoint.limits.wall_ms).await),
            Ok(None) => Some(Err(Arc::new(refused))),
            Err(error) => Some(Err(error)),
        }
    }

    async fn seen(&self, asked: Asked<'_>) -> Result<Option<Seen>, Arc<CallError>> {
        let Asked { slug, method, query, input, offered, from } = asked;
        if !offered.repeatable() {
            return Ok(None);
        }
        let turn = self.shares.turn(from, Duration::ZERO).await.map_err(|over| Arc::new(over.into()))?;
        match turn.during(input.bound(slug, method, query)).await {
            Some(binding) => self.earlier(&offered, &binding).await,
            None => Ok(None),
        }
    }

    /// What is offered has bought already, where that is this request: nobody asks for anything else of it.
    pub(super) async fn earlier(&self, offered: &Offered, binding: &str) -> Result<Option<Seen>, Arc<CallError>> {
        match self.gate.earlier(offered, binding).await {
            Ok(seen) => Ok(seen),
            Err(Refusal::Store(error)) => Err(Arc::new(error.into())),
            Err(Refusal::AnswerLost(payment)) => Err(Arc::new(CallError::AnswerLost(payment))),
            Err(Refusal::AnswerExpired(payment)) => Err(Arc::new(CallError::AnswerExpired(payment))),
            Err(Refusal::NoMoreRuns { payment, receipt }) => Err(Arc::new(CallError::NoMoreRuns { payment, receipt })),
            Err(_) => Ok(None),
        }
    }

    /// Runs the tool again for what was charged before: of requests with the same payment, one.
    pub(super) async fn owed(&self, task: NewCall, parsed: input::Parsed, owed: OwedPayment) -> Shared {
        let (payment, wall_ms) = (owed.payment().clone(), task.live.endpoint.limits.wall_ms);
        match Box::pin(self.paid_earlier(task, parsed, owed)).await {
            Some(ended) => ended,
            None => self.join(&payment, wall_ms).await,
        }
    }

    /// What a payment bought, of a tool that may run for `wall_ms`.
    pub(super) async fn again(&self, seen: Seen, wall_ms: u64) -> Shared {
        match seen {
            Seen::Stored(payment, answer) => Ok(Done::paid(payment, answer)),
            Seen::InFlight(payment) => self.join(&payment, wall_ms).await,
            Seen::Owed(owed) => Err(Arc::new(CallError::AnswerOwed(owed.payment().clone()))),
        }
    }

    /// The end of the run that has the payment, of a tool that may run for `wall_ms`.
    async fn join(&self, payment: &PaymentId, wall_ms: u64) -> Shared {
        match self.try_join(payment, wall_ms).await {
            JoinEnd::Shared(ended) => ended,
            JoinEnd::Abandoned => Err(Arc::new(CallError::Joined(payment.clone()))),
        }
    }

    /// The same, where a run that was stopped can be begun again.
    pub(super) async fn try_join(&self, payment: &PaymentId, wall_ms: u64) -> JoinEnd {
        self.in_flight.join(&self.gate, payment, patience(wall_ms)).await
    }
}
