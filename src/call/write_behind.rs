//! Writes records after the answers: receipts of free calls, failures, and the record of every call. No money depends
//! on them, so calls do not wait for the store.
//!
//! Records are written in batches, each in one commit. A batch's sales rows are sums and must count only once. So a
//! batch whose commit was not confirmed is searched for in the store before it is written again.

mod batch;
mod pending;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::json;
use tokio::sync::Notify;
use tollhouse_base::{
    clock::Timestamp,
    id::{CallId, EndpointId, ReceiptId},
    lock::Lock,
};
use tollhouse_event::{Events, Kind};
use tollhouse_money::{
    ReceiptContext, call_succeeded,
    receipt::UnsignedReceipt,
    sale::{Sale, SaleTotals, Sales},
};
use tollhouse_store as store;
use tollhouse_store::{Durability, Store, StoreError, log_unavailable};
use tollhouse_tool::{Owner, Slug};

use self::{
    batch::Batch,
    pending::{MAX_WAITING, PendingWrites},
};
use super::{
    history::{CallRecord, History},
    metrics::Metrics,
    request::CalledBy,
};

/// How long the first record of a batch waits for others. Each batch costs a write in sled, however small it is.
const GATHER: Duration = Duration::from_millis(25);

/// How long a call waits for the store if too many receipts wait.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Pause before the next attempt after the store refused a batch.
const RETRY: Duration = Duration::from_secs(1);

/// Records on their way to the store. A crash may lose those of the last half second.
pub struct WriteBehind {
    store: Arc<dyn Store>,
    parts: WriteBehindParts,
    waiting: Lock<PendingWrites>,
    /// The batch that is being written. The lock is held meanwhile.
    batch: tokio::sync::Mutex<Option<Batch>>,
    /// Notified after each batch.
    written: Notify,
    /// Notified when there is something to write.
    work: Notify,
}

#[derive(Clone)]
pub struct WriteBehindParts {
    pub events: Arc<Events>,
    pub sales: Arc<Sales>,
    pub history: Arc<History>,
    pub metrics: Arc<Metrics>,
}

/// A failed call whose handler ran or would have run.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) call: CallId,
    pub(super) owner: Owner,
    pub(super) endpoint: EndpointId,
    pub(super) slug: Slug,
    pub(super) by: CalledBy,
    /// The error code that the caller got.
    pub(super) code: &'static str,
    pub(super) at: Timestamp,
    /// Set if the call was charged: true if it was charged itself, false if an earlier call with the same payment was.
    pub(super) paid: Option<bool>,
    /// Set for a scheduled run.
    pub(super) schedule: Option<FailedSchedule>,
}

/// The schedule of a run that failed.
#[derive(Debug)]
pub(super) struct FailedSchedule {
    pub(super) cron: String,
    /// Number of runs that have failed in a row, including this one.
    pub(super) failures: u32,
}

impl WriteBehind {
    /// Starts the writing task, which ends when the value is dropped. Call it inside a tokio runtime.
    pub fn start(store: Arc<dyn Store>, parts: WriteBehindParts) -> Arc<Self> {
        let write_behind = Arc::new(Self::new(store, parts));
        let weak = Arc::downgrade(&write_behind);
        tokio::spawn(async move {
            while let Some(write_behind) = weak.upgrade() {
                if write_behind.waiting.lock().is_empty() {
                    // The time-out lets the task notice that the value was dropped.
                    _ = tokio::time::timeout(RETRY, write_behind.work.notified()).await;
                }
                tokio::time::sleep(GATHER).await;
                if let Err(error) = write_behind.write().await {
                    log_unavailable(&error, "writing records of calls");
                    tokio::time::sleep(RETRY).await;
                }
            }
        });
        write_behind
    }

    fn new(store: Arc<dyn Store>, parts: WriteBehindParts) -> Self {
        let (waiting, batch) = (Lock::default(), tokio::sync::Mutex::default());
        Self { store, parts, waiting, batch, written: Notify::new(), work: Notify::new() }
    }

