//! Calls that go on after their answer.

use super::*;
use crate::background::BackgroundEnd;

fn answered(body: &[u8], cpu_us: u64) -> ToHost {
    let ToHost::Done { outcome, .. } = done(body) else { unreachable!() };
    ToHost::Answered { outcome, spent: Spent { cpu_us, ..Spent::default() } }
}

fn outcome(body: &[u8]) -> Outcome {
    let ToHost::Done { outcome, .. } = done(body) else { unreachable!() };
    outcome
}

#[tokio::test]
async fn answer_is_reported_before_the_end_and_ops_are_still_answered() {
    let host = Host::default();
    let ended = run(&host, |mut peer| async move {
        peer.send(&[op(1), answered(b"1", 0), ToHost::Waiting]).await;
        assert!(matches!(peer.receive().await, ToWorker::Reply { op: 1, .. }));
        peer.send(&[op(2), ToHost::Waiting]).await;
        assert!(matches!(peer.receive().await, ToWorker::Reply { op: 2, .. }));
        peer.send(&[done(b"null")]).await;
    })
    .await;
    let answers = host.answers.lock().unwrap();
    assert_eq!(answers.iter().map(|(outcome, spent)| (outcome, spent.ops)).collect::<Vec<_>>(), [(&outcome(b"1"), 1)]);
    assert!(ended.clean.is_some(), "its worker serves the next call");
    assert_eq!(ended.into_answer(), (outcome(b"1"), Some(BackgroundEnd::Done)));
}

#[tokio::test]
async fn work_that_is_stopped_keeps_its_answer() {
    let (host, reason) = (Host::default(), StopReason::CpuTime { limit_ms: 5 });
    let stopped = ToHost::Done { outcome: Outcome::Stopped(reason.clone()), spent: Spent::default() };
    let ended = run(&host, |mut peer| async move { peer.send(&[answered(b"1", 0), stopped]).await }).await;
    assert!(ended.clean.is_none() && ended.outcome == Outcome::Stopped(reason.clone()));
    assert_eq!(ended.into_answer(), (outcome(b"1"), Some(BackgroundEnd::Stopped(reason))));
}

#[tokio::test]
async fn processor_time_is_reported_once() {
    let host = Host::default();
    let end = ToHost::Done { outcome: outcome(b"null"), spent: Spent { cpu_us: 2, ..Spent::default() } };
    run(&host, |mut peer| async move { peer.send(&[answered(b"1", 1), end]).await }).await;
    assert_eq!(*host.used.lock().unwrap(), Duration::from_micros(2));
}

#[tokio::test]
async fn only_a_handler_that_ran_answers_before_the_end_and_only_once() {
    let invalid = Outcome::Invalid(tollhouse_protocol::Side::Input, vec![]);
    for outcome in [Outcome::Stopped(StopReason::Deadlock), invalid] {
        let early = ToHost::Answered { outcome, spent: Spent::default() };
        let ended = run(&Host::default(), |mut peer| async move { peer.send(&[early, done(b"1")]).await }).await;
        assert!(is_crash(&ended));
    }
    let ended = run(&Host::default(), |mut peer| async move { peer.send(&[answered(b"1", 0), answered(b"2", 0)]).await }).await;
    assert_eq!(ended.into_answer(), (outcome(b"1"), Some(BackgroundEnd::Stopped(StopReason::Crashed))));
    let late = [answered(b"1", 0), ToHost::Begun];
    let ended = run(&Host::default(), |mut peer| async move { peer.send(&late).await }).await;
    assert_eq!(ended.into_answer().1, Some(BackgroundEnd::Stopped(StopReason::Crashed)));
}

#[tokio::test]
async fn work_without_a_place_ends_with_the_answer_and_its_worker() {
    let places = places();
    let mut others: Vec<_> = (0..8).map(|_| places.of_call("b", "x", None)).collect();
    assert!(others.iter_mut().any(|work| !work.begin(&outcome(b"1"), 0)), "all places of the endpoint are taken");
    let (host, limits, flow, scheduler) = (Host::default(), Limits::default(), FlowControl::new(1 << 30), scheduler());
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (link, mut buffers, mut peer) = (link(ours), Buffers::default(), Peer(theirs));
    let mut permit = scheduler.acquire(AdmissionRequest { owner: "a", endpoint: "x", caller: None, concurrency: 1 }).await.unwrap();
    let params = ExchangeParams { background: places.of_call("a", "x", None), ..params(&limits, &flow) };
    peer.send(&[answered(b"1", 0)]).await;
    let ended = drive(&link, &mut buffers, params, begin(), &host, &mut permit).await;
    assert!(ended.clean.is_none() && host.answers.lock().unwrap().is_empty());
    assert_eq!(ended.into_answer(), (outcome(b"1"), Some(BackgroundEnd::Refused)));
}
