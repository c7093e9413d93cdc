//! A worker process and its socket.

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::net::Shutdown;
use tokio::{
    net::UnixStream,
    sync::OnceCell,
    time::{Instant, sleep, timeout},
};
use tollhouse_fair::lock::Lock;
use tollhouse_pace as pace;
use tollhouse_protocol::{Bundle, Isolation, JailReport, Limits, StopReason, Tier, ToHost};

use crate::{
    config::PoolConfig,
    error::PoolError,
    pipeline::Pipeline,
    process_slots::ProcessSlot,
    reaper::{ProcessExit, ProcessGuard},
    usage::{Resident, Usage},
    watchdog::Meter,
    wire::Buffers,
};

/// Maximum wait for the exit of a process after its stream has ended, and the interval of the
/// checks. A process that broke the protocol does not exit. On a busy machine, an exiting process
/// can wait for the processor, and the system needs long to release thousands of mappings.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A worker process. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// How the process runs code.
    pub(crate) tier: Tier,
    pub(crate) link: Link,
    pub(crate) started: Instant,
    child: Lock<ProcessGuard>,
    /// Its place, until the system has removed the process.
    slot: Weak<ProcessSlot>,
    /// How it ended, once determined. Determined only once, even if several tasks need it.
    exited: OnceCell<Option<ProcessExit>>,
    jail: OnceLock<JailReport>,
    pub(crate) loaded: OnceLock<LoadedCode>,
    pub(crate) calls: AtomicU64,
    /// Its private memory at the first measurement after a call, in bytes; 0 before.
    pub(crate) first_own_bytes: AtomicU64,
    /// Encodes the calls served at the last measurement and the number of measurements since: see
    /// [`MEASURES`](Self::MEASURES).
    measured: AtomicU64,
    /// Whether a replacement is being started.
    pub(crate) is_being_replaced: AtomicBool,
    /// Whether it must not serve another call.
    is_retired: AtomicBool,
}

/// A worker's socket, the calls sent ahead over it, and the budget of its process.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) stream: UnixStream,
    pub(crate) pipeline: Pipeline<Handover>,
    pub(crate) meter: Meter,
}

/// The resources that a call hands over to the next call on its worker, together with the running
/// slot.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) process: Arc<Process>,
    pub(crate) buffers: Buffers,
}

/// The code in a worker, and its endpoint.
#[derive(Debug, Clone)]
pub(crate) struct LoadedCode {
    pub(crate) bundle: Arc<Bundle>,
    pub(crate) owner: Box<str>,
    pub(crate) endpoint: Box<str>,
    pub(crate) limits: Limits,
    pub(crate) isolation: Isolation,
}

impl LoadedCode {
    /// Returns whether a worker with this code can serve a call of `endpoint` with this bundle and
    /// these limits. Another endpoint with the same code gets its own process.
    pub(crate) fn serves(&self, endpoint: &str, bundle: &Arc<Bundle>, limits: &Limits) -> bool {
        *self.endpoint == *endpoint
            && (Arc::ptr_eq(&self.bundle, bundle) || self.bundle.version == bundle.version && self.bundle.schemas == bundle.schemas)
            && self.limits.heap_bytes == limits.heap_bytes
            && self.limits.buffer_bytes == limits.buffer_bytes
    }
}

impl Process {
    /// Wraps a process that has just started. Call [`wait_until_ready`](Self::wait_until_ready)
    /// before use.
    pub(crate) fn new(pid: u32, tier: Tier, (child, slot): (ProcessGuard, Weak<ProcessSlot>), link: Link) -> Self {
        Self {
            pid,
            tier,
            link,
            started: Instant::now(),
            child: Lock::new(child),
            slot,
            exited: OnceCell::new(),
            jail: OnceLock::new(),
            loaded: OnceLock::new(),
            calls: AtomicU64::new(0),
            first_own_bytes: AtomicU64::new(0),
            measured: AtomicU64::new(0),
            is_being_replaced: AtomicBool::new(false),
            is_retired: AtomicBool::new(false),
        }
    }

