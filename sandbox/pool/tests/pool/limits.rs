//! Calls and loads that are stopped at a limit, or crash.

use std::time::Duration;

use rustix::process::Signal;
use tollhouse_pool::PoolError;
use tollhouse_protocol::{Limits, Outcome, StopReason, Tier};

use crate::test_pool::{COUNTER, ENDLESS, TestPool, Tool, json, kill, signal, sleeping};

/// A single native call that the engine's interruption does not reach.
const NATIVE_LOOP: &str = "export default () => Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1);";

#[tokio::test(flavor = "multi_thread")]
async fn endless_loop_is_stopped_and_the_next_call_is_served() {
    let pool = TestPool::start(|_| {}).await;
    let mut tool = Tool::new("endless", ENDLESS);
    tool.limits.cpu_ms = 200;
    let ran = pool.call(&tool).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Stopped(StopReason::CpuTime { limit_ms: 200 }));
    assert!((150_000..500_000).contains(&ran.spent.cpu_us), "{:?}", ran.spent);
    assert_eq!(pool.pool.status().idle, 0, "the process is not reused");
    assert_eq!(json(pool.call(&Tool::new("counter", COUNTER)).await), "1");
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn native_loop_ends_by_the_processor_clock() {
    let pool = TestPool::start(|_| {}).await;
    let mut tool = Tool::new("native", NATIVE_LOOP);
    tool.limits.cpu_ms = 200;
    let ran = pool.call(&tool).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Stopped(StopReason::CpuTime { limit_ms: 200 }));
    // By the worker at the limit if possible, else by the host at limit plus grace.
    assert!((150_000..700_000).contains(&ran.spent.cpu_us), "{:?}", ran.spent);
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_does_not_answer_is_killed_by_the_host() {
    let test_pool = TestPool::start(|config| config.spares = 0).await;
    let mut tool = Tool::new("sleeper", &sleeping(60_000));
    tool.limits.wall_ms = 500;
    let freezing = async {
        test_pool.until(|pool| pool.status().waiting_in_ops == 1).await;
        test_pool.processes().into_iter().for_each(|pid| signal(pid, Signal::STOP));
    };
    let (ran, ()) = tokio::join!(test_pool.call(&tool), freezing);
    let ran = ran.unwrap();
    assert_eq!(ran.outcome, Outcome::Stopped(StopReason::WallTime { limit_ms: 500 }));
    assert!(ran.spent.wall_us >= 750_000, "at limit and grace: {:?}", ran.spent);
    assert_eq!(test_pool.pool.status().totals.kills, 1);
    test_pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn handler_that_waits_too_long_is_stopped_by_wall_time() {
    let pool = TestPool::start(|_| {}).await;
    let mut tool = Tool::new("sleeper", &sleeping(60_000));
    tool.limits.wall_ms = 300;
    let ran = pool.call(&tool).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Stopped(StopReason::WallTime { limit_ms: 300 }));
    assert!((300_000..1_500_000).contains(&ran.spent.wall_us), "{:?}", ran.spent);
    assert!(ran.spent.cpu_us < 100_000, "waiting is not computing: {:?}", ran.spent);
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heap_bomb_is_stopped_by_memory() {
    let pool = TestPool::start(|_| {}).await;
    let tool = Tool::new("bomb", "export default () => { const all = []; for (;;) all.push(new Array(10000).fill(all.length)); };");
    let ran = pool.call(&tool).await.unwrap();
    assert!(matches!(ran.outcome, Outcome::Stopped(StopReason::Memory { .. })), "{:?}", ran.outcome);
    assert_eq!(pool.pool.status().idle, 0);
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resident_memory_over_its_limit_is_killed_by_the_host() {
    let pool = TestPool::start(|_| {}).await;
    let mut tool = Tool::new("small", "export default () => { for (;;) {} };");
    tool.limits.rss_bytes = 1 << 20;
    tool.limits.cpu_ms = 5_000;
    let ran = pool.call(&tool).await;
    // Loading has the same limit, and may be what exceeds it.
    match ran {
        Ok(ran) => assert_eq!(ran.outcome, Outcome::Stopped(StopReason::Memory { limit_bytes: 1 << 20 })),
        Err(error) => assert!(matches!(error, PoolError::Load(_)), "{error:?}"),
    }
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_killed_in_a_call_is_a_crash_and_the_next_call_is_served() {
    let test_pool = TestPool::start(|_| {}).await;
    let tool = Tool::new("sleeper", &sleeping(60_000));
    let pool = test_pool.pool.clone();
    let call = test_pool.call(&tool);
    let murder = async {
        test_pool.until(|pool| pool.status().waiting_in_ops == 1).await;
        // Kills all processes of the pool, whichever runs the call. The pool must go on.
        test_pool.processes().into_iter().for_each(kill);
    };
    let (ran, ()) = tokio::join!(call, murder);
    assert_eq!(ran.unwrap().outcome, Outcome::Stopped(StopReason::Crashed));
    assert_eq!(json(test_pool.call(&Tool::new("counter", COUNTER)).await), "1");
    assert_eq!(pool.status().totals.crashes, 1);
    test_pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoint_whose_workers_are_killed_again_and_again_is_held() {
    let pool = TestPool::start(|config| config.breaker_kills = 2).await;
    let mut tool = Tool::new("endless", ENDLESS);
    tool.limits.cpu_ms = 20;
    for _ in 0..2 {
        assert_eq!(pool.held(&tool), None);
        pool.call(&tool).await.unwrap();
    }
    let held = pool.call(&tool).await;
    assert!(matches!(held, Err(PoolError::Held { retry_after }) if retry_after > Duration::from_secs(50)), "{held:?}");
    assert!(pool.held(&tool) > Some(Duration::from_secs(50)));
    assert_eq!(json(pool.call(&Tool::new("counter", COUNTER)).await), "1");
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn check_reports_a_handler_that_loads_from_one_that_does_not() {
    let pool = TestPool::start(|_| {}).await;
    // On a busy machine, half a second of processor time can take long.
    let limits = Limits { load_wall_ms: 10_000, ..Limits::default() };
    let check = async |source: &str| pool.pool.check("owner", &Tool::new("checked", source).bundle, limits, Tier::Jit, &|_| {}).await;
    check(COUNTER).await.unwrap();
    let Err(PoolError::Load(error)) = check("export default () => {\n  const = 1;\n};").await else { panic!("it does not parse") };
    assert_eq!(error.line, Some(2), "{error:?}");
    let Err(PoolError::Load(error)) = check("for (;;) {} export default () => 1;").await else { panic!("its top level does not end") };
    assert!(error.message.contains("500 ms"), "{error:?}");
    let Err(PoolError::Load(error)) = check("export default Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1);").await else {
        panic!("its top level does not end")
    };
    assert!(error.message.contains("500 ms"), "{error:?}");
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_whose_calls_are_stopped_is_slowed_and_another_is_not() {
    let pool = TestPool::start(|config| config.breaker_kills = 2).await;
    let mut deadlock = Tool::new("deadlock", "export default ({ input }) => input.wait ? new Promise(() => {}) : 1;");
    deadlock.caller = Some([127, 0, 0, 1].into());
    deadlock.body = r#"{"wait":true}"#;
    for _ in 0..2 {
        assert_eq!(pool.call(&deadlock).await.unwrap().outcome, Outcome::Stopped(StopReason::Deadlock));
    }
    let slowed = pool.call(&deadlock).await;
    assert!(matches!(slowed, Err(PoolError::Slowed { .. })), "{slowed:?}");
    (deadlock.caller, deadlock.body) = (Some([127, 0, 0, 2].into()), "{}");
    assert_eq!(json(pool.call(&deadlock).await), "1");
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_killed_from_outside_counts_against_nobody() {
    let test_pool = TestPool::start(|config| (config.breaker_kills, config.spares) = (1, 0)).await;
    let tool = Tool::new("sleeper", &sleeping(60_000));
    for round in 1..=3 {
        let murder = async {
            test_pool.until(|pool| pool.status().waiting_in_ops == 1).await;
            kill(test_pool.process());
        };
        let (ran, ()) = tokio::join!(test_pool.call(&tool), murder);
        assert_eq!(ran.unwrap().outcome, Outcome::Stopped(StopReason::Crashed));
        assert_eq!(test_pool.pool.status().totals.crashes, round);
    }
    test_pool.close().await;
}
