//! The call history of each tool, with one record per call, for its owner to search and follow.
//!
//! Records are stored in packs per batch and tool. They are deleted when they are too old or a tool has too many. They
//! are written after the answers ([`super::WriteBehind`]).

mod keep;
mod position;
mod read;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc};

use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::{EndpointId, RequestId},
    lock::Lock,
};
use tollhouse_event::feed::{Feed, Follower, TooManyFollowers};
use tollhouse_store::{
    Batch, Range, Store, Table, TerminatedText,
    pack::{Item, Pack, packs},
    schema,
};

pub(crate) use tollhouse_api::{Call as CallRecord, CallOutcome, Charged as Charge};

pub use self::{
    position::CallPosition,
    read::{CallPage, CallQuery, OutcomeFilter},
};

const CALLS: Table<Key, Pack> = schema::CALLS.holding();

/// The tool, the time, and a unique name and number for packs of the same time.
type Key = (TerminatedText<EndpointId>, Timestamp, RequestId, u32);

/// The calls of a pack ended within one period of this length, counted from 1970. So a search by time reads no packs of
/// other periods.
const PACK_MS: u64 = 3_600 * 1_000;

/// Limits on stored calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistorySettings {
    /// Maximum number of calls per tool; older ones are deleted. Until they are trimmed, there may be a tenth more,
    /// plus those of a second. Default: 10,000.
    pub count: u64,
    /// Maximum age of a call, in milliseconds. Default: 30 days.
    pub age_ms: u64,
}

impl Default for HistorySettings {
    fn default() -> Self {
        Self { count: 10_000, age_ms: 30 * 24 * 3_600 * 1_000 }
    }
}

pub struct History {
    store: Arc<dyn Store>,
    clock: Clock,
    settings: HistorySettings,
    feed: Arc<Feed<Arc<StoredCall>>>,
    /// Number of stored calls of recently called tools. `None` if not counted yet.
    counts: Lock<HashMap<EndpointId, Option<u64>>>,
}

#[derive(Debug, Clone)]
pub struct StoredCall {
    /// The position after which to continue.
    pub position: CallPosition,
    pub call: CallRecord,
}

/// The calls of one batch and tool that are being stored.
#[derive(Debug)]
pub(super) struct CallBatch {
    endpoint: EndpointId,
    calls: Vec<StoredCall>,
}

impl History {
    pub fn new(store: Arc<dyn Store>, clock: Clock, settings: HistorySettings) -> Arc<Self> {
        let feed = Feed::of(&*store, &clock);
        Arc::new(Self { store, clock, settings, feed, counts: Lock::default() })
    }

    /// Returns the rows that store `calls`, and the calls to announce after the commit.
    pub(super) fn stored(calls: Vec<(EndpointId, CallRecord)>) -> (Batch, Vec<CallBatch>) {
        let mut batch = Batch::new();
        let mut by_endpoint = HashMap::<EndpointId, Vec<CallRecord>>::new();
        for (endpoint, call) in calls {
            by_endpoint.entry(endpoint).or_default().push(call);
        }
        // Distinguishes packs of the same time by different writers.
        let name = RequestId::generate();
        let batches = by_endpoint.into_iter().map(|(endpoint, calls)| batch_rows(endpoint, calls, &name, &mut batch)).collect();
        (batch, batches)
    }

    /// Counts committed calls, and notifies followers.
    pub(super) fn announce(&self, batches: Vec<CallBatch>) {
        for CallBatch { endpoint, calls } in batches {
            let more = calls.len() as u64;
            self.counts.lock().entry(endpoint.clone()).or_default().iter_mut().for_each(|count| *count += more);
            for call in calls {
                self.feed.publish(endpoint.as_str(), || Arc::new(call));
            }
        }
    }

    /// Follows the calls of `endpoint` from now on.
    pub fn follow(&self, endpoint: &EndpointId) -> Result<Follower<Arc<StoredCall>>, TooManyFollowers> {
        self.feed.follow(endpoint.as_str())
    }

    /// Returns the time before which calls are no longer kept.
    fn oldest(&self) -> Timestamp {
        Timestamp(self.clock.now().0.saturating_sub(self.settings.age_ms))
    }
}

/// Groups the calls of a tool into packs, each at the time of its last call.
fn batch_rows(endpoint: EndpointId, mut calls: Vec<CallRecord>, name: &RequestId, batch: &mut Batch) -> CallBatch {
    calls.sort_by_key(|call| call.at);
    let values: Vec<_> = calls.iter().map(|call| serde_json::to_vec(call).expect("a call has text keys")).collect();
    let items: Vec<_> = values.iter().map(|value| Item { name: b"", value }).collect();
    let mut rest = items.as_slice();
    let together = calls.chunk_by(|one, next| pack_end(one.at) == pack_end(next.at)).map(<[_]>::len);
    let packed = together.flat_map(|count| {
        let (some, behind) = rest.split_at(count);
        rest = behind;
        packs(some)
    });
    let packed: Vec<_> = packed.collect();
    let mut stored = Vec::with_capacity(calls.len());
    let mut rest = calls.into_iter();
    for (part, (count, pack)) in (0_u32..).zip(packed) {
        let some: Vec<_> = rest.by_ref().take(count).collect();
        let last = some.last().map_or(Timestamp(0), |call| call.at);
        batch.put(&CALLS, &(TerminatedText(endpoint.clone()), last, name.clone(), part), &pack);
        stored.extend(
            (0..).zip(some).map(|(number, call)| StoredCall { position: CallPosition::within(last, name.clone(), part, number), call }),
        );
    }
    CallBatch { endpoint, calls: stored }
}

/// Returns the end of the period of `at`. Calls that ended before `at` are in packs before it.
fn pack_end(at: Timestamp) -> Timestamp {
    Timestamp((at.0 / PACK_MS + 1).saturating_mul(PACK_MS))
}

fn all_of(endpoint: &EndpointId) -> Range<Key> {
    CALLS.under(&TerminatedText(endpoint.clone()))
}