    /// Waits until the worker is jailed and ready for a bundle.
    ///
    /// # Errors
    ///
    /// [`PoolError::Spawn`] if the worker ends, sends anything else, or takes longer than
    /// [`PoolConfig::boot_timeout`].
    pub(crate) async fn wait_until_ready(&self, config: &PoolConfig) -> Result<(), PoolError> {
        let not_ready = |reason: &str| PoolError::Spawn(reason.into());
        let mut buffers = Buffers::default();
        let first = timeout(config.boot_timeout, first_message(&self.link.stream, &mut buffers)).await;
        let jail = match first {
            Ok(Some(ToHost::Ready { mut jail })) if buffers.are_empty() => {
                let slot = self.slot.upgrade();
                slot.as_deref().and_then(ProcessSlot::group_limits).into_iter().for_each(|group_limits| group_limits.report(&mut jail));
                jail
            }
            Ok(_) => {
                let how = self.exit().await.map_or_else(String::new, |exit| format!(", {exit}"));
                return Err(not_ready(&format!("worker ended before it was ready{how}")));
            }
            Err(_) => return Err(not_ready("worker was not ready in time")),
        };
        if let Some(layer) = config.strict.iter().find(|layer| !jail.in_force.contains(layer)) {
            let reason = jail.refused.iter().find(|refused| refused.layer == *layer);
            let reason = reason.map_or_else(|| format!("{layer}, which is not of its tier"), ToString::to_string);
            return Err(not_ready(&format!("its jail must have every required layer, but lacks {reason}")));
        }
        // A process that cannot be measured is not leased.
        Usage::of(self.pid).map_err(|_| not_ready("the worker's entry in /proc cannot be read"))?;
        self.jail.set(jail).map_err(|_| not_ready("worker was ready twice"))
    }

    /// Returns its jail report, once it is ready.
    pub(crate) fn jail(&self) -> Option<&JailReport> {
        self.jail.get()
    }

    /// Ends the process now.
    pub(crate) fn end(&self) {
        self.child.lock().end();
        // The call that uses the socket notices the end even if another process holds the other
        // side.
        let _ = rustix::net::shutdown(&self.link.stream, Shutdown::Both);
    }

    /// Returns whether the process was ended from outside.
    pub(crate) async fn was_killed_externally(&self) -> bool {
        self.exit().await.is_some_and(ProcessExit::is_external)
    }

    /// Returns why a worker ended without a message, from its exit status and the limits that were in
    /// force.
    pub(crate) async fn last_reason(&self, limits: &Limits) -> StopReason {
        match self.exit().await {
            Some(ProcessExit::Status(status)) => StopReason::of_exit_status(status, limits).unwrap_or(StopReason::Crashed),
            Some(ProcessExit::OutOfMemory) => StopReason::Memory { limit_bytes: limits.rss_bytes },
            Some(ProcessExit::Signal(signal)) => {
                tracing::warn!(signal, "worker was ended by a signal");
                StopReason::Crashed
            }
            None => StopReason::Crashed,
        }
    }

    /// Returns how the process ended. Called at the end of its stream, which the system closes
    /// before the process exits.
    async fn exit(&self) -> Option<ProcessExit> {
        let exit = || self.child.lock().exit();
        let ended = async {
            // The process may have been slowed, and must release its memory before it exits.
            if self.is_live() {
                let _ = pace::raise(self.pid);
            }
            loop {
                let exit = exit();
                if exit.is_some() || !self.is_live() {
                    return exit;
                }
                sleep(EXIT_POLL_INTERVAL).await;
            }
        };
        *self.exited.get_or_init(|| async { timeout(EXIT_TIMEOUT, ended).await.ok().flatten() }).await
    }

    /// Applies the memory limit of `limits` to the process. Ends the process if that fails.
    pub(crate) fn limit_to(&self, limits: &Limits) {
        let slot = self.slot.upgrade();
        let held =
            slot.as_deref().and_then(ProcessSlot::group_limits).map_or(Ok(()), |group_limits| group_limits.limit_to(limits.rss_bytes));
        if let Err(error) = held {
            tracing::warn!(%error, "a worker's memory could not be bounded");
            self.end();
        }
    }

    /// Returns its private memory at the last measurement, in bytes.
    pub(crate) fn own_bytes(&self) -> u64 {
        self.slot.upgrade().map_or(0, |slot| slot.bytes())
    }

    /// Number of measurements after each use, because an idle worker collects garbage. Less than
    /// [`Self::ROUND`].
    const MEASURES: u64 = 3;
    const ROUND: u64 = 4;

    /// Measures its private memory, unless it has served no call since the last measurements.
    pub(crate) fn measure(&self) {
        let served = self.calls.load(Ordering::Relaxed) * Self::ROUND;
        let measured = self.measured.load(Ordering::Relaxed).max(served);
        if (measured < served + Self::MEASURES || !self.link.meter.is_free())
            && self.is_live()
            && let Ok(Resident { own_bytes, .. }) = Resident::of(self.pid)
        {
            self.measured.store((measured + 1).min(served + Self::MEASURES), Ordering::Relaxed);
            self.record_own_bytes(own_bytes);
        }
    }

