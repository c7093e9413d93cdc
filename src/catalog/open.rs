//! Start-up of the catalog: reads every endpoint's card, and no records. Upkeep of the search index.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::{sync::watch, task::spawn_blocking};
use tollhouse_base::{boxed, cache::Cache, lock::Lock, rate_limit::ConcurrencyLimit};
use tollhouse_fair::{FairSemaphore, Share};
use tollhouse_store::{Store, StoreError, maintain};

use super::{
    Catalog, CatalogParts, MAX_UPLOAD_READS, MAX_UPLOADS, POLICY, PublishError, entry::CARDS, snapshot_builder::SnapshotBuilder,
    source::Sources,
};

/// Cards per page.
const CARDS_AT_ONCE: usize = 2_000;
/// Maximum endpoints whose words are indexed before the start completes. More are indexed in the
/// background.
const INDEXED_AT_START: usize = 10_000;

/// Interval for checking whether the index needs to be compacted.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(1);

impl Catalog {
    /// Reads the policy, and the summary of every endpoint.
    #[boxed]
    pub async fn open(store: Arc<dyn Store>, parts: CatalogParts) -> Result<Self, PublishError> {
        let policy = POLICY.get(&*store, &()).await?.unwrap_or_default();
        let decided = parts.builders.standing().await?;
        let sources = Sources { store: Arc::clone(&store), objects: Arc::clone(&parts.objects) };
        let ready_bytes = parts.room.ready_bytes;
        let catalog = Self {
            store,
            sources,
            parts,
            policy: ArcSwap::from_pointee(policy),
            builder_standing: ArcSwap::from_pointee(decided),
            snapshot: ArcSwap::default(),
            ready: Cache::new(ready_bytes / 2),
            shown_cache: Cache::new(ready_bytes / 8 * 3),
            rebuild: AtomicU64::new(0),
            unscanned: Lock::default(),
            changing: tokio::sync::Mutex::new(()),
            showing: tokio::sync::Mutex::new(()),
            reads: FairSemaphore::new(MAX_UPLOAD_READS, Share::AllBut(MAX_UPLOAD_READS / 2)),
            uploads: ConcurrencyLimit::new(MAX_UPLOADS),
            changes: watch::Sender::new(0),
        };
        let (mut builder, mut range) = (SnapshotBuilder::default(), CARDS.all());
        while let Some(page) = CARDS.next(&*catalog.store, &mut range, CARDS_AT_ONCE).await? {
            for row in page {
                let row = row?;
                let slug = row.key.parse().map_err(|_| PublishError::Corrupt(format!("no slug: `{}`", row.key)))?;
                builder.add(row.value.entry(slug, catalog.builder_standing(&row.value.owner()).suspended));
            }
        }
        catalog.snapshot.store(Arc::new(builder.build()));
        if catalog.all().len() <= INDEXED_AT_START {
            catalog.load_index().await?;
        }
        Ok(catalog)
    }

    /// Starts reading the words of existing endpoints, and compacting the index periodically.
    pub fn maintain_index(self: &Arc<Self>) {
        maintain(self, UPKEEP_INTERVAL, "indexing the words of tools", |catalog, _| async move { catalog.update_index().await });
    }

    async fn update_index(&self) -> Result<(), StoreError> {
        let all = self.all();
        if !all.is_searchable {
            self.load_index().await?;
        }
        if all.index().needs_compaction() {
            spawn_blocking(move || all.index_mut().compact()).await.map_err(broken)?;
        }
        Ok(())
    }

    /// Reads the words of all endpoints from before the start.
    pub(super) async fn load_index(&self) -> Result<(), StoreError> {
        let mut range = CARDS.all();
        while let Some(page) = CARDS.next(&*self.store, &mut range, CARDS_AT_ONCE).await? {
            let rows = page.into_iter().collect::<Result<Vec<_>, _>>()?;
            let all = self.all();
            let add = move || all.add_words(rows.iter().map(|row| (row.key.as_str(), row.value.text(&row.key))));
            spawn_blocking(add).await.map_err(broken)?;
        }
        let _one = self.showing.lock().await;
        self.rebuild_snapshot(|snapshot| snapshot.is_searchable = true);
        Ok(())
    }
}

fn broken(error: tokio::task::JoinError) -> StoreError {
    StoreError::Away(format!("the search index could not be read: {error}"))
}
