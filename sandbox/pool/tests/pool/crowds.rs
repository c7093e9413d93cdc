//! Many concurrent calls: waiting, order, and cleanup.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;
use tollhouse_protocol::Isolation;

use crate::test_pool::{COUNTER, ENDLESS, TestPool, Tool, json, sleeping};

#[tokio::test(flavor = "multi_thread")]
async fn hundred_waiting_calls_need_only_two_slots() {
    let pool = TestPool::start(|config| {
        (config.running, config.max_processes, config.spares) = (2, 120, 0);
        config.timeout = Duration::from_secs(60);
    })
    .await;
    let mut tool =
        Tool::new("sleeper", "export default async (req) => { await new Promise((wake) => setTimeout(wake, req.body)); return 1; };");
    // Starts the processes first, because the test measures waits and not starts.
    tool.body = "5000";
    join_all((0..100).map(|_| pool.call(&tool))).await.into_iter().for_each(|ran| assert_eq!(json(ran), "1"));
    let warm = pool.pool.status().idle;
    assert!(warm > 20, "most calls waited beside each other: {warm}");
    tool.body = "1000";
    let started = Instant::now();
    join_all((0..warm).map(|_| pool.call(&tool))).await.into_iter().for_each(|ran| assert_eq!(json(ran), "1"));
    // Two at a time, they would take at least ten seconds.
    assert!(started.elapsed() < Duration::from_secs(5), "{warm} calls took {:?}", started.elapsed());
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flooding_owner_leaves_others_their_half() {
    let test_pool = TestPool::start(|config| (config.running, config.timeout) = (2, Duration::from_secs(30))).await;
    let spin = "export default () => { let n = 0; for (let i = 0; i < 2e6; i++) n += i % 7; return n > 0; };";
    let (flood, guest) = (Tool::new("flood", spin).of("flooder"), Tool::new("guest", "export default () => 1;").of("guest"));
    test_pool.call(&guest).await.unwrap();
    let flooding = join_all((0..40).map(|_| test_pool.call(&flood)));
    let visiting = async {
        test_pool.until(|pool| pool.status().queued > 20).await;
        let started = Instant::now();
        test_pool.call(&guest).await.unwrap();
        (started.elapsed(), test_pool.pool.status().queued)
    };
    let (flooded, (waited, still_queued)) = tokio::join!(flooding, visiting);
    assert!(flooded.iter().all(Result::is_ok));
    assert!(still_queued > 5, "the guest was served before the flood was over: {still_queued} queued, waited {waited:?}");
    test_pool.close().await;
}

/// Many concurrent calls that end in every possible way, some abandoned midway.
#[tokio::test(flavor = "multi_thread")]
async fn burst_of_calls_leaves_nothing_behind() {
    let pool = TestPool::start(|config| {
        (config.running, config.max_processes, config.breaker_kills) = (3, 10, usize::MAX);
        config.timeout = Duration::from_secs(60);
    })
    .await;
    let mut endless = Tool::new("endless", ENDLESS).of("a");
    endless.limits.cpu_ms = 10;
    let mut fresh = Tool::new("fresh", COUNTER).of("b");
    fresh.isolation = Isolation::Fresh;
    let tools = [
        Tool::new("counter", COUNTER).of("a"),
        Tool::new("sleeper", &sleeping(30)).of("b"),
        Tool::new("thrower", "export default () => { throw 1; };").of("c"),
        Tool::new("broken", "export default () => { throw 1; }; throw 2;").of("c"),
        fresh,
        endless,
    ];
    let storm = (0..180_u64).map(|number| {
        let call = pool.call(&tools[number as usize % tools.len()]);
        let timeout = if number.is_multiple_of(5) { Duration::from_millis(number * 7) } else { Duration::from_secs(120) };
        tokio::time::timeout(timeout, call)
    });
    let ended = join_all(storm).await;
    assert!(ended.iter().filter(|ended| ended.is_ok()).count() >= 144);
    let status = pool.pool.status();
    assert_eq!((status.running, status.waiting_in_ops, status.queued), (0, 0, 0), "{status:?}");
    assert!(status.processes <= 10 && status.idle + status.spares <= status.processes, "{status:?}");
    pool.call(&tools[0]).await.unwrap();
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_caller_that_compute_for_long_keep_nobody_else_waiting() {
    let pool = TestPool::start(|config| config.running = 4).await;
    let mut endless = Tool::new("endless", ENDLESS);
    endless.limits.cpu_ms = 3_000;
    endless.caller = Some([127, 0, 0, 1].into());
    let mut quick = Tool::new("quick", "export default () => 1;");
    quick.caller = Some([127, 0, 0, 2].into());
    let hogs = join_all((0..16).map(|_| pool.call(&endless)));
    let others = async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let started = Instant::now();
        for _ in 0..100 {
            assert_eq!(json(pool.call(&quick).await), "1");
        }
        let slowed = pool.processes().into_iter().filter(|pid| is_slowed(*pid)).count();
        assert!((1..=3).contains(&slowed), "{slowed} workers have what others leave");
        started.elapsed()
    };
    let (_, elapsed) = tokio::join!(hogs, others);
    assert!(elapsed < Duration::from_secs(2), "a hundred calls took {elapsed:?}");
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slowed_worker_runs_its_next_call_at_normal_speed() {
    let pool = TestPool::start(|config| config.spares = 0).await;
    let tool = Tool::new(
        "long",
        "export default () => { let sum = 0; for (let n = 0; n < 300_000_000; n++) sum += n % 7; return sum > 1 ? 1 : 0; };",
    );
    let call = pool.call(&tool);
    let slowed = pool.until(|_| pool.processes().iter().any(|pid| is_slowed(*pid)));
    let (ran, ()) = tokio::join!(call, slowed);
    json(ran);
    // If the system refused to restore its priority, the worker was ended.
    assert!(pool.processes().iter().all(|pid| !is_slowed(*pid)));
    pool.close().await;
}

/// Returns whether a process has `SCHED_IDLE`: field 41 of proc_pid_stat(5).
fn is_slowed(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').and_then(|(_, fields)| fields.split_ascii_whitespace().nth(41 - 3)) == Some("5")
}
