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
async fn second_computing_call_of_a_caller_soon_continues_without_its_slot_beside_others() {
    for (others, slots_after) in [([1, 2], 2), ([1, 1], 3), ([2, 3], 3)] {
        let scheduler = Scheduler::new(Rules { running: 3, caller_running: 3, ..rules() });
        let caller =
            |address: u8| AdmissionRequest { owner: "a", endpoint: "x", caller: Some([127, 0, 0, address].into()), concurrency: 3 };
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (link, host, limits, flow) = (link(ours), Host::default(), Limits::default(), FlowControl::new(0));
        let mut permit = scheduler.acquire(caller(1)).await.unwrap();
        let beside = [scheduler.acquire(caller(others[0])).await.unwrap(), scheduler.acquire(caller(others[1])).await.unwrap()];
        let mut buffers = Buffers::default();
        let call = drive(&link, &mut buffers, params(&limits, &flow), begin(), &host, &mut permit);
        let script = async {
            let mut peer = Peer(theirs);
            peer.receive().await;
            tokio::time::sleep(Duration::from_millis(15)).await;
            assert_eq!(scheduler.occupancy().running, slots_after, "{others:?}");
            drop(beside);
            peer.send(&[done(b"1")]).await;
        };
        let (ended, ()) = tokio::join!(call, script);
        assert!(ended.clean.is_some());
    }
}
