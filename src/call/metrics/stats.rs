//! Number and duration of recent calls per tool. They are cached, so that a list of many tools reads no series.
//!
//! The figures cover stored calls. Each write adds the calls of this process. Once an hour everything is counted again,
//! which drops old calls and adds those stored by other processes. Until the first count is complete there are no
//! figures. A count reads a limited number of rows per turn, and takes as many turns as needed. With a million active
//! tools it takes longer than an hour.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tollhouse_base::id::EndpointId;
use tollhouse_store::{Direction, Range, StoreError, TerminatedText, log_unavailable};

use super::{
    Metrics, OF_ALL, SOME, Span,
    bucket::{CALL_METRICS, DurationHistogram, Key},
    recent::RecentStats,
};

/// Period of a tool's figures and of the figures of all tools together, in milliseconds.
const OF_ONE_MS: u64 = 30 * 24 * 3_600 * 1_000;
const OF_ALL_MS: u64 = 24 * 3_600 * 1_000;

/// Pause between two counts, and before continuing a count after a failure of the store.
const COUNT_EVERY: Duration = Duration::from_secs(3_600);
const COUNT_AGAIN: Duration = Duration::from_secs(10);
/// Number of rows that a turn of a count reads, plus those of one tool.
pub(super) const COUNTED_AT_ONCE: usize = 20_000;
/// Pause between two turns, for the first count and for later ones.
const FIRST_REST: Duration = Duration::from_secs(1);
const REST: Duration = Duration::from_secs(60);

impl Metrics {
    /// Returns a tool's figures of the last 30 days. `None` until the first count is complete.
    pub fn figures(&self, endpoint: &EndpointId) -> Option<RecentStats> {
        self.recent.lock().figures(endpoint)
    }

    /// Returns the figures of all tools of the last 24 hours, including deleted ones.
    pub fn figures_of_all(&self) -> Option<RecentStats> {
        self.figures(&OF_ALL)
    }

    /// Starts the counting task, which ends when the metrics are dropped.
    pub(super) fn start_counting(self: &Arc<Self>) {
        let metrics = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut rest_of_count = CALL_METRICS.all();
            while let Some(metrics) = Weak::upgrade(&metrics) {
                let rest = match metrics.count_some(&mut rest_of_count).await {
                    Ok(true) => COUNT_EVERY,
                    Ok(false) if metrics.recent.lock().is_counted() => REST,
                    Ok(false) => FIRST_REST,
                    Err(error) => {
                        log_unavailable(&error, "counting calls");
                        COUNT_AGAIN
                    }
                };
                drop(metrics);
                tokio::time::sleep(rest).await;
            }
        });
    }

    /// Counts recent stored calls tool by tool. `rest` has the rows that are not counted yet. Returns true once all are
    /// counted.
    ///
    /// # Errors
    ///
    /// Errors of the store. Then the previous figures of uncounted tools stay.
    pub(super) async fn count_some(&self, rest: &mut Range<Key>) -> Result<bool, StoreError> {
        let mut read = 0;
        while read < COUNTED_AT_ONCE {
            let Some((own, ..)) = CALL_METRICS.first(&*self.store, rest).await? else {
                self.recent.lock().counted();
                *rest = CALL_METRICS.all();
                return Ok(true);
            };
            // Under the lock, so that concurrent writes are neither missed nor counted twice.
            let _one = self.writing.lock().await;
            let (lengths, rows) = self.stored(&own.0).await?;
            read += 1 + rows;
            *rest = rest.clone().behind(&own);
            self.recent.lock().set(own.0, lengths);
        }
        Ok(false)
    }

    /// Returns the durations of a tool's stored calls, and the number of rows read.
    async fn stored(&self, endpoint: &EndpointId) -> Result<(DurationHistogram, usize), StoreError> {
        let back = if endpoint == &*OF_ALL { OF_ALL_MS } else { OF_ONE_MS };
        let since = self.clock.now().0.saturating_sub(back).next_multiple_of(Span::Hour.millis());
        let own = (TerminatedText(endpoint.clone()), Span::Hour as u8);
        let mut range = CALL_METRICS.under(&own).from(&(own.0, own.1, since));
        let (mut lengths, mut read) = (DurationHistogram::default(), 0);
        loop {
            let rows = CALL_METRICS.readable(&*self.store, &range, SOME, Direction::Forward).await?;
            read += rows.len().max(1);
            let last = rows.last().filter(|_| rows.len() == SOME).map(|(key, _)| key.clone());
            rows.into_iter().filter_map(|(_, bucket)| bucket).for_each(|bucket| lengths += bucket.lengths);
            let Some(last) = last else { return Ok((lengths, read)) };
            range = range.after(&last);
        }
    }
}
