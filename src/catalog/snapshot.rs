//! A snapshot of all endpoints: entries in every order, counts of each kind, and the search index.

use std::{
    cmp::Ordering,
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use imbl::OrdMap;
use tollhouse_base::{clock::Timestamp, id::EndpointId};
use tollhouse_tool::{EndpointState, MicroUsd, Owner, PricingMode, Slug};

use super::{
    Entry,
    nearest::NamePattern,
    order::{Order, OrderPosition, OrderedEntries},
    tag_index::{TagIndex, decrement, increment},
};
use crate::search::{Index, Query, SearchHits, Text, WeighedText};

/// Maximum endpoints that are sorted for one page. If there are more, the ordered list is scanned
/// instead.
const MAX_SORTED: usize = 2_000;

/// Maximum candidates for similar names: names with the same beginning, and names with some of its
/// words.
const MAX_CANDIDATES: usize = 10_000;
const MAX_CANDIDATES_BY_WORDS: usize = 1_000;
/// Required length of the common beginning, if there are too many names to compare all.
const PREFIX_CHARS: usize = 2;

/// The search is not available yet: words of existing endpoints are being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the host has started and is still loading its search index; search again in a few seconds")]
pub struct IndexLoading;

/// An immutable value, except for the words of endpoints: clones are cheap, and the cost of a change
/// hardly depends on the number of endpoints.
#[derive(Clone)]
pub struct Snapshot {
    /// All endpoints by name.
    pub(super) all: OrderedEntries,
    pub(super) ids: OrderedEntries,
    /// All endpoints by owner.
    pub(super) owned: OrderedEntries,
    /// Endpoints that are not active, by state.
    pub(super) others: OrderedEntries,
    /// Endpoints with something for an admin to decide, longest wait first.
    pub(super) waiting: OrderedEntries,
    /// Listed endpoints, see [`Entry::listed`].
    pub(super) by_price: OrderedEntries,
    pub(super) newest: OrderedEntries,
    /// Number of listed endpoints by maximum price.
    pub(super) prices: OrdMap<u64, usize>,
    /// Number of endpoints by owner.
    pub(super) owners: OrdMap<Arc<Owner>, usize>,
    /// Own limits, with the number of endpoints that have them.
    pub(super) requested: OrdMap<Arc<String>, usize>,
    /// Tags of listed endpoints, see [`Entry::listed`].
    pub(super) tags: TagIndex,
    /// Shared by all snapshots of a catalog.
    pub(super) words: Arc<RwLock<Index<Arc<Entry>>>>,
    /// Whether the words of all endpoints are indexed.
    pub(super) is_searchable: bool,
    pub(super) counts: CatalogCounts,
}

/// Number of endpoints of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CatalogCounts {
    /// Endpoints that everyone may see.
    pub listed: usize,
    /// Of those, endpoints with a price.
    pub paid: usize,
    /// Endpoints that are tools, see [`Entry::is_tool`].
    pub tools: usize,
}

/// Filter for endpoints, independent of words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointFilter {
    /// Required tags, ignoring case.
    pub tags: Vec<String>,
    /// Only free or only paid ones.
    pub pricing: Option<PricingMode>,
    pub max_price: Option<MicroUsd>,
}

impl EndpointFilter {
    pub fn takes(&self, entry: &Entry) -> bool {
        let (least, max) = self.prices();
        (least..=max).contains(&entry.max_usd.0) && self.tags.iter().all(|tag| entry.has_tag(tag))
    }

    /// Returns the range of maximum prices in micro-dollars. It is empty if the first is larger.
    fn prices(&self) -> (u64, u64) {
        let max = self.max_price.map_or(u64::MAX, |price| price.0);
        match self.pricing {
            None => (0, max),
            Some(PricingMode::FreePublicUtility) => (0, 0),
            Some(PricingMode::FixedPriceSuccessReceipt | PricingMode::MeteredPriceSuccessReceipt) => (1, max),
        }
    }
}

impl Snapshot {
    pub fn get(&self, slug: &str) -> Option<&Arc<Entry>> {
        self.all.get(|entry| entry.slug.as_str().cmp(slug))
    }

