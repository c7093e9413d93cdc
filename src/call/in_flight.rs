//! Calls in flight by payment. If a payment is sent again while its call runs, the request joins that call and shares
//! its outcome.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};
use tollhouse_money::{HeldPaymentEnd, PaymentId, Payments};
use tollhouse_telemetry::{Stage, enter};

use super::{
    completed::{CompletedCall, SharedResult},
    error::{CallError, PaidFailure},
};

/// How long to wait for another replica that runs the same payment, beyond the tool's wall limit.
pub(super) const JOIN_TIMEOUT: Duration = Duration::from_secs(90);

/// Returns how long to wait for another replica's call of a tool with the time limit `wall_ms`.
pub(super) fn timeout(wall_ms: u64) -> Duration {
    Duration::from_millis(wall_ms) + JOIN_TIMEOUT
}

/// First and maximum interval between two lookups of a payment that another replica runs. The interval doubles in
/// between.
const JOIN_POLL: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

/// Sends the outcome of the call once.
type EndReceiver = watch::Sender<Option<SharedResult>>;

/// A call that others can join.
#[derive(Debug, Clone)]
pub(super) struct JoinableCall {
    pub(super) end: EndReceiver,
    /// Whether nobody waits for it any more and it is being stopped. Later requests wait for that and start again.
    is_abandoned: bool,
}

/// The result of joining a call.
#[derive(Debug)]
pub(super) enum JoinEnd {
    /// The outcome of the call.
    Shared(SharedResult),
    /// It was stopped for its own caller, and its payment was released. The same payment can buy another run.
    Abandoned,
}

/// The payments whose calls are in flight in this process.
#[derive(Default)]
pub(super) struct InFlight(Mutex<HashMap<PaymentId, JoinableCall>>);

impl InFlight {
    /// Lets others join the call of `payment` until the returned value is dropped.
    pub(super) fn track(&self, payment: &PaymentId) -> TrackedCall<'_> {
        let end = EndReceiver::new(None);
        self.calls().insert(payment.clone(), JoinableCall { end: end.clone(), is_abandoned: false });
        TrackedCall { in_flight: self, payment: payment.clone(), end }
    }

    /// Waits for the call of the payment, and shares its outcome. A call of this process is awaited without limit, one
    /// of another replica for `timeout`. If that one was charged before its run and fails, this request fails with it:
    /// it begins no run of its own, which would use up one of the payment's runs.
    pub(super) async fn join(&self, payments: &Payments, payment: &PaymentId, timeout: Duration) -> JoinEnd {
        enter(Stage::Join);
        let (started, (mut poll, max_len)) = (Instant::now(), JOIN_POLL);
        let failed = |error| JoinEnd::Shared(Err(Arc::new(error)));
        // Number of runs that had ended without an answer when the payment was first looked up.
        let mut failed_before = None::<u32>;
        loop {
            // Under the lock, so that an abandoned call is not joined.
            let joined = self.calls().get(payment).map(|call| (call.end.subscribe(), call.is_abandoned));
            // If a call's task ended without an outcome, the record shows what became of the payment.
            if let Some((mut joined, is_abandoned)) = joined
                && let Ok(ended) = joined.wait_for(Option::is_some).await
            {
                // It may have completed after all.
                return match ended.clone() {
                    Some(Err(error)) if is_abandoned && matches!(*error, CallError::Cancelled) => JoinEnd::Abandoned,
                    Some(ended) => JoinEnd::Shared(ended),
                    None => failed(CallError::Internal),
                };
            }
            match payments.ended(payment).await {
                Ok(HeldPaymentEnd::Answer(answer)) => return JoinEnd::Shared(Ok(CompletedCall::paid(payment.clone(), answer))),
                Ok(HeldPaymentEnd::Lost) => return failed(CallError::AnswerLost(payment.clone())),
                Ok(HeldPaymentEnd::Without) => return failed(CallError::Joined(payment.clone())),
                Ok(HeldPaymentEnd::Open) => return failed(CallError::SettlementUnknown(payment.clone())),
                Ok(HeldPaymentEnd::NotYet) => _ = failed_before.get_or_insert(0),
                Ok(HeldPaymentEnd::Running { failed_runs }) => _ = failed_before.get_or_insert(failed_runs),
                Ok(HeldPaymentEnd::Owed { failed_runs, unanswered }) if failed_before.is_some_and(|before| failed_runs > before) => {
                    return failed(CallError::PaidRunFailed(Arc::new(PaidFailure { unanswered, cause: None })));
                }
                // Its host died, or had no room for it. The same payment buys another run.
                Ok(HeldPaymentEnd::Owed { .. }) => return JoinEnd::Abandoned,
                Err(error) => return failed(error.into()),
            }
            if started.elapsed() > timeout {
                return failed(CallError::Joined(payment.clone()));
            }
            tokio::time::sleep(poll).await;
            poll = max_len.min(poll * 2);
        }
    }

    /// Returns once no joined request waits for the call and none can join it.
    pub(super) async fn remaining(&self, payment: &PaymentId) {
        loop {
            let end = match self.calls().get_mut(payment) {
                Some(call) if call.end.receiver_count() > 0 => call.end.clone(),
                Some(call) => {
                    call.is_abandoned = true;
                    return;
                }
                None => return,
            };
            end.closed().await;
        }
    }

    pub(super) fn calls(&self) -> MutexGuard<'_, HashMap<PaymentId, JoinableCall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that others can join. Those who joined keep the last outcome that was sent.
pub(super) struct TrackedCall<'a> {
    in_flight: &'a InFlight,
    payment: PaymentId,
    end: EndReceiver,
}

impl TrackedCall<'_> {
    /// Sends the outcome to everyone who joined.
    pub(super) fn end(self, ended: SharedResult) {
        self.end.send_replace(Some(ended));
    }
}

impl Drop for TrackedCall<'_> {
    fn drop(&mut self) {
        let mut calls = self.in_flight.calls();
        // If the payment was released, it may have been admitted again, and its next call tracked.
        if calls.get(&self.payment).is_some_and(|call| call.end.same_channel(&self.end)) {
            calls.remove(&self.payment);
        }
    }
}
