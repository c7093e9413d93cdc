//! Look-up of endpoints for calls and lists. Recently used ones are cached. Others are created from
//! their record.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use futures_util::future::try_join_all;
use tollhouse_base::{boxed, cache::BuildError, id::BuilderId};
use tollhouse_store::StoreError;
use tollhouse_tool::{Endpoint, EndpointState, Owner, Slug};

use super::{Catalog, Entry, FindError, LiveEndpoint, ShownEndpoint, entry::ENDPOINTS, granted};

/// Maximum attempts to create an endpoint while others change it.
const MAX_ATTEMPTS: usize = 8;

/// Records read at the same time for a list.
const READ_CONCURRENCY: usize = 16;

/// Progress of filling a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListProgress {
    /// Number of entries that were taken or do not exist anymore.
    pub passed: usize,
    /// Whether an entry was left after those.
    pub more: bool,
}

/// Endpoints of one page.
#[derive(Debug)]
pub struct EndpointPage {
    /// In the requested order.
    pub endpoints: Vec<Arc<ShownEndpoint>>,
    /// Whether there are more.
    pub more: bool,
}

impl Catalog {
    /// Returns the endpoint `slug`, with the version for calls that start now. Immediate if it is
    /// cached.
    ///
    /// # Errors
    ///
    /// Those of the store. An unreadable record is [`StoreError::Away`]. [`FindError::SourceLost`] if the source is not there.
    pub async fn find(&self, slug: &str) -> Result<Option<Arc<LiveEndpoint>>, FindError> {
        match self.find_cached(slug) {
            Some(live) => Ok(Some(live)),
            // Boxed to keep the future small for cached endpoints.
            None => Box::pin(self.refetch(slug)).await,
        }
    }

    /// Returns the endpoint `slug` if it is cached and ready for calls.
    pub fn find_cached(&self, slug: &str) -> Option<Arc<LiveEndpoint>> {
        self.ready.get(slug).filter(|live| !live.lacks_source())
    }

    /// Returns the endpoint `slug` for the public: not while an admin holds it back.
    pub async fn find_listed(&self, slug: &str) -> Result<Option<Arc<ShownEndpoint>>, StoreError> {
        Ok(self.shown(slug).await?.filter(|shown| shown.endpoint.listed()))
    }

    /// Returns the endpoint `slug` with its public data.
    pub async fn shown(&self, slug: &str) -> Result<Option<Arc<ShownEndpoint>>, StoreError> {
        if let Some(shown) = self.shown_cache.get(slug) {
            return Ok(Some(shown));
        }
        if let Some(live) = self.ready.get(slug) {
            return Ok(Some(Arc::clone(&live.shown)));
        }
        for _ in 0..MAX_ATTEMPTS {
            let Some(entry) = self.all().get(slug).cloned() else { return Ok(None) };
            let since = self.rebuild.load(Ordering::SeqCst);
            let Some(endpoint) = ENDPOINTS.get(&*self.store, &slug.to_owned()).await? else { return Ok(None) };
            let shown = Arc::new(self.build_shown(endpoint));
            if let Some((shown, _)) = self.shown_cache.keep(&entry.slug, Arc::clone(&shown), || self.is_current(&shown.endpoint, since)) {
                return Ok(Some(shown));
            }
        }
        Err(StoreError::Contended)
    }

    /// Passes those of `entries` that still exist to `takes`, until it returns false.
    pub async fn fill(
        &self,
        entries: impl Iterator<Item = &Arc<Entry>> + Send,
        mut takes: impl FnMut(Arc<ShownEndpoint>) -> bool + Send,
    ) -> Result<ListProgress, StoreError> {
        let (mut entries, mut passed) = (entries, 0);
        loop {
            let some: Vec<_> = entries.by_ref().take(READ_CONCURRENCY).map(|entry| entry.slug.clone()).collect();
            if some.is_empty() {
                return Ok(ListProgress { passed, more: false });
            }
            for shown in try_join_all(some.iter().map(|slug| self.shown(slug.as_str()))).await? {
                if shown.is_some_and(|shown| !takes(shown)) {
                    return Ok(ListProgress { passed, more: true });
                }
                passed += 1;
            }
        }
    }

    /// Returns the first `limit` endpoints after `after`, optionally of an owner, and with a state.
    #[boxed]
    pub async fn page(
        &self,
        owner: Option<&Owner>,
        state: Option<EndpointState>,
        after: Option<&Slug>,
        limit: usize,
    ) -> Result<EndpointPage, StoreError> {
        let all = self.all();
        let after = after.map_or("", Slug::as_str);
        match (owner, state) {
            (Some(owner), state) => {
                let requested = all.of_owner(owner, after).filter(|entry| state.is_none_or(|state| state == entry.state()));
                self.page_of(requested, limit).await
            }
            (None, Some(state)) => self.page_of(all.state_of(state, after), limit).await,
            (None, None) => self.page_of(all.after(after), limit).await,
        }
    }

