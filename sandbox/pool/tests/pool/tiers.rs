//! Tiers: each call runs in a worker of its tier, and an unused tier has no workers.

use std::fs;

use tollhouse_protocol::{JailLayer, Tier};

use crate::test_pool::{COUNTER, TestPool, Tool, json};

fn counter(tier: Tier) -> Tool {
    let mut tool = Tool::new("counter", COUNTER);
    tool.tier = tier;
    tool
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_tier_has_no_process_until_it_is_used() {
    let test_pool = TestPool::start(|config| config.spares = 1).await;
    test_pool.until(|pool| pool.status().spares == 1).await;
    assert_eq!(test_pool.pool.status().tiers.iter().map(|tier| (tier.tier, tier.processes)).collect::<Vec<_>>(), [(Tier::Jit, 1)]);
    assert_eq!(json(test_pool.call(&counter(Tier::Jitless)).await), "1");
    test_pool.until(|pool| pool.status().spares == 2).await;
    let status = test_pool.pool.status();
    assert_eq!(status.tiers.iter().map(|tier| (tier.tier, tier.processes)).collect::<Vec<_>>(), [(Tier::Jit, 1), (Tier::Jitless, 2)]);
    let [jit, jitless] = &status.tiers[..] else { panic!("two tiers: {status:?}") };
    assert!(jitless.jail.contains(&JailLayer::NoExec) && jit.jail.iter().all(|layer| jitless.jail.contains(layer)), "{status:?}");
    assert_eq!(status.jail, jit.jail, "the layers of all tiers");
    test_pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_of_one_tier_serves_no_call_of_another() {
    let test_pool = TestPool::start(|config| config.spares = 0).await;
    for (tier, calls) in [(Tier::Jit, "1"), (Tier::Jitless, "1"), (Tier::Jit, "2"), (Tier::Jitless, "2")] {
        assert_eq!(json(test_pool.call(&counter(tier)).await), calls, "{tier}");
    }
    // Workers of either tier are retired with their endpoint's version.
    test_pool.retire(&counter(Tier::Jit));
    test_pool.until(|pool| pool.status().processes == 0).await;
    test_pool.close().await;
}

/// The worker's own tests start workers without a zygote. This one covers what a forked worker
/// inherits.
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "a skipped check is reported")]
async fn forked_jitless_worker_has_only_its_program_as_code() {
    let pool = TestPool::start(|config| config.spares = 0).await;
    assert_eq!(json(pool.call(&counter(Tier::Jitless)).await), "1");
    assert_eq!(pool.pool.status().totals.forked, 1);
    let maps = fs::read_to_string(format!("/proc/{}/maps", pool.process())).unwrap_or_default();
    let code: Vec<_> = maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|rights| rights.contains('x'))).collect();
    if code.is_empty() {
        println!("where code is mapped was not seen: this user may not look at a worker");
    }
    let is_own = |line: &&&str| !line.contains(" /") && !line.ends_with("[vdso]") && !line.ends_with("[vsyscall]");
    assert_eq!(code.iter().filter(is_own).collect::<Vec<_>>(), [&""; 0], "{maps}");
    pool.close().await;
}
