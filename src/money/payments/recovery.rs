//! Handles payments that were left open, at the start and on a timer: settlements are looked up, and reservations
//! released. Also deletes records that are no longer needed.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::time::Instant;
use tollhouse_base::{boxed, clock::Timestamp};
use tollhouse_replica::LiveReplicas;
use tollhouse_store::{Batch, Durability, Row, StoreError};
use tollhouse_telemetry::counters::PAYMENTS as PAYMENTS_ENDED;

use super::{OPEN_INTENTS, PAYMENT_EXPIRY, PAYMENT_NAMES, PAYMENTS, Payments, balance_holds, retry::PollBackoff};
use crate::{
    PaymentId, PaymentState,
    payments::record::{PaymentRecord, RecordTimeout},
};

/// Number of open settlements, and of payments with something to delete, handled at once.
const BATCH: usize = 256;

/// Interval between searches for records to delete.
const FORGET_EVERY: Duration = Duration::from_secs(5);

impl Payments {
    /// Takes over payments of stopped replicas: releases reservations, and makes settlements due for [`Payments::tick`]. It
    /// uses only the store.
    #[boxed]
    pub async fn recover(&self) -> Result<(), StoreError> {
        self.gas.open(&self.store, &self.clock).await?;
        let (living, mut settling) = (self.replica.living().await?, 0);
        for row in self.open_records().await? {
            match row.value.state {
                PaymentState::Settling if self.is_ours(&row.value) => {
                    self.retries.lock().insert(row.key, PollBackoff::due(Instant::now()));
                    settling += 1;
                }
                PaymentState::Reserved | PaymentState::Settling => settling += usize::from(self.take_over_left(&row, &living).await?),
                _ => {
                    let mut batch = Batch::new();
                    batch.delete(&OPEN_INTENTS, &row.key);
                    batch.commit(&*self.store, Durability::Buffered).await?;
                }
            }
        }
        if settling > 0 {
            tracing::info!(payments = settling, "settlements were open when the host stopped, and are being looked up");
        }
        Ok(())
    }

    /// Takes over a payment of a stopped replica. Releases it if nothing can have been taken. Returns true if it is
    /// settling and is now ours to look up. Of several replicas, one succeeds.
    pub(super) async fn take_over_left(&self, row: &Row<PaymentId, PaymentRecord>, living: &LiveReplicas) -> Result<bool, StoreError> {
        let is_left = !living.has(row.value.replica.as_ref());
        match row.value.state {
            PaymentState::Reserved if is_left => self.release(row).await.map(|_| false),
            PaymentState::Settling if is_left => self.take_over_from(row).await,
            _ => Ok(false),
        }
    }

    /// Returns whether this replica is responsible for an open payment.
    pub(super) fn is_ours(&self, record: &PaymentRecord) -> bool {
        record.replica.as_ref() == Some(self.replica.id())
    }

    async fn take_over_from(&self, row: &Row<PaymentId, PaymentRecord>) -> Result<bool, StoreError> {
        let mut batch = Batch::new();
        batch.replace(&PAYMENTS, row, &row.value.clone().held_by(self.replica.id()));
        let is_ours = batch.commit_if_unchanged(&*self.store, Durability::Buffered).await?;
        if is_ours {
            self.retries.lock().insert(row.key.clone(), PollBackoff::due(Instant::now()));
        }
        Ok(is_ours)
    }

    /// Looks up open settlements that are due, and deletes old records.
    pub async fn tick(self: &Arc<Self>) -> Result<(), StoreError> {
        self.log_alarms();
        self.note_customers().await;
        self.release_orphans().await;
        self.ask().await?;
        if !self.replica.can_expire() {
            return Ok(());
        }
        self.replica.alone("payments", FORGET_EVERY, |_| self.forget()).await.map(drop)
    }

    pub(super) async fn open_records(&self) -> Result<Vec<Row<PaymentId, PaymentRecord>>, StoreError> {
        let mut records = Vec::new();
        let mut range = OPEN_INTENTS.all();
        while let Some(page) = OPEN_INTENTS.sound(&*self.store, &mut range, BATCH).await? {
            for intent in &page {
                records.extend(self.read_shared(&intent.key).await?);
            }
        }
        Ok(records)
    }

    /// Returns when the oldest open settlement of any replica began, or now if there is none.
    #[boxed]
    pub async fn settling_since(&self) -> Result<Timestamp, StoreError> {
        let now = self.clock.now();
        let open = self.open_records().await?.into_iter().filter(|row| row.value.state == PaymentState::Settling);
        Ok(open.map(|row| Timestamp(row.value.updated_ms)).min().map_or(now, |oldest| oldest.min(now)))
    }

    pub(crate) async fn forget(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        if self.store.is_shared() {
            balance_holds::forget_free(&*self.store).await?;
        }
        let mut due = PAYMENT_EXPIRY.all().before(&now);
        while let Some(page) = PAYMENT_EXPIRY.sound(&*self.store, &mut due, BATCH).await? {
            for row in &page {
                self.forget_one(row, now).await?;
            }
        }
        Ok(())
    }

