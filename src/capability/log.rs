//! `ctx.log`: the log of each endpoint, bounded by count and age, and its live feed.
//!
//! A line never waits for the store: it goes into a bounded channel, and one task writes what has
//! come in batches ([`Durability::Buffered`](crate::store::Durability::Buffered)) and trims. When the channel is full, lines are dropped
//! and counted, and the endpoint's log says how many.

mod clean;
mod entry;
mod writer;

use std::{
    fmt,
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use tollhouse_protocol::LogLevel;

pub(super) use self::clean::clean;
pub use self::entry::LogEntry;
use self::writer::{Dropped, Message, Writer};
use super::scope;
use crate::{
    base::{
        clock::{Clock, Timestamp},
        id::{CallId, EndpointId},
    },
    event::feed::{Crowded, Feed, Follower},
    store::{Direction, KeyRange, Space, Store, StoreError, Write},
};

/// How much of a log is kept, and how much may wait to be written.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// Lines of one endpoint; older ones go. Default: 5,000.
    pub lines: u64,
    /// Age at which a line goes, in milliseconds. Default: 7 days.
    pub age_ms: u64,
    /// Lines that wait for the store; further ones are dropped. Default: 8,192.
    pub waiting: usize,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { lines: 5_000, age_ms: 7 * 24 * 3_600 * 1_000, waiting: 8_192 }
    }
}

/// Which lines to read.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// Only lines from then on.
    pub since: Option<Timestamp>,
    /// Only lines of this level or a more serious one.
    pub level: Option<LogLevel>,
    /// Only lines of this call.
    pub call: Option<CallId>,
    /// Most lines of the answer.
    pub limit: usize,
    /// As the page before gave it.
    pub cursor: Option<String>,
}

/// Lines, newest first.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogPage {
    /// Those that are wanted, up to the limit.
    pub entries: Vec<LogEntry>,
    /// There while there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A line, and where it stands in its log.
#[derive(Debug, Clone)]
pub struct Followed {
    /// Where to go on after it.
    pub place: LogPlace,
    /// The line.
    pub entry: LogEntry,
}

/// Where a line stands in the log of its endpoint: its time, then a number that tells lines of one time apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPlace(Vec<u8>);

impl LogPlace {
    /// Before all lines of `at`.
    #[must_use]
    pub fn start_of(at: Timestamp) -> Self {
        Self([at.0.to_be_bytes(), [0; 8]].concat())
    }

    /// As [`LogPlace::to_cursor`] gave it; `None` for other texts.
    #[must_use]
    pub fn from_cursor(text: &str) -> Option<Self> {
        URL_SAFE_NO_PAD.decode(text).ok().filter(|place| place.len() == PLACE_BYTES).map(Self)
    }

    /// As clients show it again.
    #[must_use]
    pub fn to_cursor(&self) -> String {
        URL_SAFE_NO_PAD.encode(&self.0)
    }

    /// The time of it.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        Timestamp(self.0.get(..8).and_then(|at| at.try_into().ok()).map_or(0, u64::from_be_bytes))
    }
}

/// Lines that one read looks at, matching or not.
const SCAN_LIMIT: usize = 5_000;
/// Lines read from the store at once.
const SCAN: usize = 250;

/// The logs of all endpoints.
pub struct Logs {
    store: Arc<dyn Store>,
    clock: Clock,
    settings: LogSettings,
    writer: mpsc::Sender<Message>,
    dropped: Arc<Dropped>,
    feed: Feed<Arc<Followed>>,
    sequence: AtomicU64,
}

impl Logs {
    /// Starts the writing task, which ends when the value is dropped and all is written.
    #[must_use]
    pub fn start(store: Arc<dyn Store>, clock: Clock, settings: LogSettings) -> Self {
        let (writer, incoming) = mpsc::channel(settings.waiting.max(1));
        let dropped = Arc::new(Dropped::default());
        let task = Writer::new(Arc::clone(&store), clock.clone(), settings.clone(), Arc::clone(&dropped));
        tokio::spawn(task.run(incoming));
        // Two hosts that share a store start their numbers at different places.
        let sequence = AtomicU64::new(getrandom::u64().unwrap_or(0));
        Self { store, clock, settings, writer, dropped, feed: Feed::default(), sequence }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Takes a line; drops and counts it when too many wait.
    pub fn write(&self, endpoint: &EndpointId, entry: LogEntry) {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let place = [entry.at.0.to_be_bytes(), sequence.to_be_bytes()].concat();
        let key = scope::key(endpoint, &place);
        self.feed.publish(endpoint.as_str(), || Arc::new(Followed { place: LogPlace(place), entry: entry.clone() }));
        if self.writer.try_send(Message::Line { endpoint: endpoint.clone(), key, entry }).is_err() {
            self.dropped.count(endpoint);
        }
    }

    /// Waits until every line taken so far is in the store or given up.
    pub async fn flush(&self) {
        let (done, wait) = oneshot::channel();
        if self.writer.send(Message::Flush(done)).await.is_ok() {
            let _ = wait.await;
        }
    }

    /// Lines dropped since the start, of all endpoints.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.total()
    }