    /// Records its private memory, in bytes.
    pub(crate) fn record_own_bytes(&self, bytes: u64) {
        if let Some(slot) = self.slot.upgrade() {
            slot.note(bytes);
        }
    }

    /// Returns whether it has not been ended.
    pub(crate) fn is_live(&self) -> bool {
        self.child.lock().is_live()
    }

    /// Returns whether it must not serve another call.
    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Acquire)
    }

    /// Prevents calls after the current one.
    pub(crate) fn retire(&self) {
        self.is_retired.store(true, Ordering::Release);
    }

    /// Returns whether it holds code of `version` for `endpoint`.
    pub(crate) fn holds(&self, endpoint: &str, version: &str) -> bool {
        self.loaded.get().is_some_and(|holding| *holding.endpoint == *endpoint && holding.bundle.version == version)
    }
}

async fn first_message(stream: &UnixStream, buffers: &mut Buffers) -> Option<ToHost> {
    loop {
        if let Some(message) = buffers.next().ok()? {
            return Some(message);
        }
        buffers.changed(stream).await.ok()?;
        buffers.fill(stream).ok()?;
    }
}

#[cfg(test)]
impl Process {
    /// Returns an idle process that takes two calls ahead, with the worker's end of its socket.
    pub(crate) fn standin() -> (Arc<Self>, UnixStream) {
        Self::standin_that("exec sleep 600")
    }

    /// Returns a [stand-in](Self::standin) with a process that runs `script`.
    pub(crate) fn standin_that(script: &str) -> (Arc<Self>, UnixStream) {
        Self::standin_with(script, Tier::Jit, Self::standin_slot())
    }

    /// Returns a [stand-in](Self::standin) with a process in this place.
    pub(crate) fn standin_at(slot: Arc<ProcessSlot>) -> (Arc<Self>, UnixStream) {
        Self::standin_with("exec sleep 600", Tier::Jit, slot)
    }

    /// Returns a [stand-in](Self::standin) with a process of this tier.
    pub(crate) fn standin_of(tier: Tier) -> (Arc<Self>, UnixStream) {
        Self::standin_with("exec sleep 600", tier, Self::standin_slot())
    }

    fn standin_slot() -> Arc<ProcessSlot> {
        crate::process_slots::ProcessSlots::new(1, 0, Default::default()).take().unwrap()
    }

    #[expect(clippy::zombie_processes, reason = "the reaper waits for it")]
    fn standin_with(script: &str, tier: Tier, slot: Arc<ProcessSlot>) -> (Arc<Self>, UnixStream) {
        let child = std::process::Command::new("/bin/sh").args(["-c", script]).spawn().unwrap();
        let (pid, weak) = (child.id(), Arc::downgrade(&slot));
        let child = crate::reaper::Reaper::start().unwrap().adopt(rustix::process::Pid::from_child(&child), slot);
        let (stream, theirs) = UnixStream::pair().unwrap();
        let pipeline = Pipeline::new(2, std::time::Duration::MAX);
        (Arc::new(Self::new(pid, tier, (child, weak), Link { stream, pipeline, meter: Meter::new(Arc::default()) })), theirs)
    }

