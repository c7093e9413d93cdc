//! Metrics per tool in buckets of a minute and of an hour, for charts.
//!
//! Each process aggregates in memory. Once a second it writes the changed buckets whole, under its own keys, so that writing one again
//! changes nothing. Readers sum the buckets of all processes. A crash loses the last second.

mod bucket;
mod read;
mod recent;
mod stats;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
    time::Duration,
};

use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::{EndpointId, RequestId},
    lock::Lock,
};
use tollhouse_store::{Batch, Direction, Durability, Store, StoreError, TerminatedText, maintain};

use self::{
    bucket::{Bucket, CALL_METRICS, DurationHistogram, Key},
    recent::RecentDurations,
};
pub use self::{
    read::{SeriesQuery, SeriesStep, StepError},
    recent::RecentStats,
};
use super::history::{CallRecord, Charge};

/// Interval for writing changed buckets.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Number of write intervals after which the weight of calls decreases.
const FADE_EVERY: u64 = 3_600;
/// Number of buckets per commit, and read or deleted at once.
const SOME: usize = 500;
/// Initial weight of a call in [`Metrics::called`].
const CALL: u64 = 1_024;
/// Maximum number of full buckets that wait while the store is unavailable. Beyond it the oldest are dropped.
const MAX_FULL: usize = 50_000;

/// Pseudo-id for the sum of all tools. No tool has it.
static OF_ALL: LazyLock<EndpointId> = LazyLock::new(|| "ep_00000000000000000000000000".parse().expect("it has the form of one"));

/// How long buckets are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsSettings {
    /// Maximum age of minute buckets, in milliseconds. Default: 2 days.
    pub minutes_ms: u64,
    /// Maximum age of hour buckets, in milliseconds. Default: 90 days.
    pub hours_ms: u64,
}

impl Default for MetricsSettings {
    fn default() -> Self {
        Self { minutes_ms: 2 * 24 * 3_600 * 1_000, hours_ms: 90 * 24 * 3_600 * 1_000 }
    }
}

/// The length of stored buckets. Its number is part of their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
enum Span {
    Minute = 0,
    Hour = 1,
}

pub struct Metrics {
    store: Arc<dyn Store>,
    clock: Clock,
    settings: MetricsSettings,
    name: RequestId,
    pending: Lock<PendingBuckets>,
    /// Held while buckets are written, so that an older state never follows a newer one.
    writing: tokio::sync::Mutex<()>,
    /// Figures of recent calls.
    recent: Lock<RecentDurations>,
}

#[derive(Default)]
struct PendingBuckets {
    /// The buckets that are being filled.
    open: HashMap<(EndpointId, Span), BucketWindow>,
    /// Full buckets that are not stored yet, with their keys.
    full: Vec<(Key, Bucket)>,
    /// Calls that are not in a stored bucket yet.
    fresh: HashMap<EndpointId, DurationHistogram>,
    /// Weights of recent charged calls per tool. Shared with current readers.
    called: Arc<HashMap<EndpointId, u64>>,
}

/// Changes since the last write.
struct ChangedBuckets {
    batches: Vec<Batch>,
    /// The full buckets among them.
    full: Vec<(Key, Bucket)>,
    /// Durations of the calls that are written for the first time.
    fresh: HashMap<EndpointId, DurationHistogram>,
}

struct BucketWindow {
    start: u64,
    bucket: Bucket,
    /// Whether it changed since it was stored.
    changed: bool,
}

impl Span {
    const ALL: [Self; 2] = [Self::Minute, Self::Hour];

    fn millis(self) -> u64 {
        match self {
            Self::Minute => 60 * 1_000,
            Self::Hour => 3_600 * 1_000,
        }
    }
}

impl Metrics {
    /// The store's name for the sweep of [`Metrics::sweep`].
    pub const ROUND: &str = "call-metrics";

    pub fn new(store: Arc<dyn Store>, clock: Clock, settings: MetricsSettings) -> Arc<Self> {
        Arc::new(Self {
            store,
            clock,
            settings,
            name: RequestId::generate(),
            pending: Lock::default(),
            writing: tokio::sync::Mutex::default(),
            recent: Lock::default(),
        })
    }

    /// Starts the tasks that write and count. They end when the metrics are dropped. Call it inside a tokio runtime.
    pub fn start(self: &Arc<Self>) {
        self.start_counting();
        maintain(self, WRITE_EVERY, "metrics of calls", |metrics, turn| async move {
            if turn.is_multiple_of(FADE_EVERY) {
                metrics.fade();
            }
            metrics.write().await
        });
    }

