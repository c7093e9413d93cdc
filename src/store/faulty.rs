//! Stores that wrap another one, and one of them with planned failures, for tests.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use tokio::sync::mpsc;
use tollhouse_base::{clock::Timestamp, lock::Lock};

use super::{Batch, Changes, CopyPage, Direction, Durability, KeyRange, KeyValues, Space, SpaceSizes, Store, StoreError};

/// A store that overrides some methods of another one and forwards the rest.
#[async_trait]
pub trait StoreWrapper: Send + Sync + 'static {
    /// Returns the wrapped store.
    fn inner(&self) -> &dyn Store;

    /// Runs before every read, which fails with its error.
    fn before_read(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Replaces [`Store::get`].
    async fn on_get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner().get(space, key).await
    }

    /// Replaces [`Store::scan`].
    async fn on_scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<KeyValues, StoreError> {
        self.inner().scan(space, range, limit, direction).await
    }

    /// Replaces [`Store::count`].
    async fn on_count(&self, space: Space, range: KeyRange, max: usize) -> Result<usize, StoreError> {
        self.inner().count(space, range, max).await
    }

    /// Replaces [`Store::apply`].
    async fn on_apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError>;
}

#[async_trait]
impl<S: StoreWrapper> Store for S {
    async fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.before_read()?;
        self.on_get(space, key).await
    }

    async fn scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<KeyValues, StoreError> {
        self.before_read()?;
        self.on_scan(space, range, limit, direction).await
    }

    async fn count(&self, space: Space, range: KeyRange, max: usize) -> Result<usize, StoreError> {
        self.before_read()?;
        self.on_count(space, range, max).await
    }

    async fn apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        self.on_apply(batch, durability).await
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Changes, StoreError> {
        self.before_read()?;
        self.inner().changes(after, limit).await
    }

    async fn copy(&self, to: mpsc::Sender<CopyPage>) -> Result<(), StoreError> {
        self.inner().copy(to).await
    }

    fn is_shared(&self) -> bool {
        self.inner().is_shared()
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.before_read()?;
        self.inner().now().await
    }

    fn sizes(&self) -> SpaceSizes {
        self.inner().sizes()
    }
}

/// How a commit fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// [`StoreError::Away`], and nothing is written.
    Before,
    /// [`StoreError::Unknown`], although everything is written.
    After,
    /// [`StoreError::Unknown`], and nothing is written.
    Lost,
    /// [`StoreError::LockTimeout`], and nothing is written.
    Locked,
}

/// Forwards everything to another store except for planned faults.
#[derive(Debug)]
pub struct FaultyStore<S> {
    inner: Arc<S>,
    plan: Lock<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    /// Number of commits requested so far.
    requested: u64,
    /// Faults by number of the commit.
    faults: BTreeMap<u64, Fault>,
    /// The fault of all commits without an entry in `faults`.
    always: Option<Fault>,
    /// Whether reads fail.
    blind: bool,
    /// Number of reads requested so far.
    reads: u64,
}

impl<S> FaultyStore<S> {
    /// Wraps `inner`. No fault is planned yet.
    pub fn new(inner: S) -> Self {
        Self::sharing(Arc::new(inner))
    }

    /// Wraps a store that others also use directly, without faults.
    pub fn sharing(inner: Arc<S>) -> Self {
        Self { inner, plan: Lock::default() }
    }

    /// Makes the `n`-th commit from now fail. 1 is the next.
    pub fn fail_nth(&self, n: u64, fault: Fault) {
        let mut plan = self.plan.lock();
        let number = plan.requested + n;
        plan.faults.insert(number, fault);
    }

    /// Makes every commit fail until [`FaultyStore::heal`] is called.
    pub fn fail_all(&self, fault: Fault) {
        self.plan.lock().always = Some(fault);
    }

    /// Makes every read fail with [`StoreError::Away`] until [`FaultyStore::heal`] is called.
    pub fn fail_reads(&self) {
        self.plan.lock().blind = true;
    }

    /// Cancels all planned faults.
    pub fn heal(&self) {
        let mut plan = self.plan.lock();
        *plan = Plan { requested: plan.requested, reads: plan.reads, ..Plan::default() };
    }

    /// Returns the number of commits requested so far, including failed ones. With it a test can fail each commit in
    /// turn.
    pub fn commits(&self) -> u64 {
        self.plan.lock().requested
    }

    /// Returns the number of reads requested so far, including failed ones.
    pub fn reads(&self) -> u64 {
        self.plan.lock().reads
    }

    /// Returns the wrapped store.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    fn next_fault(&self) -> Option<Fault> {
        let mut plan = self.plan.lock();
        plan.requested += 1;
        let number = plan.requested;
        plan.faults.remove(&number).or(plan.always)
    }
}

#[async_trait]
impl<S: Store> StoreWrapper for FaultyStore<S> {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn before_read(&self) -> Result<(), StoreError> {
        let mut plan = self.plan.lock();
        plan.reads += 1;
        if plan.blind { Err(StoreError::Away("a planned fault".to_owned())) } else { Ok(()) }
    }

    async fn on_apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        match self.next_fault() {
            None => self.inner.apply(batch, durability).await,
            Some(Fault::Before) => Err(StoreError::Away("a planned fault".to_owned())),
            Some(Fault::Locked) => Err(StoreError::LockTimeout("a planned fault".to_owned())),
            Some(Fault::Lost) => Err(StoreError::Unknown("a planned fault".to_owned())),
            Some(Fault::After) => {
                self.inner.apply(batch, durability).await?;
                Err(StoreError::Unknown("a planned fault".to_owned()))
            }
        }
    }
}
