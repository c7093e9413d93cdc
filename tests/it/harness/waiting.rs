//! Waits for a host, and work while it runs.

use std::{
    future::Future,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use super::{Host, eventually};

impl Host {
    /// Kills the host after `wait`, a moment chosen by chance, and then sets `is_killed`. See [`Host::cut_power`].
    pub async fn cut_power_after(&self, wait: Duration, is_killed: &AtomicBool) {
        tokio::time::sleep(wait).await;
        self.cut_power();
        is_killed.store(true, Ordering::SeqCst);
    }

    /// Requests `/health/live` until `done`. Returns its result, and how long each answer took, sorted.
    pub async fn live_until<T>(&self, done: impl Future<Output = T>) -> (T, Vec<Duration>) {
        let mut times = Vec::new();
        tokio::pin!(done);
        let result = loop {
            let started = Instant::now();
            tokio::select! {
                biased;
                done = &mut done => break done,
                answer = self.get("/health/live") => { answer.is(200); }
            }
            times.push(started.elapsed());
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        times.sort_unstable();
        (result, times)
    }

    /// Waits until at least `count` calls are running.
    pub async fn wait_for_calls(&self, count: u64) {
        eventually("the calls are running", Duration::from_secs(20), async || {
            let metrics = self.get("/metrics").await.is(200).words();
            let running = metrics.lines().find_map(|line| line.strip_prefix("tollhouse_calls_under_way ")).unwrap().parse::<u64>().unwrap();
            (running >= count).then_some(())
        })
        .await;
    }
}
