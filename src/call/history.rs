//! The call history of each tool, with one record per call, for its owner to search and follow.
//!
//! Records are stored in packs per batch and tool. They are deleted when they are too old or a tool has too many. They
//! are written after the answers ([`super::WriteBehind`]).

mod keep;
mod position;
mod read;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize};
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::{CallId, EndpointId, ReceiptId, RequestId},
    lock::Lock,
};
use tollhouse_event::feed::{Feed, Follower, TooManyFollowers};
use tollhouse_money::receipt;
use tollhouse_protocol::Tier;
use tollhouse_store::{
    Batch, Range, Store, Table, TerminatedText,
    pack::{Item, Pack, packs},
    schema,
};
use tollhouse_tool::MicroUsd;

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

/// The record of a call, for the tool's owner. It never contains input, output or caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    pub call_id: CallId,
    /// When it ended.
    pub at: Timestamp,
    pub outcome: CallOutcome,
    /// The error code that its caller got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The shortened error message. `None` if the handler reported the failure itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The stack of a thrown error in the source of its version, innermost first: `tool:/SLUG/VERSION:LINE:COLUMN`.
    /// Empty if it did not throw.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "thrownAt")]
    pub throw_position: Vec<String>,
    /// Whether money moved.
    pub charged: Charge,
    /// Its price, charged or not.
    pub price_usd: MicroUsd,
    /// Whether the tool's owner made it, free of charge.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owner: bool,
    /// The means of payment.
    pub payment: receipt::PaymentKind,
    /// Duration from its start to its answer, including waiting and settling.
    pub duration_ms: f64,
    /// The handler's processor time. `None` if no handler ran in the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<f64>,
    /// The engine tier. `None` if no handler ran in the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// Whether a worker had to load the handler. `None` if no handler ran in the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold: Option<bool>,
    pub input_bytes: u64,
    /// The receipt, if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt_id: Option<ReceiptId>,
    /// The version that ran.
    pub version: String,
    /// `GET` or `POST`, as the handler saw it.
    pub method: Cow<'static, str>,
    /// The handler's status. `None` if it did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallOutcome {
    Succeeded,
    Failed,
}

/// Whether a call's price was taken, as known when the call was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "serde_json::Value", try_from = "serde_json::Value")]
pub enum Charge {
    No,
    Yes,
    Unknown,
}

impl From<Charge> for serde_json::Value {
    fn from(charge: Charge) -> Self {
        match charge {
            Charge::No => false.into(),
            Charge::Yes => true.into(),
            Charge::Unknown => "unknown".into(),
        }
    }
}

impl TryFrom<serde_json::Value> for Charge {
    type Error = &'static str;

    fn try_from(value: serde_json::Value) -> Result<Self, &'static str> {
        [Self::No, Self::Yes, Self::Unknown]
            .into_iter()
            .find(|charge| serde_json::Value::from(*charge) == value)
            .ok_or("`charged` is true, false or \"unknown\"")
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
