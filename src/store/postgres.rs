//! The store in a PostgreSQL database, version 15 or newer. Several processes can share it.
//!
//! One table contains every space, partitioned if the database supports it (`parts.sql`). A commit is one call of a
//! database function (`schema.sql`), which locks every key that the commit names before it decides. So commits of the
//! same key are serial, whichever process they come from. Waiting commits are sent together (`pending`): a few
//! connections write (`commit_worker`), each with one transaction at a time that takes as many waiting commits as it can, with
//! one fsync for all of them. A commit that shares a key with a running one waits here, not in the database. Reads use
//! separate connections, each with many queries at once (`readers`).
//!
//! Durable and buffered commits use separate connections. Buffered ones do not wait for the disk. They are on disk
//! after a quarter of a second at most, because an empty durable commit follows (`shared`).
//!
//! If a connection is lost after a commit was sent, the commit is [`StoreError::Unknown`]. While there is no
//! connection, calls wait some seconds at most, then fail with [`StoreError::Away`]. A new connection keeps no state
//! from a lost one.

mod address;
mod commit_call;
mod commit_worker;
mod error;
mod error_class;
mod open;
mod pending;
mod reader;
mod readers;
mod server_info;
mod shared;
mod sizes;
mod tls;

use std::sync::{Arc, atomic::Ordering::Relaxed};

use async_trait::async_trait;
use tokio::{sync::mpsc, time::timeout};
use tollhouse_base::{boxed, clock::Timestamp};

pub use self::{
    address::PostgresConfig,
    error::OpenError,
    server_info::{ServerInfo, about},
};
use self::{
    commit_worker::{SENT, run},
    pending::QUEUED,
    shared::PostgresShared,
};
use super::{
    Batch, Changes, CopyPage, Direction, Durability, KeyRange, KeyValues, Space, SpaceSizes, Store, StoreError, check_sizes,
    queue_space::QueueSpace,
};

/// Number of keys counted in one query.
const COUNTED: usize = 10_000;

/// A store in a database. When it is dropped, commits that are still queued are sent.
pub struct PostgresStore {
    shared: Arc<PostgresShared>,
    room: QueueSpace,
}

impl PostgresStore {
    /// Opens the store in a database, and creates it if it does not exist. Several hosts may do so at the same time.
    /// Call it inside a tokio runtime.
    #[boxed]
    pub async fn open(config: PostgresConfig) -> Result<Self, OpenError> {
        open::prepare(&config).await?;
        let shared = Arc::new(PostgresShared::new(config));
        shared.recount().await.map_err(OpenError::Sizes)?;
        for durability in [Durability::Durable, Durability::Buffered] {
            for _ in 0..shared.config.lanes {
                tokio::spawn(run(Arc::clone(&shared), durability));
            }
        }
        tokio::spawn(Arc::clone(&shared).maintain());
        Ok(Self { shared, room: QueueSpace::new() })
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.shared.pending.end();
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.shared.readers.query(|reader| async move { reader.get(space, key).await }).await
    }

    async fn scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<KeyValues, StoreError> {
        if range.is_empty() || limit == 0 {
            return Ok(KeyValues::new());
        }
        let range = &range;
        self.shared.readers.query(|reader| async move { reader.scan(space, range, limit, direction).await }).await
    }

    async fn count(&self, space: Space, mut range: KeyRange, max: usize) -> Result<usize, StoreError> {
        let mut counted = 0;
        while !range.is_empty() && counted < max {
            let (some, within) = (COUNTED.min(max - counted), &range);
            match self.shared.readers.query(|reader| async move { reader.count(space, within, some).await }).await? {
                (found, Some(last)) => {
                    counted += found;
                    range = range.after(&last);
                }
                (found, None) => return Ok(counted + found),
            }
        }
        Ok(counted)
    }

    async fn apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        check_sizes(&batch.writes, &batch.adds)?;
        let Ok(room) = timeout(QUEUED, self.room.of(&batch)).await else { return Err(self.shared.away()) };
        let (ticket, mut answer) = self.shared.pending.push(batch, durability, room);
        let answered = match timeout(QUEUED, &mut answer).await {
            Ok(answered) => answered.ok(),
            Err(_) if self.shared.pending.withdraw(&ticket) => return Err(self.shared.away()),
            // The commit has just been sent or is about to be.
            Err(_) => timeout(QUEUED + SENT, answer).await.ok().and_then(Result::ok),
        };
        answered.unwrap_or_else(|| Err(StoreError::Unknown("the sending task has ended".to_owned())))
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Changes, StoreError> {
        self.shared.readers.query(|reader| async move { reader.changes(after, limit).await }).await
    }

    async fn copy(&self, to: mpsc::Sender<CopyPage>) -> Result<(), StoreError> {
        reader::copy(&self.shared.config, to).await
    }

    fn is_shared(&self) -> bool {
        true
    }

    /// Asks the database each time. That is cheap: it is needed once a second and while a change is propagated. A
    /// cached time would depend on this host's clock, which can be set back or stop while the host is suspended.
    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.shared.readers.query(|reader| async move { reader.now().await }).await
    }

    fn sizes(&self) -> SpaceSizes {
        SpaceSizes { backend: "postgres", syncs: self.shared.syncs.load(Relaxed), ..self.shared.sizes.total() }
    }
}
