//! Cancels calls that another replica runs.
//!
//! A replica that cannot find the call to cancel puts its name into the shared store. Each replica checks the store
//! four times a second while it runs calls that can be canceled. If the store is not shared, nothing is written or
//! checked.

use std::{
    num::NonZeroU32,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::{MissedTickBehavior, interval};
use tollhouse_base::{
    clock::{Clock, Timestamp},
    rate_limit::RateLimiter,
};
use tollhouse_store::{Batch, Direction, Durability, Store, StoreError, Table, schema};

const CANCELS: Table<(Timestamp, String), ()> = schema::MCP_RECALLS.holding();

/// Interval of checks for cancellations.
const POLL_EVERY: Duration = Duration::from_millis(250);

/// How long a cancellation is valid, in milliseconds. The clocks of replicas differ by less.
const RETENTION_MS: u64 = 30_000;

/// Maximum names read at once, newest first, and maximum names deleted at once.
const SOME: usize = 1_000;

/// Maximum names per second that are stored without knowing that the call exists. Further ones are dropped.
const RATE: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// Running work that can be canceled by name.
pub(super) trait Cancelable: Send + Sync + 'static {
    /// Returns whether any such work runs here.
    fn any(&self) -> bool;

    /// Cancels the work with this name if it existed when the cancellation was requested, `ago` before now. Returns
    /// false if it is not here.
    fn cancel_named(&self, name: &str, ago: Duration) -> bool;
}

/// Sends cancellations to other replicas and receives theirs.
pub(super) struct RemoteCancels {
    store: Arc<dyn Store>,
    clock: Clock,
    unsure: RateLimiter<()>,
}

impl RemoteCancels {
    pub(super) fn new(store: Arc<dyn Store>, clock: Clock) -> Arc<Self> {
        Arc::new(Self { store, clock, unsure: RateLimiter::new(RATE) })
    }

    /// Sends a cancellation to the replica that runs the work.
    pub(super) async fn request_cancel(&self, name: &str) -> Result<(), StoreError> {
        if !self.store.is_shared() {
            return Ok(());
        }
        let now = self.clock.now();
        let old = CANCELS.all().before(&Timestamp(now.0.saturating_sub(2 * RETENTION_MS)));
        CANCELS.clear(&*self.store, &old, SOME as u64).await?;
        CANCELS.put(&(now, name.to_owned()), &()).commit(&*self.store, Durability::Buffered).await.map(|_| ())
    }

    /// Sends a cancellation for work that may not exist, in the background and with a rate limit. Call it inside a
    /// tokio runtime.
    pub(super) fn request_cancel_if_unsure(self: &Arc<Self>, name: String) {
        if !self.store.is_shared() || self.unsure.wait(&()).is_some() {
            return;
        }
        let cancels = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = cancels.request_cancel(&name).await {
                tracing::warn!(%error, "a cancellation could not be sent to other replicas");
            }
        });
    }

    /// Starts the task that receives cancellations until all of `running` is dropped. Does nothing if the store is not
    /// shared. Call it inside a tokio runtime.
    pub(super) fn follow(self: &Arc<Self>, running: [Weak<dyn Cancelable>; 2]) {
        if !self.store.is_shared() {
            return;
        }
        let cancels = Arc::clone(self);
        tokio::spawn(async move {
            let mut tick = interval(POLL_EVERY);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut failing = false;
            loop {
                tick.tick().await;
                let running: Vec<_> = running.iter().filter_map(Weak::upgrade).collect();
                if running.is_empty() {
                    return;
                }
                if running.iter().any(|one| one.any()) {
                    let checked = cancels.look(&running).await;
                    if let (Err(error), false) = (&checked, failing) {
                        tracing::warn!(%error, "cancellations of other replicas could not be read");
                    }
                    failing = checked.is_err();
                }
            }
        });
    }

    async fn look(&self, running: &[Arc<dyn Cancelable>]) -> Result<(), StoreError> {
        let now = self.clock.now().0;
        let stored = CANCELS.all().from(&Timestamp(now.saturating_sub(RETENTION_MS)));
        let mut handled = Batch::new();
        for (key, _) in CANCELS.readable(&*self.store, &stored, SOME, Direction::Backward).await? {
            let ago = Duration::from_millis(now.saturating_sub(key.0.0));
            if running.iter().any(|one| one.cancel_named(&key.1, ago)) {
                handled.delete(&CANCELS, &key);
            }
        }
        if handled.changes_nothing() { Ok(()) } else { handled.commit(&*self.store, Durability::Buffered).await.map(|_| ()) }
    }
}
