//! Start-up of the catalog: reads every endpoint's card, and no records.

use std::sync::{Arc, Mutex, atomic::AtomicU64};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tollhouse_base::{cache::Cache, rate_limit::ConcurrencyLimit};
use tollhouse_fair::{FairSemaphore, Share};
use tollhouse_store::Store;

use super::{
    Catalog, CatalogParts, MAX_UPLOADS, POLICY, PublishError, READINGS, entry::CARDS, snapshot_builder::SnapshotBuilder, source::Sources,
};

/// Cards per page.
const CARDS_AT_ONCE: usize = 2_000;
/// Maximum endpoints whose words are indexed before the start completes. More are indexed in the
/// background.
const SEARCHED_AT_ONCE: usize = 10_000;

impl Catalog {
    /// Reads the policy, and the summary of every endpoint.
    pub async fn open(store: Arc<dyn Store>, parts: CatalogParts) -> Result<Self, PublishError> {
        let CatalogParts { clock, pool, services, events, scanner, builders, base_url, payment, make_form, room, objects, replica } = parts;
        let policy = POLICY.get(&*store, &()).await?.unwrap_or_default();
        let judged = builders.standing().await?;
        let sources = Sources { store: Arc::clone(&store), objects, replica };
        let catalog = Self {
            store,
            sources,
            clock,
            pool,
            services,
            events,
            scanner,
            base_url,
            payment,
            policy: ArcSwap::from_pointee(policy),
            builders,
            builder_standing: ArcSwap::from_pointee(judged),
            make_form,
            snapshot: ArcSwap::default(),
            max_endpoints: room.max_endpoints,
            ready: Cache::new(room.called_bytes()),
            shown_cache: Cache::new(room.shown_cache_bytes()),
            rebuild: AtomicU64::new(0),
            unscanned: Mutex::default(),
            changing: tokio::sync::Mutex::new(()),
            showing: tokio::sync::Mutex::new(()),
            reads: FairSemaphore::new(READINGS, Share::AllBut(READINGS / 2)),
            uploads: ConcurrencyLimit::new(MAX_UPLOADS),
            changes: watch::Sender::new(0),
        };
        let (mut gathered, mut range) = (SnapshotBuilder::default(), CARDS.all());
        while let Some(page) = CARDS.next(&*catalog.store, &mut range, CARDS_AT_ONCE).await? {
            for row in page {
                let row = row?;
                let slug = row.key.parse().map_err(|_| PublishError::Corrupt(format!("no slug: `{}`", row.key)))?;
                gathered.add(row.value.entry(slug, catalog.builder_standing(&row.value.owner()).suspended));
            }
        }
        catalog.snapshot.store(Arc::new(gathered.done()));
        if catalog.all().len() <= SEARCHED_AT_ONCE {
            catalog.load_index().await?;
        }
        Ok(catalog)
    }
}
