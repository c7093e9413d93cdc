//! Calls that are sent ahead to a busy worker.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use rustix::process::Signal;
use tokio::time::Instant;
use tollhouse_pool::{CompletedRun, PoolConfig, PoolError};
use tollhouse_protocol::{Isolation, Outcome, ReplyBody, StopReason};

use crate::test_pool::{COUNTER, TestPool, Tool, json, kill, signal};

/// Number of calls that the worker served before it was stopped.
const SERVED: u32 = 10;

/// A pool with one worker, stopped by a signal. The next call waits in it, and further calls are sent ahead to it, whatever the first
/// ones cost.
struct Stopped {
    pool: TestPool,
    tool: Tool,
    worker: i32,
}

impl Stopped {
    async fn start(source: &str, settings: impl FnOnce(&mut PoolConfig)) -> Self {
        let pool = TestPool::start(|config| {
            (config.spares, config.pipeline_time, config.pipeline_timeout) = (0, Duration::MAX, Duration::from_secs(10));
            settings(config);
        })
        .await;
        let tool = Tool::new("brief", source);
        for _ in 0..SERVED {
            pool.call(&tool).await.unwrap();
        }
        let worker = pool.process();
        signal(worker, Signal::STOP);
        Self { pool, tool, worker }
    }

    async fn call(&self) -> Result<CompletedRun, PoolError> {
        self.pool.call(&self.tool).await
    }

    /// Makes `calls` concurrent calls.
    async fn calls(&self, calls: usize) -> Vec<Result<CompletedRun, PoolError>> {
        join_all((0..calls).map(|_| self.call())).await
    }

    /// Makes a call, and runs `then` once the worker has it.
    async fn call_and<T>(&self, then: impl Future<Output = T>) -> (Result<CompletedRun, PoolError>, T) {
        let then = async {
            self.pool.until(|pool| pool.status().running == 1).await;
            then.await
        };
        tokio::join!(self.call(), then)
    }

    async fn until_queued(&self, calls: usize) {
        self.pool.until(|pool| pool.status().queued == calls).await;
    }

    /// Lets the stopped worker continue.
    fn wake(&self) {
        signal(self.worker, Signal::CONT);
    }

    /// Waits until the worker is gone. The kernel removes a killed process with some delay.
    async fn wait_for_exit(&self) {
        self.pool.until(|_| !self.pool.processes().contains(&self.worker)).await;
    }
}

