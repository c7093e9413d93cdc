//! What happens at each endpoint, added up by the minute and by the hour, for charts.
//!
//! Each process adds up in memory, and writes the buckets that changed once a second, whole, each under a key of its
//! own: writing one again changes nothing. Readers add up what the processes wrote. A crash loses the last second.

mod bucket;
mod figures;
mod kept;
mod read;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

pub use self::kept::Figures;
pub use self::read::{Series, SeriesQuery, Step, StepError};

use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::{EndpointId, RequestId},
};
use tollhouse_store::{Batch, Direction, Durability, Ended, Store, StoreError, Table, keep_up, schema};

use self::{
    bucket::{Bucket, Lengths},
    kept::Kept,
};
use super::history::{CallRecord, Charge};

/// Endpoint, span, start, and the process that wrote it.
type Key = (Ended<EndpointId>, u8, u64, RequestId);

const CALL_METRICS: Table<Key, Bucket> = schema::CALL_METRICS.holding();

/// How often the buckets that changed are written.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Every so many times, calls weigh less.
const FADE_EVERY: u64 = 3_600;
/// Buckets of one commit, and read or removed at once.
const SOME: usize = 500;
/// What a call weighs when it is made, in [`Metrics::called`].
const CALL: u64 = 1_024;
/// Full buckets that may wait for a store that is away; beyond, the oldest are given up.
const MAX_FULL: usize = 50_000;

/// What the calls of all endpoints are added up under: the id of none.
static OF_ALL: LazyLock<EndpointId> = LazyLock::new(|| "ep_00000000000000000000000000".parse().expect("it has the form of one"));

/// How long buckets are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsSettings {
    /// Age at which those of a minute go, in milliseconds. Default: 2 days.
    pub minutes_ms: u64,
    /// Age at which those of an hour go, in milliseconds. Default: 90 days.
    pub hours_ms: u64,
}

impl Default for MetricsSettings {
    fn default() -> Self {
        Self { minutes_ms: 2 * 24 * 3_600 * 1_000, hours_ms: 90 * 24 * 3_600 * 1_000 }
    }
}

/// How long the buckets are that are stored. The number is in their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
enum Span {
    Minute = 0,
    Hour = 1,
}

/// What happens at each endpoint.
pub struct Metrics {
    store: Arc<dyn Store>,
    clock: Clock,
    settings: MetricsSettings,
    /// Of this process.
    name: RequestId,
    adding: Mutex<Adding>,
    /// Held while buckets are written, so that no older state of one comes after a newer.
    writing: tokio::sync::Mutex<()>,
    /// What the calls of late come to.
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Adding {
    /// The buckets that are being filled.
    open: HashMap<(EndpointId, Span), Filling>,
    /// Those that are full and not stored yet, under their keys.
    full: Vec<(Key, Bucket)>,
    /// The calls that no stored bucket has yet.
    fresh: HashMap<EndpointId, Lengths>,
    /// What the charged calls of each endpoint weigh, of late. Shared with who reads it just then.
    called: Arc<HashMap<EndpointId, u64>>,
}

/// What changed since it was written last.
struct Changed {
    /// What writes it.
    batches: Vec<Batch>,
    /// The full buckets among it.
    full: Vec<(Key, Bucket)>,
    /// How long the calls took that are in it for the first time.
    fresh: HashMap<EndpointId, Lengths>,
}

struct Filling {
    start: u64,
    bucket: Bucket,
    /// Whether it changed since it was stored.
    changed: bool,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("settings", &self.settings).finish_non_exhaustive()
    }
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
    /// What the store calls the round of [`Metrics::sweep`].
    pub const ROUND: &str = "call-metrics";

