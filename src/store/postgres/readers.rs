//! The reading connections. Each query uses the one with the fewest running queries.

use std::{
    array,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{sync::Mutex, time::timeout};
use tokio_postgres::Error;
use tollhouse_base::error_chain::full_message;

use super::{
    address::{PostgresConfig, READERS},
    error::OpenError,
    error_class::{describe, passes},
    open::PAUSES,
    reader::ReadConnection,
};
use crate::StoreError;

/// Maximum wait for the answer to a query, including reconnects.
const TIMEOUT: Duration = Duration::from_secs(8);
/// Maximum wait for an answer on one connection. The database aborts a query sooner than that.
const QUERY_TIMEOUT: Duration = Duration::from_secs(6);

/// The reading connections. Each is opened on first use.
pub(super) struct ReadPool {
    config: PostgresConfig,
    slots: [Slot; READERS],
}

#[derive(Default)]
struct Slot {
    current: Mutex<Option<Arc<ReadConnection>>>,
    requested: AtomicUsize,
}

/// A running query.
struct QueryGuard<'a>(&'a Slot);

impl Drop for QueryGuard<'_> {
    fn drop(&mut self) {
        self.0.requested.fetch_sub(1, Relaxed);
    }
}

impl ReadPool {
    pub(super) fn new(config: PostgresConfig) -> Self {
        Self { config, slots: array::from_fn(|_| Slot::default()) }
    }

    /// Runs a query and repeats it if a connection is lost.
    pub(super) async fn query<T, Q>(&self, query: impl Fn(Arc<ReadConnection>) -> Q) -> Result<T, StoreError>
    where
        Q: Future<Output = Result<T, Error>>,
    {
        let mut failed = "it does not answer".to_owned();
        let attempts = async {
            let mut pause = PAUSES[0];
            loop {
                let guard = self.least_busy();
                match guard.0.reader(&self.config).await {
                    Ok(reader) => match timeout(QUERY_TIMEOUT, query(Arc::clone(&reader))).await {
                        Ok(Ok(answer)) => return Ok(answer),
                        Ok(Err(error)) if passes(&error) => failed = describe(&error),
                        Ok(Err(error)) => return Err(StoreError::Away(describe(&error))),
                        // Later queries on this connection would not be answered either.
                        Err(_) => guard.0.forget(&reader).await,
                    },
                    Err(error) => failed = full_message(&error),
                }
                drop(guard);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSES[1]);
            }
        };
        let answered = timeout(TIMEOUT, attempts).await;
        answered.unwrap_or_else(|_| Err(StoreError::Away(format!("no answer within {} s: {failed}", TIMEOUT.as_secs()))))
    }

    fn least_busy(&self) -> QueryGuard<'_> {
        let slot = self.slots.iter().min_by_key(|slot| slot.requested.load(Relaxed)).expect("there are some");
        slot.requested.fetch_add(1, Relaxed);
        QueryGuard(slot)
    }
}

impl Slot {
    /// Returns the connection, reconnecting if it was lost.
    async fn reader(&self, config: &PostgresConfig) -> Result<Arc<ReadConnection>, OpenError> {
        let mut current = self.current.lock().await;
        if let Some(reader) = current.as_ref().filter(|reader| !reader.is_closed()) {
            return Ok(Arc::clone(reader));
        }
        let reader = Arc::new(ReadConnection::open(config).await?);
        *current = Some(Arc::clone(&reader));
        Ok(reader)
    }

    /// Stops using this connection for further queries.
    async fn forget(&self, reader: &Arc<ReadConnection>) {
        let mut current = self.current.lock().await;
        current.take_if(|current| Arc::ptr_eq(current, reader));
    }
}
