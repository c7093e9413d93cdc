//! What is written behind answers: the receipts of free calls, that calls failed, and the record of every call. No money
//! hangs on them, so no call waits for the store.
//!
//! What waits is written in batches, each one commit. Its rows of the sales are sums of the whole batch, and
//! must count once: a batch whose commit was not confirmed is looked for in the store before it is written again.

mod batch;
#[cfg(test)]
mod tests;
mod waiting;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use serde_json::json;
use tokio::sync::Notify;
use tollhouse_base::{
    clock::Timestamp,
    id::{CallId, EndpointId, ReceiptId},
};
use tollhouse_event::{Events, Kind};
use tollhouse_money::{
    Closing, call_succeeded,
    receipt::Record,
    sale::{Sale, Sales, Totals},
};
use tollhouse_store as store;
use tollhouse_store::{Durability, Store, StoreError};
use tollhouse_tool::{Owner, Slug};

use self::{
    batch::Batch,
    waiting::{MAX_WAITING, Waiting},
};
use super::{
    history::{CallRecord, History},
    metrics::Metrics,
    request::CalledBy,
};

/// How long the first receipt of a batch waits for others. Each batch is a write of sled's, however small it is.
const GATHER: Duration = Duration::from_millis(25);

/// How long a call waits for the store when too many receipts wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time to the next try after the store refused a batch.
const RETRY: Duration = Duration::from_secs(1);

/// What is on its way to the store. A crash may lose that of the last half second.
pub struct WriteBehind {
    store: Arc<dyn Store>,
    events: Arc<Events>,
    sales: Arc<Sales>,
    history: Arc<History>,
    metrics: Arc<Metrics>,
    waiting: Mutex<Waiting>,
    /// The batch that is being written. Held while it is.
    batch: tokio::sync::Mutex<Option<Batch>>,
    written: Notify,
    some: Notify,
}

/// Where what is written behind goes.
#[derive(Debug, Clone)]
pub struct WriteBehindParts {
    /// Tells of calls that ended.
    pub events: Arc<Events>,
    /// Counts them.
    pub sales: Arc<Sales>,
    /// Takes their records.
    pub history: Arc<History>,
    /// Adds them up.
    pub metrics: Arc<Metrics>,
}

/// A call that came to nothing after its handler ran, or was to run. Nothing was charged.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) call: CallId,
    pub(super) owner: Owner,
    pub(super) endpoint: EndpointId,
    pub(super) slug: Slug,
    pub(super) by: CalledBy,
    /// As the caller was told it.
    pub(super) code: &'static str,
    pub(super) at: Timestamp,
    /// Of a call that was charged: whether it was charged itself, and not an earlier one with the same payment.
    pub(super) paid: Option<bool>,
}

impl fmt::Debug for WriteBehind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBehind").field("receipts", &self.waiting().receipts()).finish_non_exhaustive()
    }
}

impl WriteBehind {
    /// Starts the writing task; it ends when nobody holds the value any more. Must be called inside a tokio runtime.
    #[must_use]
    pub fn start(store: Arc<dyn Store>, parts: WriteBehindParts) -> Arc<Self> {
        let write_behind = Arc::new(Self::new(store, parts));
        let weak = Arc::downgrade(&write_behind);
        tokio::spawn(async move {
            while let Some(write_behind) = weak.upgrade() {
                if write_behind.waiting().is_empty() {
                    // Looks up now and then whether anybody is left to write for.
                    _ = tokio::time::timeout(RETRY, write_behind.some.notified()).await;
                }
                tokio::time::sleep(GATHER).await;
                if let Err(error) = write_behind.write().await {
                    tracing::error!(%error, "what free and failed calls leave could not be written yet");
                    tokio::time::sleep(RETRY).await;
                }
            }
        });
        write_behind
    }

    fn new(store: Arc<dyn Store>, parts: WriteBehindParts) -> Self {
        let WriteBehindParts { events, sales, history, metrics } = parts;
        let (waiting, batch) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { store, events, sales, history, metrics, waiting, batch, written: Notify::new(), some: Notify::new() }
    }

