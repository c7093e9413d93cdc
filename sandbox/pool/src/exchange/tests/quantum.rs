//! Calls that compute for long.

use super::*;

#[tokio::test(start_paused = true)]
async fn call_computes_for_a_quantum_before_it_goes_on_without_its_slot() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (link, scheduler, host) = (link(ours), scheduler(), Host::default());
    let mut permit = scheduler.acquire(Ask { owner: "a", endpoint: "x", caller: None, concurrency: 1 }).await.unwrap();
    let (mut buffers, limits, flow) = (Buffers::default(), Limits::default(), Flow::new(0));
    let call = drive(&link, &mut buffers, asked(&limits, &flow), begin(), &host, &mut permit);
    let others = async {
        let mut peer = Peer(theirs);
        peer.hear().await;
        tokio::time::sleep(Duration::from_millis(98)).await;
        assert_eq!(scheduler.occupancy().running, 1);
        tokio::time::sleep(Duration::from_millis(4)).await;
        assert_eq!(scheduler.occupancy().running, 0);
        peer.say(&[done(b"1")]).await;
    };
    let (ended, ()) = tokio::join!(call, others);
    assert!(ended.clean.is_some());
}
