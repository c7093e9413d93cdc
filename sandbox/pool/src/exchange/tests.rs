mod background;
mod code;
mod ends;
mod in_flight;
mod quantum;
mod streams;

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::oneshot,
};
use tollhouse_protocol::{
    Bundle, Checked, Limits, Load, LoadFault, Loaded, LogLevel, LogLine, OpFailure, OpRequest, OpValue, Outcome, ProgressMessage,
    ReplyBody, Schemas, Spent, Start, StopReason, ToHost, ToWorker, ToolReply, Work, frame,
};

use super::*;
use crate::{
    background::Background,
    breaker::BreakerRules,
    budget::Budget,
    flow::FlowControl,
    job::OpHost,
    pipeline::Pipeline,
    process::{Handover, Link},
    scheduler::{AdmissionRequest, Rules, Scheduler},
    watchdog::Meter,
    wire::Buffers,
};

/// A scripted worker.
struct Peer(UnixStream);

impl Peer {
    async fn send(&mut self, messages: &[ToHost]) {
        let mut bytes = Vec::new();
        messages.iter().for_each(|message| frame::encode(message, &mut bytes).unwrap());
        self.0.write_all(&bytes).await.unwrap();
    }

    async fn receive(&mut self) -> ToWorker {
        let mut prefix = [0; 4];
        self.0.read_exact(&mut prefix).await.unwrap();
        let mut payload = vec![0; frame::length(prefix).unwrap()];
        self.0.read_exact(&mut payload).await.unwrap();
        frame::decode(&payload).unwrap()
    }
}

#[derive(Default)]
struct Host {
    logged: Mutex<Vec<String>>,
    requested: Mutex<Vec<OpRequest>>,
    started: AtomicBool,
    answers: Mutex<Vec<(Outcome, Spent)>>,
    used: Mutex<Duration>,
    /// Size of each answer in bytes. No answer if 0.
    answer_bytes: usize,
}

impl OpHost for Host {
    fn op(&self, request: OpRequest) -> BoxFuture<'_, Result<OpValue, OpFailure>> {
        self.requested.lock().unwrap().push(request.clone());
        Box::pin(async move {
            if let OpRequest::Sleep { ms } = request {
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
            Ok(if self.answer_bytes == 0 { OpValue::None } else { OpValue::Bytes(vec![0; self.answer_bytes].into()) })
        })
    }

    fn started(&self) {
        self.started.store(true, Ordering::Relaxed);
    }

    fn log(&self, line: LogLine) {
        self.logged.lock().unwrap().push(line.message);
    }

    fn progress(&self, message: ProgressMessage) {
        self.logged.lock().unwrap().push(message.message);
    }

    fn answered(&self, outcome: Outcome, spent: Spent) {
        self.answers.lock().unwrap().push((outcome, spent));
    }

    fn used(&self, cpu: Duration) {
        *self.used.lock().unwrap() += cpu;
    }
}

/// A link to a worker that takes two calls ahead.
fn link(stream: UnixStream) -> Link {
    Link { stream, pipeline: Pipeline::new(2, Duration::MAX), meter: Meter::new(Arc::default()) }
}

/// Sends a call ahead with an empty frame. The test decides what the worker sends for it.
fn send_ahead(link: &Link) -> oneshot::Receiver<Handover> {
    link.pipeline.send(&link.stream, b"", Budget::of_call(&Limits::default())).unwrap()
}

fn scheduler() -> Scheduler {
    Scheduler::new(rules())
}

fn rules() -> Rules {
    let breaker = BreakerRules { stops: 5, window: Duration::from_secs(60), hold: Duration::from_secs(60) };
    Rules {
        running: 1,
        processes: 10,
        caller_running: 1,
        caller_processes: 5,
        background: 1,
        quantum: Duration::from_millis(100),
        queue: 10,
        caller_queue: 5,
        timeout: Duration::from_secs(1),
        breaker,
    }
}

