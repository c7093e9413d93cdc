//! The task that writes log lines in batches and trims the logs.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde_json::Map;
use tokio::time::Instant;
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::EndpointId,
};
use tollhouse_protocol::LogLevel;
use tollhouse_store::{Batch, Counted, Direction, Durability, Store, StoreError, Value as _};

use super::{
    LogEntry, LogPlace, LogSettings,
    place::LOGS,
    waiting::{Line, Taken, Waiting, Why},
};

/// Maximum number of lines in one commit.
const BATCH: usize = 256;
/// How long a batch is collected.
const GATHER: Duration = Duration::from_millis(20);
/// A log is trimmed after this many new lines, or after an eighth of its maximum bytes.
const TRIM_EVERY: u64 = 500;
/// Number of bytes read at once while trimming a log.
const TRIM_BYTES: usize = 1 << 20;
/// Minimum time between two lines about dropped lines.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// How often inactive tools are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);

pub(super) struct Writer {
    store: Arc<dyn Store>,
    clock: Clock,
    settings: LogSettings,
    waiting: Arc<Waiting>,
    /// Lines and bytes written since the last trim, for tools that have written since the start.
    untrimmed: HashMap<EndpointId, Written>,
    tell_from: Instant,
    /// Number of lines about dropped lines so far.
    tells: u64,
}

#[derive(Clone, Copy, Default)]
struct Written {
    lines: u64,
    bytes: u64,
}

impl Writer {
    pub(super) fn new(store: Arc<dyn Store>, clock: Clock, settings: LogSettings, waiting: Arc<Waiting>) -> Self {
        Self { store, clock, settings, waiting, untrimmed: HashMap::new(), tell_from: Instant::now(), tells: 0 }
    }

    pub(super) async fn run(mut self) {
        let waiting = Arc::clone(&self.waiting);
        let mut forget = tokio::time::interval(FORGET_EVERY);
        loop {
            let untold = waiting.has_untold();
            tokio::select! {
                () = waiting.some.notified() => {
                    if !waiting.is_pressing() {
                        tokio::time::sleep(GATHER).await;
                    }
                }
                () = tokio::time::sleep_until(self.tell_from), if untold => {}
                _ = forget.tick() => {
                    self.untrimmed.clear();
                    waiting.forget_quiet();
                }
            }
            let closed = waiting.is_closed();
            while self.write().await {}
            if closed {
                return;
            }
        }
    }

    /// Writes some of the queued lines. Returns whether there were any.
    async fn write(&mut self) -> bool {
        let Taken { mut lines, flushes } = self.waiting.take(BATCH);
        if !flushes.is_empty() || Instant::now() >= self.tell_from {
            self.tell(&mut lines);
        }
        let any = !lines.is_empty();
        while !lines.is_empty() {
            let rest = lines.split_off(lines.len().min(BATCH));
            self.store_lines(std::mem::replace(&mut lines, rest)).await;
        }
        for done in flushes {
            let _ = done.send(());
        }
        any
    }

    /// Adds a line to each log that lost lines.
    fn tell(&mut self, lines: &mut Vec<(EndpointId, Line)>) {
        let untold = self.waiting.take_untold();
        if untold.is_empty() {
            return;
        }
        self.tell_from = Instant::now() + TELL_EVERY;
        let at = self.clock.now();
        for ((endpoint, why), count) in untold {
            self.tells += 1;
            lines.push((endpoint, Line { place: LogPlace(at, u64::MAX - self.tells), entry: self.told(at, why, count).to_bytes() }));
        }
    }

    fn told(&self, at: Timestamp, why: Why, count: u64) -> LogEntry {
        let fields = Map::from_iter([("dropped".to_owned(), count.into())]);
        let message = match why {
            Why::Room => format!("{count} log lines were dropped: the log could not keep up"),
            Why::Rate => format!("{count} log lines were dropped: a log takes {} bytes a second", self.settings.rate),
        };
        LogEntry { at, level: LogLevel::Warn, message, fields, call_id: None, owner: false }
    }

    async fn store_lines(&mut self, lines: Vec<(EndpointId, Line)>) {
        let (mut batch, mut written) = (Batch::new(), HashMap::<EndpointId, Written>::new());
        let count = lines.len();
        for (endpoint, line) in lines {
            let (bytes, LogPlace(at, number)) = (line.bytes() as u64, line.place);
            batch.put_bytes(&LOGS, &(Counted(endpoint.clone()), at, number), line.entry);
            let sum = written.entry(endpoint).or_default();
            *sum = Written { lines: sum.lines + 1, bytes: sum.bytes + bytes };
        }
        if let Err(error) = batch.commit(&*self.store, Durability::Buffered).await {
            tracing::warn!(error = %error, log.lines = count, "log lines of handlers were lost");
            self.waiting.lost(count as u64);
            return;
        }
        for (endpoint, written) in written {
            let trimmed = self.written(&endpoint, written).await;
            tried("trimming a log", trimmed);
        }
    }

    /// Counts written lines. Trims the log when it is due, and at a tool's first lines after a start.
    async fn written(&mut self, endpoint: &EndpointId, written: Written) -> Result<(), StoreError> {
        let before = self.untrimmed.get(endpoint);
        let sum = before.map(|before| Written { lines: before.lines + written.lines, bytes: before.bytes + written.bytes });
        let is_due = sum.is_none_or(|sum| sum.lines >= TRIM_EVERY || sum.bytes >= self.settings.bytes / 8);
        if is_due {
            self.trim(endpoint).await?;
        }
        self.untrimmed.insert(endpoint.clone(), sum.filter(|_| !is_due).unwrap_or_default());
        Ok(())
    }

    /// Removes lines that are too old, and the oldest of the others beyond the limits.
    async fn trim(&self, endpoint: &EndpointId) -> Result<(), StoreError> {
        remove_until(&*self.store, endpoint, self.settings.oldest(&self.clock)).await?;
        let (mut kept, mut place) = (Written::default(), None);
        let mut range = LOGS.under(&Counted(endpoint.clone())).within(TRIM_BYTES);
        loop {
            let rows = LOGS.unread(&*self.store, &range, BATCH, Direction::Backward).await?;
            if rows.is_empty() {
                return Ok(());
            }
            for row in rows {
                kept = Written { lines: kept.lines + 1, bytes: kept.bytes + row.bytes() as u64 };
                if kept.lines > self.settings.lines || kept.bytes > self.settings.bytes {
                    let excess = place.map_or_else(|| range.clone(), |place| range.clone().before(&place));
                    return LOGS.expire(&*self.store, &excess).await;
                }
                place = Some(LOGS.key(&row)?);
            }
            range = place.iter().fold(range, |range, place| range.before(place));
        }
    }
}

fn tried(what: &str, result: Result<(), StoreError>) {
    if let Err(error) = result {
        tracing::warn!(error = %error, log.work = what, "the store was not there for the logs");
    }
}

/// Removes lines older than `oldest`.
pub(super) async fn remove_until(store: &dyn Store, endpoint: &EndpointId, oldest: Timestamp) -> Result<(), StoreError> {
    let own = Counted(endpoint.clone());
    LOGS.expire(store, &LOGS.under(&own).before(&(own, oldest))).await
}
