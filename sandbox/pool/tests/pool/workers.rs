//! The choice of the worker for a call, and the time for which a worker is kept.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    time::Duration,
};

use tokio::time::timeout;
use tollhouse_protocol::{Isolation, Outcome};

use crate::house::{COUNTER, ENDLESS, House, Tool, json, kill, sleeping};

#[tokio::test(flavor = "multi_thread")]
async fn warm_calls_share_a_process_and_its_state() {
    let house = House::start(|_| {}).await;
    let tool = Tool::new("counter", COUNTER);
    let answers = [house.call(&tool).await, house.call(&tool).await, house.call(&tool).await];
    assert_eq!(answers.map(json), ["1", "2", "3"]);
    assert_eq!(house.pool.status().totals.cold_calls, 1);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_start_of_a_worker_is_told_to_the_call_that_needs_it() {
    let house = House::start(|config| config.spares = 1).await;
    house.until(|pool| pool.status().spares == 1).await;
    let told = || std::mem::take(&mut *house.used.lock().unwrap());
    let (tool, broken) = (Tool::new("counter", COUNTER), Tool::new("broken", "throw new Error('no')"));
    house.call(&tool).await.unwrap();
    let [start, run] = told()[..] else { panic!("not both") };
    assert!(start > Duration::from_millis(5) && run < start, "a start of {start:?}, a run of {run:?}");
    house.call(&tool).await.unwrap();
    assert_eq!(told().len(), 1, "a worker that waits has its start behind it");
    house.call(&broken).await.unwrap_err();
    let [start] = told()[..] else { panic!("a load that fails was not told of") };
    assert!(start > Duration::from_millis(5), "a start of {start:?}");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dropped_call_used_is_told() {
    let house = House::start(|_| {}).await;
    let endless = Tool::new("endless", ENDLESS);
    timeout(Duration::from_millis(500), house.call(&endless)).await.unwrap_err();
    let [_, run] = house.used.lock().unwrap()[..] else { panic!("not both") };
    assert!(run > Duration::from_millis(100) && run < Duration::from_millis(600), "a run of {run:?}");
    let waits = Tool::new("waits", &sleeping(60_000));
    house.used.lock().unwrap().clear();
    timeout(Duration::from_millis(1_500), house.call(&waits)).await.unwrap_err();
    let [_, run] = house.used.lock().unwrap()[..] else { panic!("not both") };
    assert!(run < Duration::from_millis(300), "waiting takes no processor time, but {run:?}");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_logs_at_its_top_level_loads_and_runs() {
    let house = House::start(|_| {}).await;
    for (name, top) in [("one", "console.log(1)"), ("many", "for (let n = 0; n < 2000; n++) console.error('line', n)")] {
        let tool = Tool::new(name, &format!("{top}; export default async () => 1;"));
        assert_eq!(json(house.call(&tool).await), "1");
    }
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_with_the_same_code_share_no_process() {
    let house = House::start(|_| {}).await;
    let (one, other) = (Tool::new("one", COUNTER), Tool::new("other", COUNTER));
    assert_eq!(one.bundle.version, other.bundle.version);
    assert_eq!(json(house.call(&one).await), "1");
    assert_eq!(json(house.call(&other).await), "1");
    assert_eq!(json(house.call(&one).await), "2");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_memory_limits_get_another_process() {
    let house = House::start(|_| {}).await;
    let mut tool = Tool::new("counter", COUNTER);
    assert_eq!(json(house.call(&tool).await), "1");
    tool.limits.heap_bytes /= 2;
    assert_eq!(json(house.call(&tool).await), "1");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fresh_isolation_gives_each_call_a_process_that_served_nobody() {
    let house = House::start(|_| {}).await;
    let mut tool = Tool::new("counter", COUNTER);
    tool.isolation = Isolation::Fresh;
    for _ in 0..4 {
        assert_eq!(json(house.call(&tool).await), "1");
    }
    assert_eq!(house.pool.status().idle, 0);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_take_a_core_from_nobody() {
    /// Field of proc_pid_stat(5), counted after the name.
    const POLICY: usize = 38;
    const SCHED_BATCH: &str = "3";
    let house = House::start(|config| config.spares = 0).await;
    house.call(&Tool::new("counter", COUNTER)).await.unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", house.process())).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    assert_eq!(fields.split(' ').nth(POLICY), Some(SCHED_BATCH), "{stat}");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spares_are_kept_and_a_cold_call_takes_one() {
    let house = House::start(|config| config.spares = 2).await;
    house.until(|pool| pool.status().spares == 2).await;
    assert!(!house.pool.status().jail.is_empty());
    let started = house.pool.status().totals.started;
    house.call(&Tool::new("counter", COUNTER)).await.unwrap();
    house.until(|pool| pool.status().spares == 2).await;
    assert_eq!(house.pool.status().totals.started, started + 1, "the replacement and nothing else was started");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pool_that_is_ready_has_a_spare_and_says_how_it_is_jailed() {
    let house = House::start(|config| config.spares = 0).await;
    let jail = house.pool.ready().await.unwrap();
    let status = house.pool.status();
    assert!(!jail.in_force.is_empty());
    assert_eq!((status.jail, status.spares, status.processes), (jail.in_force, 1, 1));
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn process_that_has_not_said_that_it_is_ready_is_no_worker() {
    let folder = tempfile::tempdir().unwrap();
    let sleeper = folder.path().join("sleeper");
    fs::write(&sleeper, "#!/bin/sh\nexec sleep 600\n").unwrap();
    fs::set_permissions(&sleeper, Permissions::from_mode(0o755)).unwrap();
    let house = House::start(|config| (config.worker, config.spares, config.zygote_patience) = (sleeper, 1, Duration::ZERO)).await;
    house.until(|pool| pool.status().processes == 1).await;
    // It counts as a process while it boots.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let status = house.pool.status();
    assert_eq!((status.processes, status.workers), (1, 0));
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pool_of_what_is_no_worker_says_that_it_cannot_start_one() {
    let house = House::start(|config| (config.worker, config.spares) = ("/bin/false".into(), 0)).await;
    assert!(!house.pool.cannot_start(), "nothing was tried");
    let tool = Tool::new("counter", COUNTER);
    for _ in 0..3 {
        assert!(house.call(&tool).await.is_err());
    }
    assert!(house.pool.cannot_start());
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thrown_error_keeps_the_process() {
    let house = House::start(|_| {}).await;
    let tool = Tool::new("thrower", "let calls = 0; export default () => { if (++calls < 2) throw new Error('no'); return calls; };");
    let ran = house.call(&tool).await.unwrap();
    assert!(matches!(&ran.outcome, Outcome::Threw(thrown) if thrown.message.contains("no")), "{:?}", ran.outcome);
    assert_eq!(json(house.call(&tool).await), "2");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_dies_idle_costs_no_call() {
    let house = House::start(|config| config.spares = 0).await;
    let tool = Tool::new("counter", COUNTER);
    assert_eq!(json(house.call(&tool).await), "1");
    house.processes().into_iter().for_each(kill);
    house.until(|_| house.processes().is_empty()).await;
    // The runtime notices a moment later.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(json(house.call(&tool).await), "1");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retired_version_starts_anew() {
    let house = House::start(|_| {}).await;
    let tool = Tool::new("counter", COUNTER);
    house.call(&tool).await.unwrap();
    assert_eq!(house.pool.status().idle, 1);
    house.retire(&tool);
    assert_eq!(house.pool.status().idle, 0);
    assert_eq!(json(house.call(&tool).await), "1");
    // A busy worker ends after its call.
    let sleeper = Tool::new("sleeper", &sleeping(300));
    let retiring = async {
        house.until(|pool| pool.status().waiting_in_ops == 1).await;
        house.retire(&sleeper);
    };
    let (ran, ()) = tokio::join!(house.call(&sleeper), retiring);
    assert_eq!(json(ran), "1");
    assert_eq!(house.pool.status().idle, 1, "the counter's worker alone is left");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn version_that_another_endpoint_retires_is_warm_yet() {
    let house = House::start(|_| {}).await;
    let (copied, copy) = (Tool::new("one", COUNTER), Tool::new("other", COUNTER));
    for calls in 1..=6 {
        house.call(&copy).await.unwrap();
        house.retire(&copy);
        assert_eq!(json(house.call(&copied).await), calls.to_string());
    }
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_after_its_last_call_is_replaced_and_nothing_is_lost() {
    let house = House::start(|config| config.max_calls = 3).await;
    let tool = Tool::new("counter", COUNTER);
    for _ in 0..5 {
        house.call(&tool).await.unwrap();
    }
    house.until(|pool| pool.status().totals.replaced == 1).await;
    let cold = house.pool.status().totals.cold_calls;
    assert_eq!(json(house.call(&tool).await), "1", "the successor has served nobody");
    assert_eq!(house.pool.status().totals.cold_calls, cold, "and was ready before it was needed");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replacement_that_cannot_be_made_is_tried_again() {
    let house = House::start(|config| (config.max_calls, config.spares) = (2, 0)).await;
    let tool = Tool::new("counter", COUNTER);
    house.call(&tool).await.unwrap();
    house.take_worker_away();
    assert_eq!(json(house.call(&tool).await), "2");
    house.until(|pool| pool.status().totals.failed_starts > 1).await;
    assert_eq!(json(house.call(&tool).await), "3", "the old one stays until there is a new one");
    house.put_worker_back();
    house.until(|pool| pool.status().totals.replaced == 1).await;
    assert_eq!(json(house.call(&tool).await), "1");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn version_that_is_retired_while_its_worker_is_replaced_has_none_left() {
    let house = House::start(|config| (config.max_calls, config.spares) = (1, 0)).await;
    let tool = Tool::new("slow", "for (let n = 0; n < 2e7; n++) {}; export default () => 1;");
    house.call(&tool).await.unwrap();
    house.until(|pool| pool.status().totals.started == 2).await;
    house.retire(&tool);
    house.until(|_| house.processes().is_empty()).await;
    assert_eq!(house.pool.status().totals.replaced, 0);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_grows_is_replaced() {
    let house = House::start(|config| config.max_growth = 1).await;
    let tool = Tool::new("leak", "const all = []; export default () => all.push(new Array(1_000_000).fill(all.length + 0.5));");
    // Less than its heap limit, but more than the memory assumed for a process.
    for _ in 0..6 {
        house.call(&tool).await.unwrap();
        let replaced = house.until(|pool| pool.status().totals.replaced == 1);
        if tokio::time::timeout(Duration::from_millis(700), replaced).await.is_ok() {
            break;
        }
    }
    house.until(|pool| pool.status().totals.replaced == 1).await;
    house.call(&tool).await.unwrap();
    assert_eq!(house.pool.status().totals.cold_calls, 1, "the successor was ready before it was needed");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_worker_is_ended() {
    let house = House::start(|config| config.max_idle_time = Duration::from_millis(100)).await;
    house.call(&Tool::new("counter", COUNTER)).await.unwrap();
    house.until(|pool| pool.status().idle == 0).await;
    house.close().await;
}
