//! OTLP over HTTP in JSON, to the collector in the settings: traces as calls end, metrics periodically.
//!
//! It is implemented here because the stock exporter adds eight dependencies, two of which generate code for protobuf,
//! allocates for each span of each call, does not count what it drops, and would need a second table of metrics. The
//! OpenTelemetry collector accepts JSON at the same addresses as protobuf.

mod attributes;
mod metrics;
mod send;
mod spans;

use std::{fmt, time::Duration};

use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, MissedTickBehavior, interval_at, sleep, timeout},
};
use tollhouse_base::clock::Clock;

pub use self::send::Destination;
use self::{
    attributes::attributes,
    send::{Collector, SendOutcome},
};
use super::{
    counters,
    sample::Gather,
    span::TracedCall,
    tracer::{self, TraceSettings},
};

/// Maximum number of traced calls in one request.
const TOGETHER: usize = 256;
/// How long completed calls are collected before a request is sent.
const GATHERED: Duration = Duration::from_millis(500);
/// How long shutdown waits for pending data to be sent.
const FLUSHED: Duration = Duration::from_secs(3);

/// The destination of telemetry.
#[derive(Clone)]
pub struct OtlpSettings {
    /// Destination of traces, if any.
    pub traces: Option<Destination>,
    /// Destination of metrics, if any.
    pub metrics: Option<Destination>,
    /// Interval between two requests with metrics. `None` sends none.
    pub every: Option<Duration>,
    /// How many calls are traced.
    pub sampling: TraceSettings,
    /// The `service.name` attribute.
    pub service: String,
}

/// Omits the address and headers, which can contain secrets.
impl fmt::Debug for OtlpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpSettings").field("every", &self.every).field("sampling", &self.sampling).finish_non_exhaustive()
    }
}

/// Sends telemetry on a separate task.
#[derive(Debug)]
pub struct Exporter {
    flushes: mpsc::Sender<oneshot::Sender<()>>,
}

struct Task {
    collector: Collector,
    gather: Gather,
    /// The OTLP resource that all data belongs to.
    resource: Value,
    started: u64,
    /// Whether the last request failed. A failure is logged once, until a request succeeds.
    failing: bool,
}

impl Exporter {
    /// Starts the exporter and begins to trace calls. Call it inside a tokio runtime.
    ///
    /// # Errors
    ///
    /// Headers that cannot be sent, or an exporter that already runs in this process.
    pub fn start(settings: OtlpSettings, instance: &str, gather: Gather) -> Result<Self, String> {
        let collector = Collector::new(settings.traces.as_ref(), settings.metrics.as_ref())?;
        let traces = tracer::start(settings.sampling).ok_or("this process already exports telemetry")?;
        let resource = json!({ "attributes": attributes([
            ("service.name", settings.service.as_str()),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("service.instance.id", instance),
        ]) });
        let task = Task { collector, gather, resource, started: now(), failing: false };
        let (flushes, requests) = mpsc::channel(1);
        tokio::spawn(task.run(traces, settings.every, requests));
        Ok(Self { flushes })
    }

    /// Sends pending data and the current metrics. Waits a few seconds at most.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let sent = async {
            if self.flushes.send(done).await.is_ok() {
                _ = flushed.await;
            }
        };
        if timeout(FLUSHED, sent).await.is_err() {
            tracing::warn!("the collector did not accept the remaining telemetry in time");
        }
    }
}

impl Task {
    async fn run(
        mut self,
        mut traces: mpsc::Receiver<TracedCall>,
        every: Option<Duration>,
        mut flushes: mpsc::Receiver<oneshot::Sender<()>>,
    ) {
        let period = every.unwrap_or(Duration::from_secs(3_600));
        let mut ticks = interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                taken = traces.recv_many(&mut batch, TOGETHER) => {
                    if taken == 0 {
                        return;
                    }
                    if batch.len() < TOGETHER && flushes.is_empty() {
                        sleep(GATHERED).await;
                        fill(&mut batch, &mut traces);
                    }
                    self.send_traces(&mut batch).await;
                }
                _ = ticks.tick() => if every.is_some() { self.send_metrics().await },
                request = flushes.recv() => {
                    let Some(done) = request else { return };
                    fill(&mut batch, &mut traces);
                    while !batch.is_empty() {
                        self.send_traces(&mut batch).await;
                        fill(&mut batch, &mut traces);
                    }
                    if every.is_some() {
                        self.send_metrics().await;
                    }
                    _ = done.send(());
                }
            }
        }
    }

    async fn send_traces(&mut self, batch: &mut Vec<TracedCall>) {
        let spans = batch.iter().map(TracedCall::spans).sum::<u64>();
        let body = spans::body(&self.resource, batch);
        batch.clear();
        match self.sent("traces", &body).await {
            Some(refused) => {
                counters::SPANS.add(["sent"], spans.saturating_sub(refused));
                counters::SPANS.add(["refused"], refused.min(spans));
            }
            None => counters::SPANS.add(["failed"], spans),
        }
    }

    async fn send_metrics(&mut self) {
        let body = metrics::body(&self.resource, &(self.gather)().await, self.started, now());
        self.sent("metrics", &body).await;
    }

    /// Sends a request. Returns how many items the collector rejected, or `None` if the request failed.
    async fn sent(&mut self, signal: &str, body: &Value) -> Option<u64> {
        match self.collector.send(signal, body).await {
            SendOutcome::Nowhere => Some(0),
            SendOutcome::Taken { refused } => {
                counters::EXPORTS.count([signal, "ok"]);
                self.failing = false;
                Some(refused)
            }
            SendOutcome::Failed(reason) => {
                counters::EXPORTS.count([signal, "failed"]);
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(signal, reason, "the collector does not accept telemetry; unsent telemetry is dropped");
                }
                None
            }
        }
    }
}

fn fill(batch: &mut Vec<TracedCall>, traces: &mut mpsc::Receiver<TracedCall>) {
    while batch.len() < TOGETHER
        && let Ok(traced) = traces.try_recv()
    {
        batch.push(traced);
    }
}

/// Returns the time in nanoseconds since 1970.
fn now() -> u64 {
    Clock::default().now().0.saturating_mul(1_000_000)
}
