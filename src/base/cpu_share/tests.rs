use super::*;

const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

/// Gives each address a tenth of a second of processor time per second.
fn shares(busy: bool) -> Arc<CpuShares> {
    CpuShares::of(NonZeroU8::new(10), Machine::fixed(1.0, busy))
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Takes a turn that costs `cost` and returns how long it waited.
async fn takes(shares: &Arc<CpuShares>, address: IpAddr, cost: Duration) -> Result<Duration, OverCpuShare> {
    let started = Instant::now();
    shares.turn(address, Duration::ZERO).await?.spent(cost);
    Ok(started.elapsed())
}

fn is_at_once(waited: &Result<Duration, OverCpuShare>) -> bool {
    *waited == Ok(Duration::ZERO)
}

#[tokio::test(start_paused = true)]
async fn only_addresses_above_their_share_wait() {
    let shares = shares(true);
    takes(&shares, OTHER, millis(1)).await.unwrap();
    assert!(is_at_once(&takes(&shares, ONE, millis(70)).await), "the cost is not known yet");
    let waited = takes(&shares, ONE, millis(1)).await.unwrap();
    assert!(waited > millis(150), "20 ms above the burst take 200 ms: {waited:?}");
    assert!(is_at_once(&takes(&shares, OTHER, millis(1)).await));
}

#[tokio::test(start_paused = true)]
async fn refused_address_gets_the_time_to_retry() {
    let shares = shares(true);
    takes(&shares, OTHER, millis(1)).await.unwrap();
    takes(&shares, ONE, millis(1_000)).await.unwrap();
    assert_eq!(takes(&shares, ONE, millis(1)).await, Err(OverCpuShare { seconds: 10 }));
}

#[tokio::test(start_paused = true)]
async fn lone_address_can_use_everything_without_debt() {
    for (turns, cost) in [(100, millis(1_000)), (10_000, millis(1))] {
        let shares = shares(true);
        for _ in 0..turns {
            assert!(is_at_once(&takes(&shares, ONE, cost).await));
        }
        takes(&shares, OTHER, millis(1)).await.unwrap();
        assert!(takes(&shares, ONE, millis(1)).await.is_ok(), "{turns} turns of {cost:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_while_processor_time_is_idle() {
    let shares = shares(false);
    for _ in 0..100 {
        takes(&shares, OTHER, millis(1)).await.unwrap();
        assert!(is_at_once(&takes(&shares, ONE, millis(1_000)).await));
    }
}

#[tokio::test(start_paused = true)]
async fn open_turns_count_with_their_expected_cost() {
    let shares = shares(true);
    takes(&shares, OTHER, millis(1)).await.unwrap();
    let dear = shares.turn(ONE, millis(500)).await.unwrap();
    assert!(shares.turn(ONE, millis(500)).await.is_err(), "a second turn at the same time");
    takes(&shares, OTHER, millis(1)).await.unwrap();
    // The turn cost nothing in the end.
    drop(dear);
    assert!(is_at_once(&takes(&shares, ONE, millis(1)).await));
}

#[tokio::test(start_paused = true)]
async fn address_without_debt_is_forgotten() {
    let shares = shares(true);
    takes(&shares, OTHER, Duration::ZERO).await.unwrap();
    takes(&shares, ONE, millis(20)).await.unwrap();
    assert_eq!(shares.now.lock().accounts.len(), 1);
    sleep(millis(250)).await;
    shares.prune_idle();
    assert!(shares.now.lock().accounts.is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_nobody_waits_or_is_remembered() {
    let shares = CpuShares::of(None, Machine::fixed(1.0, true));
    takes(&shares, OTHER, millis(1)).await.unwrap();
    for _ in 0..10 {
        assert!(is_at_once(&takes(&shares, ONE, millis(1_000)).await));
    }
    assert!(shares.now.lock().accounts.is_empty());
}

#[tokio::test(start_paused = true)]
async fn time_outside_of_turns_counts_up_to_a_limit() {
    let shares = shares(true);
    takes(&shares, OTHER, millis(1)).await.unwrap();
    shares.spend(ONE, millis(70));
    let waited = takes(&shares, ONE, millis(1)).await.unwrap();
    assert!(waited > millis(150), "a fiftieth above the burst: {waited:?}");
    (0..1_000).for_each(|_| shares.spend(ONE, millis(100)));
    assert!(takes(&shares, ONE, millis(1)).await.is_ok(), "it is bounded");
    assert!(is_at_once(&takes(&shares, OTHER, millis(1)).await));
}

/// Keeps the processor busy for `time`.
fn computes(time: Duration) {
    let started = thread_time();
    while thread_time() - started < time {
        std::hint::spin_loop();
    }
}

/// Regression: a publish that waited half a minute for a lock was charged half a minute of processor time.
#[tokio::test(start_paused = true)]
async fn waiting_costs_nothing() {
    let shares = shares(true);
    let turn = shares.turn(ONE, Duration::ZERO).await.unwrap();
    turn.during(sleep(millis(30_000))).await;
    assert!(turn.total() < millis(100), "{:?}", turn.total());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_on_other_threads_is_charged() {
    let shares = shares(true);
    let turn = shares.turn(ONE, Duration::ZERO).await.unwrap();
    let owes = |least: u64| {
        let total = turn.total();
        assert!(total >= millis(least) && total < millis(least + 100), "{total:?} of {least} ms");
    };
    turn.work(|| computes(millis(10)));
    owes(10);
    turn.during(async {
        computes(millis(10));
        tokio::task::yield_now().await;
        computes(millis(10));
        tokio::task::block_in_place(|| computes(millis(10)));
        tokio::task::spawn_blocking(turn_for(|| computes(millis(10)))).await.unwrap();
        used(millis(1_000));
    })
    .await;
    owes(1_050);
    // Outside of any turn.
    used(millis(1_000));
    turn_for(|| computes(millis(1)))();
    owes(1_050);
}

#[tokio::test(start_paused = true)]
async fn abandoned_work_is_charged_for_its_completed_part() {
    let shares = shares(true);
    let turn = shares.turn(ONE, Duration::ZERO).await.unwrap();
    let work = turn.during(async {
        computes(millis(10));
        std::future::pending::<()>().await;
    });
    assert!(tokio::time::timeout(millis(1), work).await.is_err());
    assert!(turn.total() >= millis(10), "{:?}", turn.total());
}

#[tokio::test(start_paused = true)]
async fn turn_now_is_refused_to_an_address_above_its_share_while_others_need_the_time() {
    for busy in [true, false] {
        let shares = shares(busy);
        takes(&shares, OTHER, millis(1)).await.unwrap();
        shares.turn_now(ONE).unwrap().spent(millis(1_000));
        takes(&shares, OTHER, millis(1)).await.unwrap();
        assert_eq!(shares.turn_now(ONE).is_none(), busy);
        assert!(shares.turn_now(OTHER).is_some());
        assert!(shares.now.lock().newest.iter().flatten().all(|(address, _)| *address == OTHER), "it makes nobody wait");
    }
}

#[tokio::test(start_paused = true)]
async fn meter_adds_to_its_turn_and_afterwards_to_the_address() {
    let shares = shares(true);
    let turn = shares.turn(ONE, Duration::ZERO).await.unwrap();
    let meter = turn.meter();
    meter.spent(millis(3));
    assert_eq!(turn.total(), millis(3));
    drop(turn);
    meter.spent(millis(40));
    assert!(shares.now.lock().accounts.get(&ONE).unwrap().owed > 0.04, "nothing is lost");
}
