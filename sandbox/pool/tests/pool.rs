//! A pool of real workers, driven as the host drives it.
//!
//! `TOLLHOUSE_WORKER` names the `tollhouse-worker` binary.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::{
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;
use tollhouse_pool::{Job, OpHost, Pool, PoolConfig, PoolError, Ran};
use tollhouse_protocol::{
    Bundle, Isolation, Language, Limits, LogLine, OpFailure, OpRequest, OpValue, Outcome, ReplyBody, Start, StopReason,
};

const COUNTER: &str = "let calls = 0; export default () => ++calls;";
const ENDLESS: &str = "export default () => { for (;;) {} };";
/// One native call that an engine's own interruption does not reach.
const NATIVE_LOOP: &str = "export default () => Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1);";

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
async fn endless_loop_is_stopped_and_the_next_call_is_served() {
    let house = House::start(|_| {}).await;
    let mut tool = Tool::new("endless", ENDLESS);
    tool.limits.cpu_ms = 200;
    let ran = house.call(&tool).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Stopped(StopReason::CpuTime { limit_ms: 200 }));
    assert!((150_000..500_000).contains(&ran.spent.cpu_us), "{:?}", ran.spent);
    assert_eq!(house.pool.status().idle, 0, "its process is not used again");
    assert_eq!(json(house.call(&Tool::new("counter", COUNTER)).await), "1");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn native_loop_ends_by_the_processor_clock() {
    let house = House::start(|_| {}).await;
    let mut tool = Tool::new("native", NATIVE_LOOP);
    tool.limits.cpu_ms = 200;
    let ran = house.call(&tool).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Stopped(StopReason::CpuTime { limit_ms: 200 }));
    // By the worker where it can, at the limit; else by the host, at limit and grace.
    assert!((150_000..700_000).contains(&ran.spent.cpu_us), "{:?}", ran.spent);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_does_not_answer_is_killed_by_the_host() {
    let house = House::start(|config| config.spares = 0).await;
    let mut tool = Tool::new("sleeper", &sleeping(60_000));
    tool.limits.wall_ms = 500;
    let freezing = async {
        house.until(|pool| pool.status().waiting_in_ops == 1).await;
        house.processes().into_iter().for_each(|pid| signal(pid, Signal::STOP));
    };
    let (ran, ()) = tokio::join!(house.call(&tool), freezing);
    let ran = ran.unwrap();
    assert_eq!(ran.outcome, Outcome::Stopped(StopReason::WallTime { limit_ms: 500 }));
    assert!(ran.spent.wall_us >= 750_000, "at limit and grace: {:?}", ran.spent);
    assert_eq!(house.pool.status().totals.kills, 1);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn handler_that_waits_too_long_is_stopped_by_wall_time() {
    let house = House::start(|_| {}).await;
    let mut tool = Tool::new("sleeper", &sleeping(60_000));
    tool.limits.wall_ms = 300;
    let ran = house.call(&tool).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Stopped(StopReason::WallTime { limit_ms: 300 }));
    assert!((300_000..1_500_000).contains(&ran.spent.wall_us), "{:?}", ran.spent);
    assert!(ran.spent.cpu_us < 100_000, "waiting is not computing: {:?}", ran.spent);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heap_bomb_is_stopped_by_memory() {
    let house = House::start(|_| {}).await;
    let tool = Tool::new("bomb", "export default () => { const all = []; for (;;) all.push(new Array(10000).fill(all.length)); };");
    let ran = house.call(&tool).await.unwrap();
    assert!(matches!(ran.outcome, Outcome::Stopped(StopReason::Memory { .. })), "{:?}", ran.outcome);
    assert_eq!(house.pool.status().idle, 0);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resident_memory_over_its_limit_is_killed_by_the_host() {
    let house = House::start(|_| {}).await;
    let mut tool = Tool::new("small", "export default () => { for (;;) {} };");
    tool.limits.rss_bytes = 1 << 20;
    tool.limits.cpu_ms = 5_000;
    let ran = house.call(&tool).await;
    // Loading is under the same limit, and may be the one that is seen.
    match ran {
        Ok(ran) => assert_eq!(ran.outcome, Outcome::Stopped(StopReason::Memory { limit_bytes: 1 << 20 })),
        Err(error) => assert!(matches!(error, PoolError::Load(_)), "{error:?}"),
    }
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_killed_in_a_call_is_a_crash_and_the_next_call_is_served() {
    let house = House::start(|_| {}).await;
    let tool = Tool::new("sleeper", &sleeping(60_000));
    let pool = house.pool.clone();
    let call = house.call(&tool);
    let murder = async {
        house.until(|pool| pool.status().waiting_in_ops == 1).await;
        // Whichever is the call's: all of this pool's processes die, and the pool goes on.
        house.processes().into_iter().for_each(kill);
    };
    let (ran, ()) = tokio::join!(call, murder);
    assert_eq!(ran.unwrap().outcome, Outcome::Stopped(StopReason::Crashed));
    assert_eq!(json(house.call(&Tool::new("counter", COUNTER)).await), "1");
    assert_eq!(pool.status().totals.crashes, 1);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_dies_idle_costs_no_call() {
    let house = House::start(|config| config.spares = 0).await;
    let tool = Tool::new("counter", COUNTER);
    assert_eq!(json(house.call(&tool).await), "1");
    house.processes().into_iter().for_each(kill);
    house.until(|_| house.processes().is_empty()).await;
    // The runtime hears of it a moment later.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(json(house.call(&tool).await), "1");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hundred_waiting_calls_need_two_slots_and_the_time_of_one() {
    let house = House::start(|config| {
        (config.running, config.max_processes, config.max_idle, config.spares) = (2, 120, 120, 0);
        config.patience = Duration::from_secs(60);
    })
    .await;
    let mut tool =
        Tool::new("sleeper", "export default async (req) => { await new Promise((wake) => setTimeout(wake, req.body)); return 1; };");
    // Processes first: what is measured is waiting, not starting.
    tool.body = "5000";
    join_all((0..100).map(|_| house.call(&tool))).await.into_iter().for_each(|ran| assert_eq!(json(ran), "1"));
    let warm = house.pool.status().idle;
    assert!(warm > 20, "most calls waited beside each other: {warm}");
    tool.body = "1000";
    let asked = Instant::now();
    join_all((0..warm).map(|_| house.call(&tool))).await.into_iter().for_each(|ran| assert_eq!(json(ran), "1"));
    // Two at a time they would take ten seconds and more.
    assert!(asked.elapsed() < Duration::from_secs(5), "{warm} calls took {:?}", asked.elapsed());
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_that_floods_leaves_others_their_half() {
    let house = House::start(|config| (config.running, config.patience) = (2, Duration::from_secs(30))).await;
    let spin = "export default () => { let n = 0; for (let i = 0; i < 2e6; i++) n += i % 7; return n > 0; };";
    let (flood, guest) = (Tool::new("flood", spin).of("flooder"), Tool::new("guest", "export default () => 1;").of("guest"));
    house.call(&guest).await.unwrap();
    let flooding = join_all((0..40).map(|_| house.call(&flood)));
    let visiting = async {
        house.until(|pool| pool.status().queued > 20).await;
        let asked = Instant::now();
        house.call(&guest).await.unwrap();
        (asked.elapsed(), house.pool.status().queued)
    };
    let (flooded, (waited, still_queued)) = tokio::join!(flooding, visiting);
    assert!(flooded.iter().all(Result::is_ok));
    assert!(still_queued > 5, "the guest was served before the flood was over: {still_queued} queued, waited {waited:?}");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoint_whose_workers_are_killed_again_and_again_is_held() {
    let house = House::start(|config| config.breaker_kills = 2).await;
    let mut tool = Tool::new("endless", ENDLESS);
    tool.limits.cpu_ms = 20;
    for _ in 0..2 {
        house.call(&tool).await.unwrap();
    }
    let held = house.call(&tool).await;
    assert!(matches!(held, Err(PoolError::Held { retry_after }) if retry_after > Duration::from_secs(50)), "{held:?}");
    assert_eq!(json(house.call(&Tool::new("counter", COUNTER)).await), "1");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retired_version_starts_anew() {
    let house = House::start(|_| {}).await;
    let tool = Tool::new("counter", COUNTER);
    house.call(&tool).await.unwrap();
    assert_eq!(house.pool.status().idle, 1);
    house.pool.retire(&tool.bundle.version);
    assert_eq!(house.pool.status().idle, 0);
    assert_eq!(json(house.call(&tool).await), "1");
    // A worker in a call ends when its call has.
    let sleeper = Tool::new("sleeper", &sleeping(300));
    let retiring = async {
        house.until(|pool| pool.status().waiting_in_ops == 1).await;
        house.pool.retire(&sleeper.bundle.version);
    };
    let (ran, ()) = tokio::join!(house.call(&sleeper), retiring);
    assert_eq!(json(ran), "1");
    assert_eq!(house.pool.status().idle, 1, "the counter's worker alone is left");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_that_is_given_up_takes_its_process_along() {
    let house = House::start(|config| config.spares = 0).await;
    let tool = Tool::new("endless", ENDLESS);
    let given_up = tokio::time::timeout(Duration::from_millis(400), house.call(&tool)).await;
    assert!(given_up.is_err());
    house.until(|_| house.processes().is_empty()).await;
    let status = house.pool.status();
    assert_eq!((status.running, status.processes, status.totals.cancels), (0, 0, 1));
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
async fn worker_that_grows_is_replaced() {
    let house = House::start(|config| config.max_growth = 1).await;
    let tool = Tool::new("leak", "const all = []; export default () => all.push(new Array(1_000_000).fill(all.length + 0.5));");
    // Less than its heap allows, more than a process is counted at.
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

#[tokio::test(flavor = "multi_thread")]
async fn processes_are_never_more_than_allowed() {
    let house = House::start(|config| (config.max_processes, config.spares) = (2, 0)).await;
    for number in 0..5 {
        house.call(&Tool::new(&format!("tool-{number}"), COUNTER)).await.unwrap();
        assert!(house.pool.status().processes <= 2);
    }
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn check_tells_a_handler_that_loads_from_one_that_does_not() {
    let house = House::start(|_| {}).await;
    // On a busy machine half a second of processor time may take long.
    let limits = Limits { load_wall_ms: 10_000, ..Limits::default() };
    let check = async |source: &str| house.pool.check(&Tool::new("checked", source).bundle, limits).await;
    check(COUNTER).await.unwrap();
    let Err(PoolError::Load(error)) = check("export default () => {\n  const = 1;\n};").await else { panic!("it does not parse") };
    assert_eq!(error.line, Some(2), "{error:?}");
    let Err(PoolError::Load(error)) = check("for (;;) {} export default () => 1;").await else { panic!("its top level does not end") };
    assert!(error.message.contains("500 ms"), "{error:?}");
    let Err(PoolError::Load(error)) = check("export default Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1);").await else {
        panic!("its top level does not end")
    };
    assert!(error.message.contains("500 ms"), "{error:?}");
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
async fn calls_sent_ahead_are_answered_each_with_its_own() {
    const BODIES: [&str; 16] = ["10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20", "21", "22", "23", "24", "25"];
    let house = House::start(|config| {
        (config.running, config.spares, config.pipeline_time, config.pipeline_patience) = (2, 0, Duration::MAX, Duration::from_secs(10))
    })
    .await;
    let echo = |body| {
        let mut tool = Tool::new("echo", "export default (req) => req.body;");
        tool.body = body;
        tool
    };
    let house = Arc::new(house);
    let callers = BODIES.map(|body| {
        let (house, tool) = (Arc::clone(&house), echo(body));
        tokio::spawn(async move {
            for _ in 0..300 {
                assert_eq!(json(house.call(&tool).await), body);
            }
        })
    });
    join_all(callers).await.into_iter().for_each(|caller| caller.unwrap());
    let totals = house.pool.status().totals;
    assert_eq!((totals.calls, totals.crashes, totals.kills, totals.refused), (16 * 300, 0, 0, 0));
    assert!(totals.pipelined > 100, "{totals:?}");
    assert_eq!(house.pool.status().queued, 0);
    Arc::into_inner(house).unwrap().close().await;
}

/// Callers that hang up, and calls that wait or throw, amid calls that are sent ahead.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_the_answer_of_another_whatever_becomes_of_calls_sent_ahead() {
    let source = "export default async (req) => { const { id, ms, fail } = req.body; if (ms) await new Promise((wake) => setTimeout(wake, ms)); if (fail) throw new Error(id); return id; };";
    let house = Arc::new(House::start(|config| (config.running, config.pipeline_time) = (2, Duration::MAX)).await);
    let callers = (0..16_u64).map(|caller| {
        let house = Arc::clone(&house);
        tokio::spawn(async move {
            for call in 0..200_u64 {
                let (id, n) = (format!("{caller}-{call}"), caller * 7 + call);
                let (ms, fail, hangs_up) = (u64::from(n.is_multiple_of(23)) * 3, n.is_multiple_of(11), n.is_multiple_of(41));
                let mut tool = Tool::new("storm", source);
                tool.body = String::leak(format!(r#"{{"id":"{id}","ms":{ms},"fail":{fail}}}"#));
                if hangs_up {
                    _ = tokio::time::timeout(Duration::from_micros(50 * (n % 20)), house.call(&tool)).await;
                    continue;
                }
                match house.call(&tool).await.unwrap().outcome {
                    Outcome::Returned(reply) if !fail => assert_eq!(reply.body, ReplyBody::Json(format!("\"{id}\"").into())),
                    Outcome::Threw(thrown) if fail => assert!(thrown.message.ends_with(&id), "{id}: {thrown:?}"),
                    other => panic!("{id}: {other:?}"),
                }
            }
        })
    });
    join_all(callers).await.into_iter().for_each(|caller| caller.unwrap());
    house.until(|pool| pool.status().running == 0).await;
    let status = house.pool.status();
    assert_eq!((status.waiting_in_ops, status.queued, status.totals.refused, status.totals.crashes), (0, 0, 0, 0), "{status:?}");
    assert!(status.totals.pipelined > 100, "{status:?}");
    Arc::into_inner(house).unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_sent_ahead_run_in_order_on_one_worker() {
    let (house, tool, worker) = brief(COUNTER, |_| {}).await;
    let calls = join_all((0..4).map(|_| house.call(&tool)));
    let wake = async {
        house.until(|pool| pool.status().queued == 3).await;
        assert_eq!(house.pool.status().running, 1, "a call that was sent ahead needs no slot");
        signal(worker, Signal::CONT);
    };
    let (answers, ()) = tokio::join!(calls, wake);
    let answers: Vec<u32> = answers.into_iter().map(|ran| json(ran).parse().unwrap()).collect();
    assert_eq!(answers, [BRIEF_CALLS + 1, BRIEF_CALLS + 2, BRIEF_CALLS + 3, BRIEF_CALLS + 4]);
    assert_eq!((house.pool.status().totals.pipelined, house.pool.status().totals.started), (3, 1));
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_is_sent_ahead_where_the_pipeline_is_closed() {
    let (house, tool, worker) = brief(COUNTER, |config| config.pipeline = 0).await;
    let first = house.call(&tool);
    let second = async {
        house.until(|pool| pool.status().running == 1).await;
        assert_eq!(json(house.call(&tool).await), "1", "another worker");
        signal(worker, Signal::CONT);
    };
    let (first, ()) = tokio::join!(first, second);
    assert_eq!(json(first), (BRIEF_CALLS + 1).to_string());
    assert_eq!(house.pool.status().totals.pipelined, 0);
    house.close().await;
}

/// The call before it waits three seconds; it would wait as long.
#[tokio::test(flavor = "multi_thread")]
async fn call_sent_ahead_of_one_that_waits_goes_elsewhere() {
    let source = "let calls = 0; export default async (req) => { if (req.body.ms) await new Promise((wake) => setTimeout(wake, req.body.ms)); return ++calls; };";
    let (house, tool, worker) = brief(source, |_| {}).await;
    let mut slow = Tool::new("brief", source);
    slow.body = r#"{"ms":3000}"#;
    let asked = Instant::now();
    let waiting = house.call(&slow);
    let others = async {
        house.until(|pool| pool.status().running == 1).await;
        let others = join_all((0..3).map(|_| house.call(&tool)));
        let wake = async {
            house.until(|pool| pool.status().queued == 3).await;
            signal(worker, Signal::CONT);
        };
        let (others, ()) = tokio::join!(others, wake);
        assert!(asked.elapsed() < Duration::from_secs(2), "they did not wait for it: {:?}", asked.elapsed());
        others.into_iter().map(|ran| json(ran).parse::<u32>().unwrap()).for_each(|calls| assert!(calls < BRIEF_CALLS, "{calls}"));
        assert_eq!(house.pool.status().waiting_in_ops, 1);
        house.call(&tool).await.unwrap();
    };
    let (waited, ()) = tokio::join!(waiting, others);
    assert_eq!(json(waited), (BRIEF_CALLS + 1).to_string(), "none of them ran on the first worker");
    let totals = house.pool.status().totals;
    assert_eq!((totals.pipelined, totals.crashes, totals.kills), (3, 0, 0), "none is sent ahead to a worker that waits");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_that_dies_takes_its_own_call_along_and_none_that_was_sent_ahead() {
    let (house, tool, worker) = brief(COUNTER, |_| {}).await;
    let first = house.call(&tool);
    let others = async {
        house.until(|pool| pool.status().running == 1).await;
        let others = join_all((0..3).map(|_| house.call(&tool)));
        let murder = async {
            house.until(|pool| pool.status().queued == 3).await;
            kill(worker);
        };
        tokio::join!(others, murder).0
    };
    let (first, others) = tokio::join!(first, others);
    assert_eq!(first.unwrap().outcome, Outcome::Stopped(StopReason::Crashed));
    others.into_iter().for_each(|ran| assert!(matches!(ran.unwrap().outcome, Outcome::Returned(_))));
    assert_eq!(house.pool.status().totals.crashes, 1);
    house.close().await;
}

/// Whatever the worker does with the call that was given up, nobody else is to meet it.
#[tokio::test(flavor = "multi_thread")]
async fn call_given_up_behind_another_costs_the_worker_and_not_the_other() {
    let (house, tool, worker) = brief(COUNTER, |_| {}).await;
    let first = house.call(&tool);
    let others = async {
        house.until(|pool| pool.status().running == 1).await;
        let given_up = tokio::time::timeout(Duration::from_millis(300), house.call(&tool));
        let third = async {
            house.until(|pool| pool.status().queued == 1).await;
            house.call(&tool).await
        };
        let wake = async {
            house.until(|pool| pool.status().queued == 2).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            signal(worker, Signal::CONT);
        };
        let (given_up, third, ()) = tokio::join!(given_up, third, wake);
        assert!(given_up.is_err(), "it waited until it was given up");
        third
    };
    let (first, third) = tokio::join!(first, others);
    assert_eq!(json(first), (BRIEF_CALLS + 1).to_string(), "the first is none the worse for it");
    assert_eq!(json(third), "1", "the third was run by a worker that knows nothing of the second");
    assert!(!house.processes().contains(&worker));
    house.close().await;
}

/// A handler that took microseconds may take its whole limit for another input.
#[tokio::test(flavor = "multi_thread")]
async fn call_behind_one_that_takes_long_goes_elsewhere() {
    let (house, tool, worker) = brief(COUNTER, |config| config.pipeline_patience = Duration::from_millis(100)).await;
    let first = house.call(&tool);
    let second = async {
        house.until(|pool| pool.status().running == 1).await;
        assert_eq!(json(house.call(&tool).await), "1");
        assert_eq!(house.pool.status().totals.pipelined, 1);
        signal(worker, Signal::CONT);
    };
    let (first, ()) = tokio::join!(first, second);
    assert_eq!(json(first), (BRIEF_CALLS + 1).to_string());
    assert_eq!(json(house.call(&tool).await), "2", "what the first worker made of the call that went away nobody sees");
    assert!(!house.processes().contains(&worker));
    house.close().await;
}

/// The queue's patience is that of calls that were sent ahead, too.
#[tokio::test(flavor = "multi_thread")]
async fn call_sent_ahead_is_refused_when_its_patience_is_over() {
    let (house, tool, worker) = brief(COUNTER, |config| (config.running, config.patience) = (1, Duration::from_millis(400))).await;
    let first = house.call(&tool);
    let second = async {
        house.until(|pool| pool.status().running == 1).await;
        let second = house.call(&tool).await;
        signal(worker, Signal::CONT);
        second
    };
    let (first, second) = tokio::join!(first, second);
    assert!(matches!(second, Err(PoolError::Busy { .. })), "{second:?}");
    assert_eq!(json(first), (BRIEF_CALLS + 1).to_string());
    assert_eq!(json(house.call(&tool).await), "1", "the refused call was not run where anybody could see it");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_answers_calls_that_were_sent_ahead() {
    let (house, tool, worker) = brief(COUNTER, |_| {}).await;
    let calls = join_all((0..4).map(|_| house.call(&tool)));
    let close = async {
        house.until(|pool| pool.status().queued == 3).await;
        let wake = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            signal(worker, Signal::CONT);
        };
        tokio::join!(house.pool.shutdown(), wake);
    };
    let (answers, ()) = tokio::join!(calls, close);
    answers.into_iter().for_each(|ran| assert!(matches!(ran.unwrap().outcome, Outcome::Returned(_))));
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_lets_a_call_end_and_leaves_no_process() {
    let house = House::start(|_| {}).await;
    let sleeper = Tool::new("sleeper", &sleeping(400));
    let call = async {
        let ran = house.call(&sleeper).await;
        assert_eq!(json(ran), "1");
    };
    let shutdown = async {
        house.until(|pool| pool.status().waiting_in_ops == 1).await;
        house.pool.shutdown().await;
    };
    tokio::join!(call, shutdown);
    assert_eq!(house.processes(), [0; 0]);
    assert!(matches!(house.call(&sleeper).await, Err(PoolError::Busy { .. })));
}

/// Calls that end in every way there is, many at once, some given up half-way.
#[tokio::test(flavor = "multi_thread")]
async fn storm_of_calls_leaves_nothing_behind() {
    let house = House::start(|config| {
        (config.running, config.max_processes, config.breaker_kills) = (3, 10, usize::MAX);
        config.patience = Duration::from_secs(60);
    })
    .await;
    let mut endless = Tool::new("endless", ENDLESS).of("a");
    endless.limits.cpu_ms = 10;
    let mut fresh = Tool::new("fresh", COUNTER).of("b");
    fresh.isolation = Isolation::Fresh;
    let tools = [
        Tool::new("counter", COUNTER).of("a"),
        Tool::new("sleeper", &sleeping(30)).of("b"),
        Tool::new("thrower", "export default () => { throw 1; };").of("c"),
        Tool::new("broken", "export default () => { throw 1; }; throw 2;").of("c"),
        fresh,
        endless,
    ];
    let storm = (0..180_u64).map(|number| {
        let call = house.call(&tools[number as usize % tools.len()]);
        let patience = if number.is_multiple_of(5) { Duration::from_millis(number * 7) } else { Duration::from_secs(120) };
        tokio::time::timeout(patience, call)
    });
    let ended = join_all(storm).await;
    assert!(ended.iter().filter(|ended| ended.is_ok()).count() >= 144);
    let status = house.pool.status();
    assert_eq!((status.running, status.waiting_in_ops, status.queued), (0, 0, 0), "{status:?}");
    assert!(status.processes <= 10 && status.idle + status.spares <= status.processes, "{status:?}");
    house.call(&tools[0]).await.unwrap();
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_pool_leaves_no_process() {
    let house = House::start(|_| {}).await;
    house.call(&Tool::new("counter", COUNTER)).await.unwrap();
    let name = house.name.clone();
    drop(house);
    let gone = async {
        while !processes_called(&name).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone).await.expect("every process ends with the pool");
}

/// Calls that a worker has served before the test.
const BRIEF_CALLS: u32 = 10;

/// A pool with one worker that is stopped: its next call waits in it, and further ones are sent ahead to it, whatever the
/// first ones cost.
async fn brief(source: &str, settings: impl FnOnce(&mut PoolConfig)) -> (House, Tool, i32) {
    let house = House::start(|config| {
        (config.spares, config.pipeline_time, config.pipeline_patience) = (0, Duration::MAX, Duration::from_secs(10));
        settings(config);
    })
    .await;
    let tool = Tool::new("brief", source);
    for _ in 0..BRIEF_CALLS {
        house.call(&tool).await.unwrap();
    }
    let [worker] = house.processes()[..] else { panic!("more than one worker: {:?}", house.pool.status()) };
    signal(worker, Signal::STOP);
    (house, tool, worker)
}

/// A pool whose workers have a name of their own, by which they are found in `/proc`.
struct House {
    pool: Pool,
    name: String,
    link: PathBuf,
}

impl House {
    async fn start(settings: impl FnOnce(&mut PoolConfig)) -> Self {
        static HOUSES: AtomicU64 = AtomicU64::new(0);
        let name = format!("th{}-{}", std::process::id(), HOUSES.fetch_add(1, Ordering::Relaxed));
        let link = std::env::temp_dir().join(&name);
        symlink(worker(), &link).unwrap();
        let mut config = PoolConfig::new(&link);
        config.patience = Duration::from_secs(10);
        settings(&mut config);
        let pool = Pool::start(config).unwrap();
        Self { pool, name, link }
    }

    async fn call(&self, tool: &Tool) -> Result<Ran, PoolError> {
        let job = Job {
            bundle: &tool.bundle,
            owner: &tool.owner,
            endpoint: &tool.endpoint,
            isolation: tool.isolation,
            concurrency: 1_000,
            start: Start {
                call: "call_1".into(),
                head: Bytes::from_static(b"{}"),
                body: Bytes::from_static(tool.body.as_bytes()),
                env: vec![],
                now_ms: 1_700_000_000_000,
                limits: tool.limits,
            },
        };
        self.pool.run(job, &Sleeper).await
    }

    /// Waits until `holds`; fails after 20 s.
    async fn until(&self, holds: impl Fn(&Pool) -> bool) {
        let patience = Instant::now() + Duration::from_secs(20);
        while !holds(&self.pool) {
            assert!(Instant::now() < patience, "it never came to be: {:?}", self.pool.status());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn processes(&self) -> Vec<i32> {
        processes_called(&self.name)
    }

    async fn close(self) {
        self.pool.shutdown().await;
        assert_eq!(self.processes(), [0; 0], "every process ends with the pool");
        assert_eq!(self.pool.status().running, 0);
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.link);
    }
}

struct Tool {
    bundle: Arc<Bundle>,
    endpoint: String,
    owner: String,
    isolation: Isolation,
    limits: Limits,
    body: &'static str,
}

impl Tool {
    fn new(endpoint: &str, source: &str) -> Self {
        let bundle = Bundle {
            version: format!("{:x}", source.bytes().fold(5_381_u64, |hash, byte| hash.wrapping_mul(33) ^ u64::from(byte))),
            specifier: format!("tool:/{endpoint}/1"),
            source: Bytes::copy_from_slice(source.as_bytes()),
            language: Language::Js,
        };
        Self {
            bundle: Arc::new(bundle),
            endpoint: endpoint.into(),
            owner: "builder".into(),
            isolation: Isolation::Warm,
            limits: Limits::default(),
            body: "{}",
        }
    }

    fn of(mut self, owner: &str) -> Self {
        self.owner = owner.into();
        self
    }
}

/// Grants nothing but time.
struct Sleeper;

impl OpHost for Sleeper {
    fn op(&self, request: OpRequest) -> BoxFuture<'_, Result<OpValue, OpFailure>> {
        Box::pin(async move {
            match request {
                OpRequest::Sleep { ms } => {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    Ok(OpValue::None)
                }
                other => Err(OpFailure { code: "not_granted".into(), message: format!("{other:?}") }),
            }
        })
    }

    fn log(&self, _: LogLine) {}
}

fn sleeping(ms: u64) -> String {
    format!("export default async () => {{ await new Promise((wake) => setTimeout(wake, {ms})); return 1; }};")
}

fn json(ran: Result<Ran, PoolError>) -> String {
    let ran = ran.unwrap();
    let spent = ran.spent;
    match ran.outcome {
        Outcome::Returned(reply) => match reply.body {
            ReplyBody::Json(json) => String::from_utf8(json.to_vec()).unwrap(),
            ReplyBody::Raw(raw) => panic!("a raw body: {raw:?}"),
        },
        other => panic!("no answer: {other:?}, {spent:?}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "a test is told where the worker is")]
fn worker() -> PathBuf {
    let path =
        std::env::var("TOLLHOUSE_WORKER").expect("TOLLHOUSE_WORKER must name the `tollhouse-worker` binary; `cargo xtask test` sets it");
    fs::canonicalize(&path).unwrap_or_else(|error| panic!("TOLLHOUSE_WORKER={path}: {error}"))
}

fn kill(pid: i32) {
    signal(pid, Signal::KILL);
}

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Processes of that name that are alive.
fn processes_called(name: &str) -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
        stat.contains(&format!("({name})")) && !stat.contains(") Z ")
    })
    .collect()
}