    /// Waits until it has exited.
    pub(crate) async fn wait_for_exit(&self) {
        while self.child.lock().exit().is_none() {
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
impl LoadedCode {
    /// Returns code that does nothing.
    pub(crate) fn standin(endpoint: &str) -> Self {
        let schemas = tollhouse_protocol::Schemas::default();
        let bundle = Bundle { version: "1".into(), specifier: "tool:/x/1".into(), source: None, schemas };
        Self {
            bundle: Arc::new(bundle),
            owner: "a".into(),
            endpoint: endpoint.into(),
            limits: Limits::default(),
            isolation: Isolation::Warm,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::AsyncWriteExt;
    use tollhouse_protocol::{JailLayer, LayerRefusal, Schemas, frame};

    use super::*;

    #[test]
    fn code_serves_calls_of_its_endpoint_version_schemas_and_memory_alone() {
        let holding = LoadedCode::standin("x");
        let (bundle, limits) = (&holding.bundle, holding.limits);
        let another = |version: &str, input: Option<&str>| {
            let schemas = Schemas { input: input.map(|schema| schema.as_bytes().to_vec().into()), ..Schemas::default() };
            Arc::new(Bundle { version: version.into(), schemas, ..(**bundle).clone() })
        };
        assert!(holding.serves("x", bundle, &limits) && holding.serves("x", &another("1", None), &limits));
        assert!(holding.serves("x", bundle, &Limits { cpu_ms: 1, ..limits }), "each call has its own limit");
        assert!(!holding.serves("y", bundle, &limits) && !holding.serves("y", &another("1", None), &limits));
        assert!(!holding.serves("x", &another("2", None), &limits) && !holding.serves("x", &another("1", Some("{}")), &limits));
        assert!(!holding.serves("x", bundle, &Limits { heap_bytes: 1, ..limits }));
        assert!(!holding.serves("x", bundle, &Limits { buffer_bytes: 1, ..limits }));
    }

    #[tokio::test]
    async fn exit_status_shows_why_a_worker_died() {
        let limits = Limits::default();
        let time = StopReason::CpuTime { limit_ms: limits.cpu_ms };
        for (script, reason) in [
            ("exit 71", time),
            ("exit 0", StopReason::Crashed),
            ("exit 70", StopReason::Crashed),
            ("kill -9 $$", StopReason::Crashed),
            ("exec sleep 600", StopReason::Crashed),
        ] {
            let (process, _theirs) = Process::standin_that(script);
            if !script.contains("sleep") {
                process.wait_for_exit().await;
            }
            assert_eq!(process.last_reason(&limits).await, reason, "{script}");
        }
        let (process, _theirs) = Process::standin_that("exec sleep 600");
        process.end();
        assert_eq!(process.last_reason(&limits).await, StopReason::Crashed, "the pool ended it");
    }

    #[tokio::test]
    async fn exit_of_a_worker_is_awaited_unless_the_pool_ended_it() {
        let (process, _theirs) = Process::standin();
        assert_eq!(process.was_killed_externally().now_or_never(), None);
        process.end();
        assert_eq!(process.was_killed_externally().now_or_never(), Some(false));
    }

    #[tokio::test]
    async fn worker_is_measured_while_it_serves_and_for_a_while_after() {
        let (process, _theirs) = Process::standin();
        let measured = |times: usize| -> Vec<bool> {
            let look = |_| {
                process.record_own_bytes(u64::MAX);
                process.measure();
                process.own_bytes() < u64::MAX
            };
            (0..times).map(look).collect()
        };
        assert_eq!(measured(5), [true, true, true, false, false]);
        for calls in [1, 5] {
            process.calls.fetch_add(calls, Ordering::Relaxed);
            assert_eq!(measured(4), [true, true, true, false]);
        }
        process.link.meter.begin(crate::budget::Budget::of_call(&Limits::default()));
        assert_eq!(measured(20), [true; 20]);
        process.link.meter.finish();
        assert_eq!(measured(1), [false]);
        process.calls.fetch_add(1, Ordering::Relaxed);
        assert_eq!(measured(4), [true, true, true, false]);
    }

    #[tokio::test]
    async fn worker_is_ready_if_it_sends_ready_and_nothing_else() {
        let jail = JailReport { in_force: vec![JailLayer::Seccomp], refused: vec![LayerRefusal { layer: JailLayer::Landlock, errno: 95 }] };
        let ready = ToHost::Ready { jail: jail.clone() };
        for (text, fits) in
            [(vec![ready.clone()], true), (vec![ready.clone(), ToHost::Begun], false), (vec![ToHost::Begun], false), (vec![], false)]
        {
            let (process, mut theirs) = Process::standin();
            let mut bytes = Vec::new();
            text.iter().for_each(|message| frame::encode(message, &mut bytes).unwrap());
            theirs.write_all(&bytes).await.unwrap();
            theirs.shutdown().await.unwrap();
            assert_eq!(process.wait_until_ready(&PoolConfig::new("")).await.is_ok(), fits, "{text:?}");
            assert_eq!(process.jail(), fits.then_some(&jail));
        }
    }

    #[tokio::test]
    async fn worker_without_a_required_layer_is_not_ready() {
        let jail = JailReport { in_force: vec![JailLayer::Seccomp], refused: vec![LayerRefusal { layer: JailLayer::Landlock, errno: 1 }] };
        for (strict, lacks) in [
            (vec![JailLayer::Seccomp], None),
            (vec![JailLayer::Seccomp, JailLayer::Landlock], Some("landlock: Operation not permitted")),
            (vec![JailLayer::OwnUser], Some("own_user")),
        ] {
            let (process, mut theirs) = Process::standin();
            let mut bytes = Vec::new();
            frame::encode(&ToHost::Ready { jail: jail.clone() }, &mut bytes).unwrap();
            theirs.write_all(&bytes).await.unwrap();
            let refused =
                process.wait_until_ready(&PoolConfig { strict, ..PoolConfig::new("") }).await.err().map(|error| error.to_string());
            assert_eq!(refused.is_some(), lacks.is_some());
            assert!(refused.unwrap_or_default().contains(lacks.unwrap_or_default()));
        }
    }
}
