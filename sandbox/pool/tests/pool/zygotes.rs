//! Forked workers and their zygotes.

use std::{
    collections::HashSet,
    io::{BufRead, BufReader},
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

use crate::house::{COUNTER, House, Tool, json, kill, processes_called, signal, stats_of, zygotes_of};

/// Returns a tool that uses a new process for each call.
fn fresh(source: &str) -> Tool {
    let mut tool = Tool::new("fresh", source);
    tool.isolation = Isolation::Fresh;
    tool
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_workers_of_one_zygote_have_no_random_number_in_common() {
    let house = House::start(|_| {}).await;
    let draw = fresh("export default () => [Math.random(), crypto.randomUUID(), crypto.getRandomValues(new Uint32Array(2)).join()];");
    let mut drawn = HashSet::new();
    for _ in 0..200 {
        let answer = json(house.call(&draw).await);
        drawn.extend(answer.trim_matches(['[', ']']).split(",\"").map(str::to_owned));
    }
    assert_eq!(drawn.len(), 600);
    let totals = house.pool.status().totals;
    assert!(totals.forked >= 200 && totals.forked == totals.started, "{totals:?}");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forked_worker_is_in_every_layer_that_one_started_by_itself_is_in() {
    let (forked, started) = (House::start(|_| {}).await, House::start(|config| config.zygote_forks = 0).await);
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
async fn worker_is_in_a_namespace_of_pids_of_its_own_where_the_host_may_begin_any() {
    if !capabilities(None).unwrap().effective.contains(CapabilitySet::SYS_ADMIN) {
        return;
    }
    let here = namespace_of(std::process::id().cast_signed());
    for forks in [1_000, 0] {
        let house = House::start(|config| (config.zygote_forks, config.spares) = (forks, 3)).await;
        assert!(house.pool.ready().await.unwrap().in_force.contains(&JailLayer::PidNamespace));
        house.until(|pool| pool.status().spares >= 3).await;
        let theirs: Vec<_> = house.processes().into_iter().map(namespace_of).collect();
        let distinct: HashSet<_> = theirs.iter().collect();
        assert!(theirs.len() >= 3 && distinct.len() == theirs.len() && !theirs.contains(&here), "{theirs:?}");
        assert!(house.zygotes().into_iter().all(|zygote| namespace_of(zygote) == here));
        house.close().await;
    }
}

fn namespace_of(pid: i32) -> PathBuf {
    std::fs::read_link(format!("/proc/{pid}/ns/pid")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_go_on_when_a_zygote_is_killed_and_the_system_lets_go_of_it() {
    let house = House::start(|config| config.spares = 0).await;
    let (warm, fresh) = (Tool::new("warm", COUNTER), fresh(COUNTER));
    assert_eq!(json(house.call(&warm).await), "1");
    let [zygote] = house.zygotes()[..] else { panic!("not one zygote") };
    kill(zygote);
    for calls in 2..5 {
        assert_eq!(json(house.call(&warm).await), calls.to_string(), "its worker is no child of it");
        assert_eq!(json(house.call(&fresh).await), "1");
    }
    let totals = house.pool.status().totals;
    assert!(totals.started > totals.forked && totals.failed_starts == 0, "{totals:?}");
    assert!(stats_of("tollhouse-fork").iter().all(|(pid, _)| *pid != zygote), "it was waited for");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_do_not_wait_for_a_zygote_that_is_stopped() {
    let house = House::start(|config| {
        // Waiting for a booting zygote would take longer than this test.
        (config.spares, config.boot_patience) = (0, Duration::from_hours(1));
        config.zygote_patience = Duration::from_millis(250);
    });
    let (house, tool) = (house.await, fresh(COUNTER));
    let totals = || house.pool.status().totals;
    while totals().forked == 0 {
        assert_eq!(json(house.call(&tool).await), "1");
    }
    let [zygote] = house.zygotes()[..] else { panic!("not one zygote") };
    let before = totals();
    signal(zygote, Signal::STOP);
    let answer = timeout(Duration::from_mins(1), house.call(&tool)).await;
    assert_eq!(json(answer.expect("it is answered")), "1");
    assert_eq!((totals().forked, totals().started > before.started, house.zygotes()), (before.forked, true, vec![]));
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn zygote_that_dies_while_nothing_starts_is_waited_for() {
    let house = House::start(|config| config.spares = 1).await;
    house.until(|pool| pool.status().spares == 1).await;
    let [zygote] = house.zygotes()[..] else { panic!("not one zygote") };
    kill(zygote);
    house.until(|_| stats_of("tollhouse-fork").iter().all(|(pid, _)| *pid != zygote)).await;
    assert_eq!(json(house.call(&Tool::new("warm", COUNTER)).await), "1");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn zygote_is_renewed_when_it_has_forked_enough_or_is_old() {
    for (forks, life) in [(2, Duration::MAX), (usize::MAX, Duration::ZERO)] {
        let house = House::start(|config| (config.zygote_forks, config.zygote_life) = (forks, life)).await;
        let (tool, mut seen) = (fresh(COUNTER), HashSet::new());
        let patience = Instant::now() + Duration::from_secs(60);
        while seen.len() < 4 {
            assert!(Instant::now() < patience, "{seen:?}");
            assert_eq!(json(house.call(&tool).await), "1");
            seen.extend(house.zygotes());
            sleep(Duration::from_millis(10)).await;
        }
        assert!(house.zygotes().len() <= 2, "one, and the next one");
        let totals = house.pool.status().totals;
        assert_eq!((totals.forked, totals.failed_starts), (totals.started, 0), "nobody waits for the next one");
        house.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn zygotes_are_told_with_what_they_hold_and_one_of_a_tier_that_nobody_asks_for_any_more_goes() {
    let house = House::start(|config| (config.spares, config.zygote_life) = (0, Duration::from_secs(3))).await;
    assert_eq!(json(house.call(&Tool::new("warm", COUNTER)).await), "1");
    house.until(|pool| pool.status().zygotes == 1).await;
    let one = house.pool.status().zygote_bytes;
    assert!(one > 1 << 20, "an engine that has booted: {one}");
    let mut other = fresh(COUNTER);
    other.tier = Tier::Jitless;
    assert_eq!(json(house.call(&other).await), "1");
    house.until(|pool| pool.status().zygotes == 2 && pool.status().zygote_bytes > one + (1 << 20)).await;
    house.until(|pool| pool.status().zygotes == 1 && pool.status().zygote_bytes < one + (1 << 20)).await;
    assert_eq!(house.zygotes().len(), 1);
    assert_eq!(json(house.call(&other).await), "1");
    house.close().await;
}

/// Runs this very test again as a separate host, which prints its name and waits to be killed.
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "that is how the host tells its name")]
async fn host_that_is_killed_leaves_no_process() {
    const HOST: &str = "TOLLHOUSE_TEST_IS_HOST";
    if std::env::var_os(HOST).is_some() {
        let house = House::start(|_| {}).await;
        assert_eq!(json(house.call(&Tool::new("warm", COUNTER)).await), "1");
        println!("\nhouse {}", house.name);
        return std::future::pending().await;
    }
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "zygotes::host_that_is_killed_leaves_no_process", "--nocapture"])
        .env(HOST, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(host.stdout.take().unwrap()).lines().map(Result::unwrap);
    let name = lines.find_map(|line| Some(line.strip_prefix("house ")?.to_owned())).unwrap();
    let left = || [processes_called(&name), zygotes_of(&name)].concat();
    assert!(left().len() >= 2, "a worker and a zygote: {:?}", left());
    host.kill().unwrap();
    host.wait().unwrap();
    let patience = Instant::now() + Duration::from_secs(20);
    while !left().is_empty() {
        assert!(Instant::now() < patience, "{:?}", left());
        sleep(Duration::from_millis(10)).await;
    }
    std::fs::remove_file(std::env::temp_dir().join(name)).unwrap();
}