fn begin() -> StartMessage {
    let (head, body) = (Bytes::from_static(b"{}"), Bytes::from_static(b"{}"));
    StartMessage::Now(ToWorker::Call(Start {
        call: "call_1".into(),
        work: Work::Handle,
        announced: false,
        streams: false,
        head,
        body,
        body_bytes: None,
        env: vec![],
        now_ms: 0,
        limits: Limits::default(),
    }))
}

/// Returns places for work after an answer: one for each endpoint.
fn places() -> &'static Background {
    Box::leak(Box::new(Background::new(32)))
}

fn params<'a>(limits: &'a Limits, flow: &'a FlowControl) -> ExchangeParams<'a> {
    ExchangeParams { limits, work: Work::Handle, account: flow.account("a"), background: places().of_call("a", "x", None) }
}

fn done(body: &[u8]) -> ToHost {
    let body = ReplyBody::Json(Bytes::copy_from_slice(body));
    ToHost::Done { outcome: Outcome::Returned(ToolReply { status: 200, headers: vec![], body }), spent: Spent::default() }
}

fn op(op: u32) -> ToHost {
    ToHost::Op { op, request: OpRequest::KvGet { key: "k".into() } }
}

/// Runs a call against `script`, which gets the socket once the call has arrived.
async fn run<F: Future<Output = ()>>(host: &Host, script: impl FnOnce(Peer) -> F) -> ExchangeEnd {
    run_within(&Limits::default(), host, |peer, _| script(peer)).await
}

/// The same as [`run`] under `limits`. The script also gets the meter, so that it can act as the
/// watchdog.
async fn run_within<F: Future<Output = ()>>(limits: &Limits, host: &Host, script: impl FnOnce(Peer, Arc<Link>) -> F) -> ExchangeEnd {
    run_on(&scheduler(), limits, host, script).await
}

/// The same as [`run_within`], in a slot of `scheduler`.
async fn run_on<F: Future<Output = ()>>(
    scheduler: &Scheduler,
    limits: &Limits,
    host: &Host,
    script: impl FnOnce(Peer, Arc<Link>) -> F,
) -> ExchangeEnd {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let link = Arc::new(link(ours));
    let mut permit = scheduler.acquire(AdmissionRequest { owner: "a", endpoint: "x", caller: None, concurrency: 1 }).await.unwrap();
    let mut buffers = Buffers::default();
    let flow = FlowControl::new(1 << 30);
    let call = async {
        let ended = drive(&link, &mut buffers, params(limits, &flow), begin(), host, &mut permit).await;
        // As the end of the process would do.
        rustix::net::shutdown(&link.stream, rustix::net::Shutdown::Both).unwrap();
        ended
    };
    let peer = async {
        let mut peer = Peer(theirs);
        assert!(matches!(peer.receive().await, ToWorker::Call(_)));
        script(peer, Arc::clone(&link)).await;
    };
    let (ended, ()) = tokio::join!(call, peer);
    assert!(link.meter.is_free(), "no budget is left in force");
    assert_eq!(flow.held(), 0, "no bytes are in transit");
    ended
}

/// Loads a bundle into a worker that sends `answer`.
async fn load(answer: &[ToHost]) -> Result<Loaded, LoadFault> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (link, mut buffers, mut peer) = (link(ours), Buffers::default(), Peer(theirs));
    peer.send(answer).await;
    let bundle = Bundle { version: "1".into(), specifier: "tool:/x/1".into(), source: None, schemas: Schemas::default() };
    let loaded = super::load(&link, &mut buffers, Load { bundle, limits: Limits::default() }, None, &mut Bytes::new()).await;
    loaded.map(|(loaded, _)| loaded)
}

fn loaded() -> ToHost {
    ToHost::Loaded(Ok(Loaded { checked: Checked { source: Bytes::new(), scheduled: false }, spent: Spent::default() }))
}

#[tokio::test]
async fn loading_bundle_can_log_one_line_more_than_a_call() {
    let line = || ToHost::Log(LogLine { level: LogLevel::Info, message: "m".into(), fields: String::new() });
    let lines = Limits::default().log_lines as usize + 1;
    let answer = |lines: usize| (0..lines).map(|_| line()).chain([loaded()]).collect::<Vec<_>>();
    assert!(load(&answer(lines)).await.is_ok());
    assert!(matches!(load(&answer(lines + 1)).await, Err(LoadFault::Stopped(StopReason::Crashed))));
}

