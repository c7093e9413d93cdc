//! Limits on the number of processes and their total memory.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use futures_util::future::join_all;
use tollhouse_pool::PoolError;
use tollhouse_protocol::{Isolation, Outcome, StopReason};

use crate::test_pool::{COUNTER, TestPool, Tool, json, sleeping, stats_of};

const MIB: u64 = 1 << 20;

/// Returns a handler that holds `bytes` of memory from its first call, and answers with its number
/// of calls.
fn holding(bytes: u64) -> String {
    format!("let calls = 0, held; export default () => {{ held ??= new Uint8Array({bytes}).fill(1); return ++calls; }};")
}

/// Returns the highest peak memory of the processes with that name, in bytes.
fn high_water(name: &str) -> u64 {
    let of = |pid: i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    stats_of(name).into_iter().filter_map(|(pid, _)| of(pid)).max().unwrap_or_default() << 10
}

/// Returns the number of processes with that name, including dead ones.
fn processes(name: &str) -> u64 {
    stats_of(name).len() as u64
}

/// The maximum of a measure over a pool's processes, from its creation on.
struct Maximum {
    ended: Arc<AtomicBool>,
    measurements: thread::JoinHandle<u64>,
}

impl Maximum {
    fn of(pool: &TestPool, what: fn(&str) -> u64) -> Self {
        let (ended, name) = (Arc::new(AtomicBool::new(false)), pool.name.clone());
        let is_over = Arc::clone(&ended);
        let measurements = thread::spawn(move || {
            let mut max = 0;
            while !is_over.load(Ordering::Relaxed) {
                max = max.max(what(&name));
            }
            max
        });
        Self { ended, measurements }
    }

    fn seen(self) -> u64 {
        self.ended.store(true, Ordering::Relaxed);
        self.measurements.join().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn process_limit_holds_through_starts_ends_and_replacements() {
    let pool = TestPool::start(|config| {
        (config.max_processes, config.spares, config.max_calls) = (2, 2, 2);
        config.timeout = Duration::from_mins(2);
    })
    .await;
    let max = Maximum::of(&pool, processes);
    let mut tools: Vec<_> = (0..8).map(|number| Tool::new(&format!("tool-{number}"), COUNTER)).collect();
    tools[0].isolation = Isolation::Fresh;
    tools[1].limits.heap_bytes = 16 * MIB;
    tools[2] = Tool::new("ends", "export default () => new Promise(() => {});");
    for _ in 0..4 {
        join_all(tools.iter().map(|tool| pool.call(tool))).await.into_iter().for_each(|ran| drop(ran.unwrap()));
    }
    assert!(pool.pool.status().totals.started > 16, "{:?}", pool.pool.status());
    let seen = max.seen();
    assert!((1..=2).contains(&seen), "{seen} at once");
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn largest_idle_worker_is_evicted_when_memory_is_short() {
    let test_pool = TestPool::start(|config| (config.spares, config.memory) = (0, 100 * MIB)).await;
    let [small, large, next] =
        [("small", 1 << 10), ("large", 60 * MIB), ("next", 1 << 10)].map(|(name, bytes)| Tool::new(name, &holding(bytes)));
    let mut large = large;
    large.limits.buffer_bytes = 80 * MIB;
    for tool in [&large, &small] {
        assert_eq!(json(test_pool.call(tool).await), "1");
    }
    test_pool.until(|pool| (65 * MIB..100 * MIB).contains(&pool.status().process_bytes)).await;
    // While this one is small, the budget has room for another.
    let mut filler = Tool::new("filler", &holding(19 * MIB));
    filler.limits.buffer_bytes = 80 * MIB;
    assert_eq!(json(test_pool.call(&filler).await), "1");
    test_pool.until(|pool| pool.status().process_bytes > 86 * MIB).await;
    assert_eq!(json(test_pool.call(&next).await), "1");
    assert_eq!(test_pool.pool.status().processes, 3);
    assert_eq!(json(test_pool.call(&small).await), "2", "it holds little memory");
    assert_eq!(json(test_pool.call(&filler).await), "2");
    assert_eq!(json(test_pool.call(&large).await), "1", "it was evicted, and the filler is next");
    test_pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_memory_is_refused_and_served_once_others_end() {
    let test_pool = TestPool::start(|config| {
        (config.spares, config.memory, config.timeout) = (0, 80 * MIB, Duration::from_millis(300));
    })
    .await;
    let held = format!("let held; {}", sleeping(4_000).replace("=> {", &format!("=> {{ held = new Uint8Array({}).fill(1);", 70 * MIB)));
    let mut sleeper = Tool::new("sleeper", &held);
    sleeper.limits.buffer_bytes = 80 * MIB;
    let counter = Tool::new("counter", COUNTER);
    let alongside = async {
        test_pool.until(|pool| pool.status().process_bytes > 70 * MIB).await;
        let refused = test_pool.call(&counter).await;
        assert!(matches!(refused, Err(PoolError::Busy { .. })), "{refused:?}");
        assert_eq!(test_pool.pool.status().totals.refused, 1);
    };
    let (slept, ()) = tokio::join!(test_pool.call(&sleeper), alongside);
    assert_eq!(json(slept), "1");
    assert_eq!(json(test_pool.call(&counter).await), "1");
    test_pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_hog_is_stopped_within_16_mib_of_its_limit() {
    const LIMIT: u64 = 224 * MIB;
    let pool = TestPool::start(|config| config.spares = 0).await;
    let grows = "const all = []; export default () => {
        for (let n = 0; n < 56; n++) all.push(new Uint8Array(2 ** 20).fill(1));
        for (;;) {
            const buffer = new ArrayBuffer(0, { maxByteLength: 2 ** 20 });
            buffer.resize(2 ** 20);
            all.push(new Uint8Array(buffer).fill(1));
        }
    };";
    let heap = "const all = []; export default () => {
        for (let n = 0; n < 56; n++) all.push(new Uint8Array(2 ** 20).fill(1));
        for (;;) all.push(new Array(100_000).fill(all.length + 0.5));
    };";
    for (name, source) in [("grows", grows), ("heap", heap)] {
        let mut tool = Tool::new(name, source);
        (tool.limits.heap_bytes, tool.limits.buffer_bytes, tool.limits.cpu_ms) = (128 * MIB, 64 * MIB, 10_000);
        assert_eq!(tool.limits.rss_bytes, LIMIT);
        let max = Maximum::of(&pool, high_water);
        let ran = pool.call(&tool).await.unwrap();
        let max = max.seen();
        // If a buffer does not fit, the engine can also throw.
        let is_told = matches!(ran.outcome, Outcome::Stopped(StopReason::Memory { .. }) | Outcome::Threw(_));
        assert!(is_told, "{name}: {:?}", ran.outcome);
        assert!((64 * MIB..=LIMIT + 16 * MIB).contains(&max), "{name}: {} MiB", max / MIB);
    }
    pool.close().await;
}