    /// Records a successful free call.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`] if too many records of the same owner wait and the store accepts none.
    pub(super) async fn succeeded(&self, closing: ReceiptContext) -> Result<(), StoreError> {
        while !self.waiting.lock().has_room(&closing.owner) {
            let written = self.written.notified();
            self.work.notify_one();
            let away = |_| StoreError::Away(format!("the store is behind: {MAX_WAITING} receipts wait to be written"));
            tokio::time::timeout(TIMEOUT, written).await.map_err(away)?;
        }
        let event = match closing.owner {
            // Calls of the host's own free tools interest nobody, and are the most frequent.
            Owner::Platform => None,
            Owner::Builder(_) => Some(call_succeeded(&self.parts.events, &closing)),
        };
        let ReceiptContext { receipt, owner, .. } = closing;
        // An owner's calls are not sales.
        let sale =
            (!receipt.owner).then(|| Sale { endpoint: receipt.endpoint_id.clone(), slug: receipt.slug.clone(), totals: SaleTotals::FREE });
        let (at, id) = (receipt.issued_at, receipt.receipt_id.clone());
        // The receipt is signed when it is fetched.
        let record = Bytes::from(UnsignedReceipt::free(receipt).to_bytes());
        let mut waiting = self.waiting.lock();
        let first = waiting.is_empty();
        waiting.add_receipt(&owner, id, record);
        if let Some(event) = event {
            waiting.add_event(&owner, event);
        }
        if let Some(sale) = sale {
            waiting.count(owner, at, sale);
        }
        drop(waiting);
        if first {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Records a failed call. Never waits.
    pub(super) fn failed(&self, failed: Failed) {
        let Failed { call, owner, endpoint, slug, by, code, at, paid, schedule } = failed;
        let mut data = json!({ "callId": call, "code": code, "charged": paid.is_some() });
        if by == CalledBy::Owner {
            data["owner"] = json!(true);
        }
        if let Some(FailedSchedule { cron, failures }) = schedule {
            data["schedule"] = json!({ "cron": cron, "failuresInARow": failures });
        }
        let event = self.parts.events.event(Kind::CallFailed, Some(&slug), data);
        let mut waiting = self.waiting.lock();
        waiting.add_failure(&owner, event);
        if by == CalledBy::Anyone {
            waiting.count(
                owner,
                at,
                Sale { endpoint, slug, totals: if paid == Some(true) { SaleTotals::PAID_FAILURE } else { SaleTotals::FAILED } },
            );
        }
        drop(waiting);
        self.work.notify_one();
    }

    /// Records a call that has ended, whatever its outcome. Never waits.
    pub(super) fn ended(&self, endpoint: &EndpointId, call: CallRecord) {
        // An owner's calls do not count as business.
        if !call.owner {
            self.parts.metrics.add(endpoint, &call);
        }
        let mut waiting = self.waiting.lock();
        let first = waiting.is_empty();
        waiting.add_call(endpoint, call);
        drop(waiting);
        if first {
            self.work.notify_one();
        }
    }

    /// Returns a receipt that is not in the store yet.
    pub fn receipt(&self, id: &ReceiptId) -> Option<Bytes> {
        self.waiting.lock().receipt(id)
    }

    /// Writes rows durably, before the answer.
    pub(super) async fn durably(&self, rows: store::Batch) -> Result<(), StoreError> {
        rows.commit(&*self.store, Durability::Durable).await.map(|_| ())
    }

    /// Writes a batch of waiting records. Those that the store does not accept are retried later.
    pub async fn write(&self) -> Result<(), StoreError> {
        let mut slot = self.batch.lock().await;
        if slot.is_none() {
            let taken = self.waiting.lock().take();
            *slot = Batch::build(taken, &self.parts.events, &self.parts.sales);
        }
        let Some(batch) = slot.as_mut() else { return Ok(()) };
        let written = batch.unsure && batch.rows.was_committed(&*self.store).await?;
        if !written {
            let committed = batch.rows.clone().commit(&*self.store, Durability::Buffered).await;
            batch.unsure |= matches!(committed, Err(StoreError::Unknown(_)));
            committed?;
        }
        let Some(batch) = slot.take() else { return Ok(()) };
        self.waiting.lock().written(&batch.receipts);
        for (owner, event) in batch.events {
            self.parts.events.announce(&owner, event);
        }
        self.parts.history.announce(batch.calls);
        for owner in &batch.owners {
            self.parts.sales.sold(owner);
        }
        self.written.notify_waiters();
        Ok(())
    }

    /// Writes until nothing waits.
    pub async fn write_all(&self) -> Result<(), StoreError> {
        loop {
            self.write().await?;
            if self.waiting.lock().is_empty() {
                return Ok(());
            }
        }
    }
}
