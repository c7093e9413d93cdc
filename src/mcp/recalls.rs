//! Calls taken back at another replica than the one that runs them.
//!
//! Where a store is shared, who is asked to take back what does not run there puts its name into the store, where the replica that
//! runs it finds it: each looks four times a second, while it runs what can be taken back. Elsewhere nothing is written, and nothing
//! is looked for.

use std::{
    num::NonZeroU32,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::{MissedTickBehavior, interval};
use tollhouse_base::{
    clock::{Clock, Timestamp},
    rate::Rate,
};
use tollhouse_store::{Batch, Direction, Durability, Store, StoreError, Table, schema};

const RECALLS: Table<(Timestamp, String), ()> = schema::MCP_RECALLS.holding();

/// How often a replica looks for what others were asked to take back.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long a name is looked for, in milliseconds. Clocks of replicas are apart by less.
const KEPT_MS: u64 = 30_000;

/// Names found at once, the newest of them, and names forgotten at once.
const SOME: usize = 1_000;

/// Names of what may never have been that are put there in a second; more are left out.
const RATE: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// What can be taken back by its name.
pub(super) trait Recallable: Send + Sync + 'static {
    /// Whether anything runs here that can.
    fn any(&self) -> bool;

    /// Takes back what has this name, and was there when that was asked for, so long `ago`; false where nothing here is that.
    fn recall(&self, name: &str, ago: Duration) -> bool;
}

/// What this replica was asked to take back, and others run.
pub(super) struct Recalls {
    store: Arc<dyn Store>,
    clock: Clock,
    unsure: Rate<()>,
}

impl Recalls {
    pub(super) fn new(store: Arc<dyn Store>, clock: Clock) -> Arc<Self> {
        Arc::new(Self { store, clock, unsure: Rate::new(RATE) })
    }

    /// Has the replica that runs it take back what has this name.
    ///
    /// # Errors
    ///
    /// The store's.
    pub(super) async fn tell(&self, name: &str) -> Result<(), StoreError> {
        if !self.store.is_shared() {
            return Ok(());
        }
        let now = self.clock.now();
        let old = RECALLS.all().before(&Timestamp(now.0.saturating_sub(2 * KEPT_MS)));
        RECALLS.clear(&*self.store, &old, SOME as u64).await?;
        RECALLS.put(&(now, name.to_owned()), &()).commit(&*self.store, Durability::Buffered).await.map(|_| ())
    }

    /// The same of what may never have been, beside whatever goes on here. Must be called inside a tokio runtime.
    pub(super) fn tell_of_unsure(self: &Arc<Self>, name: String) {
        if !self.store.is_shared() || self.unsure.wait(&()).is_some() {
            return;
        }
        let recalls = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = recalls.tell(&name).await {
                tracing::warn!(%error, "a call that was taken back here goes on where it runs");
            }
        });
    }

    /// Starts the task that takes back what runs here, until all of `running` is gone: none where the store is of one host. Must be
    /// called inside a tokio runtime.
    pub(super) fn heed(self: &Arc<Self>, running: [Weak<dyn Recallable>; 2]) {
        if !self.store.is_shared() {
            return;
        }
        let recalls = Arc::clone(self);
        tokio::spawn(async move {
            let mut tick = interval(LOOK_EVERY);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut away = false;
            loop {
                tick.tick().await;
                let running: Vec<_> = running.iter().filter_map(Weak::upgrade).collect();
                if running.is_empty() {
                    return;
                }
                if running.iter().any(|one| one.any()) {
                    let looked = recalls.look(&running).await;
                    if let (Err(error), false) = (&looked, away) {
                        tracing::warn!(%error, "what other replicas were asked to take back could not be looked for");
                    }
                    away = looked.is_err();
                }
            }
        });
    }

    async fn look(&self, running: &[Arc<dyn Recallable>]) -> Result<(), StoreError> {
        let now = self.clock.now().0;
        let kept = RECALLS.all().from(&Timestamp(now.saturating_sub(KEPT_MS)));
        let mut heeded = Batch::new();
        for (key, _) in RECALLS.readable(&*self.store, &kept, SOME, Direction::Backward).await? {
            let ago = Duration::from_millis(now.saturating_sub(key.0.0));
            if running.iter().any(|one| one.recall(&key.1, ago)) {
                heeded.delete(&RECALLS, &key);
            }
        }
        if heeded.changes_nothing() { Ok(()) } else { heeded.commit(&*self.store, Durability::Buffered).await.map(|_| ()) }
    }
}