#[tokio::test]
async fn worker_that_continues_after_its_bundle_is_loaded_is_not_used() {
    assert!(load(&[loaded()]).await.is_ok());
    assert!(matches!(load(&[loaded(), op(1)]).await, Err(LoadFault::Stopped(StopReason::Crashed))));
    assert!(matches!(load(&[op(1), loaded()]).await, Err(LoadFault::Stopped(StopReason::Crashed))));
}

async fn crash(bytes: &'static [u8]) -> ExchangeEnd {
    run(&Host::default(), |mut peer| async move {
        // The host can close the socket before everything is written.
        let _ = peer.0.write_all(bytes).await;
        let _ = peer.0.read(&mut [0]).await;
    })
    .await
}

fn is_crash(ended: &ExchangeEnd) -> bool {
    ended.outcome == Outcome::Stopped(StopReason::Crashed) && ended.clean.is_none()
}

/// Regression test: a worker stopped itself at its wall limit, just as the host answered its last op. The host could not
/// deliver that reply, because the socket was closed, and counted the call as crashed.
#[tokio::test]
async fn final_message_counts_even_if_a_reply_cannot_be_delivered() {
    let reason = StopReason::WallTime { limit_ms: 20 };
    let outcome = Outcome::Stopped(reason.clone());
    let ended = run(&Host::default(), |mut peer| async move {
        peer.send(&[ToHost::Op { op: 1, request: OpRequest::Sleep { ms: 20 } }]).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        #[expect(clippy::disallowed_methods, reason = "the runtime has one thread, so the reply and the final message are ready at once")]
        std::thread::sleep(Duration::from_millis(40));
        peer.send(&[ToHost::Done { outcome, spent: Spent::default() }]).await;
    })
    .await;
    assert_eq!(ended.outcome, Outcome::Stopped(reason));
}

#[tokio::test]
async fn answer_comes_with_the_proof_of_a_clean_end() {
    let ended = run(&Host::default(), |mut peer| async move { peer.send(&[done(b"42")]).await }).await;
    assert!(matches!(ended.outcome, Outcome::Returned(_)));
    assert!(ended.clean.is_some());
}

#[tokio::test]
async fn ops_are_answered_and_logs_are_received_in_order() {
    let host = Host::default();
    let ended = run(&host, |mut peer| async move {
        let log = |message: &str| ToHost::Log(LogLine { level: LogLevel::Info, message: message.into(), fields: String::new() });
        let text = ToHost::Progress(ProgressMessage { message: "half".into(), fraction: Some(0.5) });
        peer.send(&[log("one"), op(1), op(2), text, log("two"), ToHost::Waiting]).await;
        let mut answered = Vec::new();
        for _ in 0..2 {
            let ToWorker::Reply { op, result: Ok(OpValue::None) } = peer.receive().await else { panic!("a reply") };
            answered.push(op);
        }
        answered.sort_unstable();
        assert_eq!(answered, [1, 2]);
        peer.send(&[done(b"1")]).await;
    })
    .await;
    assert!(ended.clean.is_some());
    assert_eq!(ended.spent.ops, 2);
    assert_eq!(*host.logged.lock().unwrap(), ["one", "half", "two"]);
}

