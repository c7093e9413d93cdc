//! Calls under way, by what they are paid with: a payment that is shown again while its call runs joins that call, and shares
//! its end.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};
use tollhouse_money::{Ended, Gate, PaymentId};
use tollhouse_telemetry::{Stage, enter};

use super::{
    done::{Done, Shared},
    error::CallError,
};

/// How long a call waits for another replica that runs the same payment, beyond the tool's own wall limit.
pub(super) const JOIN_PATIENCE: Duration = Duration::from_secs(90);

/// How long the call of another replica is waited for, of a tool that may run for `wall_ms`.
pub(super) fn patience(wall_ms: u64) -> Duration {
    Duration::from_millis(wall_ms) + JOIN_PATIENCE
}

/// Time until the second look at a payment that another replica is running, and between two looks at the most: it doubles from the
/// one to the other.
const JOIN_POLL: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

/// Told once how the call ended.
type End = watch::Sender<Option<Shared>>;

/// A call that others may join.
#[derive(Debug, Clone)]
pub(super) struct Joinable {
    pub(super) end: End,
    /// Nobody waits for it any more, and it is being stopped: who comes now waits until that is done, and begins again.
    is_abandoned: bool,
}

/// What came of joining a call.
#[derive(Debug)]
pub(super) enum JoinEnd {
    /// It ended, and this is its end.
    Shared(Shared),
    /// It was stopped for its own caller, and its payment released: the same payment can buy a run of its own.
    Abandoned,
}

/// The payments whose calls are under way in this process.
#[derive(Default)]
pub(super) struct InFlight(Mutex<HashMap<PaymentId, Joinable>>);

impl InFlight {
    /// Lets others join the call that has `payment`, until what this answers is dropped.
    pub(super) fn track(&self, payment: &PaymentId) -> Tracked<'_> {
        let end = End::new(None);
        self.calls().insert(payment.clone(), Joinable { end: end.clone(), is_abandoned: false });
        Tracked { in_flight: self, payment: payment.clone(), end }
    }

    /// Waits for the call that has the payment, and shares its end: here for as long as it takes, on another replica for as
    /// long as there is `patience`.
    pub(super) async fn join(&self, gate: &Gate, payment: &PaymentId, patience: Duration) -> JoinEnd {
        enter(Stage::Join);
        let (began, (mut poll, longest)) = (Instant::now(), JOIN_POLL);
        let failed = |error| JoinEnd::Shared(Err(Arc::new(error)));
        loop {
            // Under the lock: a call that is abandoned was not joined before.
            let joined = self.calls().get(payment).map(|call| (call.end.subscribe(), call.is_abandoned));
            // A call whose task ended without an end: the record says what became of the payment.
            if let Some((mut joined, is_abandoned)) = joined
                && let Ok(ended) = joined.wait_for(Option::is_some).await
            {
                // It may have come to its end after all.
                return match ended.clone() {
                    Some(Err(error)) if is_abandoned && matches!(*error, CallError::Cancelled) => JoinEnd::Abandoned,
                    Some(ended) => JoinEnd::Shared(ended),
                    None => failed(CallError::Internal),
                };
            }
            match gate.ended(payment).await {
                Ok(Ended::Answer(answer)) => return JoinEnd::Shared(Ok(Done::paid(payment.clone(), answer))),
                Ok(Ended::Lost) => return failed(CallError::AnswerLost(payment.clone())),
                Ok(Ended::Without) => return failed(CallError::Joined(payment.clone())),
                Ok(Ended::Open) => return failed(CallError::SettlementUnknown(payment.clone())),
                // The same payment buys another run of it.
                Ok(Ended::Owed) => return JoinEnd::Abandoned,
                Ok(Ended::NotYet) => {}
                Err(error) => return failed(error.into()),
            }
            if began.elapsed() > patience {
                return failed(CallError::Joined(payment.clone()));
            }
            tokio::time::sleep(poll).await;
            poll = longest.min(poll * 2);
        }
    }

    /// Returns once nobody who joined waits for the call any more, and nobody can join it.
    pub(super) async fn left(&self, payment: &PaymentId) {
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

    pub(super) fn calls(&self) -> MutexGuard<'_, HashMap<PaymentId, Joinable>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that others may join. Whoever joined keeps what its end was last told.
pub(super) struct Tracked<'a> {
    in_flight: &'a InFlight,
    payment: PaymentId,
    end: End,
}

impl Tracked<'_> {
    /// Tells all who joined how it ended.
    pub(super) fn end(self, ended: Shared) {
        self.end.send_replace(Some(ended));
    }
}

impl Drop for Tracked<'_> {
    fn drop(&mut self) {
        let mut calls = self.in_flight.calls();
        // Released, the payment may have been admitted again, and its next call tracked.
        if calls.get(&self.payment).is_some_and(|call| call.end.same_channel(&self.end)) {
            calls.remove(&self.payment);
        }
    }
}