    /// Deletes the expired data of one payment, and schedules its next check.
    async fn forget_one(&self, due: &Row<(Timestamp, String), ()>, now: Timestamp) -> Result<(), StoreError> {
        let (mut batch, mut removed) = (Batch::new(), 0);
        batch.sweep(&PAYMENT_EXPIRY, due);
        if let Ok(id) = due.key.1.parse::<PaymentId>()
            && let Some(row) = self.read_shared(&id).await?
        {
            let mut record = row.value.clone();
            let due = record.due(now);
            if matches!(due, RecordTimeout::Answer | RecordTimeout::Record) && record.has_answer {
                self.forget_answer(&mut batch, &id).await?;
            }
            match due {
                RecordTimeout::Record => {
                    let name = record.name().cloned();
                    // A payment whose money moved stays spent, in few bytes. Its nonce can be signed again for a later
                    // time, and the chain would then report the earlier transfer.
                    match record.transaction {
                        Some(_) => batch.replace(&PAYMENTS, &row, &record.spent()),
                        None => {
                            removed = 1;
                            batch.remove(&PAYMENTS, &row)
                        }
                    };
                    if let Some(name) = name
                        && let Some(found) = PAYMENT_NAMES.found(&*self.store, &name).await?
                    {
                        match PAYMENT_NAMES.read(found) {
                            Ok(named) if named.value == id => _ = batch.remove(&PAYMENT_NAMES, &named),
                            Ok(_) => {}
                            Err(error) => {
                                tracing::error!(payment.id = %id, %error, "the name of a payment is malformed and is skipped")
                            }
                        }
                    }
                }
                RecordTimeout::Answer => {
                    (record.has_answer, record.notice) = (false, None);
                    self.end(&mut batch, &row, &record);
                }
                RecordTimeout::At(_) => _ = batch.holds(&PAYMENTS, &row).append(self.recheck(&id, &record)),
                RecordTimeout::Never => _ = batch.holds(&PAYMENTS, &row),
            }
        }
        // After a conflict, the next tick does it.
        if batch.commit_if_unchanged(&*self.store, Durability::Buffered).await? {
            PAYMENTS.expired(removed);
        }
        Ok(())
    }

    /// Returns the row that schedules the next check of the payment.
    fn recheck(&self, id: &PaymentId, record: &PaymentRecord) -> Batch {
        match record.due(self.clock.now()) {
            RecordTimeout::At(at) => PAYMENT_EXPIRY.put(&(at, id.to_string()), &()),
            RecordTimeout::Answer | RecordTimeout::Record => PAYMENT_EXPIRY.put(&(self.clock.now(), id.to_string()), &()),
            RecordTimeout::Never => Batch::new(),
        }
    }

    pub(super) fn end(&self, batch: &mut Batch, row: &Row<PaymentId, PaymentRecord>, record: &PaymentRecord) {
        let look_again = self.recheck(&row.key, record);
        match &row.value.held {
            Some(held) => {
                held.release(batch);
                batch.replace(&PAYMENTS, row, &record.clone().without_balance())
            }
            None => batch.replace(&PAYMENTS, row, record),
        };
        batch.append(look_again);
    }

    pub(super) fn add_ended_record(&self, batch: &mut Batch, id: &PaymentId, record: &PaymentRecord) {
        batch.put_new(&PAYMENTS, id, record).append(self.recheck(id, record));
    }

    /// Releases a reservation. Returns false if its record has changed. The writer of the change then ends it.
    async fn release(&self, row: &Row<PaymentId, PaymentRecord>) -> Result<bool, StoreError> {
        let mut record = row.value.clone();
        (record.state, record.replica) = (PaymentState::Released, None);
        record.updated_ms = self.clock.now().0;
        let mut batch = Batch::new();
        self.end(&mut batch, row, &record);
        if batch.commit_if_unchanged(&*self.store, Durability::built_on(&*self.store)).await? {
            PAYMENTS_ENDED.count(["released"]);
            return Ok(true);
        }
        match PAYMENTS.get(&*self.store, &row.key).await? {
            // Another row of the commit caused the conflict.
            Some(now) if now == row.value => Err(StoreError::Contended),
            _ => Ok(false),
        }
    }

    /// Releases a reservation of this process whose call is gone. If that fails, the next round retries.
    pub(super) async fn release_departed(&self, row: &Row<PaymentId, PaymentRecord>) {
        match self.release(row).await {
            Ok(true) => tracing::warn!(payment.id = %row.key, "a reservation without a call was released"),
            Ok(false) => {}
            Err(error) => tracing::warn!(payment.id = %row.key, %error, "a reservation without a call could not be released"),
        }
    }

    /// Releases a reservation of this process, now or as soon as the store allows. Returns `None` if the outcome is not
    /// known yet.
    pub(super) async fn release_reservation(&self, id: &PaymentId, record: &PaymentRecord) -> Option<bool> {
        match self.release(&PAYMENTS.own(id.clone(), record.clone())).await {
            Ok(released) => Some(released),
            Err(error) => {
                tracing::error!(payment.id = %id, %error, "a reservation could not be released; the host will try again");
                self.orphaned.lock().insert(id.clone(), record.clone());
                None
            }
        }
    }

    /// Deletes the reservation of a call on credit that did not run: nothing limits such calls, and a released payment
    /// stays for an hour. If that fails, releases it.
    pub(super) async fn forget_reservation(&self, id: &PaymentId, record: &PaymentRecord) {
        let mut batch = Batch::new();
        batch.remove(&PAYMENTS, &PAYMENTS.own(id.clone(), record.clone()));
        match batch.commit_if_unchanged(&*self.store, Durability::built_on(&*self.store)).await {
            Ok(true) => PAYMENTS_ENDED.count(["released"]),
            Ok(false) | Err(_) => _ = self.release_reservation(id, record).await,
        }
    }

    pub(super) async fn release_orphans(&self) {
        let orphans: Vec<_> = self.orphaned.lock().drain().collect();
        // Concurrently, since each may wait for a locked row.
        join_all(orphans.iter().map(|(id, record)| self.release_reservation(id, record))).await;
    }
}
