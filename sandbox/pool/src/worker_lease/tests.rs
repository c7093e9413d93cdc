use bytes::Bytes;
use tokio::{io::AsyncWriteExt, net::UnixStream, sync::oneshot::error::TryRecvError};
use tollhouse_protocol::{Checked, Schemas, ToHost, ToWorker, frame};

use super::*;
use crate::{PoolConfig, budget::Budget, scheduler::AdmissionRequest};

const ASK: AdmissionRequest<'_> = AdmissionRequest { owner: "a", endpoint: "x", caller: None, concurrency: 1 };

fn core() -> Arc<Core> {
    Core::new(PoolConfig::new("/bin/false")).unwrap()
}

/// Returns a leased worker with its end of the socket.
fn lease(core: &Arc<Core>) -> (WorkerLease<'_>, Arc<Process>, UnixStream) {
    let (process, theirs) = Process::standin();
    (WorkerLease::new(core, Arc::clone(&process), Buffers::default()), process, theirs)
}

/// Returns the proof that a worker has once its bundle is loaded.
async fn proof(lease: &mut WorkerLease<'_>, theirs: &mut UnixStream) -> CleanEnd {
    let checked = Checked { source: Bytes::new(), scheduled: false };
    let mut answer = Vec::new();
    frame::encode(&ToHost::Loaded(Ok(Loaded { checked, spent: Spent::default() })), &mut answer).unwrap();
    theirs.write_all(&answer).await.unwrap();
    let bundle = Bundle { version: "1".into(), specifier: "tool:/x/1".into(), source: None, schemas: Schemas::default() };
    lease.load("a", &bundle, &Limits::default()).await.unwrap().1
}

fn budget() -> Budget {
    Budget::of_call(&Limits::default())
}

/// A flaw that disqualifies a worker from another call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Flaw {
    Retired,
    Ended,
    UnderBudget,
    HalfWritten,
    Talking,
}

async fn spoil(lease: &mut WorkerLease<'_>, theirs: &mut UnixStream, flaw: Flaw) {
    match flaw {
        Flaw::Retired => lease.process().retire(),
        Flaw::Ended => lease.process().end(),
        Flaw::UnderBudget => lease.process().link.meter.begin(budget()),
        Flaw::HalfWritten => lease.buffers.put(&ToWorker::Reply { op: 1, result: Ok(tollhouse_protocol::OpValue::None) }).unwrap(),
        Flaw::Talking => {
            theirs.write_all(b"x").await.unwrap();
            lease.process().link.stream.readable().await.unwrap();
        }
    }
}

#[tokio::test]
async fn worker_with_any_flaw_is_not_fit() {
    let core = core();
    assert!(lease(&core).0.is_fit());
    for flaw in [Flaw::Retired, Flaw::Ended, Flaw::UnderBudget, Flaw::HalfWritten, Flaw::Talking] {
        let (mut lease, _, mut theirs) = lease(&core);
        spoil(&mut lease, &mut theirs, flaw).await;
        assert!(!lease.is_fit(), "{flaw:?}");
    }
}

#[tokio::test]
async fn only_a_clean_worker_waits_for_its_next_call() {
    let core = core();
    for (flaw, stays) in [(None, true), (Some(Flaw::Retired), false), (Some(Flaw::UnderBudget), false), (Some(Flaw::HalfWritten), false)] {
        let (mut lease, process, mut theirs) = lease(&core);
        let proof = proof(&mut lease, &mut theirs).await;
        if let Some(flaw) = flaw {
            spoil(&mut lease, &mut theirs, flaw).await;
        }
        lease.recycle(proof);
        assert_eq!((core.idle.lock().remove(&process), process.is_live()), (stays, stays), "{flaw:?}");
    }
}

#[tokio::test]
async fn blank_worker_stays_a_spare_until_the_pool_ends() {
    let core = core();
    let (lease, stored, _theirs) = self::lease(&core);
    lease.keep_as_spare();
    assert!(core.idle.lock().spares.len() == 1 && stored.is_live());
    core.idle.lock().clear();
    core.idle.lock().closed = true;
    let (lease, late, _theirs) = self::lease(&core);
    lease.keep_as_spare();
    assert!(core.idle.lock().spares.is_empty() && !late.is_live());
}

#[tokio::test]
async fn worker_is_handed_over_with_its_slot_and_under_the_next_calls_budget() {
    let core = core();
    let (mut lease, process, mut theirs) = lease(&core);
    let proof = proof(&mut lease, &mut theirs).await;
    let permit = core.scheduler.acquire(ASK).await.unwrap();
    process.link.pipeline.open();
    let mut turn = process.link.pipeline.send(&process.link.stream, b"frame", budget()).unwrap();
    lease.hand_over(proof, &Spent::default(), permit);
    let handover = turn.try_recv().unwrap();
    assert!(process.is_live() && !process.link.meter.is_free());
    assert_eq!(core.scheduler.occupancy().running, 1);
    // With no call behind this one, the worker becomes idle and the slot free.
    process.link.meter.finish();
    let mut lease = WorkerLease::new(&core, handover.process, handover.buffers);
    let (proof, permit) = (self::proof(&mut lease, &mut theirs).await, core.scheduler.take_over(ASK));
    lease.hand_over(proof, &Spent::default(), permit);
    assert!(core.idle.lock().remove(&process) && process.is_live());
    assert_eq!(core.scheduler.occupancy().running, 0);
}

#[tokio::test]
async fn flawed_worker_is_not_reused() {
    let core = core();
    for (flaw, parks) in [(Some(Flaw::Retired), false), (Some(Flaw::UnderBudget), false), (None, true)] {
        let (mut lease, process, mut theirs) = lease(&core);
        let proof = proof(&mut lease, &mut theirs).await;
        let mut permit = core.scheduler.acquire(ASK).await.unwrap();
        process.link.pipeline.open();
        let mut turn = process.link.pipeline.send(&process.link.stream, b"frame", budget()).unwrap();
        if let Some(flaw) = flaw {
            spoil(&mut lease, &mut theirs, flaw).await;
        }
        if parks {
            permit.park();
        }
        lease.hand_over(proof, &Spent::default(), permit);
        assert_eq!(turn.try_recv().unwrap_err(), TryRecvError::Closed, "{flaw:?}");
        assert!(!process.is_live(), "{flaw:?}");
        assert_eq!(core.scheduler.occupancy().admitted, 0, "{flaw:?}");
    }
}
