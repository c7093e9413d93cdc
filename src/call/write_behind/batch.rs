//! A batch of records for one commit.

use bytes::Bytes;
use serde_json::json;
use tollhouse_base::id::{ReceiptId, RequestId};
use tollhouse_event::{Event, Events, Kind};
use tollhouse_money::{receipt::FreeReceipts, sale::Sales};
use tollhouse_store as store;
use tollhouse_tool::Owner;

use super::pending::TakenWrites;
use crate::history::{CallBatch, History};

/// A batch of records for one commit.
pub(super) struct Batch {
    /// The rows. The first one is unique, and exists if and only if the batch was committed.
    pub(super) rows: store::Batch,
    pub(super) receipts: Vec<ReceiptId>,
    pub(super) events: Vec<(Owner, Event)>,
    pub(super) calls: Vec<CallBatch>,
    pub(super) owners: Vec<Owner>,
    /// Whether it may have been written already.
    pub(super) unsure: bool,
}

impl Batch {
    /// Builds the batch. `None` if there are no rows.
    pub(super) fn build(taken: TakenWrites, all_events: &Events, all_sales: &Sales) -> Option<Self> {
        let TakenWrites { receipts, stored, mut events, calls, calls_left_out, dropped, sales } = taken;
        for (endpoint, calls) in calls_left_out {
            tracing::warn!(endpoint.id = %endpoint, calls, "call records were dropped: the store could not keep up");
        }
        let mut rows = FreeReceipts::stored(receipts.iter().zip(stored.iter().map(Bytes::as_ref)));
        let (records, calls) = History::stored(calls);
        rows.append(records);
        for (owner, count) in dropped {
            tracing::warn!(owner = owner.share(), events = count, "events of failed calls were dropped: the store could not keep up");
            let data = json!({ "code": "events_dropped", "dropped": count, "charged": false });
            events.push((owner, all_events.event(Kind::CallFailed, None, data)));
        }
        for (owner, event) in &events {
            rows.append(Events::stored(owner, event));
        }
        // Every batch has a receipt, an event or a call.
        if rows.changes_nothing() {
            return None;
        }
        // Makes the row's key unique among batches of the same moment.
        let name = RequestId::generate();
        let mut owners = Vec::with_capacity(sales.len());
        for (owner, at, sale) in sales {
            rows.append(all_sales.row(&sale, &owner, at, &format!("{name}{}", sale.endpoint)));
            owners.push(owner);
        }
        Some(Self { rows, receipts, events, calls, owners, unsure: false })
    }
}
