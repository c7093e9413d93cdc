//! Control groups of workers. On a machine that does not permit them, each test reports what it
//! skips.

use std::{
    collections::HashSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use tollhouse_protocol::{Isolation, JailLayer, Outcome, StopReason};

use crate::test_pool::{COUNTER, TestPool, Tool, json};

/// Allocates the requested number of 1 MiB pieces.
const HOARDS: &str = "const kept = [];
export default (req) => { for (let i = 0; i < req.input.pieces; i++) kept.push(new Uint8Array(1 << 20).fill(1)); return kept.length; };";

/// Returns the layers of control groups that are in force.
async fn layers(pool: &TestPool) -> Vec<JailLayer> {
    let jail = pool.pool.ready().await.unwrap();
    for layer in JailLayer::OF_GROUPS {
        let is_refused = jail.refused.iter().any(|refused| refused.layer == layer);
        assert_ne!(is_refused, jail.in_force.contains(&layer), "one or the other: {jail:?}");
        if is_refused {
            // Printed directly, so that it shows even if the test passes.
            std::io::stderr().write_all(format!("a part of a test is skipped: there is no {layer}\n").as_bytes()).unwrap();
        }
    }
    jail.in_force.into_iter().filter(|layer| JailLayer::OF_GROUPS.contains(layer)).collect()
}

/// Returns the folder of a process's group.
fn group(pid: i32) -> PathBuf {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 ")).unwrap();
    let path = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let path = path.lines().find_map(|line| line.strip_prefix("0::/")).unwrap();
    Path::new(mount.split(' ').nth(4).unwrap()).join(path)
}

fn report(group: &Path, file: &str) -> String {
    fs::read_to_string(group.join(file)).unwrap().trim().to_owned()
}

fn is_of_workers(group: &Path) -> bool {
    group.to_str().unwrap().contains("/tollhouse-workers-")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_worker_has_a_group_of_its_own_and_neither_host_nor_zygote_has() {
    for forks in [1_000, 0] {
        let test_pool = TestPool::start(|config| (config.zygote_forks, config.spares) = (forks, 2)).await;
        let in_force = layers(&test_pool).await;
        // There is one more if the zygote was not ready for the first order.
        test_pool.until(|pool| pool.status().spares >= 2 && pool.status().processes == pool.status().spares).await;
        if in_force.is_empty() {
            assert!(test_pool.processes().into_iter().all(|pid| !is_of_workers(&group(pid))));
            test_pool.close().await;
            continue;
        }
        let groups: HashSet<_> = test_pool.processes().into_iter().map(group).collect();
        assert_eq!(groups.len(), test_pool.processes().len());
        assert!(groups.iter().all(|group| is_of_workers(group)), "{groups:?}");
        let others = test_pool.zygotes().into_iter().chain([std::process::id().cast_signed()]);
        assert!(others.map(group).all(|group| !is_of_workers(&group)));
        for pid in test_pool.processes() {
            let open: HashSet<_> =
                fs::read_dir(format!("/proc/{pid}/fd")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            assert_eq!(open.len(), 4, "standard streams and the socket: {open:?}");
        }
        let totals = test_pool.pool.status().totals;
        assert_eq!(totals.forked, if forks == 0 { 0 } else { totals.started });
        let workers = groups.iter().next().unwrap().parent().unwrap().to_owned();
        test_pool.close().await;
        assert!(!workers.exists(), "the groups are removed with the pool");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_reuse_groups() {
    let pool = TestPool::start(|config| (config.spares, config.max_processes) = (0, 2)).await;
    let workers = (!layers(&pool).await.is_empty()).then(|| group(pool.process()).parent().unwrap().to_owned());
    let mut tool = Tool::new("fresh", COUNTER);
    tool.isolation = Isolation::Fresh;
    for _ in 0..20 {
        assert_eq!(json(pool.call(&tool).await), "1");
    }
    if let Some(workers) = workers {
        let groups = fs::read_dir(workers).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
        assert!((1..=3).contains(&groups), "two, and one that was about to be free: {groups}");
    }
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn group_limits_memory_and_the_end_is_reported_as_such() {
    let pool = TestPool::start(|config| config.spares = 0).await;
    let in_force = layers(&pool).await;
    let mut tool = Tool::new("hoards", HOARDS);
    tool.body = r#"{"pieces":1}"#;
    assert_eq!(json(pool.call(&tool).await), "1");
    if in_force.contains(&JailLayer::MemoryMax) {
        let group = group(pool.process());
        assert_eq!(report(&group, "memory.max"), (tool.limits.rss_bytes + (16 << 20)).to_string());
        assert!(report(&group, "memory.current").parse::<u64>().unwrap() > 1 << 20);
        // As if the worker had evaded its own limit while the watchdog slept.
        fs::write(group.join("memory.max"), (24 << 20).to_string()).unwrap();
        tool.body = r#"{"pieces":60}"#;
        let ran = pool.call(&tool).await.unwrap();
        assert_eq!(ran.outcome, Outcome::Stopped(StopReason::Memory { limit_bytes: tool.limits.rss_bytes }));
        let totals = pool.pool.status().totals;
        assert_eq!((totals.stops, totals.crashes, totals.kills), (1, 0, 0));
    }
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn group_layers_can_be_required_like_any_other() {
    let pool = TestPool::start(|_| {}).await;
    let in_force = layers(&pool).await;
    pool.close().await;
    for layer in JailLayer::OF_GROUPS {
        let pool = TestPool::start(|config| config.strict = vec![layer]).await;
        let ready = pool.pool.ready().await;
        assert_eq!(ready.is_ok(), in_force.contains(&layer));
        assert!(ready.err().is_none_or(|error| error.to_string().contains(&format!("lacks {layer}: "))));
        pool.close().await;
    }
}
