//! Start-up of the catalog: reads every endpoint's card, and no records once all cards exist.

use std::sync::{Arc, Mutex, atomic::AtomicU64};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tollhouse_base::{cache::Cache, rate_limit::ConcurrencyLimit};
use tollhouse_fair::{FairSemaphore, Share};
use tollhouse_store::{Batch, Durability, Store, StoreError, Table, schema};

use super::{
    Catalog, CatalogParts, MAX_UPLOADS, POLICY, PublishError, READINGS,
    entry::{CARDS, Card, ENDPOINTS},
    snapshot_builder::SnapshotBuilder,
    source::Sources,
    version::uses,
};

/// Marks that every record has its card.
pub(super) const CATALOGUED: Table<(), String> = schema::CATALOGUED.holding();

/// Current version of the cards' format.
const FORM: &str = "1";

/// Cards per page.
const CARDS_AT_ONCE: usize = 2_000;
/// Maximum endpoints whose words are indexed before the start completes. More are indexed in the
/// background.
const SEARCHED_AT_ONCE: usize = 10_000;
/// Records per page.
const RECORDS_AT_ONCE: usize = 128;

impl Catalog {
    /// Reads the policy, and the summary of every endpoint.
    ///
    /// # Errors
    ///
    /// Those of the store, or an unreadable row.
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
        catalog.write_cards().await?;
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

    /// Writes missing cards of records from earlier versions.
    async fn write_cards(&self) -> Result<(), PublishError> {
        if CATALOGUED.get(&*self.store, &()).await?.as_deref() == Some(FORM) {
            return Ok(());
        }
        let mut range = ENDPOINTS.all();
        loop {
            let mut rest = range.clone();
            let Some(page) = ENDPOINTS.next(&*self.store, &mut rest, RECORDS_AT_ONCE).await? else { break };
            let mut batch = Batch::new();
            for row in page {
                let row = row?;
                // Only if the record is unchanged: another host may change it meanwhile, and write
                // its card.
                batch.holds(&ENDPOINTS, &row).put(&CARDS, &row.key, &Card::of(&row.value));
                batch.append(uses(None, Some(&row.value)));
            }
            match batch.commit(&*self.store, Durability::Buffered).await {
                Ok(_) => range = rest,
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        CATALOGUED.put(&(), &FORM.to_owned()).commit(&*self.store, Durability::Durable).await?;
        Ok(())
    }
}