/// Returns the counter's answer to the `ordinal`-th call since the worker was stopped.
fn count(ordinal: u32) -> String {
    (SERVED + ordinal).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_sent_ahead_are_answered_each_with_its_own() {
    const BODIES: [&str; 16] = ["10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20", "21", "22", "23", "24", "25"];
    let pool = TestPool::start(|config| {
        (config.running, config.spares, config.pipeline_time, config.pipeline_timeout) = (2, 0, Duration::MAX, Duration::from_secs(10))
    })
    .await;
    let echo = |body| {
        let mut tool = Tool::new("echo", "export default (req) => req.body;");
        tool.body = body;
        tool
    };
    let pool = Arc::new(pool);
    let callers = BODIES.map(|body| {
        let (pool, tool) = (Arc::clone(&pool), echo(body));
        tokio::spawn(async move {
            for _ in 0..300 {
                assert_eq!(json(pool.call(&tool).await), body);
            }
        })
    });
    join_all(callers).await.into_iter().for_each(|caller| caller.unwrap());
    let totals = pool.pool.status().totals;
    assert_eq!((totals.calls, totals.crashes, totals.kills, totals.refused), (16 * 300, 0, 0, 0));
    assert!(totals.pipelined > 100, "{totals:?}");
    assert_eq!(pool.pool.status().queued, 0);
    Arc::into_inner(pool).unwrap().close().await;
}

/// Callers that disconnect, and calls that wait or throw, among calls that are sent ahead.
#[tokio::test(flavor = "multi_thread")]
async fn answers_never_mix_among_calls_sent_ahead() {
    let source = "export default async (req) => { const { id, ms, fail } = req.body; if (ms) await new Promise((wake) => setTimeout(wake, ms)); if (fail) throw new Error(id); return id; };";
    let test_pool = Arc::new(TestPool::start(|config| (config.running, config.pipeline_time) = (2, Duration::MAX)).await);
    let callers = (0..16_u64).map(|caller| {
        let test_pool = Arc::clone(&test_pool);
        tokio::spawn(async move {
            for call in 0..200_u64 {
                let (id, n) = (format!("{caller}-{call}"), caller * 7 + call);
                let (ms, fail, hangs_up) = (u64::from(n.is_multiple_of(23)) * 3, n.is_multiple_of(11), n.is_multiple_of(41));
                let mut tool = Tool::new("storm", source);
                tool.body = String::leak(format!(r#"{{"id":"{id}","ms":{ms},"fail":{fail}}}"#));
                if hangs_up {
                    _ = tokio::time::timeout(Duration::from_micros(50 * (n % 20)), test_pool.call(&tool)).await;
                    continue;
                }
                match test_pool.call(&tool).await.unwrap().outcome {
                    Outcome::Returned(reply) if !fail => assert_eq!(reply.body, ReplyBody::Json(format!("\"{id}\"").into())),
                    Outcome::Threw(thrown) if fail => assert!(thrown.message.ends_with(&id), "{id}: {thrown:?}"),
                    other => panic!("{id}: {other:?}"),
                }
            }
        })
    });
    join_all(callers).await.into_iter().for_each(|caller| caller.unwrap());
    test_pool.until(|pool| pool.status().running == 0).await;
    let status = test_pool.pool.status();
    assert_eq!((status.waiting_in_ops, status.queued, status.totals.refused, status.totals.crashes), (0, 0, 0, 0), "{status:?}");
    assert!(status.totals.pipelined > 100, "{status:?}");
    Arc::into_inner(test_pool).unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_sent_ahead_run_in_order_on_one_worker() {
    let stopped = Stopped::start(COUNTER, |_| {}).await;
    let wake = async {
        stopped.until_queued(3).await;
        assert_eq!(stopped.pool.pool.status().running, 1, "a call that was sent ahead needs no slot");
        stopped.wake();
    };
    let (answers, ()) = tokio::join!(stopped.calls(4), wake);
    let answers: Vec<_> = answers.into_iter().map(json).collect();
    assert_eq!(answers, [count(1), count(2), count(3), count(4)]);
    let totals = stopped.pool.pool.status().totals;
    assert_eq!((totals.pipelined, totals.started), (3, 1));
    stopped.pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_is_sent_ahead_if_the_pipeline_is_closed() {
    let stopped = Stopped::start(COUNTER, |config| config.pipeline = 0).await;
    let second = async {
        assert_eq!(json(stopped.call().await), "1", "another worker");
        stopped.wake();
    };
    let (first, ()) = stopped.call_and(second).await;
    assert_eq!(json(first), count(1));
    assert_eq!(stopped.pool.pool.status().totals.pipelined, 0);
    stopped.pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_with_fresh_isolation_is_not_sent_ahead() {
    let stopped = Stopped::start(COUNTER, |_| {}).await;
    let mut fresh = Tool::new("brief", COUNTER);
    fresh.isolation = Isolation::Fresh;
    let second = async {
        assert_eq!(json(stopped.pool.call(&fresh).await), "1");
        stopped.wake();
    };
    let (first, ()) = stopped.call_and(second).await;
    assert_eq!(json(first), count(1));
    assert_eq!(stopped.pool.pool.status().totals.pipelined, 0);
    stopped.pool.close().await;
}

/// The call before it waits three seconds. Behind it this call would wait as long.
#[tokio::test(flavor = "multi_thread")]
async fn call_sent_ahead_behind_a_waiting_call_runs_elsewhere() {
    let source = "let calls = 0; export default async (req) => { if (req.body.ms) await new Promise((wake) => setTimeout(wake, req.body.ms)); return ++calls; };";
    let mut stopped = Stopped::start(source, |_| {}).await;
    stopped.tool.body = r#"{"ms":3000}"#;
    let quick = Tool::new("brief", source);
    let started = Instant::now();
    let others = async {
        let others = join_all((0..3).map(|_| stopped.pool.call(&quick)));
        let wake = async {
            stopped.until_queued(3).await;
            stopped.wake();
        };
        let (others, ()) = tokio::join!(others, wake);
        assert!(started.elapsed() < Duration::from_secs(2), "they did not wait for it: {:?}", started.elapsed());
        others.into_iter().map(|ran| json(ran).parse::<u32>().unwrap()).for_each(|calls| assert!(calls < SERVED, "{calls}"));
        assert_eq!(stopped.pool.pool.status().waiting_in_ops, 1);
        stopped.pool.call(&quick).await.unwrap();
    };
    let (waited, ()) = stopped.call_and(others).await;
    assert_eq!(json(waited), count(1), "none of them ran on the first worker");
    let totals = stopped.pool.pool.status().totals;
    assert_eq!((totals.pipelined, totals.crashes, totals.kills), (3, 0, 0), "no call is sent ahead to a waiting worker");
    stopped.pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dying_worker_fails_its_running_call_but_none_that_was_sent_ahead() {
    let stopped = Stopped::start(COUNTER, |_| {}).await;
    let others = async {
        let murder = async {
            stopped.until_queued(3).await;
            kill(stopped.worker);
        };
        tokio::join!(stopped.calls(3), murder).0
    };
    let (first, others) = stopped.call_and(others).await;
    assert_eq!(first.unwrap().outcome, Outcome::Stopped(StopReason::Crashed));
    others.into_iter().for_each(|ran| assert!(matches!(ran.unwrap().outcome, Outcome::Returned(_))));
    assert_eq!(stopped.pool.pool.status().totals.crashes, 1);
    stopped.pool.close().await;
}

/// No effect of the abandoned call in the worker is visible to another call.
#[tokio::test(flavor = "multi_thread")]
async fn call_canceled_behind_another_ends_the_worker_but_not_the_other_call() {
    let stopped = Stopped::start(COUNTER, |_| {}).await;
    let others = async {
        let given_up = tokio::time::timeout(Duration::from_millis(300), stopped.call());
        let third = async {
            stopped.until_queued(1).await;
            stopped.call().await
        };
        let wake = async {
            stopped.until_queued(2).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            stopped.wake();
        };
        let (given_up, third, ()) = tokio::join!(given_up, third, wake);
        assert!(given_up.is_err(), "it waited until it was canceled");
        third
    };
    let (first, third) = stopped.call_and(others).await;
    assert_eq!(json(first), count(1), "the first call is not affected");
    assert_eq!(json(third), "1", "the third call ran on a worker without the state of the second");
    stopped.wait_for_exit().await;
    stopped.pool.close().await;
}

/// A handler that took microseconds can use its whole limit for another input.
#[tokio::test(flavor = "multi_thread")]
async fn call_behind_a_long_call_runs_elsewhere() {
    let stopped = Stopped::start(COUNTER, |config| config.pipeline_timeout = Duration::from_millis(100)).await;
    let second = async {
        assert_eq!(json(stopped.call().await), "1");
        assert_eq!(stopped.pool.pool.status().totals.pipelined, 1);
        stopped.wake();
    };
    let (first, ()) = stopped.call_and(second).await;
    assert_eq!(json(first), count(1));
    assert_eq!(json(stopped.call().await), "2", "the canceled call has no visible effect");
    stopped.wait_for_exit().await;
    stopped.pool.close().await;
}

/// The queue's patience also applies to calls that were sent ahead.
#[tokio::test(flavor = "multi_thread")]
async fn call_sent_ahead_is_refused_at_its_deadline() {
    let stopped = Stopped::start(COUNTER, |config| {
        (config.running, config.timeout, config.quantum) = (1, Duration::from_millis(400), Duration::from_secs(60));
    })
    .await;
    let second = async {
        let second = stopped.call().await;
        stopped.wake();
        second
    };
    let (first, second) = stopped.call_and(second).await;
    assert!(matches!(second, Err(PoolError::Busy { .. })), "{second:?}");
    assert_eq!(json(first), count(1));
    assert_eq!(json(stopped.call().await), "1", "the refused call has no visible effect");
    stopped.pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_answers_calls_that_were_sent_ahead() {
    let stopped = Stopped::start(COUNTER, |_| {}).await;
    let close = async {
        stopped.until_queued(3).await;
        let wake = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            stopped.wake();
        };
        tokio::join!(stopped.pool.pool.shutdown(), wake);
    };
    let (answers, ()) = tokio::join!(stopped.calls(4), close);
    answers.into_iter().for_each(|ran| assert!(matches!(ran.unwrap().outcome, Outcome::Returned(_))));
    stopped.pool.close().await;
}
