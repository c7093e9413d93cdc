//! Calls in flight by payment. If a payment is sent again while its call runs, the request joins that call and shares
//! its outcome.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};
use tollhouse_base::lock::Lock;
use tollhouse_money::{HeldPaymentEnd, PaymentId, Payments, Refusal};
use tollhouse_telemetry::{Stage, enter};

use super::{
    completed::{CompletedCall, SharedResult},
    error::{CallError, PaidFailure},
    joins::{JoinLimits, JoinPermit, Joins, Waiter},
};

/// How long to wait for another replica that runs the same payment, beyond the tool's wall limit.
const JOIN_TIMEOUT: Duration = Duration::from_secs(90);

/// Returns how long to wait for another replica's call of a tool with the time limit `wall_ms`.
pub(super) fn join_timeout(wall_ms: u64) -> Duration {
    Duration::from_millis(wall_ms) + JOIN_TIMEOUT
}

/// First and maximum interval between two lookups of a payment that another replica runs. The interval doubles in
/// between.
const JOIN_POLL: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// When a client should retry if too many requests wait for calls.
const JOIN_RETRY: Duration = Duration::from_secs(5);

/// Sends the outcome of the call once.
type EndSender = watch::Sender<Option<SharedResult>>;

/// A call that others can join.
#[derive(Debug, Clone)]
pub(super) struct JoinableCall {
    pub(super) end: EndSender,
}

#[derive(Debug, Clone)]
pub(super) enum JoinEnd {
    Shared(SharedResult),
    /// It was stopped for its own caller, and its payment was released. The same payment can buy another run.
    Abandoned,
}

impl JoinEnd {
    fn failed(error: CallError) -> Self {
        Self::Shared(Err(Arc::new(error)))
    }
}

/// The outcome of looking up a payment until its run has ended.
#[derive(Debug, Clone)]
enum LookupEnd {
    Joined(JoinEnd),
    /// A call with the payment has begun in this process.
    RunsHere,
}

/// The payments whose calls are in flight in this process, and the requests that wait for calls.
pub(super) struct InFlight {
    pub(super) calls: Arc<Lock<HashMap<PaymentId, JoinableCall>>>,
    joins: Joins<LookupEnd>,
}

impl InFlight {
    pub(super) fn new(limits: JoinLimits) -> Self {
        Self { calls: Arc::default(), joins: Joins::new(limits) }
    }

    /// Lets others join the call of `payment` until the returned value is dropped.
    pub(super) fn track(&self, payment: &PaymentId) -> TrackedCall<'_> {
        let end = EndSender::new(None);
        self.calls.lock().insert(payment.clone(), JoinableCall { end: end.clone() });
        TrackedCall { in_flight: self, payment: payment.clone(), end }
    }

    /// Waits for the call of the payment, and shares its outcome. A call of this process is awaited without limit, one
    /// of another replica for `timeout`. If that one was charged before its run and fails, this request fails with it:
    /// it begins no run of its own, which would use up one of the payment's runs.
    ///
    /// The wait ends with [`CallError::Cancelled`] once the request is gone, and does not begin if too many requests
    /// wait: then it is [`CallError::TooManyJoins`].
    pub(super) async fn join(&self, payments: &Arc<Payments>, payment: &PaymentId, waiter: &Waiter, timeout: Duration) -> JoinEnd {
        enter(Stage::Join);
        let permit = match self.joins.admit(payment, waiter.from) {
            Ok(permit) => permit,
            Err(full) => {
                let (payment, retry_after) = (payment.clone(), JOIN_RETRY);
                return JoinEnd::failed(CallError::TooManyJoins { payment, full, retry_after });
            }
        };
        tokio::select! {
            biased;
            end = self.wait_for_end(payments, payment, &permit, timeout) => end,
            () = waiter.gone.cancelled() => JoinEnd::failed(CallError::Cancelled),
        }
    }

    async fn wait_for_end(
        &self,
        payments: &Arc<Payments>,
        payment: &PaymentId,
        permit: &JoinPermit<LookupEnd>,
        timeout: Duration,
    ) -> JoinEnd {
        let until = Instant::now() + timeout;
        loop {
            let joined = self.calls.lock().get(payment).map(|call| call.end.subscribe());
            // If a call's task ended without an outcome, the record shows what became of the payment.
            if let Some(mut joined) = joined
                && let Ok(ended) = joined.wait_for(Option::is_some).await
            {
                return match ended.clone() {
                    // It was stopped for its own caller, and its payment was released. A call that was to be stopped
                    // may have completed after all.
                    Some(Err(error)) if matches!(*error, CallError::Cancelled) => JoinEnd::Abandoned,
                    // It was streamed to its own caller.
                    Some(Ok(ended)) if ended.answer.is_unkept() => {
                        JoinEnd::failed(CallError::Refused(Refusal::AnswerExpired(payment.clone())))
                    }
                    Some(ended) => JoinEnd::Shared(ended),
                    None => JoinEnd::failed(CallError::Internal),
                };
            }
            let lookup = || look_up(Arc::clone(&self.calls), Arc::clone(payments), payment.clone()).boxed();
            match timeout_at(until, permit.lookup(lookup)).await {
                Ok(LookupEnd::Joined(end)) => return end,
                Ok(LookupEnd::RunsHere) => {}
                Err(_) => return JoinEnd::failed(CallError::Joined(payment.clone())),
            }
        }
    }

    /// Returns once no joined request waits for the call. One that joins it later starts again if it was canceled.
    pub(super) async fn abandoned(&self, payment: &PaymentId) {
        loop {
            let end = match self.calls.lock().get(payment) {
                Some(call) if call.end.receiver_count() > 0 => call.end.clone(),
                Some(_) | None => return,
            };
            end.closed().await;
        }
    }

    /// Returns the number of payments and addresses with waiting requests.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> (usize, usize) {
        self.joins.len()
    }
}