/// Regression: the call waited for room to write although it was not allowed to write yet. There
/// always was room.
#[tokio::test]
async fn call_with_an_answer_and_no_slot_sleeps_until_there_is_one() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (link, scheduler, host) = (link(ours), scheduler(), Host::default());
    let mut permit = scheduler.acquire(AdmissionRequest { owner: "a", endpoint: "x", caller: None, concurrency: 1 }).await.unwrap();
    let mut buffers = Buffers::default();
    let mut polls = 0;
    let (limits, flow) = (Limits::default(), FlowControl::new(0));
    let mut call = Box::pin(drive(&link, &mut buffers, params(&limits, &flow), begin(), &host, &mut permit));
    let call = std::future::poll_fn(|context| {
        polls += 1;
        call.as_mut().poll(context)
    });
    let others = async {
        let mut peer = Peer(theirs);
        peer.receive().await;
        peer.send(&[ToHost::Op { op: 1, request: OpRequest::Sleep { ms: 20 } }, ToHost::Waiting]).await;
        let other = scheduler.acquire(AdmissionRequest { owner: "b", endpoint: "y", caller: None, concurrency: 1 }).await.unwrap();
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert_eq!(scheduler.occupancy().running, 1);
        assert_eq!(peer.0.try_read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock, "no answer without a slot");
        drop(other);
        assert!(matches!(peer.receive().await, ToWorker::Reply { op: 1, .. }));
        peer.send(&[done(b"1")]).await;
    };
    let (ended, ()) = tokio::join!(call, others);
    assert!(ended.clean.is_some());
    assert!(polls < 50, "{polls} polls");
}

#[tokio::test]
async fn host_is_notified_when_the_handler_begins() {
    let host = Host::default();
    run(&host, |mut peer| async move { peer.send(&[done(b"1")]).await }).await;
    assert!(!host.started.load(Ordering::Relaxed), "the worker did not report it");
    run(&host, |mut peer| async move { peer.send(&[ToHost::Begun, done(b"1")]).await }).await;
    assert!(host.started.load(Ordering::Relaxed));
}

#[tokio::test]
async fn op_fails_if_its_answer_is_too_large_for_the_worker() {
    let host = Host { answer_bytes: frame::MAX_FRAME_BYTES, ..Host::default() };
    let ended = run(&host, |mut peer| async move {
        peer.send(&[op(1)]).await;
        let ToWorker::Reply { op: 1, result: Err(failure) } = peer.receive().await else { panic!("a failure") };
        assert_eq!(failure.code, "too_large");
        peer.send(&[done(b"1")]).await;
    })
    .await;
    assert!(ended.clean.is_some());
}

#[tokio::test]
async fn call_that_was_not_sent_cannot_be_declined() {
    let ended = run(&Host::default(), |mut peer| async move { peer.send(&[ToHost::Declined, done(b"1")]).await }).await;
    assert!(is_crash(&ended));
}

#[tokio::test]
async fn no_call_is_sent_ahead_behind_a_call_with_an_op() {
    let ended = run_within(&Limits::default(), &Host::default(), |mut peer, link| async move {
        assert_eq!(link.pipeline.room(), 2);
        peer.send(&[op(1)]).await;
        peer.receive().await;
        assert_eq!(link.pipeline.room(), 0);
        peer.send(&[done(b"1")]).await;
    })
    .await;
    assert!(ended.clean.is_some());
}

#[tokio::test]
async fn declined_call_that_was_sent_ahead_runs_elsewhere() {
    let ended = run_within(&Limits::default(), &Host::default(), |mut peer, link| async move {
        let turn = send_ahead(&link);
        peer.send(&[ToHost::Declined, done(b"1")]).await;
        assert!(turn.await.is_err());
    })
    .await;
    assert!(ended.clean.is_some());
}

#[tokio::test]
async fn bytes_after_an_answer_belong_to_the_call_sent_ahead() {
    let ended = run_within(&Limits::default(), &Host::default(), |mut peer, link| async move {
        let _turn = send_ahead(&link);
        peer.send(&[done(b"1"), op(1)]).await;
    })
    .await;
    assert!(ended.clean.is_some());
}

#[tokio::test]
async fn call_without_ops_in_flight_keeps_its_slot() {
    let (scheduler, host) = (scheduler(), Host::default());
    let ended = run_on(&scheduler, &Limits::default(), &host, async |mut peer, _| {
        let message = ProgressMessage { message: "behind it".into(), fraction: None };
        peer.send(&[ToHost::Waiting, ToHost::Progress(message)]).await;
        while host.logged.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(scheduler.occupancy().running, 1);
        peer.send(&[done(b"1")]).await;
    })
    .await;
    assert!(ended.clean.is_some());
}

