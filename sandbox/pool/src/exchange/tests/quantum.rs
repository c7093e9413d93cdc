//! Calls that compute for long.

use super::*;

#[tokio::test(start_paused = true)]
async fn call_computes_for_a_quantum_before_it_goes_on_without_its_slot() {
    let scheduler = scheduler();
    let ended = run_on(&scheduler, &Limits::default(), &Host::default(), async |mut peer, _| {
        tokio::time::sleep(Duration::from_millis(98)).await;
        assert_eq!(scheduler.occupancy().running, 1);
        tokio::time::sleep(Duration::from_millis(4)).await;
        assert_eq!(scheduler.occupancy().running, 0);
        peer.say(&[done(b"1")]).await;
    })
    .await;
    assert!(ended.clean.is_some());
}
