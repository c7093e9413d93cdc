//! The task that writes log lines in batches and trims the logs.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde_json::Map;
use tokio::time::Instant;
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::EndpointId,
    plural::plural,
};
use tollhouse_protocol::LogLevel;
use tollhouse_store::{Batch, CountedText, Direction, Durability, Store, StoreError, Value as _};

use super::{
    LogEntry, LogPosition, LogSettings,
    pending::{DropReason, PendingLine, PendingLines, TakenLines},
    position::LOGS,
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
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// How often inactive tools are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);

pub(super) struct LogWriter {
    store: Arc<dyn Store>,
    clock: Clock,
    settings: LogSettings,
    waiting: Arc<PendingLines>,
    /// Lines and bytes written since the last trim, for tools that have written since the start.
    untrimmed: HashMap<EndpointId, WrittenSize>,
    report_from: Instant,
    /// Number of lines about dropped lines so far.
    reports: u64,
}

#[derive(Clone, Copy, Default)]
struct WrittenSize {
    lines: u64,
    bytes: u64,
}

impl LogWriter {
    pub(super) fn new(store: Arc<dyn Store>, clock: Clock, settings: LogSettings, waiting: Arc<PendingLines>) -> Self {
        Self { store, clock, settings, waiting, untrimmed: HashMap::new(), report_from: Instant::now(), reports: 0 }
    }

    pub(super) async fn run(mut self) {
        let waiting = Arc::clone(&self.waiting);
        let mut forget = tokio::time::interval(FORGET_EVERY);
        loop {
            let unreported = waiting.has_unreported();
            tokio::select! {
                () = waiting.some.notified() => {
                    if !waiting.is_nearly_full() {
                        tokio::time::sleep(GATHER).await;
                    }
                }
                () = tokio::time::sleep_until(self.report_from), if unreported => {}
                _ = forget.tick() => {
                    self.untrimmed.clear();
                    waiting.prune_idle();
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
        let TakenLines { mut lines, flushes } = self.waiting.take(BATCH);
        if !flushes.is_empty() || Instant::now() >= self.report_from {
            self.report_dropped(&mut lines);
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
    fn report_dropped(&mut self, lines: &mut Vec<(EndpointId, PendingLine)>) {
        let unreported = self.waiting.take_unreported();
        if unreported.is_empty() {
            return;
        }
        self.report_from = Instant::now() + REPORT_EVERY;
        let at = self.clock.now();
        for ((endpoint, reason), count) in unreported {
            self.reports += 1;
            lines.push((
                endpoint,
                PendingLine { position: LogPosition(at, u64::MAX - self.reports), entry: self.drop_notice(at, reason, count).to_bytes() },
            ));
        }
    }

    fn drop_notice(&self, at: Timestamp, reason: DropReason, count: u64) -> LogEntry {
        let fields = Map::from_iter([("dropped".to_owned(), count.into())]);
        let message = match reason {
            DropReason::Room => format!("dropped {} because the log could not keep up", plural(count, "log line")),
            DropReason::Rate => {
                format!("dropped {} because a log accepts only {} bytes per second", plural(count, "log line"), self.settings.rate)
            }
        };
        LogEntry { at, level: LogLevel::Warn, message, fields, call_id: None, owner: false }
    }

    async fn store_lines(&mut self, lines: Vec<(EndpointId, PendingLine)>) {
        let (mut batch, mut written) = (Batch::new(), HashMap::<EndpointId, WrittenSize>::new());
        let count = lines.len();
        for (endpoint, line) in lines {
            let (bytes, LogPosition(at, number)) = (line.bytes() as u64, line.position);
            batch.put_bytes(&LOGS, &(CountedText(endpoint.clone()), at, number), line.entry);
            let sum = written.entry(endpoint).or_default();
            *sum = WrittenSize { lines: sum.lines + 1, bytes: sum.bytes + bytes };
        }
        if let Err(error) = batch.commit(&*self.store, Durability::Buffered).await {
            tracing::warn!(%error, log.lines = count, "log lines of handlers could not be written and are lost");
            self.waiting.lost(count as u64);
            return;
        }
        for (endpoint, written) in written {
            if let Err(error) = self.written(&endpoint, written).await {
                tracing::warn!(%error, "a log could not be trimmed");
            }
        }
    }

    /// Counts written lines. Trims the log when it is due, and at a tool's first lines after a start.
    async fn written(&mut self, endpoint: &EndpointId, written: WrittenSize) -> Result<(), StoreError> {
        let before = self.untrimmed.get(endpoint);
        let sum = before.map(|before| WrittenSize { lines: before.lines + written.lines, bytes: before.bytes + written.bytes });
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
        let (mut stored, mut position) = (WrittenSize::default(), None);
        let mut range = LOGS.under(&CountedText(endpoint.clone())).within(TRIM_BYTES);
        loop {
            let rows = LOGS.unread(&*self.store, &range, BATCH, Direction::Backward).await?;
            if rows.is_empty() {
                return Ok(());
            }
            for row in rows {
                stored = WrittenSize { lines: stored.lines + 1, bytes: stored.bytes + row.bytes() as u64 };
                if stored.lines > self.settings.lines || stored.bytes > self.settings.bytes {
                    let excess = position.map_or_else(|| range.clone(), |position| range.clone().before(&position));
                    return LOGS.expire(&*self.store, &excess).await;
                }
                position = Some(LOGS.key(&row)?);
            }
            range = position.iter().fold(range, |range, position| range.before(position));
        }
    }
}

/// Removes lines older than `oldest`.
pub(super) async fn remove_until(store: &dyn Store, endpoint: &EndpointId, oldest: Timestamp) -> Result<(), StoreError> {
    let own = CountedText(endpoint.clone());
    LOGS.expire(store, &LOGS.under(&own).before(&(own, oldest))).await
}