    /// Takes what a free call leaves.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`] when too much waits of the same owner's, and the store takes none of it.
    pub(super) async fn succeeded(&self, closing: Closing) -> Result<(), StoreError> {
        while !self.waiting().has_room(&closing.owner) {
            let written = self.written.notified();
            self.some.notify_one();
            let away = |_| StoreError::Away(format!("{MAX_WAITING} receipts wait to be written"));
            tokio::time::timeout(PATIENCE, written).await.map_err(away)?;
        }
        let event = match closing.owner {
            // Calls of the host's own free tools are nobody's business, and the most there are.
            Owner::Platform => None,
            Owner::Builder(_) => Some(call_succeeded(&self.events, &closing)),
        };
        let Closing { receipt, owner, .. } = closing;
        // What an owner calls is not sold.
        let sale =
            (!receipt.owner).then(|| Sale { endpoint: receipt.endpoint_id.clone(), slug: receipt.slug.clone(), totals: Totals::FREE });
        let at = receipt.issued_at;
        let id = receipt.receipt_id.clone();
        // Unsigned: it is signed when it is asked for.
        let record = Bytes::from(Record::free(receipt).to_bytes());
        let mut waiting = self.waiting();
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
            self.some.notify_one();
        }
        Ok(())
    }

    /// Takes that a call failed. Never waits.
    pub(super) fn failed(&self, failed: Failed) {
        let Failed { call, owner, endpoint, slug, by, code, at, paid } = failed;
        let mut data = json!({ "callId": call, "code": code, "charged": paid.is_some() });
        if by == CalledBy::Owner {
            data["owner"] = json!(true);
        }
        let event = self.events.event(Kind::CallFailed, Some(&slug), data);
        let mut waiting = self.waiting();
        waiting.add_failure(&owner, event);
        if by == CalledBy::Anyone {
            waiting.count(
                owner,
                at,
                Sale { endpoint, slug, totals: if paid == Some(true) { Totals::PAID_FAILURE } else { Totals::FAILED } },
            );
        }
        drop(waiting);
        self.some.notify_one();
    }

    /// Takes the record of a call that has ended, however it did. Never waits.
    pub(super) fn ended(&self, endpoint: &EndpointId, call: CallRecord) {
        // What an owner calls is no business of theirs.
        if !call.owner {
            self.metrics.add(endpoint, &call);
        }
        let mut waiting = self.waiting();
        let first = waiting.is_empty();
        waiting.add_call(endpoint, call);
        drop(waiting);
        if first {
            self.some.notify_one();
        }
    }

    /// A receipt that is not in the store yet.
    #[must_use]
    pub fn receipt(&self, id: &ReceiptId) -> Option<Bytes> {
        self.waiting().receipt(id)
    }

    /// Writes what must not be lost, before the answer.
    pub(super) async fn durably(&self, rows: store::Batch) -> Result<(), StoreError> {
        rows.commit(&*self.store, Durability::Durable).await.map(|_| ())
    }

    /// Writes what waits. What the store does not take stays and is tried again.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn write(&self) -> Result<(), StoreError> {
        let mut slot = self.batch.lock().await;
        if slot.is_none() {
            *slot = self.next();
        }
        let Some(batch) = slot.as_mut() else { return Ok(()) };
        let written = batch.unsure && batch.rows.was_committed(&*self.store).await?;
        if !written {
            let committed = batch.rows.clone().commit(&*self.store, Durability::Buffered).await;
            batch.unsure |= matches!(committed, Err(StoreError::Unknown(_)));
            committed?;
        }
        let Some(batch) = slot.take() else { return Ok(()) };
        self.waiting().written(&batch.receipts);
        for (owner, event) in batch.events {
            self.events.announce(&owner, event);
        }
        self.history.announce(batch.calls);
        for owner in &batch.owners {
            self.sales.sold(owner);
        }
        self.written.notify_waiters();
        Ok(())
    }

    /// Writes until nothing waits.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn write_all(&self) -> Result<(), StoreError> {
        loop {
            self.write().await?;
            if self.waiting().is_empty() {
                return Ok(());
            }
        }
    }

    /// What waits, as one batch.
    fn next(&self) -> Option<Batch> {
        let mut waiting = self.waiting();
        if waiting.is_empty() {
            return None;
        }
        let taken = waiting.take();
        drop(waiting);
        Batch::made_of(taken, &self.events, &self.sales)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
