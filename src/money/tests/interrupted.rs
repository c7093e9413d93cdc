//! A store that is interrupted.

use super::*;

/// A store that runs something else right before a given commit.
pub(super) struct Interrupted {
    inner: Arc<MemoryStore>,
    /// Number of commits before the interruption.
    after: AtomicUsize,
    interruption: Mutex<Option<futures_util::future::BoxFuture<'static, ()>>>,
}

impl Interrupted {
    pub(super) fn before_commit(nth: usize, inner: Arc<MemoryStore>) -> Arc<Self> {
        Arc::new(Self { inner, after: AtomicUsize::new(nth), interruption: Mutex::default() })
    }

    pub(super) fn by(&self, interruption: impl Future<Output = ()> + Send + 'static) {
        *self.interruption.lock().unwrap() = Some(Box::pin(interruption));
    }
}

#[async_trait]
impl StoreWrapper for Interrupted {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn on_apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        if self.after.fetch_sub(1, Ordering::SeqCst) == 1 {
            let interruption = self.interruption.lock().unwrap().take();
            if let Some(interruption) = interruption {
                interruption.await;
            }
        }
        self.inner.apply(batch, durability).await
    }
}
