use std::num::NonZeroU32;

use futures_util::future::join_all;
use tokio::{
    sync::Barrier,
    task::{JoinHandle, yield_now},
    time::Instant,
};

use super::*;

/// Number of attempts that arrive together.
const TOGETHER: usize = 200;

fn attempts(per_minute: u32) -> Arc<Attempts<u32>> {
    let per_minute = NonZeroU32::new(per_minute).unwrap();
    Arc::new(Attempts::new(FailureLimiter::new(per_minute, Duration::from_secs(60 * 60))))
}

/// Begins an attempt of key 1 in a task, and ends it.
fn spawn_attempt(attempts: &Arc<Attempts<u32>>) -> JoinHandle<Result<(), AttemptError>> {
    let attempts = Arc::clone(attempts);
    tokio::spawn(async move { attempts.begin(1).await.map(drop) })
}

/// Waits until this many attempts of key 1 are open or waiting.
async fn entered(attempts: &Arc<Attempts<u32>>, count: usize) {
    while attempts.queues.lock()[&1].attempts < count {
        yield_now().await;
    }
}

/// Returns the result of `work`, which must not take forever.
async fn ends<T>(work: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60 * 60), work).await.expect("it waits for an event that never comes")
}

/// Begins attempts of one key at the same moment. Returns how many ran. `fail` decides whether they fail.
async fn together(attempts: &Arc<Attempts<u32>>, fail: bool) -> usize {
    let barrier = Arc::new(Barrier::new(TOGETHER));
    let tasks = (0..TOGETHER).map(|_| {
        let (attempts, barrier) = (Arc::clone(attempts), Arc::clone(&barrier));
        tokio::spawn(async move {
            barrier.wait().await;
            let Ok(attempt) = attempts.begin(1).await else { return false };
            yield_now().await;
            if fail {
                attempt.fail();
            }
            true
        })
    });
    join_all(tasks).await.into_iter().filter(|ran| *ran.as_ref().unwrap()).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn simultaneous_attempts_run_only_until_the_limit_is_reached() {
    for max in [1, 3, 10] {
        let attempts = attempts(max);
        assert_eq!(together(&attempts, true).await, max as usize);
        assert!(attempts.begin(1).await.is_err());
        assert!(attempts.begin(2).await.is_ok(), "another key");
        assert!(attempts.queues.lock().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn simultaneous_attempts_that_succeed_all_run() {
    for max in [1, 3] {
        let attempts = attempts(max);
        assert_eq!(together(&attempts, false).await, TOGETHER);
        assert!(!attempts.penalties().has_failures(&1, gcra::now()) && attempts.queues.lock().is_empty());
    }
}

#[tokio::test]
async fn abandoned_attempt_does_not_block_its_queue() {
    let attempts = attempts(1);
    let first = attempts.begin(1).await.unwrap();
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let attempts = Arc::clone(&attempts);
            tokio::spawn(async move { attempts.begin(1).await.is_ok() })
        })
        .collect();
    while attempts.queues.lock()[&1].attempts < 3 {
        yield_now().await;
    }
    for abandoned in waiting {
        abandoned.abort();
        assert!(abandoned.await.unwrap_err().is_cancelled());
    }
    drop(first);
    assert!(attempts.begin(1).await.is_ok());
    assert!(attempts.queues.lock().is_empty());
}

/// Failures are also counted without an attempt, for example those on other hosts.
#[tokio::test(start_paused = true)]
async fn failure_counted_while_an_attempt_begins_makes_none_wait_forever() {
    let attempts = attempts(1);
    attempts.penalties().fail_after_next_lock(1);
    assert_eq!(ends(attempts.begin(1)).await.map(drop), Ok(()), "the failure came later");
    let refused = Err(AttemptError::Failed(Duration::from_secs(60)));
    assert_eq!(ends(attempts.begin(1)).await.map(drop), refused, "the limit is reached, and no attempt is open");
    assert!(attempts.queues.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn failure_counted_while_an_attempt_waits_refuses_it() {
    let attempts = attempts(2);
    let open = attempts.begin(1).await.unwrap();
    attempts.penalties().count(1, gcra::now());
    let waiting = spawn_attempt(&attempts);
    entered(&attempts, 2).await;
    attempts.penalties().count(1, gcra::now());
    drop(open);
    assert_eq!(ends(waiting).await.unwrap(), Err(AttemptError::Failed(Duration::from_secs(30))));
    assert!(attempts.queues.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn attempts_do_not_wait_forever() {
    let attempts = attempts(1);
    let open = attempts.begin(1).await.unwrap();
    let started = Instant::now();
    let results = ends(join_all((0..3).map(|_| spawn_attempt(&attempts)))).await;
    assert!(results.into_iter().all(|result| result.unwrap() == Err(AttemptError::Busy(BUSY))));
    assert!((MAX_WAIT..MAX_WAIT + BUSY).contains(&started.elapsed()), "{:?}", started.elapsed());
    drop(open);
    assert!(attempts.begin(1).await.is_ok());
    assert!(attempts.queues.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn waiting_attempts_of_a_key_are_bounded() {
    let attempts = attempts(1);
    let open = attempts.begin(1).await.unwrap();
    let waiting: Vec<_> = (0..MAX_WAITING).map(|_| spawn_attempt(&attempts)).collect();
    entered(&attempts, MAX_WAITING + 1).await;
    let started = Instant::now();
    assert_eq!(attempts.begin(1).await.map(drop), Err(AttemptError::Busy(BUSY)));
    assert_eq!(started.elapsed(), Duration::ZERO, "it is refused at once");
    assert!(attempts.begin(2).await.is_ok(), "another key");
    drop(open);
    assert!(ends(join_all(waiting)).await.into_iter().all(|result| result.unwrap().is_ok()));
    assert!(attempts.queues.lock().is_empty());
}
