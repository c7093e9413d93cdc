//! What waits to be written, within bounds.

use std::{
    collections::{HashMap, hash_map::IntoValues},
    mem,
};

use bytes::Bytes;

use crate::{
    base::{
        clock::Timestamp,
        id::{EndpointId, ReceiptId},
    },
    call::history::CallRecord,
    event::Event,
    money::sale::{self, Sale},
    tool::Owner,
};

/// Receipts that may wait to be written. A call that finds more waits for the store itself.
pub(super) const MAX_WAITING: usize = 20_000;

/// Events of failed calls that may wait. Further ones are dropped, and their owner is told how many; they
/// count in the sales all the same.
pub(super) const MAX_FAILED: usize = 20_000;

/// Records of calls that may wait. Further ones are left out, and counted in the log.
const MAX_CALLS: usize = 2 * MAX_WAITING;

/// Receipts, and records of calls, of one batch: what a millisecond or two put together.
const MAX_BATCH: usize = 2_000;

/// All that waits.
#[derive(Default)]
pub(super) struct Waiting {
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

/// What is taken for one batch.
pub(super) struct Taken {
    pub(super) receipts: Vec<ReceiptId>,
    /// Of each of `receipts`, as it is stored.
    pub(super) stored: Vec<Bytes>,
    pub(super) events: Vec<(Owner, Event)>,
    pub(super) calls: Vec<(EndpointId, CallRecord)>,
    pub(super) calls_left_out: u64,
    /// Events dropped, by their owner.
    pub(super) dropped: IntoValues<String, (Owner, u64)>,
    pub(super) sales: IntoValues<(u64, EndpointId), (Owner, Timestamp, Sale)>,
}

impl Waiting {
    /// Whether nothing is left that no batch has.
    pub(super) fn is_empty(&self) -> bool {
        self.unbatched.is_empty() && self.events.is_empty() && self.calls.is_empty() && self.sales.is_empty()
    }

    /// Receipts that are not in the store yet.
    pub(super) fn receipts(&self) -> usize {
        self.receipts.len()
    }

    /// A receipt that is not in the store yet.
    pub(super) fn receipt(&self, id: &ReceiptId) -> Option<Bytes> {
        self.receipts.get(id).cloned()
    }

    /// Takes a receipt.
    pub(super) fn add_receipt(&mut self, id: ReceiptId, receipt: Bytes) {
        self.unbatched.push(id.clone());
        self.receipts.insert(id, receipt);
    }

    /// Takes the event of a call that went well.
    pub(super) fn add_event(&mut self, owner: &Owner, event: Event) {
        self.events.push((owner.clone(), event));
    }

    /// Takes the event of a call that failed, or counts it where too many wait.
    pub(super) fn add_failure(&mut self, owner: &Owner, event: Event) {
        if self.failed >= MAX_FAILED {
            self.dropped.entry(owner.share().to_owned()).or_insert_with(|| (owner.clone(), 0)).1 += 1;
        } else {
            self.failed += 1;
            self.events.push((owner.clone(), event));
        }
    }

    /// Takes the record of a call, or counts it where too many wait.
    pub(super) fn add_call(&mut self, endpoint: &EndpointId, call: CallRecord) {
        if self.calls.len() >= MAX_CALLS {
            self.calls_left_out += 1;
        } else {
            self.calls.push((endpoint.clone(), call));
        }
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
        let some = self.calls.len().min(MAX_BATCH);
        self.failed = 0;
        Taken {
            stored: receipts.iter().filter_map(|id| self.receipts.get(id).cloned()).collect(),
            receipts,
            events: mem::take(&mut self.events),
            calls: self.calls.drain(..some).collect(),
            calls_left_out: mem::take(&mut self.calls_left_out),
            dropped: mem::take(&mut self.dropped).into_values(),
            sales: mem::take(&mut self.sales).into_values(),
        }
    }

    /// Lets go of receipts that are in the store.
    pub(super) fn written(&mut self, receipts: &[ReceiptId]) {
        for id in receipts {
            self.receipts.remove(id);
        }
    }
}