#[tokio::test]
async fn op_that_nobody_awaits_is_still_performed() {
    let host = Host::default();
    let ended = run(&host, |mut peer| async move { peer.send(&[op(1), done(b"1")]).await }).await;
    assert!(ended.clean.is_some());
    assert_eq!(host.requested.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn garbage_ends_the_call() {
    assert!(is_crash(&crash(b"\xff\xff\xff\xff").await), "a length over the limit");
    assert!(is_crash(&crash(b"\x04\0\0\0\xff\xff\xff\xff").await), "an invalid message");
    assert!(is_crash(&crash(b"\0\0\0\0").await), "an empty frame");
}

#[tokio::test]
async fn end_of_the_stream_ends_the_call() {
    let ended = run(&Host::default(), |peer| async move { drop(peer) }).await;
    assert!(is_crash(&ended));
    let ended = run(&Host::default(), |mut peer| async move { peer.0.write_all(b"\x10\0\0\0half").await.unwrap() }).await;
    assert!(is_crash(&ended));
}

#[tokio::test]
async fn op_number_used_twice_ends_the_call() {
    let ended = run(&Host::default(), |mut peer| async move {
        peer.send(&[op(1), op(1), done(b"1")]).await;
        let _ = peer.0.read(&mut [0]).await;
    })
    .await;
    assert!(is_crash(&ended));
}

#[tokio::test]
async fn result_over_its_limit_is_not_answered() {
    let limit_bytes = Limits::default().output_bytes;
    let ended = run(&Host::default(), |mut peer| async move {
        peer.send(&[done(&vec![b'1'; limit_bytes as usize + 1])]).await;
    })
    .await;
    assert_eq!(ended.outcome, Outcome::Stopped(StopReason::OutputSize { limit_bytes }));
    assert!(ended.clean.is_none());
}

#[tokio::test]
async fn worker_that_continues_after_its_answer_is_not_used_again() {
    let ended = run(&Host::default(), |mut peer| async move { peer.send(&[done(b"1"), op(1)]).await }).await;
    assert!(matches!(ended.outcome, Outcome::Returned(_)));
    assert!(ended.clean.is_none());
}

#[tokio::test]
async fn worker_that_stopped_itself_is_not_used_again() {
    let reason = StopReason::Memory { limit_bytes: 1 };
    let stopped = ToHost::Done { outcome: Outcome::Stopped(reason.clone()), spent: Spent::default() };
    let ended = run(&Host::default(), |mut peer| async move { peer.send(&[stopped]).await }).await;
    assert_eq!(ended.outcome, Outcome::Stopped(reason));
    assert!(ended.clean.is_none());
}

#[tokio::test]
async fn large_frames_cross_in_both_directions_at_once() {
    let host = Host::default();
    let ended = run(&host, |mut peer| async move {
        let value = Bytes::from(vec![b'1'; 1 << 20]);
        for number in 1..=20 {
            let request = OpRequest::KvSet { key: "k".into(), value: value.clone(), ttl_ms: None };
            peer.send(&[ToHost::Op { op: number, request }]).await;
            assert!(matches!(peer.receive().await, ToWorker::Reply { op, .. } if op == number));
        }
        peer.send(&[done(b"1")]).await;
    })
    .await;
    assert!(ended.clean.is_some());
}

#[tokio::test]
async fn claimed_cpu_time_is_capped_by_the_elapsed_time() {
    let boast = Spent { cpu_us: u64::MAX, wall_us: u64::MAX, heap_bytes: 1, ops: 9 };
    let ToHost::Done { outcome, .. } = done(b"1") else { unreachable!() };
    let ended = run(&Host::default(), |mut peer| async move { peer.send(&[ToHost::Done { outcome, spent: boast }]).await }).await;
    assert!(ended.spent.cpu_us <= ended.spent.wall_us && ended.spent.wall_us < 10_000_000);
    assert_eq!(ended.spent.ops, 0);
}