    /// The lines of `endpoint` from now on, as they come. One that lags behind is told how many it missed.
    ///
    /// # Errors
    ///
    /// [`Crowded`].
    pub fn follow(&self, endpoint: &EndpointId) -> Result<Follower<Arc<Followed>>, Crowded> {
        self.feed.follow(endpoint.as_str())
    }

    /// The lines of `endpoint` that come after `place`, oldest first, at most `limit`.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn after(&self, endpoint: &EndpointId, place: &LogPlace, limit: usize) -> Result<Vec<Followed>, StoreError> {
        let from = place.clone().max(LogPlace::start_of(Timestamp(self.clock.now().0.saturating_sub(self.settings.age_ms))));
        let range = KeyRange::prefix(&scope::prefix(endpoint)).after(&scope::key(endpoint, &from.0));
        let rows = self.store.scan(Space::Logs, range, limit, Direction::Forward).await?;
        let skip = scope::prefix(endpoint).len();
        let read = |(key, stored): (Vec<u8>, Vec<u8>)| {
            Some(Followed { place: LogPlace(key[skip..].to_vec()), entry: serde_json::from_slice(&stored).ok()? })
        };
        Ok(rows.into_iter().filter_map(read).collect())
    }

    /// The lines of `endpoint` that `query` asks for. `Ok(None)` when its cursor is not one of ours.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn list(&self, endpoint: &EndpointId, query: &LogQuery) -> Result<Option<LogPage>, StoreError> {
        let oldest = Timestamp(self.clock.now().0.saturating_sub(self.settings.age_ms)).max(query.since.unwrap_or(Timestamp(0)));
        let mut range = KeyRange::prefix(&scope::prefix(endpoint));
        range.start = Bound::Included(scope::key(endpoint, &oldest.0.to_be_bytes()));
        if let Some(cursor) = &query.cursor {
            let Some(place) = URL_SAFE_NO_PAD.decode(cursor).ok().filter(|place| place.len() == PLACE_BYTES) else { return Ok(None) };
            let end = scope::key(endpoint, &place);
            if matches!(&range.start, Bound::Included(start) if *start >= end) {
                return Ok(Some(LogPage::default()));
            }
            range.end = Bound::Excluded(end);
        }
        let skip = scope::prefix(endpoint).len();
        let (mut page, mut seen) = (LogPage::default(), 0);
        loop {
            let rows = self.store.scan(Space::Logs, range.clone(), SCAN, Direction::Backward).await?;
            let last = rows.len() < SCAN;
            for (key, stored) in rows {
                seen += 1;
                if let Some(entry) = serde_json::from_slice(&stored).ok().filter(|entry| query.wants(entry)) {
                    page.entries.push(entry);
                }
                if page.entries.len() >= query.limit || seen == SCAN_LIMIT {
                    page.next_cursor = Some(URL_SAFE_NO_PAD.encode(&key[skip..]));
                    return Ok(Some(page));
                }
                range.end = Bound::Excluded(key);
            }
            if last {
                return Ok(Some(page));
            }
        }
    }

    /// Removes every line of `endpoint`.
    pub(super) async fn forget(&self, endpoint: &EndpointId) -> Result<(), StoreError> {
        self.flush().await;
        loop {
            let rows = self.store.scan(Space::Logs, KeyRange::prefix(&scope::prefix(endpoint)), SCAN, Direction::Forward).await?;
            if rows.is_empty() {
                return Ok(());
            }
            let writes = rows.into_iter().map(|(key, _)| Write::delete(Space::Logs, key)).collect();
            self.store.commit(Vec::new(), writes, crate::store::Durability::Buffered).await?;
        }
    }
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logs").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl LogQuery {
    /// Whether `entry` is of the level and the call asked for.
    #[must_use]
    pub fn wants(&self, entry: &LogEntry) -> bool {
        self.since.is_none_or(|since| entry.at >= since)
            && self.level.is_none_or(|level| entry.level >= level)
            && self.call.as_ref().is_none_or(|call| entry.call_id.as_ref() == Some(call))
    }
}

/// Bytes of a line's key after the endpoint: time, then a number that tells lines of one time apart.
const PLACE_BYTES: usize = 16;

fn line_key(endpoint: &EndpointId, at: Timestamp, sequence: u64) -> Vec<u8> {
    scope::key(endpoint, &[at.0.to_be_bytes(), sequence.to_be_bytes()].concat())
}

#[cfg(test)]
mod tests;