    /// Metrics in this store, kept as `settings` say.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Clock, settings: MetricsSettings) -> Arc<Self> {
        let (name, adding, writing, kept) = (RequestId::generate(), Mutex::default(), tokio::sync::Mutex::default(), Mutex::default());
        Arc::new(Self { store, clock, settings, name, adding, writing, kept })
    }

    /// Starts what writes and counts; it ends when nobody holds the metrics any more. Must be called inside a
    /// tokio runtime.
    pub fn start(self: &Arc<Self>) {
        self.start_counting();
        keep_up(self, WRITE_EVERY, "metrics of calls", |metrics, turn| async move {
            if turn.is_multiple_of(FADE_EVERY) {
                metrics.fade();
            }
            metrics.write().await
        });
    }

    /// Adds a call, to those of its endpoint and to those of all.
    pub(super) fn add(&self, endpoint: &EndpointId, call: &CallRecord) {
        let mut adding = self.adding();
        // A call that costs nobody anything would lift a tool above those that are paid for.
        if call.charged == Charge::Yes && !call.owner {
            *Arc::make_mut(&mut adding.called).entry(endpoint.clone()).or_default() += CALL;
        }
        for endpoint in [endpoint, &*OF_ALL] {
            adding.fresh.entry(endpoint.clone()).or_default().add(call.duration_ms);
        }
        for (endpoint, span) in [endpoint, &*OF_ALL].into_iter().flat_map(|endpoint| Span::ALL.map(|span| (endpoint, span))) {
            let start = call.at.0 / span.millis() * span.millis();
            let filling = match adding.open.entry((endpoint.clone(), span)) {
                Entry::Occupied(place) => place.into_mut(),
                Entry::Vacant(place) => place.insert(Filling { start, bucket: Bucket::default(), changed: false }),
            };
            // A clock that was put back fills the bucket that is there.
            if start > filling.start {
                let full = std::mem::replace(filling, Filling { start, bucket: Bucket::default(), changed: false });
                filling.add(call);
                if full.changed {
                    let key = self.key(endpoint, span, full.start);
                    adding.full.push((key, full.bucket));
                }
            } else {
                filling.add(call);
            }
        }
        let beyond = adding.full.len().saturating_sub(MAX_FULL);
        adding.full.drain(..beyond);
    }

    /// What the calls weigh of each endpoint that somebody paid for, by this process and of late: after a day half of what they did.
    #[must_use]
    pub fn called(&self) -> Arc<HashMap<EndpointId, u64>> {
        Arc::clone(&self.adding().called)
    }

    /// Writes what changed.
    ///
    /// # Errors
    ///
    /// The store's; what it did not take is tried again the next time.
    pub async fn write(&self) -> Result<(), StoreError> {
        let _one = self.writing.lock().await;
        let Changed { batches: changed, full, fresh } = self.changed();
        for batch in changed {
            let written = batch.commit(&*self.store, Durability::Buffered).await;
            if let Err(error) = written {
                // Those that are open change again, or are found changed here.
                let mut adding = self.adding();
                adding.full.splice(..0, full);
                adding.open.values_mut().for_each(|filling| filling.changed = true);
                for (endpoint, lengths) in fresh {
                    *adding.fresh.entry(endpoint).or_default() += lengths;
                }
                return Err(error);
            }
        }
        self.kept().add(fresh);
        self.forget_quiet();
        Ok(())
    }

    /// What is to be written.
    fn changed(&self) -> Changed {
        let mut adding = self.adding();
        let (full, fresh) = (std::mem::take(&mut adding.full), std::mem::take(&mut adding.fresh));
        let open = adding.open.iter_mut().filter_map(|((endpoint, span), filling)| {
            std::mem::take(&mut filling.changed).then(|| (self.key(endpoint, *span, filling.start), &filling.bucket))
        });
        let mut batches = vec![];
        for (place, (key, bucket)) in full.iter().map(|(key, bucket)| (key.clone(), bucket)).chain(open).enumerate() {
            if place.is_multiple_of(SOME) {
                batches.push(Batch::new());
            }
            batches.last_mut().expect("the first begins one").put(&CALL_METRICS, &key, bucket);
        }
        Changed { batches, full, fresh }
    }

    /// Lets go of buckets whose time is over and that are stored.
    fn forget_quiet(&self) {
        let now = self.clock.now().0;
        self.adding().open.retain(|(_, span), filling| filling.changed || now < filling.start + span.millis());
    }

    /// Removes buckets that are too old of [some endpoints](tollhouse_store::round), those behind which the last sweep had.
    ///
    /// # Errors
    ///
    /// The store's.
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

    /// Has calls weigh less, once an hour; what is called no more is forgotten after days.
    fn fade(&self) {
        Arc::make_mut(&mut self.adding().called).retain(|_, weight| {
            *weight -= weight.div_ceil(32);
            *weight > 0
        });
    }

    /// Buckets that began before then are no longer kept.
    fn oldest(&self, span: Span) -> Timestamp {
        Timestamp(self.clock.now().0.saturating_sub(self.kept_ms(span)))
    }

    fn kept_ms(&self, span: Span) -> u64 {
        match span {
            Span::Minute => self.settings.minutes_ms,
            Span::Hour => self.settings.hours_ms,
        }
    }

    fn key(&self, endpoint: &EndpointId, span: Span, start: u64) -> Key {
        (Ended(endpoint.clone()), span as u8, start, self.name.clone())
    }

    fn adding(&self) -> MutexGuard<'_, Adding> {
        self.adding.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Filling {
    fn add(&mut self, call: &CallRecord) {
        self.bucket.add(call);
        self.changed = true;
    }
}
