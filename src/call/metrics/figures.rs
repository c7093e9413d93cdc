//! How often each endpoint was called of late, and how long that took: kept, so that who lists many endpoints reads no series.
//!
//! The figures are of what is stored. What this process stores is added with each writing; once an hour all of it is counted anew, which
//! leaves out what has become too old and takes in what other processes stored. Until the first count has ended there are none.

use std::{
    collections::BTreeSet,
    sync::{Arc, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use super::{
    CALL_METRICS, Metrics, OF_ALL, SOME, Span,
    bucket::Lengths,
    kept::{Figures, Kept},
};
use crate::{
    base::id::EndpointId,
    store::{Direction, Ended, StoreError},
};

/// How far back the figures of an endpoint go, in milliseconds, and those of all endpoints together.
const OF_ONE_MS: u64 = 30 * 24 * 3_600 * 1_000;
const OF_ALL_MS: u64 = 24 * 3_600 * 1_000;

/// How often all is counted anew, and after how long again when the store was not there.
const COUNT_EVERY: Duration = Duration::from_secs(3_600);
const COUNT_AGAIN: Duration = Duration::from_secs(10);

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
            while let Some(metrics) = Weak::upgrade(&metrics) {
                let counted = metrics.count().await;
                drop(metrics);
                if let Err(error) = &counted {
                    tracing::warn!(%error, "the store was not there to count calls");
                }
                tokio::time::sleep(if counted.is_ok() { COUNT_EVERY } else { COUNT_AGAIN }).await;
            }
        });
    }

    /// Counts all that is stored and not too old, one endpoint after the other.
    ///
    /// # Errors
    ///
    /// The store's; then what was kept of those that were not counted stays.
    pub(super) async fn count(&self) -> Result<(), StoreError> {
        let mut endpoints: BTreeSet<_> = self.kept().endpoints().cloned().collect();
        let mut rest = CALL_METRICS.all();
        while let Some((own, ..)) = CALL_METRICS.first(&*self.store, &rest).await? {
            rest = rest.behind(&own);
            endpoints.insert(own.0);
        }
        for endpoint in endpoints {
            // Nothing is stored meanwhile that is not counted, nor counted twice.
            let _one = self.writing.lock().await;
            let lengths = self.stored(&endpoint).await?;
            self.kept().set(endpoint, lengths);
        }
        self.kept().counted();
        Ok(())
    }

    /// How long the calls took that are stored of an endpoint.
    async fn stored(&self, endpoint: &EndpointId) -> Result<Lengths, StoreError> {
        let back = if endpoint == &*OF_ALL { OF_ALL_MS } else { OF_ONE_MS };
        let since = self.clock.now().0.saturating_sub(back).next_multiple_of(Span::Hour.millis());
        let own = (Ended(endpoint.clone()), Span::Hour as u8);
        let mut range = CALL_METRICS.under(&own).from(&(own.0, own.1, since));
        let mut lengths = Lengths::default();
        loop {
            let rows = CALL_METRICS.readable(&*self.store, &range, SOME, Direction::Forward).await?;
            let Some((last, _)) = rows.last() else { return Ok(lengths) };
            range = range.after(last);
            rows.into_iter().filter_map(|(_, bucket)| bucket).for_each(|bucket| lengths += bucket.lengths);
        }
    }

    pub(super) fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
