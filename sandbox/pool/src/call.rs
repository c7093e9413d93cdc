//! One call on one worker: frames out, frames in, ops answered, every claim checked.
//!
//! The task that runs the call reads and writes the worker's socket itself. Whatever the worker
//! does that an honest one would not, [`Ledger`] notices first, and the call ends there.

use std::io;

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::time::Instant;
use tollhouse_protocol::{
    Limits, Load, LoadFault, Loaded, OpFailure, OpRequest, OpValue, Outcome, Problem, Spent, StopReason, ToHost, ToWorker, Work,
    frame::FrameError,
};

use crate::{
    OpHost,
    gate::Entry,
    ledger::{Breach, Ledger, OpKind, Step},
    watch::{Budget, Link, Seen},
    wire::Buffers,
};

/// Proof that a call ended as it should, so that its worker may serve another.
///
/// Invariant: a worker that overran any part of its budget never serves a second call. Only
/// [`load`] and [`drive`] make this proof, and a lent worker is handed on or goes back on the shelf for nothing
/// else; the shelf asserts the rest again when it lends.
#[derive(Debug)]
pub(crate) struct Clean(());

/// A call's end.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) spent: Spent,
    pub(crate) clean: Option<Clean>,
}

/// What ends a call before its `Done`.
#[derive(Debug)]
enum Cut {
    /// The stream ended or failed.
    Gone,
    Breach(Breach),
}

impl From<io::Error> for Cut {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl From<FrameError> for Cut {
    fn from(_: FrameError) -> Self {
        Self::Breach(Breach::Protocol("a frame that does not decode"))
    }
}

impl From<Breach> for Cut {
    fn from(breach: Breach) -> Self {
        Self::Breach(breach)
    }
}

impl Cut {
    fn reason(self) -> StopReason {
        match self {
            Self::Gone => StopReason::Crashed,
            Self::Breach(Breach::Limit(reason)) => reason,
            Self::Breach(Breach::Protocol(what)) => {
                tracing::warn!(breach = what, "worker broke the protocol");
                StopReason::Crashed
            }
        }
    }
}

/// Loads a bundle into a blank worker, under the limits of loading.
pub(crate) async fn load(link: &Link, buffers: &mut Buffers, load: Load) -> Result<(Loaded, Clean), LoadFault> {
    link.begin(Budget::of_load(&load.limits));
    let answer = exchange_load(link, buffers, load).await;
    let seen = link.finish();
    match (answer, seen.verdict.clone()) {
        (_, Some(verdict)) => Err(LoadFault::Stopped(verdict)),
        (Ok(Ok(loaded)), None) => Ok((Loaded { spent: checked_spent(&seen, loaded.spent, 0), checked: loaded.checked }, Clean(()))),
        (Ok(Err(fault)), None) => Err(fault),
        (Err(cut), None) => Err(LoadFault::Stopped(cut.reason())),
    }
}

async fn exchange_load(link: &Link, buffers: &mut Buffers, load: Load) -> Result<Result<Loaded, LoadFault>, Cut> {
    // And one that says how many were dropped.
    let mut lines = load.limits.log_lines + 1;
    buffers.put(&ToWorker::Load(load))?;
    loop {
        buffers.flush(&link.stream)?;
        buffers.changed(&link.stream).await?;
        buffers.fill(&link.stream)?;
        while let Some(message) = buffers.next()? {
            match message {
                ToHost::Loaded(answer) if buffers.are_empty() => return Ok(answer),
                // What a module logs at its top level belongs to no call.
                ToHost::Log(_) if lines > 0 => lines -= 1,
                _ => return Err(Breach::Protocol("something else than the answer to a bundle").into()),
            }
        }
    }
}

/// A call for a worker that has its code.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "each call has one, and passes it on at once")]
pub(crate) enum Begin {
    /// It is to be sent, and its budget begins.
    Now(ToWorker),
    /// It was sent ahead at this moment, its turn has come, and its budget is in force.
    SentAhead(Instant),
}

/// Runs one call on a worker that has its code, until it has ended one way or the other.
pub(crate) async fn drive(
    link: &Link,
    buffers: &mut Buffers,
    (limits, work): (&Limits, Work),
    begin: Begin,
    host: &dyn OpHost,
    entry: &mut Entry<'_>,
) -> Ended {
    let sent_ahead = match &begin {
        Begin::Now(_) => {
            link.begin(Budget::of_call(limits));
            None
        }
        Begin::SentAhead(since) => Some(*since),
    };
    let mut ledger = Ledger::new(*limits, work);
    let done = exchange_call(link, buffers, begin, host, entry, &mut ledger).await;
    let mut seen = link.finish();
    // It may have run before its turn.
    seen.wall = sent_ahead.map_or(seen.wall, |since| since.elapsed());
    let ops = ledger.ops();
    match (done, seen.verdict.clone()) {
        (_, Some(verdict)) => Ended { outcome: Outcome::Stopped(verdict), spent: checked_spent(&seen, Spent::default(), ops), clean: None },
        (Ok((outcome, claim)), None) => {
            // What came behind the answer is the next call's, if there is one.
            let silent = buffers.nothing_to_take() || link.pipeline.len() > 0;
            let in_order = seen.within && silent && buffers.nothing_to_send() && !matches!(outcome, Outcome::Stopped(_));
            let outcome = unfit_if_unlisted(outcome);
            Ended { outcome, spent: checked_spent(&seen, claim, ops), clean: in_order.then_some(Clean(())) }
        }
        (Err(cut), None) => {
            Ended { outcome: Outcome::Stopped(cut.reason()), spent: checked_spent(&seen, Spent::default(), ops), clean: None }
        }
    }
}

/// What does not fit, although its worker ended before it could say why: it is a misfit as any other, and no stop that is
/// held against anybody.
fn unfit_if_unlisted(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Stopped(StopReason::Unlisted { side }) => {
            Outcome::Unfit(side, vec![Problem { pointer: String::new(), message: "does not fit the schema".to_owned() }])
        }
        outcome => outcome,
    }
}

