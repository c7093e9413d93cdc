//! The connections that read: each question goes over the one with the fewest under way.

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

use super::{
    address::{PostgresConfig, READERS},
    error::OpenError,
    judge::{passes, told},
    reader::Reader,
};
use crate::StoreError;

/// Longest that a question waits for its answer, connections that were lost meanwhile included.
const PATIENCE: Duration = Duration::from_secs(8);
/// Longest that one connection may take. The database ends a question on its own before that.
const ANSWERED: Duration = Duration::from_secs(6);
/// Waits before a question is asked again.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(500)];

/// The connections that read; each is made when it is first of use.
pub(super) struct Readers {
    config: PostgresConfig,
    slots: [Slot; READERS],
}

#[derive(Default)]
struct Slot {
    held: Mutex<Option<Arc<Reader>>>,
    asked: AtomicUsize,
}

/// A question under way.
struct Asking<'a>(&'a Slot);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.asked.fetch_sub(1, Relaxed);
    }
}

impl Readers {
    pub(super) fn new(config: PostgresConfig) -> Self {
        Self { config, slots: array::from_fn(|_| Slot::default()) }
    }

    /// Asks, and again where a connection is lost.
    pub(super) async fn ask<T, Asked>(&self, question: impl Fn(Arc<Reader>) -> Asked) -> Result<T, StoreError>
    where
        Asked: Future<Output = Result<T, Error>>,
    {
        let mut failed = "it says nothing".to_owned();
        let asking = async {
            let mut pause = PAUSES[0];
            loop {
                let asking = self.least();
                match asking.0.reader(&self.config).await {
                    Ok(reader) => match timeout(ANSWERED, question(Arc::clone(&reader))).await {
                        Ok(Ok(answer)) => return Ok(answer),
                        Ok(Err(error)) if passes(&error) => failed = told(&error),
                        Ok(Err(error)) => return Err(StoreError::Away(told(&error))),
                        // Whatever is asked behind it would not be answered either.
                        Err(_) => asking.0.forget(&reader).await,
                    },
                    Err(error) => failed = error.in_full(),
                }
                drop(asking);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSES[1]);
            }
        };
        let answered = timeout(PATIENCE, asking).await;
        answered.unwrap_or_else(|_| Err(StoreError::Away(format!("no answer within {} s: {failed}", PATIENCE.as_secs()))))
    }

    fn least(&self) -> Asking<'_> {
        let slot = self.slots.iter().min_by_key(|slot| slot.asked.load(Relaxed)).expect("there are some");
        slot.asked.fetch_add(1, Relaxed);
        Asking(slot)
    }
}

impl Slot {
    /// The connection, a new one where it was lost.
    async fn reader(&self, config: &PostgresConfig) -> Result<Arc<Reader>, OpenError> {
        let mut held = self.held.lock().await;
        if let Some(reader) = held.as_ref().filter(|reader| !reader.is_closed()) {
            return Ok(Arc::clone(reader));
        }
        let reader = Arc::new(Reader::open(config).await?);
        *held = Some(Arc::clone(&reader));
        Ok(reader)
    }

    /// Has nobody ask over this connection any more.
    async fn forget(&self, reader: &Arc<Reader>) {
        let mut held = self.held.lock().await;
        held.take_if(|held| Arc::ptr_eq(held, reader));
    }
}
