use super::*;

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const DAY: u64 = 24 * 60 * 60;

/// Advances both clocks by `secs`.
async fn tick(clock: &Clock, secs: u64) {
    tokio::time::advance(Duration::from_secs(secs)).await;
    clock.set(clock.now().plus_millis(secs * 1_000));
}

fn jump(clock: &Clock, secs: i64) {
    clock.set(Timestamp(clock.now().0.saturating_add_signed(secs * 1_000)));
}

#[tokio::test(start_paused = true)]
async fn clock_that_jumps_is_not_trusted() {
    let clock = Clock::fixed(NOW);
    let steadiness = Steadiness::of(clock.clone());
    for _ in 0..100 {
        tick(&clock, 5).await;
        jump(&clock, 1);
        assert!(steadiness.is_steady(), "time servers slew it");
    }
    jump(&clock, 8 * DAY as i64);
    for _ in 0..2 {
        assert!(!steadiness.is_steady());
        tick(&clock, 5).await;
    }
    jump(&clock, -8 * DAY as i64);
    assert!(steadiness.is_steady(), "it is back");
    jump(&clock, -(DAY as i64));
    assert!(!steadiness.is_steady(), "behind as well as ahead");
}

#[tokio::test(start_paused = true)]
async fn corrected_clock_is_trusted_after_an_hour() {
    let clock = Clock::fixed(NOW);
    let steadiness = Steadiness::of(clock.clone());
    jump(&clock, 30 * DAY as i64);
    let mut minutes = 0;
    while !steadiness.is_steady() {
        tick(&clock, 60).await;
        minutes += 1;
        assert!(minutes <= 60);
    }
    assert_eq!(minutes, 60);
    jump(&clock, DAY as i64);
    assert!(!steadiness.is_steady());
    tick(&clock, 3_000).await;
    assert!(!steadiness.is_steady());
    jump(&clock, DAY as i64);
    tick(&clock, 3_000).await;
    assert!(!steadiness.is_steady(), "another jump begins another hour");
}

#[tokio::test(start_paused = true)]
async fn clock_far_ahead_at_start_is_trusted_after_an_hour_or_once_it_is_back() {
    let clock = Clock::fixed(NOW);
    let steadiness = Steadiness::of(clock.clone());
    steadiness.unsteady_since(Timestamp(NOW.0 - 1_000 * DAY + 1));
    assert!(steadiness.is_steady(), "it is no more than a day");
    steadiness.unsteady_since(Timestamp(NOW.0 - 8 * DAY * 1_000));
    assert!(!steadiness.is_steady());
    tick(&clock, 3_599).await;
    assert!(!steadiness.is_steady());
    tick(&clock, 1).await;
    assert!(steadiness.is_steady());
    steadiness.unsteady_since(Timestamp(clock.now().0 - 8 * DAY * 1_000));
    jump(&clock, -8 * DAY as i64);
    assert!(steadiness.is_steady());
}
