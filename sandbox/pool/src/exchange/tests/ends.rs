//! Consequences of each end of a call: its outcome for the caller, whether there is an answer to
//! charge for, how the pool counts it, whether it counts against the endpoint, and whether the
//! worker serves another call.

use std::sync::atomic::Ordering;

use tokio::time::Instant;
use tollhouse_protocol::{Problem, Side, Thrown};

use super::*;
use crate::{
    PoolConfig, PoolError, core::Core, process::Process, watchdog::Inspection, watchdog_alarm::WatchdogRound, worker_lease::WorkerLease,
};

/// How a worker ends a call.
#[expect(clippy::large_enum_variant, reason = "a few values in tests")]
enum WorkerEnd {
    /// It sends this outcome.
    Worker(Outcome),
    /// It sends this outcome and more bytes after it.
    Talking(Outcome),
    /// It sends this outcome beyond its limits but within the grace.
    Late(Outcome),
    /// Its stream ends after these bytes.
    Bytes(&'static [u8]),
    /// The watchdog ends it, whatever it sends.
    Watchdog(Limits),
}

#[derive(Debug, PartialEq, Eq)]
enum Counted {
    Call,
    Stop,
    Crash,
}

#[derive(Debug, PartialEq, Eq)]
enum Endpoint {
    Untouched,
    Held,
}

#[derive(Debug, PartialEq, Eq)]
enum Worker {
    Kept,
    Ended,
}

fn returned(bytes: usize) -> Outcome {
    let body = ReplyBody::Json(Bytes::from(vec![b'1'; bytes]));
    Outcome::Returned(ToolReply { status: 200, headers: vec![], body })
}

fn invalid(side: Side) -> Outcome {
    Outcome::Invalid(side, vec![Problem { pointer: "/a".into(), message: "a is required".into() }])
}

/// Looks until the meter has a verdict, as the watchdog does.
fn look_until_over(link: &Link) {
    let timeout = Instant::now() + Duration::from_secs(20);
    while !matches!(link.meter.inspect(std::process::id(), WatchdogRound::Tick, Duration::ZERO), Inspection::Over(_)) {
        assert!(Instant::now() < timeout, "a test that computes uses up its processor time");
    }
}

async fn end(by: WorkerEnd) -> ExchangeEnd {
    let host = Host::default();
    let done = |outcome| ToHost::Done { outcome, spent: Spent::default() };
    match by {
        WorkerEnd::Worker(outcome) => run(&host, |mut peer| async move { peer.send(&[done(outcome)]).await }).await,
        WorkerEnd::Talking(outcome) => run(&host, |mut peer| async move { peer.send(&[done(outcome), ToHost::Waiting]).await }).await,
        WorkerEnd::Late(outcome) => {
            let limits = Limits { wall_ms: 0, ..Limits::default() };
            run_within(&limits, &host, |mut peer, _| async move { peer.send(&[done(outcome)]).await }).await
        }
        WorkerEnd::Bytes(bytes) => run(&host, |mut peer| async move { peer.0.write_all(bytes).await.unwrap() }).await,
        WorkerEnd::Watchdog(limits) => {
            run_within(&limits, &host, |mut peer, link| async move {
                look_until_over(&link);
                peer.send(&[done(returned(1))]).await;
            })
            .await
        }
    }
}

/// Returns how the pool counts this end.
async fn weigh(ended: &ExchangeEnd) -> (Counted, Endpoint, Worker) {
    let core = Core::new(PoolConfig { breaker_kills: 1, ..PoolConfig::new("/bin/false") }).unwrap();
    core.note_end(("x", None), ended);
    let [calls, stops, crashes] =
        [&core.counters.calls, &core.counters.stops, &core.counters.crashes].map(|count| count.load(Ordering::Relaxed));
    let counted = match (calls, stops, crashes) {
        (1, 0, 0) => Counted::Call,
        (1, 1, 0) => Counted::Stop,
        (1, 0, 1) => Counted::Crash,
        counts => panic!("counted {counts:?}"),
    };
    let endpoint = match core.scheduler.acquire(AdmissionRequest { owner: "a", endpoint: "x", caller: None, concurrency: 1 }).await {
        Ok(_) => Endpoint::Untouched,
        Err(PoolError::Held { .. }) => Endpoint::Held,
        Err(error) => panic!("{error}"),
    };
    (counted, endpoint, if ended.clean.is_some() { Worker::Kept } else { Worker::Ended })
}

#[tokio::test]
async fn every_kind_of_end_has_its_row() {
    use Counted::{Call, Crash, Stop};
    use Endpoint::{Held, Untouched};
    use StopReason::{CpuTime, Crashed, Deadlock, Memory, Ops, OutputDepth, OutputSize, SchemaMemory, SchemaTime, Unlisted, WallTime};
    use Worker::{Ended, Kept};

    let ample = Limits { wall_ms: 600_000, cpu_ms: 600_000, rss_bytes: 1 << 40, ..Limits::default() };
    let thrown = || Outcome::Threw(Thrown { message: "m".into(), stack: String::new() });
    let large = Limits::default().output_bytes;
    let reports = |reason: StopReason| WorkerEnd::Worker(Outcome::Stopped(reason));
    let stopped = Outcome::Stopped;
    let unlisted = |side| Outcome::Invalid(side, vec![Problem { pointer: String::new(), message: "it does not match the schema".into() }]);
    #[rustfmt::skip]
    let rows = [
        // Calls that ended normally. Only a returned result is charged for.
        (WorkerEnd::Worker(returned(1)), returned(1), Call, Untouched, Kept),
        (WorkerEnd::Worker(thrown()), thrown(), Call, Untouched, Kept),
        (WorkerEnd::Worker(invalid(Side::Input)), invalid(Side::Input), Call, Untouched, Kept),
        (WorkerEnd::Worker(invalid(Side::Output)), invalid(Side::Output), Call, Untouched, Kept),
        (WorkerEnd::Talking(returned(1)), returned(1), Call, Untouched, Ended),
        (WorkerEnd::Late(returned(1)), returned(1), Call, Untouched, Ended),
        (WorkerEnd::Late(thrown()), thrown(), Call, Untouched, Ended),
        // Calls that the worker stopped.
        (reports(CpuTime { limit_ms: 1 }), stopped(CpuTime { limit_ms: 1 }), Stop, Held, Ended),
        (reports(WallTime { limit_ms: 1 }), stopped(WallTime { limit_ms: 1 }), Stop, Held, Ended),
        (reports(Memory { limit_bytes: 1 }), stopped(Memory { limit_bytes: 1 }), Stop, Held, Ended),
        (reports(SchemaTime { side: Side::Input, limit_ms: 1 }), stopped(SchemaTime { side: Side::Input, limit_ms: 1 }), Stop, Untouched, Ended),
        (reports(SchemaTime { side: Side::Output, limit_ms: 1 }), stopped(SchemaTime { side: Side::Output, limit_ms: 1 }), Stop, Held, Ended),
        (reports(SchemaMemory { side: Side::Input, limit_bytes: 1 }), stopped(SchemaMemory { side: Side::Input, limit_bytes: 1 }), Stop, Untouched, Ended),
        (reports(SchemaMemory { side: Side::Output, limit_bytes: 1 }), stopped(SchemaMemory { side: Side::Output, limit_bytes: 1 }), Stop, Held, Ended),
        (reports(Unlisted { side: Side::Input }), unlisted(Side::Input), Call, Untouched, Ended),
        (reports(Unlisted { side: Side::Output }), unlisted(Side::Output), Call, Untouched, Ended),
        (reports(OutputSize { limit_bytes: 1 }), stopped(OutputSize { limit_bytes: 1 }), Stop, Held, Ended),
        (reports(OutputDepth { limit: 1 }), stopped(OutputDepth { limit: 1 }), Stop, Held, Ended),
        (reports(Ops { what: "ops".into(), limit: 1 }), stopped(Ops { what: "ops".into(), limit: 1 }), Stop, Held, Ended),
        (reports(Deadlock), stopped(Deadlock), Stop, Held, Ended),
        // Calls that the host stopped.
        (WorkerEnd::Worker(returned(large as usize + 1)), stopped(OutputSize { limit_bytes: large }), Stop, Held, Ended),
        (WorkerEnd::Watchdog(Limits { wall_ms: 0, ..ample }), stopped(WallTime { limit_ms: 0 }), Stop, Held, Ended),
        (WorkerEnd::Watchdog(Limits { cpu_ms: 0, ..ample }), stopped(CpuTime { limit_ms: 0 }), Stop, Held, Ended),
        (WorkerEnd::Watchdog(Limits { rss_bytes: 1, ..ample }), stopped(Memory { limit_bytes: 1 }), Stop, Held, Ended),
        // Calls whose worker is gone or broke the protocol.
        (reports(Crashed), stopped(Crashed), Crash, Held, Ended),
        (WorkerEnd::Bytes(b""), stopped(Crashed), Crash, Held, Ended),
        (WorkerEnd::Bytes(b"\x10\0\0\0half"), stopped(Crashed), Crash, Held, Ended),
        (WorkerEnd::Bytes(b"\x04\0\0\0\xff\xff\xff\xff"), stopped(Crashed), Crash, Held, Ended),
    ];
    for (number, (by, outcome, counted, endpoint, worker)) in rows.into_iter().enumerate() {
        let ended = end(by).await;
        assert_eq!(ended.outcome, outcome, "row {number}");
        assert_eq!(weigh(&ended).await, (counted, endpoint, worker), "row {number}: {outcome:?}");
    }
}

#[tokio::test]
async fn worker_that_ends_silently_reports_the_reason_by_exit_status() {
    let (core, host, limits) = (Core::new(PoolConfig::new("/bin/false")).unwrap(), Host::default(), Limits::default());
    let (process, theirs) = Process::standin_that("exit 71");
    process.wait_for_exit().await;
    drop(theirs);
    let mut permit = core.scheduler.acquire(AdmissionRequest { owner: "a", endpoint: "x", caller: None, concurrency: 1 }).await.unwrap();
    let mut lease = WorkerLease::new(&core, process, Buffers::default());
    let ended = lease.drive(params(&limits, &core.flow), begin(), &host, &mut permit).await;
    assert_eq!(ended.outcome, Outcome::Stopped(StopReason::CpuTime { limit_ms: limits.cpu_ms }));
    assert!(ended.clean.is_none());
}
