//! How often each endpoint was called of late, and how long that took: kept, so that who lists many endpoints reads no series.
//!
//! The figures are of what is stored. What this process stores is added with each writing; once an hour all of it is counted anew, which
//! leaves out what has become too old and takes in what other processes stored. Until the first count has ended there are none. A count
//! reads so many rows at a turn, and takes as many turns as it needs: of a million endpoints that are called it takes longer than an hour.

use std::{
    sync::{Arc, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tollhouse_base::id::EndpointId;
use tollhouse_store::{Direction, Ended, Range, StoreError};

use super::{
    CALL_METRICS, Key, Metrics, OF_ALL, SOME, Span,
    bucket::Lengths,
    kept::{Figures, Kept},
};

/// How far back the figures of an endpoint go, in milliseconds, and those of all endpoints together.
const OF_ONE_MS: u64 = 30 * 24 * 3_600 * 1_000;
const OF_ALL_MS: u64 = 24 * 3_600 * 1_000;

/// How long after a count the next one begins, and after how long one goes on when the store was not there.
const COUNT_EVERY: Duration = Duration::from_secs(3_600);
const COUNT_AGAIN: Duration = Duration::from_secs(10);
/// Rows that a turn of a count reads, and those of one endpoint more.
pub(super) const COUNTED_AT_ONCE: usize = 20_000;
/// How long it rests between two turns: the first count, and those after it.
const FIRST_REST: Duration = Duration::from_secs(1);
const REST: Duration = Duration::from_secs(60);

/// How far a count has come.
pub(super) struct Counting {
    rest: Range<Key>,
}

impl Default for Counting {
    fn default() -> Self {
        Self { rest: CALL_METRICS.all() }
    }
}

impl Metrics {
    /// How the endpoint was called within 30 days; `None` as long as that is being counted.
    #[must_use]
    pub fn figures(&self, endpoint: &EndpointId) -> Option<Figures> {
        self.kept().figures(endpoint)
    }

    /// How all endpoints were called within 24 hours, also those that are gone.
    #[must_use]
    pub fn figures_of_all(&self) -> Option<Figures> {
        self.figures(&OF_ALL)
    }

    /// Starts the task that counts, which ends when nobody holds the metrics any more.
    pub(super) fn start_counting(self: &Arc<Self>) {
        let metrics = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut counting = Counting::default();
            while let Some(metrics) = Weak::upgrade(&metrics) {
                let rest = match metrics.count_some(&mut counting).await {
                    Ok(true) => COUNT_EVERY,
                    Ok(false) if metrics.kept().is_counted() => REST,
                    Ok(false) => FIRST_REST,
                    Err(error) => {
                        tracing::warn!(%error, "the store was not there to count calls");
                        COUNT_AGAIN
                    }
                };
                drop(metrics);
                tokio::time::sleep(rest).await;
            }
        });
    }

    /// Counts what is stored and not too old, one endpoint after the other, from where it ended the last time. True once it has counted all.
    ///
    /// # Errors
    ///
    /// The store's; then what was kept of those that were not counted stays.
    pub(super) async fn count_some(&self, counting: &mut Counting) -> Result<bool, StoreError> {
        let mut read = 0;
        while read < COUNTED_AT_ONCE {
            let Some((own, ..)) = CALL_METRICS.first(&*self.store, &counting.rest).await? else {
                self.kept().counted();
                *counting = Counting::default();
                return Ok(true);
            };
            // Nothing is stored meanwhile that is not counted, nor counted twice.
            let _one = self.writing.lock().await;
            let (lengths, rows) = self.stored(&own.0).await?;
            read += 1 + rows;
            counting.rest = counting.rest.clone().behind(&own);
            self.kept().set(own.0, lengths);
        }
        Ok(false)
    }

    /// How long the calls took that are stored of an endpoint, and how many rows that is.
    async fn stored(&self, endpoint: &EndpointId) -> Result<(Lengths, usize), StoreError> {
        let back = if endpoint == &*OF_ALL { OF_ALL_MS } else { OF_ONE_MS };
        let since = self.clock.now().0.saturating_sub(back).next_multiple_of(Span::Hour.millis());
        let own = (Ended(endpoint.clone()), Span::Hour as u8);
        let mut range = CALL_METRICS.under(&own).from(&(own.0, own.1, since));
        let (mut lengths, mut read) = (Lengths::default(), 0);
        loop {
            let rows = CALL_METRICS.readable(&*self.store, &range, SOME, Direction::Forward).await?;
            read += rows.len().max(1);
            let last = rows.last().filter(|_| rows.len() == SOME).map(|(key, _)| key.clone());
            rows.into_iter().filter_map(|(_, bucket)| bucket).for_each(|bucket| lengths += bucket.lengths);
            let Some(last) = last else { return Ok((lengths, read)) };
            range = range.after(&last);
        }
    }

    pub(super) fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
