//! Store wrappers for tests.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tollhouse_base::lock::Lock;

pub use super::faulty::StoreWrapper;
use super::{Batch, Direction, Durability, KeyRange, KeyValues, Space, Store, StoreError, memory::MemoryStore};

/// A store shared by several hosts, on which another host acts just before one scan or commit.
pub struct InterleavingStore<S> {
    inner: Arc<S>,
    /// Number of calls left before that happens. `usize::MAX` if it never happens at this kind of call.
    scans: AtomicUsize,
    commits: AtomicUsize,
    does: Lock<Option<BoxFuture<'static, ()>>>,
}

impl<S: Store> InterleavingStore<S> {
    /// Runs `does` before scan number `number`, counted from 1.
    pub fn before_scan(number: usize, inner: Arc<S>, does: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        Self::before(number, usize::MAX, inner, does)
    }

    /// Runs `does` before commit number `number`, counted from 1. The commit was decided on what was stored before.
    pub fn before_commit(number: usize, inner: Arc<S>, does: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        Self::before(usize::MAX, number, inner, does)
    }

    fn before(scans: usize, commits: usize, inner: Arc<S>, does: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        let [scans, commits] = [scans, commits].map(AtomicUsize::new);
        Arc::new(Self { inner, scans, commits, does: Lock::new(Some(Box::pin(does))) })
    }

    /// Counts a call and runs the action if its turn has come.
    async fn pass(&self, remaining: &AtomicUsize) {
        if remaining.fetch_sub(1, Ordering::SeqCst) == 1 {
            let does = self.does.lock().take();
            if let Some(does) = does {
                does.await;
            }
        }
    }
}

#[async_trait]
impl<S: Store> StoreWrapper for InterleavingStore<S> {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn on_scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<KeyValues, StoreError> {
        self.pass(&self.scans).await;
        self.inner.scan(space, range, limit, direction).await
    }

    async fn on_apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        self.pass(&self.commits).await;
        self.inner.apply(batch, durability).await
    }
}

/// A store that counts the rows read from it, including rows that are only counted.
pub struct CountingStore<S> {
    inner: S,
    rows: AtomicUsize,
}

impl<S: Store> CountingStore<S> {
    /// Counts the rows read from `inner`.
    pub fn of(inner: S) -> Arc<Self> {
        Arc::new(Self { inner, rows: AtomicUsize::new(0) })
    }

    /// Returns the number of rows read since the last call.
    pub fn rows(&self) -> usize {
        self.rows.swap(0, Ordering::SeqCst)
    }
}

#[async_trait]
impl<S: Store> StoreWrapper for CountingStore<S> {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn on_get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.rows.fetch_add(1, Ordering::SeqCst);
        self.inner.get(space, key).await
    }

    async fn on_scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<KeyValues, StoreError> {
        let pairs = self.inner.scan(space, range, limit, direction).await?;
        self.rows.fetch_add(pairs.len().max(1), Ordering::SeqCst);
        Ok(pairs)
    }

    async fn on_count(&self, space: Space, range: KeyRange, max: usize) -> Result<usize, StoreError> {
        let count = self.inner.count(space, range, max).await?;
        self.rows.fetch_add(count.max(1), Ordering::SeqCst);
        Ok(count)
    }

    async fn on_apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        self.inner.apply(batch, durability).await
    }
}

/// An in-memory store that yields to other tasks before it answers, so that a row has often changed by the time a
/// commit checks it.
#[derive(Default)]
pub struct YieldingStore {
    inner: MemoryStore,
    scanned: AtomicUsize,
    scans: AtomicUsize,
}

impl YieldingStore {
    /// Returns the bytes of keys and values that scans have returned so far.
    pub fn scanned(&self) -> usize {
        self.scanned.load(Ordering::Relaxed)
    }

    /// Returns the number of scans so far.
    pub fn scans(&self) -> usize {
        self.scans.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl StoreWrapper for YieldingStore {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn on_get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.inner.get(space, key).await;
        tokio::task::yield_now().await;
        found
    }

    async fn on_scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<KeyValues, StoreError> {
        let found = self.inner.scan(space, range, limit, direction).await;
        let bytes = found.iter().flatten().map(|(key, value)| key.len() + value.len()).sum();
        self.scanned.fetch_add(bytes, Ordering::Relaxed);
        self.scans.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        found
    }

    async fn on_apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        tokio::task::yield_now().await;
        self.inner.apply(batch, durability).await
    }
}
