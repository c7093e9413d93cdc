//! What is left open: resolved at the start and on a timer, and given back where nothing was taken. What is over:
//! forgotten when nothing can be asked of it any more.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use serde_json::Value;

use super::{Gate, OPEN_INTENTS, PAYMENT_EXPIRY, PAYMENT_NAMES, PAYMENTS, Retry, answer};
use crate::{
    base::clock::Timestamp,
    money::{
        Payment, PaymentId, SettleError, State,
        gate::record::{Due, Kept, Record, Tail},
    },
    store::{Batch, Durability, Row, StoreError},
};

/// Longest time between two questions about one open settlement.
const MAX_BACKOFF: Duration = Duration::from_secs(300);

/// Age at which a settlement of another process counts as open: above every facilitator's own time-out.
const FOREIGN_AGE: Duration = Duration::from_secs(180);

/// Open settlements, and payments with something to forget, looked at in one go.
const BATCH: usize = 256;

/// Open settlements asked about at once.
const AT_ONCE: usize = 16;

impl Gate {
    /// Takes up what a crash left: reservations are released, and settlements are due for [`Gate::tick`]. Asks nobody but the store,
    /// which no other process uses.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn recover(&self) -> Result<(), StoreError> {
        let mut settling = 0;
        for row in self.open_records().await? {
            match row.value.state {
                State::Reserved => _ = self.release(&row).await?,
                State::Settling => {
                    self.retries().insert(row.key, Retry { at: Some(Instant::now()), tries: 0 });
                    settling += 1;
                }
                State::Settled | State::Refused | State::Released => {
                    let mut batch = Batch::new();
                    batch.delete(&OPEN_INTENTS, &row.key);
                    batch.commit(&*self.store, Durability::Buffered).await?;
                }
            }
        }
        if settling > 0 {
            tracing::info!(payments = settling, "settlements were open when the host ended, and are being resolved");
        }
        Ok(())
    }

    /// Asks about open settlements whose time has come, and forgets what is old of those that ended.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn tick(&self) -> Result<(), StoreError> {
        self.give_back_orphans().await;
        let now = Instant::now();
        let mut ended: Vec<PaymentId> = self.retries().iter().filter(|(_, retry)| retry.at.is_some()).map(|(id, _)| id.clone()).collect();
        let foreign = self.clock.now().0.saturating_sub(u64::try_from(FOREIGN_AGE.as_millis()).unwrap_or(u64::MAX));
        let open = self.open_records().await?;
        ended.retain(|id| !open.iter().any(|row| row.key == *id && row.value.state == State::Settling));
        for id in ended {
            self.retries().remove(&id);
        }
        let mut settling = Vec::new();
        for Row { key: id, value: record, .. } in open {
            let due = match self.retries().get(&id) {
                Some(Retry { at: Some(at), .. }) => *at <= now,
                // Another replica's, or of a call whose task died.
                Some(Retry { at: None, .. }) | None => record.updated_ms < foreign,
            };
            if record.state == State::Settling && due {
                settling.push((id, record));
            }
        }
        // One facilitator that does not answer holds up no other settlement.
        let resolve = async |(id, record): (PaymentId, Record)| self.resolve(&id, &record).await;
        futures_util::stream::iter(settling).for_each_concurrent(AT_ONCE, resolve).await;
        self.forget().await
    }

    pub(super) async fn resolve(&self, id: &PaymentId, record: &Record) {
        let Some(intent) = &record.intent else { return };
        let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        let Ok(payment) = Payment::from_parts(intent.version, parse(&intent.payload), parse(&intent.requirements)) else {
            tracing::error!(payment.id = %id, "an intent does not read");
            return self.ask_later(id);
        };
        let begun = record.begun();
        let facilitator = self.facilitators.of(payment.asset.network);
        let own = begun.facilitator.as_ref().is_none_or(|named| *named == facilitator.identity());
        let outcome = match own {
            true => facilitator.resolve(&payment, &begun).await,
            false => facilitator.look_up(&payment, &begun).await,
        };
        match self.conclude(id, outcome, None).await {
            Ok(_) => tracing::info!(payment.id = %id, "an open settlement was found settled"),
            Err(SettleError::Refused { reason, .. }) => tracing::info!(payment.id = %id, reason, "an open settlement was found refused"),
            Err(_) => {}
        }
    }

    pub(super) async fn open_records(&self) -> Result<Vec<Row<PaymentId, Record>>, StoreError> {
        let mut records = Vec::new();
        let mut range = OPEN_INTENTS.all();
        while let Some((page, rest)) = OPEN_INTENTS.sound(&*self.store, &range, BATCH).await? {
            range = rest;
            for intent in &page {
                records.extend(self.read_among_others(&intent.key).await?);
            }
        }
        Ok(records)
    }

    /// Forgets what is due.
    async fn forget(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut due = PAYMENT_EXPIRY.all().before(&now);
        while let Some((page, rest)) = PAYMENT_EXPIRY.sound(&*self.store, &due, BATCH).await? {
            due = rest;
            for row in &page {
                self.forget_one(row, now).await?;
            }
        }
        Ok(())
    }

    /// Forgets what is due of one payment, and says when to look again.
    async fn forget_one(&self, due: &Row<(Timestamp, String), ()>, now: Timestamp) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        batch.sweep(&PAYMENT_EXPIRY, due);
        if let Ok(id) = due.key.1.parse::<PaymentId>()
            && let Some(row) = self.read_among_others(&id).await?
        {
            let mut record = row.value.clone();
            let due = record.due(now);
            if matches!(due, Due::Answer | Due::Record) && matches!(record.answer, Some(Kept::Apart(_))) {
                answer::forget(&mut batch, &id);
            }
            match due {
                Due::Record => {
                    let name = record.tail.as_ref().and_then(Tail::name);
                    // What moved stays spent, in few bytes: its nonce can be signed for again, for a later time, and a chain
                    // that is asked then tells of the transfer that was.
                    match record.transaction {
                        Some(_) => batch.replace(&PAYMENTS, &row, &record.spent()),
                        None => batch.remove(&PAYMENTS, &row),
                    };
                    if let Some(name) = name
                        && let Some(found) = PAYMENT_NAMES.found(&*self.store, &name).await?
                    {
                        match PAYMENT_NAMES.read(found) {
                            Ok(named) if named.value == id => _ = batch.remove(&PAYMENT_NAMES, &named),
                            Ok(_) => {}
                            Err(error) => {
                                tracing::error!(payment.id = %id, %error, "the name of a payment does not read; it stays as it is")
                            }
                        }
                    }
                }
                Due::Answer => {
                    record.answer = None;
                    self.end(&mut batch, &row, &record);
                }
                Due::At(_) => _ = batch.holds(&PAYMENTS, &row).append(self.look_again(&id, &record)),
                Due::Never => _ = batch.holds(&PAYMENTS, &row),
            }
        }
        match batch.commit(&*self.store, Durability::Buffered).await {
            // On a conflict the next tick does it.
            Ok(_) | Err(StoreError::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What has the payment looked at when something of it is to be forgotten.
    fn look_again(&self, id: &PaymentId, record: &Record) -> Batch {
        match record.due(self.clock.now()) {
            Due::At(at) => PAYMENT_EXPIRY.put(&(at, id.to_string()), &()),
            Due::Answer | Due::Record => PAYMENT_EXPIRY.put(&(self.clock.now(), id.to_string()), &()),
            Due::Never => Batch::new(),
        }
    }

    /// What every end of a payment writes.
    pub(super) fn end(&self, batch: &mut Batch, row: &Row<PaymentId, Record>, record: &Record) {
        batch.replace(&PAYMENTS, row, record).append(self.look_again(&row.key, record));
    }

    /// What is written of a payment that begins with its end.
    pub(super) fn begin_ended(&self, batch: &mut Batch, id: &PaymentId, record: &Record) {
        batch.put_new(&PAYMENTS, id, record).append(self.look_again(id, record));
    }

    /// Releases a reservation. False when it has gone on without us: whoever changed it ends it.
    async fn release(&self, row: &Row<PaymentId, Record>) -> Result<bool, StoreError> {
        let mut record = row.value.clone();
        record.state = State::Released;
        record.updated_ms = self.clock.now().0;
        let mut batch = Batch::new();
        self.end(&mut batch, row, &record);
        match batch.commit(&*self.store, Durability::Buffered).await {
            Ok(_) => Ok(true),
            Err(StoreError::Conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Releases a reservation of our own, now or as soon as the store does it. `None`: it is not known yet.
    pub(super) async fn give_back(&self, id: &PaymentId, record: &Record) -> Option<bool> {
        match self.release(&PAYMENTS.own(id.clone(), record.clone())).await {
            Ok(released) => Some(released),
            Err(error) => {
                tracing::error!(payment.id = %id, %error, "a reservation could not be released; it is tried again");
                self.orphans().insert(id.clone(), record.clone());
                None
            }
        }
    }

    pub(super) async fn give_back_orphans(&self) {
        let orphans: Vec<_> = self.orphans().drain().collect();
        for (id, record) in orphans {
            self.give_back(&id, &record).await;
        }
    }

    pub(super) fn ask_later(&self, id: &PaymentId) {
        let mut open = self.retries();
        let retry = open.entry(id.clone()).or_insert(Retry { at: None, tries: 0 });
        *retry = retry.next(Instant::now());
    }
}

impl Retry {
    /// Twice as long after each try.
    fn next(self, now: Instant) -> Self {
        let wait = Duration::from_secs(1u64 << self.tries.min(16)).min(MAX_BACKOFF);
        Self { at: Some(now + wait), tries: self.tries + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_settlement_is_asked_about_ever_more_rarely() {
        let now = Instant::now();
        let tries = std::iter::successors(Some(Retry { at: None, tries: 0 }), |retry| Some(retry.next(now)));
        let waits: Vec<_> = tries.take(12).filter_map(|retry| Some(retry.at?.duration_since(now).as_secs())).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }
}
