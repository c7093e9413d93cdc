//! Bounded queues of records that wait to be written.

use std::{
    collections::{HashMap, hash_map::IntoValues},
    iter, mem,
};

use bytes::Bytes;
use tollhouse_base::{
    clock::Timestamp,
    fair_queue::FairQueue,
    id::{EndpointId, ReceiptId},
};
use tollhouse_event::Event;
use tollhouse_money::sale::{self, Sale};
use tollhouse_tool::Owner;

use crate::history::CallRecord;

/// Maximum number of waiting receipts. Beyond it, a call whose owner has at least an equal share waits for the store.
/// As many again may wait of owners with less than their shares.
pub(super) const MAX_WAITING: usize = 20_000;

/// Maximum number of waiting events of failed calls. Beyond it, events of owners with more than an equal share are
/// dropped. The owner gets their number, and they still count in the sales.
pub(super) const MAX_FAILED: usize = 20_000;

/// Maximum number of waiting call records. Beyond it, records of tools with more than an equal share are left out, and
/// counted in the host's log.
const MAX_CALLS: usize = 2 * MAX_WAITING;

/// Maximum number of receipts, and of call records, per batch: the work of a millisecond or two.
const MAX_BATCH: usize = 2_000;

/// All waiting records.
pub(super) struct PendingWrites {
    /// Receipt id → its owner, and the receipt, until it is in the store.
    pub(super) receipts: HashMap<ReceiptId, (Owner, Bytes)>,
    /// Owner → number of their `receipts`.
    of_owners: HashMap<Owner, usize>,
    /// Ids of `receipts` that are not in a batch yet.
    unbatched: Vec<ReceiptId>,
    events: Vec<(Owner, Event)>,
    failures: FairQueue<Owner, Event>,
    calls: FairQueue<EndpointId, CallRecord>,
    calls_left_out: HashMap<EndpointId, u64>,
    /// Owner → number of dropped events.
    dropped: HashMap<Owner, u64>,
    /// Start of the day and tool → the sales to count.
    sales: HashMap<(u64, EndpointId), (Owner, Timestamp, Sale)>,
}

/// The records of a batch.
pub(super) struct TakenWrites {
    pub(super) receipts: Vec<ReceiptId>,
    /// The stored bytes of `receipts`, in the same order.
    pub(super) stored: Vec<Bytes>,
    pub(super) events: Vec<(Owner, Event)>,
    pub(super) calls: Vec<(EndpointId, CallRecord)>,
    pub(super) calls_left_out: HashMap<EndpointId, u64>,
    /// Number of dropped events by owner.
    pub(super) dropped: HashMap<Owner, u64>,
    pub(super) sales: IntoValues<(u64, EndpointId), (Owner, Timestamp, Sale)>,
}

impl Default for PendingWrites {
    fn default() -> Self {
        Self {
            receipts: HashMap::new(),
            of_owners: HashMap::new(),
            unbatched: Vec::new(),
            events: Vec::new(),
            failures: FairQueue::new(MAX_FAILED),
            calls: FairQueue::new(MAX_CALLS),
            calls_left_out: HashMap::new(),
            dropped: HashMap::new(),
            sales: HashMap::new(),
        }
    }
}

impl PendingWrites {
    /// Returns whether everything is in a batch.
    pub(super) fn is_empty(&self) -> bool {
        self.unbatched.is_empty() && self.events.is_empty() && self.failures.is_empty() && self.calls.is_empty() && self.sales.is_empty()
    }

    /// Returns whether there is room for another receipt of `owner`.
    pub(super) fn has_room(&self, owner: &Owner) -> bool {
        let own = self.of_owners.get(owner).copied();
        let owners = self.of_owners.len() + usize::from(own.is_none());
        self.receipts.len() < MAX_WAITING || own.unwrap_or_default() < MAX_WAITING / owners
    }

    /// Returns a receipt that is not in the store yet.
    pub(super) fn receipt(&self, id: &ReceiptId) -> Option<Bytes> {
        self.receipts.get(id).map(|(_, receipt)| receipt.clone())
    }

    pub(super) fn add_receipt(&mut self, owner: &Owner, id: ReceiptId, receipt: Bytes) {
        match self.of_owners.get_mut(owner) {
            Some(receipts) => *receipts += 1,
            None => _ = self.of_owners.insert(owner.clone(), 1),
        }
        self.unbatched.push(id.clone());
        self.receipts.insert(id, (owner.clone(), receipt));
    }

    /// Adds the event of a successful call.
    pub(super) fn add_event(&mut self, owner: &Owner, event: Event) {
        self.events.push((owner.clone(), event));
    }

    /// Adds the event of a failed call. If too many wait, counts the dropped one.
    pub(super) fn add_failure(&mut self, owner: &Owner, event: Event) {
        self.failures.push(owner, 1, event, |lost| *self.dropped.entry(lost.clone()).or_default() += 1);
    }

    /// Adds the record of a call. If too many wait, counts the one that is left out.
    pub(super) fn add_call(&mut self, endpoint: &EndpointId, call: CallRecord) {
        self.calls.push(endpoint, 1, call, |lost| *self.calls_left_out.entry(lost.clone()).or_default() += 1);
    }

    /// Adds to the owner's sales of that day.
    pub(super) fn count(&mut self, owner: Owner, at: Timestamp, sale: Sale) {
        let position = (sale::start_of_day(at).0, sale.endpoint.clone());
        match self.sales.get_mut(&position) {
            Some((_, _, sum)) => sum.totals += sale.totals,
            None => _ = self.sales.insert(position, (owner, at, sale)),
        }
    }

    /// Takes the records for the next batch. Its receipts can still be found until they are [`written`](Self::written).
    pub(super) fn take(&mut self) -> TakenWrites {
        let some = self.unbatched.len().min(MAX_BATCH);
        let receipts: Vec<_> = self.unbatched.drain(..some).collect();
        let mut events = mem::take(&mut self.events);
        events.extend(iter::from_fn(|| self.failures.pop()));
        TakenWrites {
            stored: receipts.iter().filter_map(|id| self.receipt(id)).collect(),
            receipts,
            events,
            calls: iter::from_fn(|| self.calls.pop()).take(MAX_BATCH).collect(),
            calls_left_out: mem::take(&mut self.calls_left_out),
            dropped: mem::take(&mut self.dropped),
            sales: mem::take(&mut self.sales).into_values(),
        }
    }

    /// Removes receipts that are in the store.
    pub(super) fn written(&mut self, receipts: &[ReceiptId]) {
        for (owner, _) in receipts.iter().filter_map(|id| self.receipts.remove(id)) {
            if let Some(own) = self.of_owners.get_mut(&owner) {
                *own -= 1;
                if *own == 0 {
                    self.of_owners.remove(&owner);
                }
            }
        }
    }
}
