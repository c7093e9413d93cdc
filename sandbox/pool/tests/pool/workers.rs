//! The choice of the worker for a call, and the time for which a worker is kept.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    time::Duration,
};

use tokio::time::timeout;
use tollhouse_protocol::{Isolation, Outcome};

use crate::test_pool::{COUNTER, ENDLESS, TestPool, Tool, json, kill, sleeping};

#[tokio::test(flavor = "multi_thread")]
async fn warm_calls_share_a_process_and_its_state() {
    let pool = TestPool::start(|_| {}).await;
    let tool = Tool::new("counter", COUNTER);
    let answers = [pool.call(&tool).await, pool.call(&tool).await, pool.call(&tool).await];
    assert_eq!(answers.map(json), ["1", "2", "3"]);
    assert_eq!(pool.pool.status().totals.cold_calls, 1);
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processor_time_of_a_cold_start_is_reported_to_its_call() {
    let test_pool = TestPool::start(|config| config.spares = 1).await;
    test_pool.until(|pool| pool.status().spares == 1).await;
    let take_used = || std::mem::take(&mut *test_pool.used.lock().unwrap());
    let (tool, broken) = (Tool::new("counter", COUNTER), Tool::new("broken", "throw new Error('no')"));
    test_pool.call(&tool).await.unwrap();
    let [start, run] = take_used()[..] else { panic!("not both") };
    assert!(start > Duration::from_millis(5) && run < start, "a start of {start:?}, a run of {run:?}");
    test_pool.call(&tool).await.unwrap();
    assert_eq!(take_used().len(), 1, "a warm worker has no start to report");
    test_pool.call(&broken).await.unwrap_err();
    let [start] = take_used()[..] else { panic!("a failed load was not reported") };
    assert!(start > Duration::from_millis(5), "a start of {start:?}");
    test_pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_of_a_dropped_call_is_reported() {
    let pool = TestPool::start(|_| {}).await;
    let endless = Tool::new("endless", ENDLESS);
    timeout(Duration::from_millis(500), pool.call(&endless)).await.unwrap_err();
    let [_, run] = pool.used.lock().unwrap()[..] else { panic!("not both") };
    assert!(run > Duration::from_millis(100) && run < Duration::from_millis(600), "a run of {run:?}");
    let waits = Tool::new("waits", &sleeping(60_000));
    pool.used.lock().unwrap().clear();
    timeout(Duration::from_millis(1_500), pool.call(&waits)).await.unwrap_err();
    let [_, run] = pool.used.lock().unwrap()[..] else { panic!("not both") };
    assert!(run < Duration::from_millis(300), "waiting takes no processor time, but {run:?}");
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_logs_at_its_top_level_loads_and_runs() {
    let pool = TestPool::start(|_| {}).await;
    for (name, top) in [("one", "console.log(1)"), ("many", "for (let n = 0; n < 2000; n++) console.error('line', n)")] {
        let tool = Tool::new(name, &format!("{top}; export default async () => 1;"));
        assert_eq!(json(pool.call(&tool).await), "1");
    }
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_with_the_same_code_share_no_process() {
    let pool = TestPool::start(|_| {}).await;
    let (one, other) = (Tool::new("one", COUNTER), Tool::new("other", COUNTER));
    assert_eq!(one.bundle.version, other.bundle.version);
    assert_eq!(json(pool.call(&one).await), "1");
    assert_eq!(json(pool.call(&other).await), "1");
    assert_eq!(json(pool.call(&one).await), "2");
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_memory_limits_get_another_process() {
    let pool = TestPool::start(|_| {}).await;
    let mut tool = Tool::new("counter", COUNTER);
    assert_eq!(json(pool.call(&tool).await), "1");
    tool.limits.heap_bytes /= 2;
    assert_eq!(json(pool.call(&tool).await), "1");
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fresh_isolation_gives_each_call_a_process_that_served_nobody() {
    let pool = TestPool::start(|_| {}).await;
    let mut tool = Tool::new("counter", COUNTER);
    tool.isolation = Isolation::Fresh;
    for _ in 0..4 {
        assert_eq!(json(pool.call(&tool).await), "1");
    }
    assert_eq!(pool.pool.status().idle, 0);
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_do_not_preempt_others() {
    /// Field of proc_pid_stat(5), counted after the name.
    const POLICY: usize = 38;
    const SCHED_BATCH: &str = "3";
    let pool = TestPool::start(|config| config.spares = 0).await;
    pool.call(&Tool::new("counter", COUNTER)).await.unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pool.process())).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    assert_eq!(fields.split(' ').nth(POLICY), Some(SCHED_BATCH), "{stat}");
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spares_are_ready_and_a_cold_call_takes_one() {
    let test_pool = TestPool::start(|config| config.spares = 2).await;
    test_pool.until(|pool| pool.status().spares == 2).await;
    assert!(!test_pool.pool.status().jail.is_empty());
    let started = test_pool.pool.status().totals.started;
    test_pool.call(&Tool::new("counter", COUNTER)).await.unwrap();
    test_pool.until(|pool| pool.status().spares == 2).await;
    assert_eq!(test_pool.pool.status().totals.started, started + 1, "only the replacement was started");
    test_pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ready_pool_has_a_spare_and_reports_its_jail() {
    let pool = TestPool::start(|config| config.spares = 0).await;
    let jail = pool.pool.ready().await.unwrap();
    let status = pool.pool.status();
    assert!(!jail.in_force.is_empty());
    assert_eq!((status.jail, status.spares, status.processes), (jail.in_force, 1, 1));
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn process_that_is_not_ready_is_not_a_worker() {
    let folder = tempfile::tempdir().unwrap();
    let sleeper = folder.path().join("sleeper");
    fs::write(&sleeper, "#!/bin/sh\nexec sleep 600\n").unwrap();
    fs::set_permissions(&sleeper, Permissions::from_mode(0o755)).unwrap();
    let test_pool = TestPool::start(|config| (config.worker, config.spares, config.zygote_timeout) = (sleeper, 1, Duration::ZERO)).await;
    test_pool.until(|pool| pool.status().processes == 1).await;
    // A spare counts as a process while it boots.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let status = test_pool.pool.status();
    assert_eq!((status.processes, status.workers), (1, 0));
    test_pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pool_with_a_wrong_binary_reports_that_it_cannot_start() {
    let pool = TestPool::start(|config| (config.worker, config.spares) = ("/bin/false".into(), 0)).await;
    assert!(!pool.pool.cannot_start(), "nothing was tried");
    let tool = Tool::new("counter", COUNTER);
    for _ in 0..3 {
        assert!(pool.call(&tool).await.is_err());
    }
    assert!(pool.pool.cannot_start());
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn process_survives_a_thrown_error() {
    let pool = TestPool::start(|_| {}).await;
    let tool = Tool::new("thrower", "let calls = 0; export default () => { if (++calls < 2) throw new Error('no'); return calls; };");
    let ran = pool.call(&tool).await.unwrap();
    assert!(matches!(&ran.outcome, Outcome::Threw(thrown) if thrown.message.contains("no")), "{:?}", ran.outcome);
    assert_eq!(json(pool.call(&tool).await), "2");
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_dies_while_idle_affects_no_call() {
    let pool = TestPool::start(|config| config.spares = 0).await;
    let tool = Tool::new("counter", COUNTER);
    assert_eq!(json(pool.call(&tool).await), "1");
    pool.processes().into_iter().for_each(kill);
    pool.until(|_| pool.processes().is_empty()).await;
    // The runtime notices a moment later.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(json(pool.call(&tool).await), "1");
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retired_version_can_be_loaded_again() {
    let test_pool = TestPool::start(|_| {}).await;
    let tool = Tool::new("counter", COUNTER);
    test_pool.call(&tool).await.unwrap();
    assert_eq!(test_pool.pool.status().idle, 1);
    test_pool.retire(&tool);
    assert_eq!(test_pool.pool.status().idle, 0);
    assert_eq!(json(test_pool.call(&tool).await), "1");
    // A busy worker ends after its call.
    let sleeper = Tool::new("sleeper", &sleeping(300));
    let retiring = async {
        test_pool.until(|pool| pool.status().waiting_in_ops == 1).await;
        test_pool.retire(&sleeper);
    };
    let (ran, ()) = tokio::join!(test_pool.call(&sleeper), retiring);
    assert_eq!(json(ran), "1");
    assert_eq!(test_pool.pool.status().idle, 1, "only the worker of the counter is left");
    test_pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn version_retired_by_another_endpoint_stays_warm() {
    let pool = TestPool::start(|_| {}).await;
    let (copied, copy) = (Tool::new("one", COUNTER), Tool::new("other", COUNTER));
    for calls in 1..=6 {
        pool.call(&copy).await.unwrap();
        pool.retire(&copy);
        assert_eq!(json(pool.call(&copied).await), calls.to_string());
    }
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_is_replaced_after_its_last_call_without_losing_calls() {
    let test_pool = TestPool::start(|config| config.max_calls = 3).await;
    let tool = Tool::new("counter", COUNTER);
    for _ in 0..5 {
        test_pool.call(&tool).await.unwrap();
    }
    test_pool.until(|pool| pool.status().totals.replaced == 1).await;
    let cold = test_pool.pool.status().totals.cold_calls;
    assert_eq!(json(test_pool.call(&tool).await), "1", "the successor has served nobody");
    assert_eq!(test_pool.pool.status().totals.cold_calls, cold, "the successor was ready before it was needed");
    test_pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_replacement_is_retried() {
    let test_pool = TestPool::start(|config| (config.max_calls, config.spares) = (2, 0)).await;
    let tool = Tool::new("counter", COUNTER);
    test_pool.call(&tool).await.unwrap();
    test_pool.take_worker_away();
    assert_eq!(json(test_pool.call(&tool).await), "2");
    test_pool.until(|pool| pool.status().totals.failed_starts > 1).await;
    assert_eq!(json(test_pool.call(&tool).await), "3", "the old worker stays until a new one is ready");
    test_pool.put_worker_back();
    test_pool.until(|pool| pool.status().totals.replaced == 1).await;
    assert_eq!(json(test_pool.call(&tool).await), "1");
    test_pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn version_retired_while_its_worker_is_replaced_has_no_worker() {
    let test_pool = TestPool::start(|config| (config.max_calls, config.spares) = (1, 0)).await;
    let tool = Tool::new("slow", "for (let n = 0; n < 2e7; n++) {}; export default () => 1;");
    test_pool.call(&tool).await.unwrap();
    test_pool.until(|pool| pool.status().totals.started == 2).await;
    test_pool.retire(&tool);
    test_pool.until(|_| test_pool.processes().is_empty()).await;
    assert_eq!(test_pool.pool.status().totals.replaced, 0);
    test_pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_grows_is_replaced() {
    let test_pool = TestPool::start(|config| config.max_growth = 1).await;
    let tool = Tool::new("leak", "const all = []; export default () => all.push(new Array(1_000_000).fill(all.length + 0.5));");
    // Less than its heap limit, but more than the memory assumed for a process.
    for _ in 0..6 {
        test_pool.call(&tool).await.unwrap();
        let replaced = test_pool.until(|pool| pool.status().totals.replaced == 1);
        if tokio::time::timeout(Duration::from_millis(700), replaced).await.is_ok() {
            break;
        }
    }
    test_pool.until(|pool| pool.status().totals.replaced == 1).await;
    test_pool.call(&tool).await.unwrap();
    assert_eq!(test_pool.pool.status().totals.cold_calls, 1, "the successor was ready before it was needed");
    test_pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_worker_is_ended() {
    let test_pool = TestPool::start(|config| config.max_idle_time = Duration::from_millis(100)).await;
    test_pool.call(&Tool::new("counter", COUNTER)).await.unwrap();
    test_pool.until(|pool| pool.status().idle == 0).await;
    test_pool.close().await;
}
