//! The calls of each endpoint, one record for each, for its owner to look through and follow.
//!
//! Records lie in packs, those of one batch and endpoint together, and go when they are too old or their endpoint has too many.
//! They are written behind the answers ([`super::WriteBehind`]).

mod keep;
mod place;
mod read;
#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::{CallId, EndpointId, ReceiptId, RequestId},
};
use tollhouse_event::feed::{Crowded, Feed, Follower};
use tollhouse_money::receipt;
use tollhouse_protocol::Tier;
use tollhouse_store::{
    Batch, Ended, Range, Store, Table,
    pack::{Item, Pack, packs},
    schema,
};
use tollhouse_tool::MicroUsd;

pub use self::{
    place::CallPlace,
    read::{CallPage, CallQuery, Ending},
};

const CALLS: Table<Key, Pack> = schema::CALLS.holding();

/// The endpoint, the time, and what tells packs of one time apart.
type Key = (Ended<EndpointId>, Timestamp, RequestId, u32);

/// The calls of a pack ended within one such span, counted from 1970: who looks for those before some time reads no other.
const PACK_MS: u64 = 3_600 * 1_000;

/// How many calls are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistorySettings {
    /// Calls of one endpoint; older ones go. A tenth more, and those of a second, may be there until they are trimmed.
    /// Default: 10,000.
    pub count: u64,
    /// Age at which a call goes, in milliseconds. Default: 30 days.
    pub age_ms: u64,
}

impl Default for HistorySettings {
    fn default() -> Self {
        Self { count: 10_000, age_ms: 30 * 24 * 3_600 * 1_000 }
    }
}

/// One call whose handler ran, or was to run, as the owner of its tool reads it. Never an input, an output, or who called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    /// The call.
    pub call_id: CallId,
    /// When it ended.
    pub at: Timestamp,
    /// How it ended.
    pub outcome: CallOutcome,
    /// Why it failed, as its caller was told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The same in words, cut to a length; absent where the handler told of the failure itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Where its handler threw, in the source of its version: `tool:/SLUG/VERSION:LINE:COLUMN`, the innermost first. Empty where it did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thrown_at: Vec<String>,
    /// Whether money moved.
    pub charged: Charge,
    /// What it costs, charged or not.
    pub price_usd: MicroUsd,
    /// Whether the tool's owner made it, free of charge.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owner: bool,
    /// How it was paid.
    pub payment: receipt::Kind,
    /// From its start to its answer, waiting and settling included.
    pub duration_ms: f64,
    /// What its handler computed; absent where none ran in the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<f64>,
    /// How that was run; absent where none ran in the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// Whether a worker had to load the handler for it; absent where none ran in the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold: Option<bool>,
    /// Of its input.
    pub input_bytes: u64,
    /// The receipt, of a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt_id: Option<ReceiptId>,
    /// The version that ran.
    pub version: String,
    /// `GET` or `POST`, as its handler was told; absent of calls that an older host has kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Cow<'static, str>>,
    /// What its handler answered with; absent where it did not answer, or an older host has kept the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallOutcome {
    Succeeded,
    Failed,
}

/// Whether a call's price was taken, as it was known when the call was answered.
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

/// The calls of all endpoints.
pub struct History {
    store: Arc<dyn Store>,
    clock: Clock,
    settings: HistorySettings,
    feed: Arc<Feed<Arc<Placed>>>,
    /// Calls in the store, of the endpoints that were called of late; `None` where they are not counted.
    counts: Mutex<HashMap<EndpointId, Option<u64>>>,
}

/// A call, and where it is stored.
#[derive(Debug, Clone)]
pub struct Placed {
    /// Where to go on after it.
    pub place: CallPlace,
    /// The call.
    pub call: CallRecord,
}

/// The calls of one batch and endpoint, on their way to the store.
#[derive(Debug)]
pub(super) struct Chapter {
    endpoint: EndpointId,
    calls: Vec<Placed>,
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl History {
    /// Records in this store, kept as `settings` say.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Clock, settings: HistorySettings) -> Arc<Self> {
        let feed = Feed::of(&*store, &clock);
        Arc::new(Self { store, clock, settings, feed, counts: Mutex::default() })
    }

    /// What stores `calls`, and what to announce once they are committed.
    pub(super) fn stored(calls: Vec<(EndpointId, CallRecord)>) -> (Batch, Vec<Chapter>) {
        let mut batch = Batch::new();
        let mut by_endpoint = HashMap::<EndpointId, Vec<CallRecord>>::new();
        for (endpoint, call) in calls {
            by_endpoint.entry(endpoint).or_default().push(call);
        }
        // Tells packs of one time apart, whoever writes them.
        let name = RequestId::generate();
        let chapters = by_endpoint.into_iter().map(|(endpoint, calls)| chapter(endpoint, calls, &name, &mut batch)).collect();
        (batch, chapters)
    }

    /// Counts what was committed, and tells those who follow.
    pub(super) fn announce(&self, chapters: Vec<Chapter>) {
        for Chapter { endpoint, calls } in chapters {
            let more = calls.len() as u64;
            self.counts().entry(endpoint.clone()).or_default().iter_mut().for_each(|count| *count += more);
            for call in calls {
                self.feed.publish(endpoint.as_str(), || Arc::new(call));
            }
        }
    }

    /// The calls of `endpoint` from now on.
    ///
    /// # Errors
    ///
    /// [`Crowded`].
    pub fn follow(&self, endpoint: &EndpointId) -> Result<Follower<Arc<Placed>>, Crowded> {
        self.feed.follow(endpoint.as_str())
    }

    /// Calls that ended before then are no longer kept.
    fn oldest(&self) -> Timestamp {
        Timestamp(self.clock.now().0.saturating_sub(self.settings.age_ms))
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<EndpointId, Option<u64>>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts the calls of an endpoint into packs, each at the time of its last one.
fn chapter(endpoint: EndpointId, mut calls: Vec<CallRecord>, name: &RequestId, batch: &mut Batch) -> Chapter {
    calls.sort_by_key(|call| call.at);
    let values: Vec<_> = calls.iter().map(|call| serde_json::to_vec(call).expect("a call has text keys")).collect();
    let items: Vec<_> = values.iter().map(|value| Item { name: b"", value }).collect();
    let mut rest = items.as_slice();
    let together = calls.chunk_by(|one, next| end_of_pack(one.at) == end_of_pack(next.at)).map(<[_]>::len);
    let packed = together.flat_map(|count| {
        let (some, behind) = rest.split_at(count);
        rest = behind;
        packs(some)
    });
    let packed: Vec<_> = packed.collect();
    let mut placed = Vec::with_capacity(calls.len());
    let mut rest = calls.into_iter();
    for (part, (count, pack)) in (0_u32..).zip(packed) {
        let some: Vec<_> = rest.by_ref().take(count).collect();
        let last = some.last().map_or(Timestamp(0), |call| call.at);
        batch.put(&CALLS, &(Ended(endpoint.clone()), last, name.clone(), part), &pack);
        placed.extend((0..).zip(some).map(|(number, call)| Placed { place: CallPlace::within(last, name.clone(), part, number), call }));
    }
    Chapter { endpoint, calls: placed }
}

/// Calls that ended before `at` lie in packs before then.
fn end_of_pack(at: Timestamp) -> Timestamp {
    Timestamp((at.0 / PACK_MS + 1).saturating_mul(PACK_MS))
}

fn all_of(endpoint: &EndpointId) -> Range<Key> {
    CALLS.under(&Ended(endpoint.clone()))
}
