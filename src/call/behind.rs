//! Receipts of free calls, written behind the answer: no money hangs on them, so no call waits for the store.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use super::finish::ReceiptFinisher;
use crate::{
    receipt::Draft,
    store::{Durability, Store, Write},
};

/// Receipts that may wait to be written. A call that finds more waits for the store itself.
const MAX_WAITING: usize = 20_000;

/// How long the first receipt of a batch waits for others.
const GATHER: Duration = Duration::from_millis(5);

/// Time to the next try after the store refused a batch.
const RETRY: Duration = Duration::from_secs(1);

/// The receipts of free calls on their way to the store. A crash may lose those of the last half second.
pub struct FreeReceipts {
    store: Arc<dyn Store>,
    waiting: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    written: Notify,
    some: Notify,
}

impl fmt::Debug for FreeReceipts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FreeReceipts").field("waiting", &self.waiting().len()).finish_non_exhaustive()
    }
}

impl FreeReceipts {
    /// Starts the writing task; it ends when nobody holds the receipts any more. Must be called inside a tokio runtime.
    #[must_use]
    pub fn start(store: Arc<dyn Store>) -> Arc<Self> {
        let receipts = Arc::new(Self { store, waiting: Mutex::default(), written: Notify::new(), some: Notify::new() });
        let weak = Arc::downgrade(&receipts);
        tokio::spawn(async move {
            while let Some(receipts) = weak.upgrade() {
                if receipts.waiting().is_empty() {
                    // Looks up now and then whether anybody is left to write for.
                    _ = tokio::time::timeout(RETRY, receipts.some.notified()).await;
                }
                tokio::time::sleep(GATHER).await;
                receipts.write().await;
            }
        });
        receipts
    }

    /// Takes the receipt of a free call.
    pub(super) async fn put(&self, draft: Draft) {
        let Write { key, value, .. } = ReceiptFinisher::free(draft);
        while self.waiting().len() >= MAX_WAITING {
            let written = self.written.notified();
            self.some.notify_one();
            written.await;
        }
        let first = {
            let mut waiting = self.waiting();
            waiting.insert(key, value.unwrap_or_default());
            waiting.len() == 1
        };
        if first {
            self.some.notify_one();
        }
    }

    /// A receipt that is not in the store yet.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Vec<u8>> {
        self.waiting().get(id.as_bytes()).cloned()
    }

    /// Writes what waits. What the store does not take stays and is tried again.
    pub async fn write(&self) {
        let batch: Vec<_> = self.waiting().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        if batch.is_empty() {
            return;
        }
        let put = |(key, value): &(Vec<u8>, Vec<u8>)| ReceiptFinisher::write(key.clone(), value.clone());
        match self.store.commit(vec![], batch.iter().map(put).collect(), Durability::Buffered).await {
            Ok(()) => {
                let mut waiting = self.waiting();
                for (key, _) in &batch {
                    waiting.remove(key);
                }
            }
            Err(error) => {
                tracing::error!(%error, receipts = batch.len(), "receipts of free calls could not be written yet");
                tokio::time::sleep(RETRY).await;
            }
        }
        self.written.notify_waiters();
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Vec<u8>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
