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

use crate::house::{COUNTER, House, Tool, json, sleeping, stats_of};

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

/// The maximum of a measure over a house's processes since it began.
struct Most {
    ended: Arc<AtomicBool>,
    looks: thread::JoinHandle<u64>,
}

impl Most {
    fn of(house: &House, what: fn(&str) -> u64) -> Self {
        let (ended, name) = (Arc::new(AtomicBool::new(false)), house.name.clone());
        let is_over = Arc::clone(&ended);
        let looks = thread::spawn(move || {
            let mut most = 0;
            while !is_over.load(Ordering::Relaxed) {
                most = most.max(what(&name));
            }
            most
        });
        Self { ended, looks }
    }

    fn seen(self) -> u64 {
        self.ended.store(true, Ordering::Relaxed);
        self.looks.join().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_are_never_more_than_allowed_whatever_starts_ends_and_is_replaced() {
    let house = House::start(|config| {
        (config.max_processes, config.spares, config.max_calls) = (2, 2, 2);
        config.patience = Duration::from_mins(2);
    })
    .await;
    let most = Most::of(&house, processes);
    let mut tools: Vec<_> = (0..8).map(|number| Tool::new(&format!("tool-{number}"), COUNTER)).collect();
    tools[0].isolation = Isolation::Fresh;
    tools[1].limits.heap_bytes = 16 * MIB;
    tools[2] = Tool::new("ends", "export default () => new Promise(() => {});");
    for _ in 0..4 {
        join_all(tools.iter().map(|tool| house.call(tool))).await.into_iter().for_each(|ran| drop(ran.unwrap()));
    }
    assert!(house.pool.status().totals.started > 16, "{:?}", house.pool.status());
    let seen = most.seen();
    assert!((1..=2).contains(&seen), "{seen} at once");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn largest_idle_worker_makes_room_for_what_does_not_fit() {
    let house = House::start(|config| (config.spares, config.memory) = (0, 100 * MIB)).await;
    let [small, large, next] =
        [("small", 1 << 10), ("large", 60 * MIB), ("next", 1 << 10)].map(|(name, bytes)| Tool::new(name, &holding(bytes)));
    let mut large = large;
    large.limits.buffer_bytes = 80 * MIB;
    for tool in [&large, &small] {
        assert_eq!(json(house.call(tool).await), "1");
    }
    house.until(|pool| (65 * MIB..100 * MIB).contains(&pool.status().process_bytes)).await;
    // While this one is small, the budget has room for another.
    let mut filler = Tool::new("filler", &holding(19 * MIB));
    filler.limits.buffer_bytes = 80 * MIB;
    assert_eq!(json(house.call(&filler).await), "1");
    house.until(|pool| pool.status().process_bytes > 86 * MIB).await;
    assert_eq!(json(house.call(&next).await), "1");
    assert_eq!(house.pool.status().processes, 3);
    assert_eq!(json(house.call(&small).await), "2", "it holds next to nothing");
    assert_eq!(json(house.call(&filler).await), "2");
    assert_eq!(json(house.call(&large).await), "1", "it went, and the filler goes next");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_that_does_not_fit_beside_those_that_run_is_refused_and_served_when_they_have_ended() {
    let house = House::start(|config| {
        (config.spares, config.memory, config.patience) = (0, 80 * MIB, Duration::from_millis(300));
    })
    .await;
    let held = format!("let held; {}", sleeping(4_000).replace("=> {", &format!("=> {{ held = new Uint8Array({}).fill(1);", 70 * MIB)));
    let mut sleeper = Tool::new("sleeper", &held);
    sleeper.limits.buffer_bytes = 80 * MIB;
    let counter = Tool::new("counter", COUNTER);
    let beside = async {
        house.until(|pool| pool.status().process_bytes > 70 * MIB).await;
        let refused = house.call(&counter).await;
        assert!(matches!(refused, Err(PoolError::Busy { .. })), "{refused:?}");
        assert_eq!(house.pool.status().totals.refused, 1);
    };
    let (slept, ()) = tokio::join!(house.call(&sleeper), beside);
    assert_eq!(json(slept), "1");
    assert_eq!(json(house.call(&counter).await), "1");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_fills_whatever_it_gets_is_ended_within_16_mib_of_its_limit() {
    const LIMIT: u64 = 224 * MIB;
    let house = House::start(|config| config.spares = 0).await;
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
        let most = Most::of(&house, high_water);
        let ran = house.call(&tool).await.unwrap();
        let most = most.seen();
        // If a buffer does not fit, the engine may also throw.
        let is_told = matches!(ran.outcome, Outcome::Stopped(StopReason::Memory { .. }) | Outcome::Threw(_));
        assert!(is_told, "{name}: {:?}", ran.outcome);
        assert!((64 * MIB..=LIMIT + 16 * MIB).contains(&most), "{name}: {} MiB", most / MIB);
    }
    house.close().await;
}
