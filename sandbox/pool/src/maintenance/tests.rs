use tokio::{net::UnixStream, time::Instant};

use super::*;
use crate::{idle::Warm, process::LoadedCode, wire::Buffers};

#[tokio::test]
async fn pool_needs_as_many_users_as_processes() {
    let users: crate::Users = "1900000000-1900000001".parse().unwrap();
    let start = |max_processes| start(PoolConfig { max_processes, users, spares: 0, ..PoolConfig::new("/bin/false") }).map(drop);
    start(2).unwrap();
    let refused = start(3).is_err_and(|error| matches!(error, PoolError::FewUsers { users: 2, processes: 3 }));
    assert_eq!(refused, users.max() < usize::MAX);
}

fn core() -> Arc<Core> {
    Core::new(PoolConfig { max_calls: 3, ..PoolConfig::new("/bin/false") }).unwrap()
}

fn worker(isolation: Isolation, calls: u64) -> (Arc<Process>, UnixStream) {
    let (process, theirs) = Process::standin();
    process.loaded.set(LoadedCode { isolation, ..LoadedCode::standin("x") }).unwrap();
    process.calls.store(calls, Ordering::Relaxed);
    (process, theirs)
}

#[tokio::test(start_paused = true)]
async fn worker_is_due_after_enough_calls_or_time() {
    let core = core();
    let [unused, used, worn] = [0, 2, 3].map(|calls| worker(Isolation::Warm, calls).0);
    assert_eq!([&unused, &used, &worn].map(|worker| core.is_due(worker)), [false, false, true]);
    tokio::time::advance(core.config.max_life).await;
    assert!(core.is_due(&unused));
}

#[tokio::test]
async fn worker_is_measured_from_its_first_call_on() {
    let core = core();
    let [unused, used] = [0, 1].map(|calls| worker(Isolation::Warm, calls).0);
    let first = |worker: &Process| worker.first_own_bytes.load(Ordering::Relaxed);
    for bytes in [9, 8] {
        used.record_own_bytes(bytes);
        assert!(!core.is_due(&unused) && first(&unused) == 0);
        assert!(!core.is_due(&used) && first(&used) == 9, "the first measurement is kept");
    }
    used.record_own_bytes(YOUNG_BYTES + 1);
    assert!(core.is_due(&used));
    assert!(!is_leak(1, YOUNG_BYTES, 2) && is_leak(1, YOUNG_BYTES + 1, 2));
    assert!(!is_leak(YOUNG_BYTES, 2 * YOUNG_BYTES, 2) && is_leak(YOUNG_BYTES, 2 * YOUNG_BYTES + 1, 2));
}

#[tokio::test]
async fn retired_worker_is_not_replaced() {
    let core = core();
    let [retired, replaced] = [3, 3].map(|calls| worker(Isolation::Warm, calls).0);
    retired.retire();
    replaced.is_being_replaced.store(true, Ordering::Release);
    let (fresh, (blank, _)) = (worker(Isolation::Fresh, 3).0, Process::standin());
    blank.calls.store(3, Ordering::Relaxed);
    assert_eq!([retired, replaced, fresh, blank].map(|worker| core.is_due(&worker)), [false; 4]);
}

#[tokio::test(start_paused = true)]
async fn worker_that_is_idle_for_long_is_ended() {
    let (core, (process, _theirs)) = (core(), worker(Isolation::Warm, 1));
    core.put_idle(Warm { process: Arc::clone(&process), buffers: Buffers::default(), since: Instant::now() });
    core.sweep_idle();
    assert!(process.is_live());
    tokio::time::advance(core.config.max_idle_time).await;
    core.sweep_idle();
    assert!(!process.is_live() && core.idle.lock().warm.len() == 0);
}

#[tokio::test]
async fn only_spares_of_an_unused_tier_are_ended() {
    let (core, [(usual, _usual), (other, _other)]) = (core(), [Tier::Jit, Tier::Jitless].map(Process::standin_of));
    core.idle.lock().spares = vec![Arc::clone(&usual), Arc::clone(&other)];
    core.sweep_idle();
    assert!(usual.is_live() && !other.is_live() && core.idle.lock().pending_spares() == 1);
}

#[tokio::test]
async fn turns_are_given_on_ticks_only() {
    let (core, mut turns) = (core(), Turns::for_cores(1));
    let before = turns.clone();
    core.inspect_all(WatchdogRound::Between, &mut turns);
    assert_eq!(turns, before);
    core.inspect_all(WatchdogRound::Tick, &mut turns);
    assert_ne!(turns, before);
}

#[tokio::test(start_paused = true)]
async fn dropped_pool_runs_nothing_more() {
    let core = start(PoolConfig { spares: 0, ..PoolConfig::new("/bin/false") }).unwrap();
    let tasks = || Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks(), 1);
    drop(core);
    tokio::time::sleep(2 * PERIOD).await;
    assert_eq!(tasks(), 0);
}
