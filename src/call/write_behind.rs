//! What is written behind answers: the receipts of free calls, that calls failed, and the record of every call. No money
//! hangs on them, so no call waits for the store.
//!
//! What waits is written in batches, each one commit. Its rows of the sales are sums of the whole batch, and
//! must count once: a batch whose commit was not confirmed is looked for in the store before it is written again.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use serde_json::json;
use tokio::sync::Notify;

use super::{
    CalledBy,
    finish::{self, Closing},
    history::{CallRecord, Chapter, History},
    metrics::Metrics,
};
use crate::{
    base::{
        clock::Timestamp,
        id::{CallId, EndpointId, ReceiptId, RequestId},
    },
    event::{Event, Events, Kind},
    money::{
        receipt::{FreeReceipts, Record},
        sale::{Sale, Sales, Totals},
    },
    store::{self, Durability, Store, StoreError},
    tool::{Owner, Slug},
};

/// Receipts that may wait to be written. A call that finds more waits for the store itself.
const MAX_WAITING: usize = 20_000;

/// Events of failed calls that may wait. Further ones are dropped, and their owner is told how many; they
/// count in the sales all the same.
const MAX_FAILED: usize = 20_000;

/// Receipts, and records of calls, of one batch: what a millisecond or two put together.
const MAX_BATCH: usize = 2_000;

/// Records of calls that may wait. Further ones are left out, and counted in the log.
const MAX_CALLS: usize = 2 * MAX_WAITING;

/// How long the first receipt of a batch waits for others. Each batch is a write of sled's, however small it is.
const GATHER: Duration = Duration::from_millis(25);

/// How long a call waits for the store when too many receipts wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time to the next try after the store refused a batch.
const RETRY: Duration = Duration::from_secs(1);

/// What is on its way to the store. A crash may lose that of the last half second.
pub struct WriteBehind {
    store: Arc<dyn Store>,
    receipts: Arc<FreeReceipts>,
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
    /// Takes receipts of free calls.
    pub receipts: Arc<FreeReceipts>,
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
}

#[derive(Default)]
struct Waiting {
    /// Receipt id → receipt, until they are in the store.
    receipts: HashMap<ReceiptId, Bytes>,
    /// Those of `receipts` that are in no batch yet.
    unbatched: Vec<ReceiptId>,
    events: Vec<(Owner, Event)>,
    calls: Vec<(EndpointId, CallRecord)>,
    calls_left_out: u64,
    failed: usize,
    /// Owner's share → events dropped.
    dropped: HashMap<String, (Owner, u64)>,
    /// Day's start and endpoint → what is to be counted.
    sales: HashMap<(u64, EndpointId), (Owner, Timestamp, Sale)>,
}

/// One commit's worth.
struct Batch {
    /// Its first row is new: there when the batch is.
    rows: store::Batch,
    receipts: Vec<ReceiptId>,
    events: Vec<(Owner, Event)>,
    calls: Vec<Chapter>,
    owners: Vec<Owner>,
    /// Whether it may have been written already.
    unsure: bool,
}

