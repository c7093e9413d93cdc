//! Forked workers and their zygotes.

use std::{
    collections::HashSet,
    io::{BufRead, BufReader, Write as _},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::{
    process::Signal,
    thread::{CapabilitySet, capabilities},
};
use tokio::time::{Instant, sleep, timeout};
use tollhouse_protocol::{Isolation, JailLayer, Tier};

use crate::test_pool::{COUNTER, TestPool, Tool, json, kill, processes_called, signal, stats_of, zygotes_of};

/// Returns a tool that uses a new process for each call.
fn fresh(source: &str) -> Tool {
    let mut tool = Tool::new("fresh", source);
    tool.isolation = Isolation::Fresh;
    tool
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_workers_of_one_zygote_draw_different_random_numbers() {
    let pool = TestPool::start(|_| {}).await;
    let draw = fresh(
        "export default async () => {
           const exported = async (algorithm, usages) => { const key = await crypto.subtle.generateKey(algorithm, true, usages); return (await crypto.subtle.exportKey('jwk', key.privateKey ?? key)); };
           const { k } = await exported({ name: 'AES-GCM', length: 128 }, ['encrypt']), { d } = await exported({ name: 'ECDSA', namedCurve: 'P-256' }, ['sign']);
           return [Math.random(), crypto.randomUUID(), crypto.getRandomValues(new Uint32Array(2)).join(), k, d, (await exported('Ed25519', ['sign'])).d];
         };",
    );
    let mut drawn = HashSet::new();
    for _ in 0..200 {
        let answer = json(pool.call(&draw).await);
        drawn.extend(answer.trim_matches(['[', ']']).split(",\"").map(str::to_owned));
    }
    assert_eq!(drawn.len(), 1_200);
    let totals = pool.pool.status().totals;
    assert!(totals.forked >= 200 && totals.forked == totals.started, "{totals:?}");
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forked_and_started_workers_have_the_same_layers() {
    let (forked, started) = (TestPool::start(|_| {}).await, TestPool::start(|config| config.zygote_forks = 0).await);
    let jails = [forked.pool.ready().await.unwrap(), started.pool.ready().await.unwrap()];
    assert!(!jails[0].in_force.is_empty());
    assert_eq!(jails[0], jails[1]);
    assert_eq!(started.pool.status().totals.forked, 0);
    assert_eq!(started.zygotes(), [0; 0]);
    let totals = forked.pool.status().totals;
    assert_eq!(totals.forked, totals.started);
    forked.close().await;
    started.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_has_its_own_pid_namespace_if_the_host_can_create_one() {
    if !capabilities(None).unwrap().effective.contains(CapabilitySet::SYS_ADMIN) {
        writeln!(std::io::stdout(), "skipped: namespaces of workers: this process lacks CAP_SYS_ADMIN").unwrap();
        return;
    }
    let here = namespace_of(std::process::id().cast_signed());
    for forks in [1_000, 0] {
        let test_pool = TestPool::start(|config| (config.zygote_forks, config.spares) = (forks, 3)).await;
        assert!(test_pool.pool.ready().await.unwrap().in_force.contains(&JailLayer::PidNamespace));
        test_pool.until(|pool| pool.status().spares >= 3).await;
        let theirs: Vec<_> = test_pool.processes().into_iter().map(namespace_of).collect();
        let distinct: HashSet<_> = theirs.iter().collect();
        assert!(theirs.len() >= 3 && distinct.len() == theirs.len() && !theirs.contains(&here), "{theirs:?}");
        assert!(test_pool.zygotes().into_iter().all(|zygote| namespace_of(zygote) == here));
        test_pool.close().await;
    }
}

fn namespace_of(pid: i32) -> PathBuf {
    std::fs::read_link(format!("/proc/{pid}/ns/pid")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_continue_when_a_zygote_is_killed_and_the_system_releases_it() {
    let pool = TestPool::start(|config| config.spares = 0).await;
    let (warm, fresh) = (Tool::new("warm", COUNTER), fresh(COUNTER));
    assert_eq!(json(pool.call(&warm).await), "1");
    let [zygote] = pool.zygotes()[..] else { panic!("there must be one zygote") };
    kill(zygote);
    for calls in 2..5 {
        assert_eq!(json(pool.call(&warm).await), calls.to_string(), "its worker is not its child");
        assert_eq!(json(pool.call(&fresh).await), "1");
    }
    let totals = pool.pool.status().totals;
    assert!(totals.started > totals.forked && totals.failed_starts == 0, "{totals:?}");
    assert!(stats_of("tollhouse-fork").iter().all(|(pid, _)| *pid != zygote), "it was reaped");
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_do_not_wait_for_a_zygote_that_is_stopped() {
    let pool = TestPool::start(|config| {
        // Waiting for a booting zygote would take longer than this test.
        (config.spares, config.boot_timeout) = (0, Duration::from_hours(1));
        config.zygote_timeout = Duration::from_millis(250);
    });
    let (pool, tool) = (pool.await, fresh(COUNTER));
    let totals = || pool.pool.status().totals;
    while totals().forked == 0 {
        assert_eq!(json(pool.call(&tool).await), "1");
    }
    let [zygote] = pool.zygotes()[..] else { panic!("there must be one zygote") };
    let before = totals();
    signal(zygote, Signal::STOP);
    let answer = timeout(Duration::from_mins(1), pool.call(&tool)).await;
    assert_eq!(json(answer.expect("the call is answered")), "1");
    assert_eq!((totals().forked, totals().started > before.started, pool.zygotes()), (before.forked, true, vec![]));
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_zygote_that_dies_is_reaped() {
    let test_pool = TestPool::start(|config| config.spares = 1).await;
    test_pool.until(|pool| pool.status().spares == 1).await;
    let [zygote] = test_pool.zygotes()[..] else { panic!("there must be one zygote") };
    kill(zygote);
    test_pool.until(|_| stats_of("tollhouse-fork").iter().all(|(pid, _)| *pid != zygote)).await;
    assert_eq!(json(test_pool.call(&Tool::new("warm", COUNTER)).await), "1");
    test_pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn zygote_is_renewed_when_it_has_forked_enough_or_is_old() {
    for (forks, life) in [(2, Duration::MAX), (usize::MAX, Duration::ZERO)] {
        let pool = TestPool::start(|config| (config.zygote_forks, config.zygote_life) = (forks, life)).await;
        let (tool, mut seen) = (fresh(COUNTER), HashSet::new());
        let timeout = Instant::now() + Duration::from_secs(60);
        while seen.len() < 4 {
            assert!(Instant::now() < timeout, "{seen:?}");
            assert_eq!(json(pool.call(&tool).await), "1");
            seen.extend(pool.zygotes());
            sleep(Duration::from_millis(10)).await;
        }
        assert!(pool.zygotes().len() <= 2, "a zygote and its successor");
        let totals = pool.pool.status().totals;
        assert_eq!((totals.forked, totals.failed_starts), (totals.started, 0), "no call waits for the successor");
        pool.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn zygotes_report_memory_and_unused_tiers_end() {
    let test_pool = TestPool::start(|config| (config.spares, config.zygote_life) = (0, Duration::from_secs(3))).await;
    assert_eq!(json(test_pool.call(&Tool::new("warm", COUNTER)).await), "1");
    test_pool.until(|pool| pool.status().zygotes == 1).await;
    let one = test_pool.pool.status().zygote_bytes;
    assert!(one > 1 << 20, "an engine that has booted: {one}");
    let mut other = fresh(COUNTER);
    other.tier = Tier::Jitless;
    assert_eq!(json(test_pool.call(&other).await), "1");
    test_pool.until(|pool| pool.status().zygotes == 2 && pool.status().zygote_bytes > one + (1 << 20)).await;
    test_pool.until(|pool| pool.status().zygotes == 1 && pool.status().zygote_bytes < one + (1 << 20)).await;
    assert_eq!(test_pool.zygotes().len(), 1);
    assert_eq!(json(test_pool.call(&other).await), "1");
    test_pool.close().await;
}

/// Runs this very test again as a separate host, which prints its name and waits to be killed.
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "the parent reads the name from there")]
async fn host_that_is_killed_leaves_no_process() {
    const HOST: &str = "TOLLHOUSE_TEST_IS_HOST";
    if std::env::var_os(HOST).is_some() {
        let pool = TestPool::start(|_| {}).await;
        assert_eq!(json(pool.call(&Tool::new("warm", COUNTER)).await), "1");
        println!("\npool {}", pool.name);
        return std::future::pending().await;
    }
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "zygotes::host_that_is_killed_leaves_no_process", "--nocapture"])
        .env(HOST, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(host.stdout.take().unwrap()).lines().map(Result::unwrap);
    let name = lines.find_map(|line| Some(line.strip_prefix("pool ")?.to_owned())).unwrap();
    let remaining = || [processes_called(&name), zygotes_of(&name)].concat();
    assert!(remaining().len() >= 2, "a worker and a zygote: {:?}", remaining());
    host.kill().unwrap();
    host.wait().unwrap();
    let timeout = Instant::now() + Duration::from_secs(20);
    while !remaining().is_empty() {
        assert!(Instant::now() < timeout, "{:?}", remaining());
        sleep(Duration::from_millis(10)).await;
    }
    std::fs::remove_file(std::env::temp_dir().join(name)).unwrap();
}