async fn exchange_call(
    link: &Link,
    buffers: &mut Buffers,
    begin: Begin,
    host: &dyn OpHost,
    entry: &mut Entry<'_>,
    ledger: &mut Ledger,
) -> Result<(Outcome, Spent), Cut> {
    let stream = &link.stream;
    let mut ops = None;
    match begin {
        Begin::Now(call) => {
            buffers.put(&call)?;
            buffers.flush(stream)?;
            if buffers.nothing_to_send() {
                link.pipeline.open();
            }
        }
        Begin::SentAhead(_) => {
            link.pipeline.take_rest(buffers);
            buffers.flush(stream)?;
        }
    }
    entry.send_ahead(link.pipeline.room());
    loop {
        while let Some(message) = buffers.next()? {
            match ledger.admit(message)? {
                Step::Op(op, request) => {
                    close(link, buffers, entry)?;
                    ops.get_or_insert_with(FuturesUnordered::new).push(answer(host, op, request));
                }
                Step::Begin => host.begun(),
                Step::Log(line) => host.log(line),
                Step::Progress(said) => host.progress(said),
                Step::Wait => {
                    close(link, buffers, entry)?;
                    // With a reply on its way the worker has something to compute again.
                    if ledger.in_flight() > 0 && buffers.nothing_to_send() {
                        entry.park();
                        link.set_parked(true);
                    }
                }
                Step::Decline if link.pipeline.decline() => {}
                Step::Decline => return Err(Breach::Protocol("a call declined that was not sent").into()),
                Step::Drop => {}
                Step::Done(outcome, claim) => {
                    // What the handler did not wait for gets one chance to be done at once.
                    if let Some(ops) = &mut ops {
                        while ops.next().now_or_never().flatten().is_some() {}
                    }
                    return Ok((outcome, claim));
                }
            }
        }
        let has_ops = ledger.in_flight() > 0;
        tokio::select! {
            biased;
            Some((op, kind, result)) = next(&mut ops), if has_ops => {
                let mut answered = Some((op, kind, result));
                while let Some((op, kind, result)) = answered {
                    ledger.answered(kind);
                    put_reply(buffers, op, result)?;
                    answered = ops.as_mut().and_then(|ops| ops.next().now_or_never().flatten());
                }
                entry.ask_to_resume();
            }
            () = entry.resumed(), if entry.is_resuming() => link.set_parked(false),
            changed = buffers.changed(stream) => {
                changed?;
                buffers.fill(stream)?;
            }
        }
        if entry.is_running() {
            buffers.flush(stream)?;
        }
    }
}