impl fmt::Debug for WriteBehind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBehind").field("receipts", &self.waiting().receipts.len()).finish_non_exhaustive()
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
        let WriteBehindParts { receipts, events, sales, history, metrics } = parts;
        let (waiting, batch) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { store, receipts, events, sales, history, metrics, waiting, batch, written: Notify::new(), some: Notify::new() }
    }

    /// Takes what a free call leaves.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`] when too much waits, and the store takes none of it.
    pub(super) async fn succeeded(&self, closing: Closing) -> Result<(), StoreError> {
        while self.waiting().receipts.len() >= MAX_WAITING {
            let written = self.written.notified();
            self.some.notify_one();
            let away = |_| StoreError::Away(format!("{MAX_WAITING} receipts wait to be written"));
            tokio::time::timeout(PATIENCE, written).await.map_err(away)?;
        }
        let event = match closing.owner {
            // Calls of the host's own free tools are nobody's business, and the most there are.
            Owner::Platform => None,
            Owner::Builder(_) => Some(finish::succeeded(&self.events, &closing)),
        };
        let Closing { receipt, owner, .. } = closing;
        // What an owner calls is not sold.
        let sale =
            (!receipt.owner).then(|| Sale { endpoint: receipt.endpoint_id.clone(), slug: receipt.slug.clone(), totals: Totals::FREE });
        let at = receipt.issued_at;
        let key = receipt.receipt_id.clone();
        // Unsigned: it is signed when it is asked for.
        let record = Bytes::from(Record::free(receipt).to_bytes());
        let mut waiting = self.waiting();
        let first = waiting.is_empty();
        waiting.unbatched.push(key.clone());
        waiting.receipts.insert(key, record);
        waiting.events.extend(event.map(|event| (owner.clone(), event)));
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
        let Failed { call, owner, endpoint, slug, by, code, at } = failed;
        let mut data = json!({ "callId": call, "code": code, "charged": false });
        if by == CalledBy::Owner {
            data["owner"] = json!(true);
        }
        let event = self.events.event(Kind::CallFailed, Some(&slug), data);
        let mut waiting = self.waiting();
        if waiting.failed >= MAX_FAILED {
            waiting.dropped.entry(owner.share().to_owned()).or_insert_with(|| (owner.clone(), 0)).1 += 1;
        } else {
            waiting.failed += 1;
            waiting.events.push((owner.clone(), event));
        }
        if by == CalledBy::Anyone {
            waiting.count(owner, at, Sale { endpoint, slug, totals: Totals::FAILED });
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
        if waiting.calls.len() >= MAX_CALLS {
            waiting.calls_left_out += 1;
            return;
        }
        let first = waiting.is_empty();
        waiting.calls.push((endpoint.clone(), call));
        drop(waiting);
        if first {
            self.some.notify_one();
        }
    }

    /// A receipt that is not in the store yet.
    #[must_use]
    pub fn receipt(&self, id: &ReceiptId) -> Option<Bytes> {
        self.waiting().receipts.get(id).cloned()
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
            *slot = self.batch();
        }
        let Some(batch) = slot.as_mut() else { return Ok(()) };
        let written = batch.unsure && batch.rows.landed(&*self.store).await?;
        if !written {
            let committed = batch.rows.clone().commit(&*self.store, Durability::Buffered).await;
            batch.unsure |= matches!(committed, Err(StoreError::Unknown(_)));
            committed?;
        }
        let Some(batch) = slot.take() else { return Ok(()) };
        {
            let mut waiting = self.waiting();
            for key in &batch.receipts {
                waiting.receipts.remove(key);
            }
        }
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
    fn batch(&self) -> Option<Batch> {
        let mut waiting = self.waiting();
        if waiting.is_empty() {
            return None;
        }
        let some = waiting.unbatched.len().min(MAX_BATCH);
        let receipts: Vec<_> = waiting.unbatched.drain(..some).collect();
        let stored: Vec<_> = receipts.iter().filter_map(|key| waiting.receipts.get(key).cloned()).collect();
        let some = waiting.calls.len().min(MAX_BATCH);
        let calls = waiting.calls.drain(..some).collect();
        let left_out = std::mem::take(&mut waiting.calls_left_out);
        let mut events = std::mem::take(&mut waiting.events);
        let (dropped, sales) = (std::mem::take(&mut waiting.dropped), std::mem::take(&mut waiting.sales));
        waiting.failed = 0;
        drop(waiting);
        if left_out > 0 {
            tracing::warn!(calls = left_out, "records of calls were left out: the store could not keep up");
        }
        let mut rows = self.receipts.stored(receipts.iter().zip(stored.iter().map(Bytes::as_ref)));
        let (records, calls) = History::stored(calls);
        rows.append(records);
        for (owner, count) in dropped.into_values() {
            tracing::warn!(owner = owner.share(), events = count, "events of failed calls were dropped: the store could not keep up");
            let data = json!({ "code": "events_dropped", "dropped": count, "charged": false });
            events.push((owner, self.events.event(Kind::CallFailed, None, data)));
        }
        for (owner, event) in &events {
            rows.append(Events::stored(owner, event));
        }
        // Every batch has a receipt, an event or a call.
        if rows.changes_nothing() {
            return None;
        }
        // The row's own name: another batch of the same moment has another.
        let name = RequestId::generate();
        let mut owners = Vec::with_capacity(sales.len());
        for (owner, at, sale) in sales.into_values() {
            rows.append(sale.row(&owner, at, &format!("{name}{}", sale.endpoint)));
            owners.push(owner);
        }
        Some(Batch { rows, receipts, events, calls, owners, unsure: false })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.unbatched.is_empty() && self.events.is_empty() && self.calls.is_empty() && self.sales.is_empty()
    }

    fn count(&mut self, owner: Owner, at: Timestamp, sale: Sale) {
        let place = (crate::money::sale::start_of_day(at).0, sale.endpoint.clone());
        match self.sales.get_mut(&place) {
            Some((_, _, sum)) => sum.totals += sale.totals,
            None => _ = self.sales.insert(place, (owner, at, sale)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::{
            clock::Clock,
            id::{BuilderId, ReceiptId},
        },
        call::{HistorySettings, MetricsSettings},
        event::{EventQuery, EventSettings},
        money::receipt::{Draft, FreeReceiptSettings},
        store::{
            faulty::{Fault, FaultyStore},
            memory::MemoryStore,
        },
        tool::MicroUsd,
    };

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    async fn write_behind() -> (WriteBehind, Arc<FaultyStore<MemoryStore>>) {
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        let any: Arc<dyn Store> = Arc::clone(&store) as _;
        let events = Arc::new(Events::new(Arc::clone(&any), Clock::fixed(NOW), EventSettings::default()));
        let sales = Sales::new(Arc::clone(&any));
        let receipts = FreeReceipts::open(Arc::clone(&any), Clock::fixed(NOW), FreeReceiptSettings::default()).await.unwrap();
        let history = History::new(Arc::clone(&any), Clock::fixed(NOW), HistorySettings::default());
        let metrics = Metrics::new(Arc::clone(&any), Clock::fixed(NOW), MetricsSettings::default());
        (WriteBehind::new(any, WriteBehindParts { receipts, events, sales, history, metrics }), store)
    }

    fn failure(owner: &Owner, endpoint: &EndpointId) -> Failed {
        let slug = "some-tool".parse().unwrap();
        Failed {
            call: CallId::generate(),
            owner: owner.clone(),
            endpoint: endpoint.clone(),
            slug,
            by: CalledBy::Anyone,
            code: "handler_failed",
            at: NOW,
        }
    }

    fn free(n: usize) -> Closing {
        let receipt = Draft {
            receipt_id: ReceiptId::generate(),
            slug: "some-tool".parse().unwrap(),
            endpoint_id: EndpointId::generate(),
            version: n.to_string(),
            price_usd: MicroUsd::ZERO,
            owner: false,
            resource_url: String::new(),
            request_hash: String::new(),
            result_hash: String::new(),
            started_at: NOW,
            issued_at: NOW,
        };
        Closing { receipt, call: CallId::generate(), owner: Owner::Platform, fee: MicroUsd::ZERO, registered: None }
    }

    #[tokio::test]
    async fn a_store_that_takes_nothing_keeps_no_free_call_waiting_for_ever() {
        let (write_behind, _store) = write_behind().await;
        for n in 0..MAX_WAITING {
            write_behind.succeeded(free(n)).await.unwrap();
        }
        let before = std::time::Instant::now();
        assert!(matches!(write_behind.succeeded(free(MAX_WAITING)).await, Err(StoreError::Away(_))));
        assert!(before.elapsed() >= PATIENCE);
        write_behind.write().await.unwrap();
        write_behind.succeeded(free(MAX_WAITING)).await.unwrap();
        write_behind.write_all().await.unwrap();
        assert_eq!(write_behind.waiting().receipts.len(), 0, "all that waited is written, however many batches that takes");
    }

    #[tokio::test]
    async fn a_batch_counts_once_whatever_becomes_of_its_commits() {
        let (owner, endpoint) = (Owner::Builder(BuilderId::generate()), EndpointId::generate());
        for faults in [vec![], vec![Fault::Before], vec![Fault::After], vec![Fault::Lost, Fault::After], vec![Fault::After, Fault::Before]]
        {
            let (write_behind, store) = write_behind().await;
            for (n, fault) in (1..).zip(&faults) {
                store.fail_nth(n, *fault);
            }
            for _ in 0..3 {
                write_behind.failed(failure(&owner, &endpoint));
            }
            let mut tries = 0;
            while write_behind.write().await.is_err() {
                // Folded in between, its rows are gone, and only the witness tells that they were there.
                _ = write_behind.sales.fold_all().await;
                tries += 1;
                assert!(tries <= faults.len(), "{faults:?}");
            }
            let report = write_behind.sales.report(&owner, NOW).await.unwrap();
            assert_eq!((report.totals.calls, report.totals.failed_calls), (3, 3), "{faults:?}");
            let query = EventQuery { limit: 10, ..EventQuery::default() };
            assert_eq!(write_behind.events.list(&owner, &query).await.unwrap().events.len(), 3, "{faults:?}");
        }
    }

    #[tokio::test]
    async fn failures_beyond_what_may_wait_are_counted_and_told() {
        let (write_behind, _store) = write_behind().await;
        let (owner, endpoint) = (Owner::Builder(BuilderId::generate()), EndpointId::generate());
        for _ in 0..MAX_FAILED + 7 {
            write_behind.failed(failure(&owner, &endpoint));
        }
        write_behind.write().await.unwrap();
        let report = write_behind.sales.report(&owner, NOW).await.unwrap();
        assert_eq!(report.totals.failed_calls, MAX_FAILED as u64 + 7);
        let query = EventQuery { limit: 100_000, ..EventQuery::default() };
        let (mut told, mut query) = (vec![], query);
        loop {
            let page = write_behind.events.list(&owner, &query).await.unwrap();
            told.extend(page.events);
            query.cursor = page.next;
            if query.cursor.is_none() {
                break;
            }
        }
        assert_eq!(told.len(), MAX_FAILED + 1);
        assert_eq!(told.iter().filter(|event| event.data["dropped"] == 7).count(), 1);
    }
}
