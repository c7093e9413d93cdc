//! Periodic upkeep of the store's contents, as long as its owner exists.

use std::{future::Future, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tollhouse_base::log_gate::LogGate;

use super::StoreError;

/// Begins a turn with this number. Returns `None` if the owner no longer exists. It is boxed, so that the task is
/// compiled once.
type BeginTurn = Box<dyn Fn(u64) -> Option<BoxFuture<'static, Result<(), StoreError>>> + Send>;

/// Limits the log lines of all background work together, because all of it fails again and again while the store is unavailable.
static UNAVAILABLE: LogGate = LogGate::every(Duration::from_secs(60));

/// Logs that `what` failed, which will be tried again. Only one line a minute of all such work is a warning, and the others are at
/// the level `debug`.
pub fn log_unavailable(error: &StoreError, what: &str) {
    match UNAVAILABLE.pass() {
        Some(skipped) => tracing::warn!(%error, skipped, "the store was unavailable for {what}; the host will try again"),
        None => tracing::debug!(%error, "the store was unavailable for {what}"),
    }
}

/// Starts a task that runs `turn` at once and then every `period`. Each turn gets its number, from 0 on. If the store
/// is unavailable, the failed turn is [logged](log_unavailable) as `what` and left to the next one. The task ends when nobody else holds
/// `of`. Call it inside a tokio runtime.
pub fn maintain<T, Turn>(of: &Arc<T>, period: Duration, what: &'static str, turn: impl Fn(Arc<T>, u64) -> Turn + Send + 'static)
where
    T: Send + Sync + 'static,
    Turn: Future<Output = Result<(), StoreError>> + Send + 'static,
{
    let of = Arc::downgrade(of);
    run_turns(period, what, Box::new(move |number| Some(Box::pin(turn(of.upgrade()?, number)))));
}

fn run_turns(period: Duration, what: &'static str, begin: BeginTurn) {
    tokio::spawn(async move {
        let mut tick = tokio::time::interval(period);
        for number in 0_u64.. {
            tick.tick().await;
            let Some(turn) = begin(number) else { return };
            if let Err(error) = turn.await {
                log_unavailable(&error, what);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn turns_run_once_a_period_until_the_owner_is_dropped() {
        let (done, period) = (Arc::new(Mutex::new(vec![])), Duration::from_secs(5));
        let held = Arc::new(());
        let reported = Arc::clone(&done);
        maintain(&held, period, "a test", move |_, number| {
            reported.lock().unwrap().push(number);
            async { Err(StoreError::Conflict) }
        });
        tokio::time::sleep(period * 2 + period / 2).await;
        assert_eq!(*done.lock().unwrap(), [0, 1, 2]);
        drop(held);
        tokio::time::sleep(period * 2).await;
        assert_eq!((done.lock().unwrap().len(), Arc::strong_count(&done)), (3, 1), "the task has ended");
    }
}