    /// Adds a call to its tool and to the sum of all.
    pub(super) fn add(&self, endpoint: &EndpointId, call: &CallRecord) {
        let mut pending = self.pending.lock();
        // Otherwise free calls could raise a tool above paid ones.
        if call.charged == Charge::Yes && !call.owner {
            *Arc::make_mut(&mut pending.called).entry(endpoint.clone()).or_default() += CALL;
        }
        for endpoint in [endpoint, &*OF_ALL] {
            pending.fresh.entry(endpoint.clone()).or_default().add(call.duration_ms);
        }
        for (endpoint, span) in [endpoint, &*OF_ALL].into_iter().flat_map(|endpoint| Span::ALL.map(|span| (endpoint, span))) {
            let start = call.at.0 / span.millis() * span.millis();
            let new = || BucketWindow { start, bucket: Bucket::default(), changed: false };
            let window = pending.open.entry((endpoint.clone(), span)).or_insert_with(new);
            // If the clock was set back, the current bucket is filled.
            let full = (start > window.start).then(|| std::mem::replace(window, new()));
            window.bucket.add(call);
            window.changed = true;
            if let Some(full) = full.filter(|full| full.changed) {
                pending.full.push((self.key(endpoint, span, full.start), full.bucket));
            }
        }
        let beyond = pending.full.len().saturating_sub(MAX_FULL);
        pending.full.drain(..beyond);
    }

    /// Returns the weight of recent charged calls per tool, as counted by this process. The weight halves in a day.
    pub fn called(&self) -> Arc<HashMap<EndpointId, u64>> {
        Arc::clone(&self.pending.lock().called)
    }

    /// Writes the changes.
    ///
    /// # Errors
    ///
    /// Errors of the store. Changes that were not written are retried the next time.
    pub async fn write(&self) -> Result<(), StoreError> {
        let _one = self.writing.lock().await;
        let ChangedBuckets { batches: changed, full, fresh } = self.changed();
        for batch in changed {
            if let Err(error) = batch.commit(&*self.store, Durability::Buffered).await {
                // Open buckets are marked as changed.
                let mut pending = self.pending.lock();
                pending.full.splice(..0, full);
                pending.open.values_mut().for_each(|window| window.changed = true);
                for (endpoint, lengths) in fresh {
                    *pending.fresh.entry(endpoint).or_default() += lengths;
                }
                return Err(error);
            }
        }
        self.recent.lock().add(fresh);
        self.prune_idle();
        Ok(())
    }

    fn changed(&self) -> ChangedBuckets {
        let mut pending = self.pending.lock();
        let (full, fresh) = (std::mem::take(&mut pending.full), std::mem::take(&mut pending.fresh));
        let open = pending.open.iter_mut().filter_map(|((endpoint, span), window)| {
            std::mem::take(&mut window.changed).then(|| (self.key(endpoint, *span, window.start), &window.bucket))
        });
        let mut batches = vec![];
        for (position, (key, bucket)) in full.iter().map(|(key, bucket)| (key.clone(), bucket)).chain(open).enumerate() {
            if position.is_multiple_of(SOME) {
                batches.push(Batch::new());
            }
            batches.last_mut().expect("the first begins one").put(&CALL_METRICS, &key, bucket);
        }
        ChangedBuckets { batches, full, fresh }
    }

    /// Drops stored buckets whose time is over.
    fn prune_idle(&self) {
        let now = self.clock.now().0;
        self.pending.lock().open.retain(|(_, span), window| window.changed || now < window.start + span.millis());
    }

    /// Deletes old buckets of [some tools](tollhouse_store::sweep_cursor). Each call continues after the last tool of the previous one.
    pub async fn sweep(&self) -> Result<(), StoreError> {
        let mut round = CALL_METRICS.round(&*self.store, Self::ROUND, Direction::Forward, self.clock.now()).await?;
        while let Some((own, number, start, _)) = round.next().await? {
            let part = (own.clone(), number);
            let span = Span::ALL.into_iter().find(|span| *span as u8 == number);
            if let Some(oldest) = span.map(|span| self.oldest(span).0).filter(|oldest| start < *oldest) {
                let old = CALL_METRICS.under(&part).before(&(own, number, oldest));
                CALL_METRICS.expire(&*self.store, &old).await?;
            }
            round.past(&part);
        }
        round.end().await
    }

    /// Reduces the weight of calls, once an hour. Tools that are no longer called are forgotten after days.
    fn fade(&self) {
        Arc::make_mut(&mut self.pending.lock().called).retain(|_, weight| {
            *weight -= weight.div_ceil(32);
            *weight > 0
        });
    }

    /// Returns the time before which buckets are no longer kept.
    fn oldest(&self, span: Span) -> Timestamp {
        Timestamp(self.clock.now().0.saturating_sub(self.retention_ms(span)))
    }

    fn retention_ms(&self, span: Span) -> u64 {
        match span {
            Span::Minute => self.settings.minutes_ms,
            Span::Hour => self.settings.hours_ms,
        }
    }

    fn key(&self, endpoint: &EndpointId, span: Span, start: u64) -> Key {
        (TerminatedText(endpoint.clone()), span as u8, start, self.name.clone())
    }
}