/// Lets nothing more be sent ahead to the worker: its call asks for something, or waits.
fn close(link: &Link, buffers: &mut Buffers, entry: &Entry<'_>) -> io::Result<()> {
    link.pipeline.close(buffers);
    if entry.is_running() { buffers.flush(&link.stream) } else { Ok(()) }
}

async fn answer(host: &dyn OpHost, op: u32, request: OpRequest) -> (u32, OpKind, Result<OpValue, OpFailure>) {
    (op, OpKind::of(&request), host.op(request).await)
}

async fn next<F: Future>(ops: &mut Option<FuturesUnordered<F>>) -> Option<F::Output> {
    match ops {
        Some(ops) => ops.next().await,
        None => None,
    }
}

fn put_reply(buffers: &mut Buffers, op: u32, result: Result<OpValue, OpFailure>) -> Result<(), FrameError> {
    match buffers.put(&ToWorker::Reply { op, result }) {
        Err(FrameError::TooLarge(bytes)) => {
            let failure = OpFailure { code: "too_large".into(), message: format!("answer is {bytes} bytes, more than a worker takes") };
            buffers.put(&ToWorker::Reply { op, result: Err(failure) })
        }
        put => put,
    }
}

/// The worker's claim where the host knows no better.
fn checked_spent(seen: &Seen, claim: Spent, ops: u64) -> Spent {
    let wall_us = u64::try_from(seen.wall.as_micros()).unwrap_or(u64::MAX);
    let cpu_us = match seen.cpu {
        // The host counts in steps of 10 ms and from its first look on.
        Some(cpu) => u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX).max(claim.cpu_us.min(wall_us)),
        None => claim.cpu_us.min(wall_us),
    };
    Spent { cpu_us, wall_us, heap_bytes: claim.heap_bytes, ops }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex},
        time::Duration,
    };

    use bytes::Bytes;
    use futures_util::future::BoxFuture;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::UnixStream,
    };
    use tollhouse_protocol::{LogLevel, LogLine, ReplyBody, Said, Start, ToolReply, Work, frame};

    use super::*;
    use crate::{
        breaker::BreakerRules,
        gate::{Ask, Gate, Rules},
        pipeline::Pipeline,
        watch::Alarm,
    };

    /// A worker that says what the test wants it to say.
    struct Peer(UnixStream);

    impl Peer {
        async fn say(&mut self, messages: &[ToHost]) {
            let mut bytes = Vec::new();
            messages.iter().for_each(|message| frame::encode(message, &mut bytes).unwrap());
            self.0.write_all(&bytes).await.unwrap();
        }

        async fn hear(&mut self) -> ToWorker {
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
        asked: Mutex<Vec<OpRequest>>,
    }

    impl OpHost for Host {
        fn op(&self, request: OpRequest) -> BoxFuture<'_, Result<OpValue, OpFailure>> {
            self.asked.lock().unwrap().push(request.clone());
            Box::pin(async move {
                if let OpRequest::Sleep { ms } = request {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                }
                Ok(OpValue::None)
            })
        }

        fn log(&self, line: LogLine) {
            self.logged.lock().unwrap().push(line.message);
        }

        fn progress(&self, said: Said) {
            self.logged.lock().unwrap().push(said.message);
        }
    }

    fn gate() -> Gate {
        let breaker = BreakerRules { kills: 5, window: Duration::from_secs(60), hold: Duration::from_secs(60) };
        Gate::new(Rules { running: 1, processes: 10, owner_running: 1, queue: 10, patience: Duration::from_secs(1), breaker })
    }

    fn begin() -> Begin {
        let (head, body) = (Bytes::from_static(b"{}"), Bytes::from_static(b"{}"));
        Begin::Now(ToWorker::Call(Start {
            call: "call_1".into(),
            work: Work::Handle,
            announced: false,
            head,
            body,
            env: vec![],
            now_ms: 0,
            limits: Limits::default(),
        }))
    }

    fn done(body: &[u8]) -> ToHost {
        let body = ReplyBody::Json(Bytes::copy_from_slice(body));
        ToHost::Done { outcome: Outcome::Returned(ToolReply { status: 200, headers: vec![], body }), spent: Spent::default() }
    }

    fn op(op: u32) -> ToHost {
        ToHost::Op { op, request: OpRequest::KvGet { key: "k".into() } }
    }

    /// Runs a call against `script`, which gets the socket when the call has arrived.
    async fn run<F: Future<Output = ()>>(host: &Host, script: impl FnOnce(Peer) -> F) -> Ended {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (link, gate) = (Link::new(ours, Pipeline::new(0, Duration::ZERO), Arc::new(Alarm::default())), gate());
        let mut entry = gate.enter(Ask { owner: "a", endpoint: "x", concurrency: 1 }).await.unwrap();
        let mut buffers = Buffers::default();
        let call = async {
            let ended = drive(&link, &mut buffers, (&Limits::default(), Work::Handle), begin(), host, &mut entry).await;
            // As the end of the process would.
            rustix::net::shutdown(&link.stream, rustix::net::Shutdown::Both).unwrap();
            ended
        };
        let peer = async {
            let mut peer = Peer(theirs);
            assert!(matches!(peer.hear().await, ToWorker::Call(_)));
            script(peer).await;
        };
        let (ended, ()) = tokio::join!(call, peer);
        assert!(link.is_free(), "no budget is left in force");
        ended
    }

    async fn crash(bytes: &'static [u8]) -> Ended {
        run(&Host::default(), |mut peer| async move {
            // The host may be gone before all is written.
            let _ = peer.0.write_all(bytes).await;
            let _ = peer.0.read(&mut [0]).await;
        })
        .await
    }

    fn is_crash(ended: &Ended) -> bool {
        ended.outcome == Outcome::Stopped(StopReason::Crashed) && ended.clean.is_none()
    }

    /// A worker stopped itself at its wall limit, at which the host ends its waits too: the reply came
    /// to a closed socket, and the call counted as crashed.
    #[tokio::test]
    async fn last_words_count_although_a_reply_cannot_be_delivered() {
        let reason = StopReason::WallTime { limit_ms: 20 };
        let outcome = Outcome::Stopped(reason.clone());
        let ended = run(&Host::default(), |mut peer| async move {
            peer.say(&[ToHost::Op { op: 1, request: OpRequest::Sleep { ms: 20 } }]).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
            #[expect(clippy::disallowed_methods, reason = "the runtime has one thread: the reply and the last words are ready at once")]
            std::thread::sleep(Duration::from_millis(40));
            peer.say(&[ToHost::Done { outcome, spent: Spent::default() }]).await;
        })
        .await;
        assert_eq!(ended.outcome, Outcome::Stopped(reason));
    }

    #[tokio::test]
    async fn answer_comes_back_with_the_proof_that_all_went_well() {
        let ended = run(&Host::default(), |mut peer| async move { peer.say(&[done(b"42")]).await }).await;
        assert!(matches!(ended.outcome, Outcome::Returned(_)));
        assert!(ended.clean.is_some());
    }

    #[tokio::test]
    async fn ops_are_answered_and_logs_are_taken_in_order() {
        let host = Host::default();
        let ended = run(&host, |mut peer| async move {
            let log = |message: &str| ToHost::Log(LogLine { level: LogLevel::Info, message: message.into(), fields: String::new() });
            let said = ToHost::Progress(Said { message: "half".into(), fraction: Some(0.5) });
            peer.say(&[log("one"), op(1), op(2), said, log("two"), ToHost::Waiting]).await;
            let mut answered = Vec::new();
            for _ in 0..2 {
                let ToWorker::Reply { op, result: Ok(OpValue::None) } = peer.hear().await else { panic!("a reply") };
                answered.push(op);
            }
            answered.sort_unstable();
            assert_eq!(answered, [1, 2]);
            peer.say(&[done(b"1")]).await;
        })
        .await;
        assert!(ended.clean.is_some());
        assert_eq!(ended.spent.ops, 2);
        assert_eq!(*host.logged.lock().unwrap(), ["one", "half", "two"]);
    }

    /// It once waited for room to write what it was not to write yet, which there always was.
    #[tokio::test]
    async fn call_with_an_answer_and_no_slot_sleeps_until_there_is_one() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (link, gate, host) = (Link::new(ours, Pipeline::new(0, Duration::ZERO), Arc::new(Alarm::default())), gate(), Host::default());
        let mut entry = gate.enter(Ask { owner: "a", endpoint: "x", concurrency: 1 }).await.unwrap();
        let mut buffers = Buffers::default();
        let mut polls = 0;
        let limits = Limits::default();
        let mut call = Box::pin(drive(&link, &mut buffers, (&limits, Work::Handle), begin(), &host, &mut entry));
        let call = std::future::poll_fn(|context| {
            polls += 1;
            call.as_mut().poll(context)
        });
        let others = async {
            let mut peer = Peer(theirs);
            peer.hear().await;
            peer.say(&[ToHost::Op { op: 1, request: OpRequest::Sleep { ms: 20 } }, ToHost::Waiting]).await;
            let other = gate.enter(Ask { owner: "b", endpoint: "y", concurrency: 1 }).await.unwrap();
            tokio::time::sleep(Duration::from_millis(60)).await;
            assert_eq!(gate.load().running, 1);
            assert_eq!(peer.0.try_read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock, "no answer without a slot");
            drop(other);
            assert!(matches!(peer.hear().await, ToWorker::Reply { op: 1, .. }));
            peer.say(&[done(b"1")]).await;
        };
        let (ended, ()) = tokio::join!(call, others);
        assert!(ended.clean.is_some());
        assert!(polls < 50, "{polls} polls");
    }

    #[tokio::test]
    async fn op_that_nobody_waits_for_is_still_asked_for() {
        let host = Host::default();
        let ended = run(&host, |mut peer| async move { peer.say(&[op(1), done(b"1")]).await }).await;
        assert!(ended.clean.is_some());
        assert_eq!(host.asked.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn garbage_ends_the_call() {
        assert!(is_crash(&crash(b"\xff\xff\xff\xff").await), "a length over the limit");
        assert!(is_crash(&crash(b"\x04\0\0\0\xff\xff\xff\xff").await), "a message that is none");
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
            peer.say(&[op(1), op(1), done(b"1")]).await;
            let _ = peer.0.read(&mut [0]).await;
        })
        .await;
        assert!(is_crash(&ended));
    }

    #[tokio::test]
    async fn result_over_its_limit_is_not_answered() {
        let limit_bytes = Limits::default().output_bytes;
        let ended = run(&Host::default(), |mut peer| async move {
            peer.say(&[done(&vec![b'1'; limit_bytes as usize + 1])]).await;
        })
        .await;
        assert_eq!(ended.outcome, Outcome::Stopped(StopReason::OutputSize { limit_bytes }));
        assert!(ended.clean.is_none());
    }

    #[tokio::test]
    async fn worker_that_goes_on_after_its_answer_is_not_used_again() {
        let ended = run(&Host::default(), |mut peer| async move { peer.say(&[done(b"1"), op(1)]).await }).await;
        assert!(matches!(ended.outcome, Outcome::Returned(_)));
        assert!(ended.clean.is_none());
    }

    #[tokio::test]
    async fn worker_that_stopped_itself_is_not_used_again() {
        let reason = StopReason::Memory { limit_bytes: 1 };
        let stopped = ToHost::Done { outcome: Outcome::Stopped(reason.clone()), spent: Spent::default() };
        let ended = run(&Host::default(), |mut peer| async move { peer.say(&[stopped]).await }).await;
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
                peer.say(&[ToHost::Op { op: number, request }]).await;
                assert!(matches!(peer.hear().await, ToWorker::Reply { op, .. } if op == number));
            }
            peer.say(&[done(b"1")]).await;
        })
        .await;
        assert!(ended.clean.is_some());
    }

    #[tokio::test]
    async fn cpu_claim_is_no_more_than_the_time_that_passed() {
        let boast = Spent { cpu_us: u64::MAX, wall_us: u64::MAX, heap_bytes: 1, ops: 9 };
        let ToHost::Done { outcome, .. } = done(b"1") else { unreachable!() };
        let ended = run(&Host::default(), |mut peer| async move { peer.say(&[ToHost::Done { outcome, spent: boast }]).await }).await;
        assert!(ended.spent.cpu_us <= ended.spent.wall_us && ended.spent.wall_us < 10_000_000);
        assert_eq!(ended.spent.ops, 0);
    }
}
