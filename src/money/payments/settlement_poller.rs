//! Looks up open settlements: many concurrently, each at growing intervals, and none blocked by those without an
//! answer.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::{
    sync::OwnedSemaphorePermit,
    task::JoinSet,
    time::{Instant, timeout_at},
};
use tollhouse_store::{Batch, Durability, StoreError};

use super::{
    PAYMENTS, Payments,
    facilitator_calls::measured,
    record::{PaymentRecord, Settler},
    retry::PollBackoff,
    unresolved::payment_of,
};
use crate::{OfferedX402, PaymentId, PaymentState, SettleError, SettleOutcome};

/// Age after which a settlement of this host that no call awaits counts as open, because its call's task died. It
/// exceeds the time-outs of all facilitators.
const FORSAKEN_AGE: Duration = Duration::from_secs(180);

/// Maximum time that a round waits for answers. Later ones are awaited in the background.
const ROUND: Duration = Duration::from_secs(5);

/// A lookup in progress. It ends when dropped.
struct PollGuard {
    payments: Arc<Payments>,
    id: PaymentId,
    _place: OwnedSemaphorePermit,
}

impl Drop for PollGuard {
    fn drop(&mut self) {
        if let Some(retry) = self.payments.retries.lock().get_mut(&self.id) {
            retry.asking = false;
        }
    }
}

impl Payments {
    /// Looks up the settlements that are due.
    pub(super) async fn ask(self: &Arc<Self>) -> Result<(), StoreError> {
        let (mut due, mut running, until) = (self.due().await?, JoinSet::new(), Instant::now() + ROUND);
        loop {
            for (lane, due) in self.poll_slots.0.iter().zip(&mut due) {
                while !due.is_empty()
                    && let Ok(position) = Arc::clone(lane).try_acquire_owned()
                    && let Some(id) = due.pop_front()
                {
                    self.retries.lock().entry(id.clone()).or_default().asking = true;
                    let asking = PollGuard { payments: Arc::clone(self), id, _place: position };
                    running.spawn(async move { asking.payments.query_settlement(&asking.id).await });
                }
            }
            match timeout_at(until, running.join_next()).await {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                Err(_) => {
                    running.detach_all();
                    return Ok(());
                }
            }
        }
    }

    /// Returns the settlements that are due, with those that other replicas have left: first those looked up seldom so
    /// far, then those [looked up often](PollBackoff::is_old). Also forgets settlements that are no longer open or not ours.
    async fn due(&self) -> Result<[VecDeque<PaymentId>; 2], StoreError> {
        let now = Instant::now();
        let forsaken = self.clock.now().0.saturating_sub(u64::try_from(FORSAKEN_AGE.as_millis()).unwrap_or(u64::MAX));
        let (living, mut known) = (self.replica.living().await?, self.retries.lock().clone());
        let (mut due, mut remaining) = ([VecDeque::new(), VecDeque::new()], Vec::new());
        for row in self.open_records().await? {
            if !self.is_ours(&row.value) {
                let taken = self.take_over_left(&row, &living).await?;
                due[0].extend(taken.then_some(row.key));
                continue;
            }
            if row.value.state == PaymentState::Reserved && !self.claims.has(&row.value) {
                remaining.push(row);
                continue;
            }
            if row.value.state != PaymentState::Settling {
                continue;
            }
            let retry = known.remove(&row.key).unwrap_or_default();
            let is_due = retry.at.map_or(row.value.updated_ms < forsaken, |at| at <= now);
            if is_due && !retry.asking {
                due[usize::from(retry.is_old())].push_back(row.key);
            }
        }
        // A locked row can take time.
        join_all(remaining.iter().map(|row| self.release_departed(row))).await;
        let mut open = self.retries.lock();
        let is_over = |id: &PaymentId, retry: &PollBackoff| known.contains_key(id) && retry.at.is_some() && !retry.asking;
        open.retain(|id, retry| !is_over(id, retry));
        Ok(due)
    }

    async fn query_settlement(&self, id: &PaymentId) {
        match PAYMENTS.get(&*self.store, id).await {
            Ok(Some(record)) if self.is_ours(&record) => self.resolve(id, &record).await,
            Ok(_) => {}
            Err(error) => tracing::error!(payment.id = %id, %error, "an open settlement could not be read"),
        }
    }