    /// Returns the first `limit` of these entries.
    pub(super) async fn page_of(
        &self,
        requested: impl Iterator<Item = &Arc<Entry>> + Send,
        limit: usize,
    ) -> Result<EndpointPage, StoreError> {
        let mut endpoints = Vec::new();
        let take = |shown| {
            let has_room = endpoints.len() < limit;
            if has_room {
                endpoints.push(shown);
            }
            has_room
        };
        let filled = self.fill(requested, take).await?;
        Ok(EndpointPage { endpoints, more: filled.more })
    }

    /// Returns the number of endpoints of each builder, in any state.
    pub fn owned_by<'b>(&self, builders: impl Iterator<Item = &'b BuilderId>) -> HashMap<&'b BuilderId, u64> {
        let all = self.all();
        builders.map(|id| (id, all.owned(&Owner::Builder(id.clone())) as u64)).collect()
    }

    /// Creates an endpoint that is not cached. One task does it at a time; if it fails, the tasks
    /// that waited do not try again.
    #[boxed]
    async fn refetch(&self, slug: &str) -> Result<Option<Arc<LiveEndpoint>>, FindError> {
        let Some(named) = self.all().get(slug).map(|entry| entry.slug.clone()) else { return Ok(None) };
        let started = Instant::now();
        let mut turn = self.ready.turn(&named).await;
        match turn.failed_since(started) {
            Some(BuildError { is_permanent: true, .. }) => return Err(FindError::SourceLost(named)),
            Some(error) => return Err(StoreError::Away(error.reason.clone()).into()),
            None => {}
        }
        let found = self.fetch_serialized(slug).await;
        if let Err(error) = &found {
            turn.fail(BuildError { reason: error.to_string(), is_permanent: matches!(error, FindError::SourceLost(_)) });
        }
        found
    }

    async fn fetch_serialized(&self, slug: &str) -> Result<Option<Arc<LiveEndpoint>>, FindError> {
        for _ in 0..MAX_ATTEMPTS {
            let known = self.ready.get(slug);
            if let Some(live) = known.as_ref().filter(|live| !live.lacks_source()) {
                return Ok(Some(Arc::clone(live)));
            }
            let Some(entry) = self.all().get(slug).cloned() else { return Ok(None) };
            let since = self.rebuild.load(Ordering::SeqCst);
            let Some(endpoint) = ENDPOINTS.get(&*self.store, &slug.to_owned()).await? else { return Ok(None) };
            if known.as_ref().is_some_and(|known| !known.is_of(&endpoint)) {
                // The running version shares its grant, which is updated when the change becomes
                // visible.
                self.follow_endpoint(slug).await?;
                continue;
            }
            let unreadable = |error| FindError::of(error, &entry.slug);
            let bundle = self.stored_bundle(&endpoint).await.map_err(unreadable)?;
            let grant = known.as_ref().map_or_else(Arc::default, |live| Arc::clone(&live.grant));
            let live = Arc::new(self.make_live(endpoint, bundle, grant).map_err(unreadable)?);
            if known.is_none() {
                live.grant.set(granted(&live.endpoint).map_err(unreadable)?);
            }
            if let Some((live, removed)) = self.ready.keep(&entry.slug, Arc::clone(&live), || self.is_current(&live.endpoint, since)) {
                self.evict(&removed);
                return Ok(Some(live));
            }
        }
        Err(StoreError::Contended.into())
    }

    /// Returns whether a record is at least as new as the entry, and nothing else that the endpoint
    /// depends on has changed `since`.
    fn is_current(&self, endpoint: &Endpoint, since: u64) -> bool {
        let all = self.all();
        let behind = |entry: &Arc<Entry>| {
            if entry.is(&endpoint.id) { entry.revision > endpoint.revision } else { entry.id > endpoint.id.packed() }
        };
        self.rebuild.load(Ordering::SeqCst) == since && all.get(endpoint.slug.as_str()).is_some_and(|entry| !behind(entry))
    }

    /// Ends the workers of endpoints that were evicted, because later decisions about them would
    /// not reach unknown workers.
    pub(super) fn evict(&self, removed: &[Arc<LiveEndpoint>]) {
        removed.iter().for_each(|live| self.retire(live));
    }

    /// Ends the workers of this version of an endpoint.
    pub(super) fn retire(&self, live: &LiveEndpoint) {
        self.parts.pool.retire(live.endpoint.id.as_str(), &live.endpoint.version);
    }
}
