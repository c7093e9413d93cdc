//! Bytes in transit: ops wait until their bytes fit, and are answered then.

use tokio::sync::Semaphore;
use tollhouse_protocol::limits::CALL_BYTES;

use super::{super::ops::Ops, *};

const MIB: usize = 1 << 20;

/// Answers reads with 1 MiB each, whenever the test permits one.
struct Slow {
    started: Mutex<usize>,
    resume: Semaphore,
}

impl Slow {
    fn new(go_on: usize) -> Self {
        Self { started: Mutex::default(), resume: Semaphore::new(go_on) }
    }

    fn started(&self) -> usize {
        *self.started.lock().unwrap()
    }
}

impl OpHost for Slow {
    fn op(&self, request: OpRequest) -> BoxFuture<'_, Result<OpValue, OpFailure>> {
        *self.started.lock().unwrap() += 1;
        Box::pin(async move {
            if matches!(request, OpRequest::Sleep { .. }) {
                return Ok(OpValue::None);
            }
            self.resume.acquire().await.unwrap().forget();
            Ok(OpValue::Bytes(vec![0; MIB].into()))
        })
    }

    fn log(&self, _: LogLine) {}
    fn progress(&self, _: ProgressMessage) {}
    fn used(&self, _: Duration) {}
}

fn read(op: u32) -> ToHost {
    ToHost::Op { op, request: OpRequest::FileRead { path: "p".into() } }
}

/// Runs a call of `owner` whose worker follows `script`.
async fn call<F: Future<Output = ()>>(flow: &FlowControl, owner: &str, host: &Slow, script: impl FnOnce(Peer) -> F) -> ExchangeEnd {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (link, scheduler, limits) = (link(ours), scheduler(), Limits { ops_in_flight: 32, ..Limits::default() });
    let mut permit = scheduler.acquire(AdmissionRequest { owner, endpoint: "x", caller: None, concurrency: 1 }).await.unwrap();
    let mut buffers = Buffers::default();
    let request = ExchangeParams {
        limits: &limits,
        work: Work::Handle,
        account: flow.account(owner),
        background: places().of_call(owner, "x", None),
    };
    let peer = async {
        let mut peer = Peer(theirs);
        peer.receive().await;
        script(peer).await;
    };
    let (ended, ()) = tokio::join!(drive(&link, &mut buffers, request, begin(), host, &mut permit), peer);
    ended
}

/// Lets the other tasks of the test run as far as they can.
async fn settled() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

async fn receives_all(peer: &mut Peer, count: usize) {
    for _ in 0..count {
        assert!(matches!(peer.receive().await, ToWorker::Reply { result: Ok(_), .. }));
    }
}

#[tokio::test]
async fn answers_count_until_the_socket_has_taken_them() {
    let (flow, host, limits) = (FlowControl::new(0), Slow::new(1), Limits::default());
    let request = || OpRequest::FileRead { path: "p".into() };
    let mut ops = Ops::new(&host, &limits, flow.account("a"));
    ops.note_unsent(MIB);
    assert_eq!(flow.held(), 0, "there is no answer yet");
    ops.note_unsent(0);
    ops.admission(1, request()).unwrap();
    ops.note_unsent(1_000);
    let held = flow.held();
    assert_eq!(held, request().bytes() + MIB + 1_000);
    ops.admission(2, request()).unwrap();
    assert_eq!((host.started(), flow.held()), (1, held + request().bytes()), "its request counts while it waits");
    assert!(ops.next().await.is_some());
    drop(ops);
    assert_eq!(flow.held(), 0);

    // An op that waits because of the unsent bytes counts as well.
    let mut ops = Ops::new(&host, &limits, flow.account("a"));
    ops.note_unsent(1_000);
    ops.admission(1, request()).unwrap();
    assert_eq!((host.started(), flow.held()), (1, request().bytes() + 1_000));
    ops.note_unsent(10);
    assert_eq!(flow.held(), request().bytes() + 10);
    drop(ops);

    let mut ops = Ops::new(&host, &limits, flow.account("a"));
    host.resume.add_permits(1);
    ops.admission(1, request()).unwrap();
    assert!(ops.next().await.is_some());
    for unsent in [1_000, 7, 0] {
        ops.note_unsent(unsent);
        assert_eq!(flow.held(), unsent, "only the answer is in transit");
    }
}