/// Looks up the payment until its run at another replica has ended. All requests that wait for the run share this.
async fn look_up(calls: Arc<Lock<HashMap<PaymentId, JoinableCall>>>, payments: Arc<Payments>, payment: PaymentId) -> LookupEnd {
    let (mut poll, max_poll) = JOIN_POLL;
    let failed = |error| LookupEnd::Joined(JoinEnd::failed(error));
    // Number of runs that had ended without an answer when the payment was first looked up.
    let mut failed_before = None::<u32>;
    loop {
        if calls.lock().contains_key(&payment) {
            return LookupEnd::RunsHere;
        }
        match payments.ended(&payment).await {
            Ok(HeldPaymentEnd::Answer(answer)) if answer.is_unkept() => {
                return failed(CallError::Refused(Refusal::AnswerExpired(payment)));
            }
            Ok(HeldPaymentEnd::Answer(answer)) => return LookupEnd::Joined(JoinEnd::Shared(Ok(CompletedCall::paid(payment, answer)))),
            Ok(HeldPaymentEnd::Lost) => return failed(CallError::Refused(Refusal::AnswerLost(payment))),
            Ok(HeldPaymentEnd::Without | HeldPaymentEnd::NotKept) => return failed(CallError::Joined(payment)),
            Ok(HeldPaymentEnd::Open) => return failed(CallError::SettlementUnknown(payment)),
            Ok(HeldPaymentEnd::NotYet) => _ = failed_before.get_or_insert(0),
            Ok(HeldPaymentEnd::Running { failed_runs }) => _ = failed_before.get_or_insert(failed_runs),
            Ok(HeldPaymentEnd::Owed(owed)) if failed_before.is_some_and(|before| owed.failed_runs() > before) => {
                let unanswered = payments.unanswered_by(&owed);
                return failed(CallError::PaidRunFailed(Arc::new(PaidFailure { unanswered, cause: None })));
            }
            // The host of the run died, or had no room for it. The same payment buys another run.
            Ok(HeldPaymentEnd::Owed(_)) => return LookupEnd::Joined(JoinEnd::Abandoned),
            Err(error) => return failed(error.into()),
        }
        tokio::time::sleep(poll).await;
        poll = max_poll.min(poll * 2);
    }
}

/// A call that others can join. Those who joined keep the last outcome that was sent.
pub(super) struct TrackedCall<'a> {
    in_flight: &'a InFlight,
    payment: PaymentId,
    end: EndSender,
}

impl TrackedCall<'_> {
    /// Sends the outcome to everyone who joined, and returns it.
    pub(super) fn end(self, ended: SharedResult) -> SharedResult {
        self.end.send_replace(Some(ended.clone()));
        ended
    }
}

impl Drop for TrackedCall<'_> {
    fn drop(&mut self) {
        let mut calls = self.in_flight.calls.lock();
        // If the payment was released, it may have been admitted again, and its next call tracked.
        if calls.get(&self.payment).is_some_and(|call| call.end.same_channel(&self.end)) {
            calls.remove(&self.payment);
        }
    }
}