    async fn resolve(&self, id: &PaymentId, record: &PaymentRecord) {
        let Some(payment) = payment_of(record) else {
            tracing::error!(payment.id = %id, "the intent of an open settlement is malformed");
            self.schedule_retry(id);
            if self.is_overdue(record) {
                self.give_up(id).await;
            }
            return;
        };
        let started = record.started();
        let facilitator = self.facilitators.of(payment.asset.network);
        let own = started.facilitator.as_ref().is_none_or(|named| *named == facilitator.identity());
        let outcome = match own {
            true => measured("resolve", facilitator.resolve(&payment, &started), SettleOutcome::name).await,
            false => measured("look_up", facilitator.look_up(&payment, &started), SettleOutcome::name).await,
        };
        let outcome = match outcome {
            // An overdue settlement, on which an admin decides next, is not sent again.
            SettleOutcome::Lost(cause) if !self.is_overdue(record) => self.settle_again(id, record, &payment, cause).await,
            outcome => outcome,
        };
        if let Some(burned) = facilitator.drain_burned(id) {
            self.count_burned(&payment, burned).await;
        }
        if let Some(used) = facilitator.take_used(id) {
            self.count_used(&payment, used);
        }
        let often = self.retries.lock().get(id).is_some_and(PollBackoff::is_old);
        let concluded = self.conclude(id, outcome, None).await;
        if often && matches!(concluded, Ok(_) | Err(SettleError::Refused { .. })) {
            self.retry_now();
        }
        match concluded {
            Ok(_) => tracing::info!(payment.id = %id, "an open settlement was found settled"),
            Err(SettleError::Refused { reason, .. }) => tracing::info!(payment.id = %id, reason, "an open settlement was found refused"),
            Err(_) if self.is_overdue(record) => self.give_up(id).await,
            Err(_) if self.holds_balance(id, record) && facilitator.is_spent(&payment).await => self.free_balance(id).await,
            Err(_) => {}
        }
    }

    /// Settles with another transaction, since no node has the previous one. The record names the new one before it is
    /// sent, so that the next lookup finds it and does not send a third.
    async fn settle_again(&self, id: &PaymentId, record: &PaymentRecord, payment: &OfferedX402, cause: String) -> SettleOutcome {
        let facilitator = self.facilitators.of(payment.asset.network);
        let transaction = match facilitator.prepare(payment).await {
            Ok(Some(transaction)) => transaction,
            Ok(None) => return SettleOutcome::Unknown(cause),
            Err(more) => return SettleOutcome::Unknown(format!("{cause}; it could not be sent again: {more:?}")),
        };
        let settler = Settler { facilitator: facilitator.identity(), transaction: Some(transaction.clone()) };
        let mut renewed = record.clone();
        renewed.settler = Some(settler);
        let mut batch = Batch::new();
        batch.replace(&PAYMENTS, &PAYMENTS.own(id.clone(), record.clone()), &renewed);
        if let Err(error) = batch.commit(&*self.store, Durability::Durable).await {
            facilitator.abandon(&transaction);
            return SettleOutcome::Unknown(format!("{cause}; it was not sent again: {error}"));
        }
        tracing::info!(payment.id = %id, transaction, cause, "an open settlement is sent again by another transaction");
        match measured("settle", facilitator.settle(payment, &renewed.started()), SettleOutcome::name).await {
            // The previous transaction may still be in a pool.
            SettleOutcome::Unsent(cause) | SettleOutcome::Lost(cause) => SettleOutcome::Unknown(cause),
            SettleOutcome::Refused { reason, .. } => SettleOutcome::Unknown(format!("the second transaction was refused: {reason}")),
            outcome => outcome,
        }
    }

    /// Makes all open settlements due now, because a facilitator that was silent for long has answered.
    fn retry_now(&self) {
        let now = Instant::now();
        self.retries.lock().values_mut().filter_map(|retry| retry.at.as_mut()).for_each(|at| *at = now.min(*at));
    }

    pub(super) fn schedule_retry(&self, id: &PaymentId) {
        let mut open = self.retries.lock();
        let retry = open.entry(id.clone()).or_default();
        *retry = retry.next(Instant::now());
    }
}
