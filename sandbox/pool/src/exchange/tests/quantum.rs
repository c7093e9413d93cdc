//! Long computations.

use tokio::time::Instant;

use super::*;

#[tokio::test(start_paused = true)]
async fn call_computes_for_a_quantum_before_it_continues_without_its_slot() {
    let scheduler = scheduler();
    let ended = run_on(&scheduler, &Limits::default(), &Host::default(), async |mut peer, _| {
        tokio::time::sleep(Duration::from_millis(98)).await;
        assert_eq!(scheduler.occupancy().running, 1);
        tokio::time::sleep(Duration::from_millis(4)).await;
        assert_eq!(scheduler.occupancy().running, 0);
        peer.send(&[done(b"1")]).await;
    })
    .await;
    assert!(ended.clean.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_call_yields_early_to_another_owner_but_not_to_its_own() {
    for (owner, waits_ms) in [("a", 100), ("b", 40)] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (link, scheduler, host) = (link(ours), scheduler(), Host::default());
        let admission = |owner, endpoint| AdmissionRequest { owner, endpoint, caller: None, concurrency: 1 };
        let mut permit = scheduler.acquire(admission("a", "x")).await.unwrap();
        let (mut buffers, limits, flow) = (Buffers::default(), Limits::default(), FlowControl::new(0));
        let call = drive(&link, &mut buffers, params(&limits, &flow), begin(), &host, &mut permit);
        let others = async {
            let mut peer = Peer(theirs);
            peer.receive().await;
            let started = Instant::now();
            tokio::time::sleep(Duration::from_millis(35)).await;
            let next = scheduler.acquire(admission(owner, "y")).await.unwrap();
            assert!(started.elapsed().as_millis().abs_diff(waits_ms) <= 2, "{owner} waited until {:?}", started.elapsed());
            drop(next);
            peer.send(&[done(b"1")]).await;
        };
        let (ended, ()) = tokio::join!(call, others);
        assert!(ended.clean.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn second_computing_call_of_a_caller_loses_its_slot_early() {
    for (other, slots_after) in [([127, 0, 0, 1], 1), ([127, 0, 0, 2], 2)] {
        let scheduler = Scheduler::new(Rules { running: 2, caller_running: 2, ..rules() });
        let caller = |address: [u8; 4]| AdmissionRequest { owner: "a", endpoint: "x", caller: Some(address.into()), concurrency: 2 };
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (link, host, limits, flow) = (link(ours), Host::default(), Limits::default(), FlowControl::new(0));
        let mut permit = scheduler.acquire(caller([127, 0, 0, 1])).await.unwrap();
        let second = scheduler.acquire(caller(other)).await.unwrap();
        let mut buffers = Buffers::default();
        let call = drive(&link, &mut buffers, params(&limits, &flow), begin(), &host, &mut permit);
        let others = async {
            let mut peer = Peer(theirs);
            peer.receive().await;
            tokio::time::sleep(Duration::from_millis(15)).await;
            assert_eq!(scheduler.occupancy().running, slots_after, "{other:?}");
            drop(second);
            peer.send(&[done(b"1")]).await;
        };
        let (ended, ()) = tokio::join!(call, others);
        assert!(ended.clean.is_some());
    }
}