    pub fn of_id(&self, id: &EndpointId) -> Option<&Arc<Entry>> {
        self.ids.get(|entry| entry.id.cmp(&id.packed()))
    }

    /// Iterates over listed endpoints that pass `filter`, in an order or by name, optionally after
    /// a position.
    pub fn filtered<'a>(
        &'a self,
        filter: &'a EndpointFilter,
        order: Option<Order>,
        after: Option<&OrderPosition>,
    ) -> Box<dyn Iterator<Item = &'a Arc<Entry>> + Send + 'a> {
        let key = after.map_or((0, ""), |position| (position.rank, position.slug.as_str()));
        let rank = move |entry: &Entry| order.map_or(0, |order| order.rank(entry));
        let (count, narrowest) = self.narrowest(filter);
        if count <= MAX_SORTED && *filter != EndpointFilter::default() {
            let taken = narrowest.filter(|entry| filter.takes(entry)).filter(|entry| (rank(entry), entry.slug.as_str()) > key);
            let mut taken: Vec<_> = taken.collect();
            taken.sort_unstable_by_key(|entry| (rank(entry), entry.slug.as_str()));
            return Box::new(taken.into_iter());
        }
        let position = |entry: &Entry| (rank(entry), entry.slug.as_str()).cmp(&key);
        let all: Box<dyn Iterator<Item = &Arc<Entry>> + Send> = match (order, self.rarest(filter)) {
            (Some(Order::Price), _) => Box::new(self.by_price.after(position)),
            (Some(Order::Newest), _) => Box::new(self.newest.after(position)),
            (None, Some((_, tag))) => Box::new(self.tags.having(tag, key.1)),
            (None, None) => Box::new(self.after(key.1).filter(|entry| entry.listed())),
        };
        Box::new(all.filter(|entry| filter.takes(entry)))
    }

    /// Returns how many listed endpoints pass `filter`.
    pub fn count(&self, filter: &EndpointFilter) -> usize {
        let (count, narrowest) = self.narrowest(filter);
        match (&*filter.tags, filter.prices() != (0, u64::MAX)) {
            ([], _) | ([_], false) => count,
            _ => narrowest.filter(|entry| filter.takes(entry)).count(),
        }
    }

    /// Returns the smallest ordered set that contains all listed endpoints which pass `filter`,
    /// with its size.
    fn narrowest<'a>(&'a self, filter: &EndpointFilter) -> (usize, Box<dyn Iterator<Item = &'a Arc<Entry>> + Send + 'a>) {
        let (least, max) = filter.prices();
        if least > max {
            return (0, Box::new(std::iter::empty()));
        }
        let affordable = self.prices.range(least..=max).map(|(_, count)| count).sum();
        match self.rarest(filter) {
            Some((count, tag)) if count <= affordable => (count, Box::new(self.tags.having(tag, ""))),
            _ => {
                let from = |entry: &Entry| entry.max_usd.0.cmp(&least).then(Ordering::Greater);
                (affordable, Box::new(self.by_price.after(from).take_while(move |entry| entry.max_usd.0 <= max)))
            }
        }
    }

    /// Returns the rarest tag of `filter`, with its count.
    fn rarest<'f>(&self, filter: &'f EndpointFilter) -> Option<(usize, &'f str)> {
        filter.tags.iter().map(|tag| (self.tags.count(tag), tag.as_str())).min()
    }

    pub fn values(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.all.iter()
    }

    /// Iterates over entries after `slug`, by slug.
    pub fn after(&self, slug: &str) -> impl Iterator<Item = &Arc<Entry>> + use<'_> {
        self.all.after(|entry| entry.slug.as_str().cmp(slug))
    }

    /// Iterates over listed entries with a tag, ignoring case, after `slug`, by slug.
    pub fn tagged<'a>(&'a self, tag: &str, slug: &str) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
        self.tags.having(tag, slug)
    }

    /// Iterates over an owner's entries after `slug`, by slug.
    pub fn of_owner<'a>(&'a self, owner: &'a Owner, slug: &str) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
        let owned = self.owned.after(|entry| (entry.owner.share(), entry.slug.as_str()).cmp(&(owner.share(), slug)));
        owned.take_while(move |entry| *entry.owner == *owner)
    }

    /// Iterates over entries with this state after `slug`, by slug.
    pub fn state_of(&self, state: EndpointState, slug: &str) -> Box<dyn Iterator<Item = &Arc<Entry>> + Send + '_> {
        match state {
            EndpointState::Active => Box::new(self.after(slug).filter(|entry| entry.is_active())),
            other => {
                let others = self.others.after(|entry| (entry.state(), entry.slug.as_str()).cmp(&(other, slug)));
                Box::new(others.take_while(move |entry| entry.state() == other))
            }
        }
    }

    /// Iterates over entries with something for an admin to decide, longest wait first, after a
    /// position. Also returns their number.
    pub fn waiting(&self, after: Option<(Timestamp, &Slug)>) -> (impl Iterator<Item = &Arc<Entry>> + use<'_>, usize) {
        let key = after.map(|(since, slug)| (since, slug.as_str()));
        (self.waiting.after(|entry| entry.waits_since().map(|since| (since, entry.slug.as_str())).cmp(&key)), self.waiting.len())
    }

    pub fn owned(&self, owner: &Owner) -> usize {
        self.owners.get(owner).copied().unwrap_or_default()
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn counts(&self) -> CatalogCounts {
        self.counts
    }

    /// Returns listed entries with any of the words that pass `keep`, best match first.
    ///
    /// # Errors
    ///
    /// [`IndexLoading`], for some time after the start of a host with many endpoints.
    pub fn search(
        &self,
        words: &Query,
        skip: usize,
        limit: usize,
        keep: impl Fn(&Entry) -> bool,
    ) -> Result<SearchHits<Arc<Entry>>, IndexLoading> {
        if !self.is_searchable {
            return Err(IndexLoading);
        }
        Ok(self.index().search(words, skip, limit, |entry| entry.listed() && keep(entry)))
    }

    /// Returns listed entries with slugs similar to `name` that pass `keep`, nearest first. If
    /// there are very many endpoints, only those that begin alike or share words.
    pub fn nearest(&self, name: &str, keep: impl Fn(&Entry) -> bool) -> Vec<&Arc<Entry>> {
        let Some(pattern) = NamePattern::of(name) else { return Vec::new() };
        let like: Box<dyn Iterator<Item = &Arc<Entry>>> = match self.len() <= MAX_CANDIDATES {
            true => Box::new(self.values()),
            false => {
                let mut like = BTreeMap::new();
                let begins: String = name.trim().chars().take(PREFIX_CHARS).flat_map(char::to_lowercase).collect();
                // No slug is as short as the prefix, so all slugs with the prefix come after it.
                let beginning = self.after(&begins).take_while(|entry| entry.slug.as_str().starts_with(&begins)).take(MAX_CANDIDATES);
                like.extend(beginning.map(|entry| (entry.slug.as_str(), entry)));
                let words = Query::parse(&name.chars().take(Query::MAX_CHARS).collect::<String>()).ok();
                let found = words.and_then(|words| self.search(&words, 0, MAX_CANDIDATES_BY_WORDS, |_| true).ok());
                let found = found.into_iter().flat_map(|found| found.items);
                like.extend(found.filter_map(|entry| self.get(entry.slug.as_str())).map(|entry| (entry.slug.as_str(), entry)));
                Box::new(like.into_values())
            }
        };
        let near = like.filter_map(|entry| Some((pattern.distance(entry.slug.as_str())?, entry)));
        let mut near: Vec<_> = near.filter(|(_, entry)| entry.listed() && keep(entry)).collect();
        // Ties stay in order of the slug.
        near.sort_by_key(|(distance, _)| *distance);
        near.into_iter().map(|(_, entry)| entry).collect()
    }

    pub(super) fn index(&self) -> RwLockReadGuard<'_, Index<Arc<Entry>>> {
        self.words.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn index_mut(&self) -> RwLockWriteGuard<'_, Index<Arc<Entry>>> {
        self.words.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the words of endpoints that have none yet, by slug.
    pub(super) fn add_words<'t>(&self, texts: impl Iterator<Item = (&'t str, Text<'t>)>) {
        let texts = texts.filter_map(|(slug, text)| Some((self.get(slug)?.words, slug, WeighedText::of(&text))));
        let texts: Vec<_> = texts.collect();
        let mut index = self.index_mut();
        texts.into_iter().for_each(|(slot, slug, text)| index.add_words(slot, slug, text));
    }

    /// Adds an endpoint or replaces the one with the same slug. Without a text, it keeps its words.
    pub(super) fn put(&mut self, mut entry: Entry, text: Option<&Text<'_>>) {
        let before = self.get(entry.slug.as_str()).cloned();
        if let Some(before) = &before {
            self.remove_from_orders(before);
            // Shared values are stored only once.
            entry.slug = before.slug.clone();
        }
        if let Some((owner, _)) = self.owners.get_key_value(&*entry.owner) {
            entry.owner = Arc::clone(owner);
        }
        increment(&mut self.owners, &entry.owner);
        if let Some(request) = entry.requested.take() {
            let request = self.requested.get_key_value(&*request).map_or(request, |(known, _)| Arc::clone(known));
            increment(&mut self.requested, &request);
            entry.requested = Some(request);
        }
        entry.tags.iter_mut().for_each(|tag| *tag = self.tags.known(tag));
        self.counts.add(&entry);
        let entry = {
            let mut index = self.index_mut();
            match (before, text) {
                (Some(before), None) => {
                    entry.words = before.words;
                    let entry = Arc::new(entry);
                    index.replace(entry.words, Arc::clone(&entry));
                    entry
                }
                (before, text) => {
                    before.into_iter().for_each(|before| index.remove(before.words));
                    let none = Text { slug: "", title: "", tags: &[], description: "" };
                    index.put(text.unwrap_or(&none), |slot| {
                        entry.words = slot;
                        Arc::new(entry)
                    })
                }
            }
        };
        self.all.put(&entry);
        self.ids.put(&entry);
        self.owned.put(&entry);
        if !entry.is_active() {
            self.others.put(&entry);
        }
        if entry.waits_since().is_some() {
            self.waiting.put(&entry);
        }
        if entry.listed() {
            self.by_price.put(&entry);
            self.newest.put(&entry);
            self.tags.put(&entry);
            increment(&mut self.prices, &entry.max_usd.0);
        }
    }

    pub(super) fn remove(&mut self, slug: &str) {
        let Some(before) = self.get(slug).cloned() else { return };
        self.remove_from_orders(&before);
        self.index_mut().remove(before.words);
    }

    /// Removes an entry from everything except the search index.
    fn remove_from_orders(&mut self, entry: &Arc<Entry>) {
        self.all.remove(entry);
        self.ids.remove(entry);
        self.owned.remove(entry);
        self.others.remove(entry);
        self.waiting.remove(entry);
        if entry.listed() {
            self.by_price.remove(entry);
            self.newest.remove(entry);
            self.tags.remove(entry);
            decrement(&mut self.prices, &entry.max_usd.0);
        }
        decrement(&mut self.owners, &entry.owner);
        entry.requested.iter().for_each(|request| decrement(&mut self.requested, request));
        self.counts.take(entry);
    }
}

impl CatalogCounts {
    fn kinds(entry: &Entry) -> [usize; 3] {
        [entry.listed(), entry.listed() && entry.is_paid(), entry.is_tool()].map(usize::from)
    }

    pub(super) fn add(&mut self, entry: &Entry) {
        let [listed, paid, tools] = Self::kinds(entry);
        *self = Self { listed: self.listed + listed, paid: self.paid + paid, tools: self.tools + tools };
    }

    fn take(&mut self, entry: &Entry) {
        let [listed, paid, tools] = Self::kinds(entry);
        *self = Self { listed: self.listed - listed, paid: self.paid - paid, tools: self.tools - tools };
    }
}
