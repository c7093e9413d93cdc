//! The task that writes lines in batches and trims the logs.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::Map;
use tokio::sync::{mpsc, oneshot};
use tollhouse_protocol::LogLevel;

use super::{LogEntry, LogPlace, LogSettings, place::LOGS};
use crate::{
    base::{
        clock::{Clock, Timestamp},
        id::EndpointId,
    },
    store::{Batch, Counted, Durability, Store, StoreError},
};

/// Lines of one commit.
const BATCH: usize = 256;
/// How long a batch waits for company.
const GATHER: Duration = Duration::from_millis(20);
/// A log is trimmed after this many of its lines were written.
const TRIM_EVERY: u64 = 500;
/// How often lines that have grown too old are looked for in all logs.
const SWEEP_EVERY: Duration = Duration::from_secs(3_600);

pub(super) enum Message {
    Line { endpoint: EndpointId, place: LogPlace, entry: LogEntry },
    Flush(oneshot::Sender<()>),
}

/// Lines that were not taken.
#[derive(Default)]
pub(super) struct Dropped {
    total: AtomicU64,
    /// Not told yet in the endpoint's log.
    untold: Mutex<HashMap<EndpointId, u64>>,
}

impl Dropped {
    pub(super) fn count(&self, endpoint: &EndpointId) {
        self.total.fetch_add(1, Ordering::Relaxed);
        *self.untold.lock().expect("no holder panics").entry(endpoint.clone()).or_default() += 1;
    }

    pub(super) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    fn take(&self) -> HashMap<EndpointId, u64> {
        std::mem::take(&mut *self.untold.lock().expect("no holder panics"))
    }
}

pub(super) struct Writer {
    store: Arc<dyn Store>,
    clock: Clock,
    settings: LogSettings,
    dropped: Arc<Dropped>,
    /// Lines in the store and lines since the last trim, of the endpoints that wrote since the start.
    counts: HashMap<EndpointId, Count>,
}

#[derive(Clone, Copy)]
struct Count {
    stored: u64,
    untrimmed: u64,
}

impl Writer {
    pub(super) fn new(store: Arc<dyn Store>, clock: Clock, settings: LogSettings, dropped: Arc<Dropped>) -> Self {
        Self { store, clock, settings, dropped, counts: HashMap::new() }
    }

    pub(super) async fn run(mut self, mut incoming: mpsc::Receiver<Message>) {
        let mut sweep = tokio::time::interval(SWEEP_EVERY);
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                received = incoming.recv_many(&mut batch, BATCH) => {
                    if received == 0 {
                        return;
                    }
                    let pressing = batch.iter().any(|message| matches!(message, Message::Flush(_)));
                    if batch.len() < BATCH && !pressing {
                        tokio::time::sleep(GATHER).await;
                        while batch.len() < BATCH && let Ok(message) = incoming.try_recv() {
                            batch.push(message);
                        }
                    }
                    self.write(batch.drain(..)).await;
                }
                _ = sweep.tick() => {
                    let swept = Self::sweep(&self.store, self.oldest()).await;
                    self.tried("sweeping old log lines", swept);
                    self.counts.clear();
                }
            }
        }
    }

    async fn write(&mut self, batch: impl Iterator<Item = Message>) {
        let (mut lines, mut flushes) = (Vec::new(), Vec::new());
        for message in batch {
            match message {
                Message::Line { endpoint, place, entry } => lines.push((endpoint, place, entry)),
                Message::Flush(done) => flushes.push(done),
            }
        }
        for (endpoint, count) in self.dropped.take() {
            let at = self.clock.now();
            lines.push((endpoint, LogPlace(at, u64::MAX), told(at, count)));
        }
        if !lines.is_empty() {
            self.store_lines(lines).await;
        }
        for done in flushes {
            let _ = done.send(());
        }
    }

    async fn store_lines(&mut self, lines: Vec<(EndpointId, LogPlace, LogEntry)>) {
        let (mut batch, mut written) = (Batch::new(), HashMap::<EndpointId, u64>::new());
        for (endpoint, LogPlace(at, number), entry) in lines {
            batch.put(&LOGS, &(Counted(endpoint.clone()), at, number), &entry);
            *written.entry(endpoint).or_default() += 1;
        }
        if let Err(error) = batch.commit(&*self.store, Durability::Buffered).await {
            let lines: u64 = written.values().sum();
            tracing::warn!(error = %error, log.lines = lines, "log lines of handlers were lost");
            self.dropped.total.fetch_add(lines, Ordering::Relaxed);
            return;
        }
        for (endpoint, lines) in written {
            let trimmed = self.written(&endpoint, lines).await;
            self.tried("trimming a log", trimmed);
        }
    }

    /// Keeps count, and trims when it is time. The first lines after a start count what is there.
    async fn written(&mut self, endpoint: &EndpointId, lines: u64) -> Result<(), StoreError> {
        let mut count = match self.counts.get(endpoint) {
            Some(count) => Count { stored: count.stored + lines, untrimmed: count.untrimmed + lines },
            None => Count {
                stored: LOGS.count(&*self.store, &LOGS.under(&Counted(endpoint.clone())), usize::MAX).await? as u64,
                untrimmed: TRIM_EVERY,
            },
        };
        if count.untrimmed >= TRIM_EVERY {
            let old = remove_until(&self.store, endpoint, Some(self.oldest()), u64::MAX).await?;
            let excess = (count.stored - old.min(count.stored)).saturating_sub(self.settings.lines);
            let excess = remove_until(&self.store, endpoint, None, excess).await?;
            count = Count { stored: count.stored.saturating_sub(old + excess), untrimmed: 0 };
        }
        self.counts.insert(endpoint.clone(), count);
        Ok(())
    }

    /// Removes the lines of all endpoints that are older than `oldest`. Counts from before are wrong after.
    async fn sweep(store: &Arc<dyn Store>, oldest: Timestamp) -> Result<(), StoreError> {
        let mut rest = LOGS.all();
        while let Some((own, ..)) = LOGS.first(&**store, &rest).await? {
            rest = rest.behind(&own);
            remove_until(store, &own.0, Some(oldest), u64::MAX).await?;
        }
        Ok(())
    }

    fn oldest(&self) -> Timestamp {
        Timestamp(self.clock.now().0.saturating_sub(self.settings.age_ms))
    }

    fn tried(&self, what: &str, result: Result<(), StoreError>) {
        if let Err(error) = result {
            tracing::warn!(error = %error, log.work = what, "the store was not there for the logs");
        }
    }
}

/// Removes at most `limit` of the oldest lines, all of them older than `oldest`; how many it removed.
async fn remove_until(store: &Arc<dyn Store>, endpoint: &EndpointId, oldest: Option<Timestamp>, limit: u64) -> Result<u64, StoreError> {
    let own = Counted(endpoint.clone());
    let mut range = LOGS.under(&own);
    if let Some(oldest) = oldest {
        range = range.before(&(own, oldest));
    }
    LOGS.clear(&**store, &range, limit).await
}

fn told(at: Timestamp, count: u64) -> LogEntry {
    let fields = Map::from_iter([("dropped".to_owned(), count.into())]);
    let message = format!("{count} log lines were dropped: the log could not keep up");
    LogEntry { at, level: LogLevel::Warn, message, fields, call_id: None, owner: false }
}
