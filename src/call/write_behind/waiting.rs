//! What waits to be written, within bounds.

use std::{
    collections::{HashMap, hash_map::IntoValues},
    iter, mem,
};

use bytes::Bytes;
use tollhouse_base::{
    clock::Timestamp,
    id::{EndpointId, ReceiptId},
    queues::Queues,
};
use tollhouse_event::Event;
use tollhouse_money::sale::{self, Sale};
use tollhouse_tool::Owner;

use crate::history::CallRecord;

/// Receipts that may wait to be written. A call that finds more, and no less than its owner's part of them, waits for the store
/// itself. As many again may wait of owners who have less than their parts.
pub(super) const MAX_WAITING: usize = 20_000;

/// Events of failed calls that may wait. Beyond them those of whoever has more than its part are dropped, and their owner is told
/// how many; they count in the sales all the same.
pub(super) const MAX_FAILED: usize = 20_000;

/// Records of calls that may wait. Beyond them those of the endpoint that has more than its part are left out, and counted in
/// the host's log.
const MAX_CALLS: usize = 2 * MAX_WAITING;

/// Receipts, and records of calls, of one batch: what a millisecond or two put together.
const MAX_BATCH: usize = 2_000;

/// All that waits.
pub(super) struct Waiting {
    /// Receipt id → whose it is, and the receipt, until they are in the store.
    receipts: HashMap<ReceiptId, (Owner, Bytes)>,
    /// Owner → how many of `receipts` are of their tools.
    of_owners: HashMap<Owner, usize>,
    /// Those of `receipts` that are in no batch yet.
    unbatched: Vec<ReceiptId>,
    events: Vec<(Owner, Event)>,
    failures: Queues<Owner, Event>,
    calls: Queues<EndpointId, CallRecord>,
    calls_left_out: HashMap<EndpointId, u64>,
    /// Owner → events dropped.
    dropped: HashMap<Owner, u64>,
    /// Day's start and endpoint → what is to be counted.
    sales: HashMap<(u64, EndpointId), (Owner, Timestamp, Sale)>,
}

/// What is taken for one batch.
pub(super) struct Taken {
    pub(super) receipts: Vec<ReceiptId>,
    /// Of each of `receipts`, as it is stored.
    pub(super) stored: Vec<Bytes>,
    pub(super) events: Vec<(Owner, Event)>,
    pub(super) calls: Vec<(EndpointId, CallRecord)>,
    pub(super) calls_left_out: HashMap<EndpointId, u64>,
    /// Events dropped, by their owner.
    pub(super) dropped: HashMap<Owner, u64>,
    pub(super) sales: IntoValues<(u64, EndpointId), (Owner, Timestamp, Sale)>,
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            receipts: HashMap::new(),
            of_owners: HashMap::new(),
            unbatched: Vec::new(),
            events: Vec::new(),
            failures: Queues::new(MAX_FAILED),
            calls: Queues::new(MAX_CALLS),
            calls_left_out: HashMap::new(),
            dropped: HashMap::new(),
            sales: HashMap::new(),
        }
    }
}

impl Waiting {
    /// Whether nothing is left that no batch has.
    pub(super) fn is_empty(&self) -> bool {
        self.unbatched.is_empty() && self.events.is_empty() && self.failures.is_empty() && self.calls.is_empty() && self.sales.is_empty()
    }

    /// Receipts that are not in the store yet.
    pub(super) fn receipts(&self) -> usize {
        self.receipts.len()
    }

    /// Whether there is room for one more receipt of `owner`'s tools.
    pub(super) fn has_room(&self, owner: &Owner) -> bool {
        let own = self.of_owners.get(owner).copied();
        let owners = self.of_owners.len() + usize::from(own.is_none());
        self.receipts.len() < MAX_WAITING || own.unwrap_or_default() < MAX_WAITING / owners
    }

    /// A receipt that is not in the store yet.
    pub(super) fn receipt(&self, id: &ReceiptId) -> Option<Bytes> {
        self.receipts.get(id).map(|(_, receipt)| receipt.clone())
    }

    /// Takes a receipt.
    pub(super) fn add_receipt(&mut self, owner: &Owner, id: ReceiptId, receipt: Bytes) {
        match self.of_owners.get_mut(owner) {
            Some(receipts) => *receipts += 1,
            None => _ = self.of_owners.insert(owner.clone(), 1),
        }
        self.unbatched.push(id.clone());
        self.receipts.insert(id, (owner.clone(), receipt));
    }

    /// Takes the event of a call that went well.
    pub(super) fn add_event(&mut self, owner: &Owner, event: Event) {
        self.events.push((owner.clone(), event));
    }

    /// Takes the event of a call that failed; counts the one that is dropped where too many wait.
    pub(super) fn add_failure(&mut self, owner: &Owner, event: Event) {
        self.failures.push(owner, 1, event, |lost| *self.dropped.entry(lost.clone()).or_default() += 1);
    }

    /// Takes the record of a call; counts the one that is left out where too many wait.
    pub(super) fn add_call(&mut self, endpoint: &EndpointId, call: CallRecord) {
        self.calls.push(endpoint, 1, call, |lost| *self.calls_left_out.entry(lost.clone()).or_default() += 1);
    }

    /// Adds to what the owner's sales of that day are.
    pub(super) fn count(&mut self, owner: Owner, at: Timestamp, sale: Sale) {
        let place = (sale::start_of_day(at).0, sale.endpoint.clone());
        match self.sales.get_mut(&place) {
            Some((_, _, sum)) => sum.totals += sale.totals,
            None => _ = self.sales.insert(place, (owner, at, sale)),
        }
    }

    /// What the next batch is made of. Its receipts stay, to be found, until they are [`written`](Self::written).
    pub(super) fn take(&mut self) -> Taken {
        let some = self.unbatched.len().min(MAX_BATCH);
        let receipts: Vec<_> = self.unbatched.drain(..some).collect();
        let mut events = mem::take(&mut self.events);
        events.extend(iter::from_fn(|| self.failures.pop()));
        Taken {
            stored: receipts.iter().filter_map(|id| self.receipt(id)).collect(),
            receipts,
            events,
            calls: iter::from_fn(|| self.calls.pop()).take(MAX_BATCH).collect(),
            calls_left_out: mem::take(&mut self.calls_left_out),
            dropped: mem::take(&mut self.dropped),
            sales: mem::take(&mut self.sales).into_values(),
        }
    }

    /// Lets go of receipts that are in the store.
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