#[tokio::test]
async fn op_beyond_the_calls_budget_waits_and_is_answered() {
    let (flow, host) = (FlowControl::new(1 << 30), Slow::new(0));
    let ended = call(&flow, "a", &host, |mut peer| async {
        let mut peer = {
            peer.send(&(1..=32).map(read).collect::<Vec<_>>()).await;
            peer
        };
        // A timer takes no bytes and does not wait behind other ops.
        peer.send(&[ToHost::Op { op: 33, request: OpRequest::Sleep { ms: 1 } }]).await;
        receives_all(&mut peer, 1).await;
        settled().await;
        assert_eq!(host.started(), 1 + 7, "seven answers of a mebibyte, and a little for each request");
        assert!(flow.held() <= CALL_BYTES);
        host.resume.add_permits(32);
        // Nobody takes these answers.
        settled().await;
        assert!(host.started() < 32 && flow.held() <= CALL_BYTES + MIB, "{} started, {} held", host.started(), flow.held());
        receives_all(&mut peer, 32).await;
        peer.send(&[done(b"1")]).await;
    })
    .await;
    assert!(ended.clean.is_some());
    assert_eq!((host.started(), flow.held()), (33, 0));
}

#[tokio::test]
async fn owner_that_fills_its_share_does_not_affect_others() {
    let (flow, stuck, quick) = (FlowControl::new(12 * MIB), Slow::new(0), Slow::new(100));
    let greedy = |owner| {
        call(&flow, owner, &stuck, |mut peer| async move {
            peer.send(&(1..=32).map(read).collect::<Vec<_>>()).await;
            let _ = peer.0.read(&mut [0]).await;
        })
    };
    let mut calls = Box::pin(async { tokio::join!(greedy("a"), greedy("a"), greedy("a"), greedy("a")) });
    let victim = async {
        settled().await;
        let held = flow.held();
        assert!((4 * MIB..9 * MIB).contains(&held), "a half, and one op of each call: {held}");
        let ended = call(&flow, "b", &quick, |mut peer| async move {
            peer.send(&(1..=32).map(read).collect::<Vec<_>>()).await;
            receives_all(&mut peer, 32).await;
            peer.send(&[done(b"1")]).await;
        })
        .await;
        assert!(ended.clean.is_some());
        assert_eq!(flow.held(), held, "the other calls have not continued");
    };
    tokio::select! {
        _ = &mut calls => panic!("they wait"),
        () = victim => {}
    }
    drop(calls);
    assert_eq!(flow.held(), 0, "dropped calls hold no bytes");
}

/// There is no deadlock: a call waits only for its own ops, or for room that its first op does not
/// need.
#[tokio::test]
async fn calls_continue_without_any_free_bytes() {
    let (flow, host) = (FlowControl::new(0), Slow::new(1_000));
    let greedy = |owner| {
        call(&flow, owner, &host, |mut peer| async move {
            peer.send(&(1..=20).map(read).collect::<Vec<_>>()).await;
            peer.send(&[ToHost::Waiting]).await;
            receives_all(&mut peer, 20).await;
            peer.send(&[done(b"1")]).await;
        })
    };
    let (a, b, c) = tokio::join!(greedy("a"), greedy("a"), greedy("b"));
    assert!([a, b, c].iter().all(|ended| ended.clean.is_some()));
    assert_eq!(flow.held(), 0);
}

#[tokio::test]
async fn request_beyond_the_calls_budget_stops_it() {
    let (flow, host) = (FlowControl::new(1 << 30), Slow::new(1));
    // About 3 MiB on the wire.
    let headers = vec![("n".repeat(20), String::new()); 150_000];
    let request = OpRequest::HttpGetJson { url: "u".into(), headers, timeout_ms: None, auth: None };
    let ended = call(&flow, "a", &host, |mut peer| async move {
        peer.send(&[ToHost::Op { op: 1, request }]).await;
    })
    .await;
    let limit = CALL_BYTES as u64;
    assert_eq!(ended.outcome, Outcome::Stopped(StopReason::Ops { what: "bytes in flight".into(), limit }));
    assert_eq!((host.started(), flow.held()), (0, 0));
}

#[tokio::test]
async fn call_can_send_exactly_its_byte_budget() {
    let (flow, host, limits) = (FlowControl::new(1 << 30), Slow::new(0), Limits::default());
    let write = |bytes: usize| OpRequest::FileWrite { path: String::new(), content: vec![0; bytes].into() };
    let max = CALL_BYTES - write(0).bytes();
    assert!(Ops::new(&host, &limits, flow.account("a")).admission(1, write(max)).is_ok());
    assert!(Ops::new(&host, &limits, flow.account("a")).admission(1, write(max + 1)).is_err());
}

#[tokio::test]
async fn worker_that_sends_more_than_the_bytes_of_a_call_is_stopped() {
    let (flow, host) = (FlowControl::new(1 << 30), Slow::new(0));
    let ended = call(&flow, "a", &host, |mut peer| async move {
        for op in 1..=8 {
            let request = OpRequest::FileWrite { path: "p".into(), content: vec![0; MIB].into() };
            peer.send(&[ToHost::Op { op, request }]).await;
        }
    })
    .await;
    assert_eq!(ended.outcome, Outcome::Stopped(StopReason::Ops { what: "bytes in flight".into(), limit: CALL_BYTES as u64 }));
    assert_eq!((host.started(), flow.held()), (7, 0), "seven answers and their requests fit");
}
