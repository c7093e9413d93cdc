//! A snapshot of all endpoints: entries in every order, counts of each kind, and the search index.

use std::{collections::BTreeMap, fmt, sync::Arc};

use imbl::OrdMap;
use tollhouse_base::{clock::Timestamp, id::EndpointId};
use tollhouse_tool::{EndpointState, MicroUsd, Owner, PricingMode, Slug};

use super::{
    Entry,
    nearest::NamePattern,
    order::{Id, Name, Newest, Order, OrderPosition, OrderedEntries, Owned, Price, Standing, Waiting},
    tag_index::{TagIndex, fewer, more},
};
use crate::search::{Index, Merge, Merged, Query, SearchHits, Segments, Text};

/// Maximum endpoints that are sorted for one page. If there are more, the ordered list is scanned
/// instead.
const FEW: usize = 2_000;

/// Maximum candidates for similar names: names with the same beginning, and names with some of its
/// words.
const LIKE: usize = 10_000;
const LIKE_BY_WORDS: usize = 1_000;
/// Required length of the common beginning, if there are too many names to compare all.
const BEGINS: usize = 2;

/// The search is not available yet: words of existing endpoints are being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the words of all tools are being read since this host started: search again in some seconds")]
pub struct IndexLoading;

/// An immutable value: clones are cheap, and the cost of a change hardly depends on the number of
/// endpoints.
#[derive(Clone, Default)]
pub struct Snapshot {
    pub(super) all: OrderedEntries<Name>,
    pub(super) ids: OrderedEntries<Id>,
    pub(super) owned: OrderedEntries<Owned>,
    /// Endpoints that are not active.
    pub(super) others: OrderedEntries<Standing>,
    /// Endpoints with something for an admin to decide.
    pub(super) waiting: OrderedEntries<Waiting>,
    /// Listed endpoints, see [`Entry::listed`].
    pub(super) by_price: OrderedEntries<Price>,
    pub(super) newest: OrderedEntries<Newest>,
    /// Number of listed endpoints by maximum price.
    pub(super) prices: OrdMap<u64, usize>,
    /// Number of endpoints by owner.
    pub(super) owners: OrdMap<Arc<Owner>, usize>,
    /// Own limits, with the number of endpoints that have them.
    pub(super) requested: OrdMap<Arc<String>, usize>,
    /// Tags of listed endpoints, see [`Entry::listed`].
    pub(super) tags: TagIndex,
    pub(super) words: Index<Arc<Entry>>,
    /// Number of endpoints at the start, until all of their words are indexed.
    pub(super) wordless: Option<u32>,
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
    /// Maximum price.
    pub max_price: Option<MicroUsd>,
}

impl EndpointFilter {
    /// Returns whether an endpoint passes the filter.
    #[must_use]
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

    /// Returns whether it restricts prices.
    fn is_of_prices(&self) -> bool {
        self.prices() != (0, u64::MAX)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("endpoints", &self.len()).field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Returns the endpoint with this slug.
    #[must_use]
    pub fn get(&self, slug: &str) -> Option<&Arc<Entry>> {
        self.all.get((slug,))
    }

    /// Returns the endpoint with this id.
    #[must_use]
    pub fn of_id(&self, id: &EndpointId) -> Option<&Arc<Entry>> {
        self.ids.of_id(id)
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
        if count <= FEW && *filter != EndpointFilter::default() {
            let taken = narrowest.filter(|entry| filter.takes(entry)).filter(|entry| (rank(entry), entry.slug.as_str()) > key);
            let mut taken: Vec<_> = taken.collect();
            taken.sort_unstable_by_key(|entry| (rank(entry), entry.slug.as_str()));
            return Box::new(taken.into_iter());
        }
        let all: Box<dyn Iterator<Item = &Arc<Entry>> + Send> = match (order, self.rarest(filter)) {
            (Some(Order::Price), _) => Box::new(self.by_price.behind(key)),
            (Some(Order::Newest), _) => Box::new(self.newest.behind(key)),
            (None, Some((_, tag))) => Box::new(self.tags.having(tag, key.1)),
            (None, None) => Box::new(self.after(key.1).filter(|entry| entry.listed())),
        };
        Box::new(all.filter(|entry| filter.takes(entry)))
    }

    /// Returns how many listed endpoints pass `filter`.
    #[must_use]
    pub fn count(&self, filter: &EndpointFilter) -> usize {
        let (count, narrowest) = self.narrowest(filter);
        match (&*filter.tags, filter.is_of_prices()) {
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
            _ => (affordable, Box::new(self.by_price.behind((least, "")).take_while(move |entry| entry.max_usd.0 <= max))),
        }
    }

    /// Returns the rarest tag of `filter`, with its count.
    fn rarest<'f>(&self, filter: &'f EndpointFilter) -> Option<(usize, &'f str)> {
        filter.tags.iter().map(|tag| (self.tags.count(tag), tag.as_str())).min()
    }

    /// Iterates over all entries by slug.
    pub fn values(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.all.iter()
    }

    /// Iterates over entries after `slug`, by slug.
    pub fn after(&self, slug: &str) -> impl Iterator<Item = &Arc<Entry>> + use<'_> {
        self.all.behind((slug,))
    }

    /// Iterates over listed entries with a tag, ignoring case, after `slug`, by slug.
    pub fn tagged<'a>(&'a self, tag: &str, slug: &str) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
        self.tags.having(tag, slug)
    }

    /// Iterates over an owner's entries after `slug`, by slug.
    pub fn of_owner<'a>(&'a self, owner: &'a Owner, slug: &str) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
        self.owned.of_owner(owner, slug)
    }

    /// Iterates over entries with this state after `slug`, by slug.
    pub fn state_of(&self, state: EndpointState, slug: &str) -> Box<dyn Iterator<Item = &Arc<Entry>> + Send + '_> {
        match state {
            EndpointState::Active => Box::new(self.after(slug).filter(|entry| entry.is_active())),
            other => Box::new(self.others.behind((other, slug)).take_while(move |entry| entry.state() == other)),
        }
    }

    /// Iterates over entries with something for an admin to decide, longest wait first, after a
    /// position. Also returns their number.
    pub fn waiting(&self, after: Option<(Timestamp, &Slug)>) -> (impl Iterator<Item = &Arc<Entry>> + use<'_>, usize) {
        let key = after.map_or((0, ""), |(since, slug)| (since.0, slug.as_str()));
        (self.waiting.behind(key), self.waiting.len())
    }

    /// Returns how many endpoints an owner has, in any state.
    #[must_use]
    pub fn owned(&self, owner: &Owner) -> usize {
        self.owners.get(owner).copied().unwrap_or_default()
    }

    /// Returns the number of endpoints.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns whether there are no endpoints.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of endpoints of each kind.
    #[must_use]
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
        if self.wordless.is_some() {
            return Err(IndexLoading);
        }
        Ok(self.words.search(words, skip, limit, |entry| entry.listed() && keep(entry)))
    }

    /// Returns listed entries with slugs similar to `name` that pass `keep`, nearest first. If
    /// there are very many endpoints, only those that begin alike or share words.
    #[must_use]
    pub fn nearest(&self, name: &str, keep: impl Fn(&Entry) -> bool) -> Vec<&Arc<Entry>> {
        let Some(pattern) = NamePattern::of(name) else { return Vec::new() };
        let like: Box<dyn Iterator<Item = &Arc<Entry>>> = match self.len() <= LIKE {
            true => Box::new(self.values()),
            false => {
                let mut like = BTreeMap::new();
                let begins: String = name.trim().chars().take(BEGINS).flat_map(char::to_lowercase).collect();
                // No slug is as short as the prefix, so all slugs with the prefix come after it.
                let beginning = self.after(&begins).take_while(|entry| entry.slug.as_str().starts_with(&begins)).take(LIKE);
                like.extend(beginning.map(|entry| (entry.slug.as_str(), entry)));
                let words = Query::parse(&name.chars().take(Query::MAX_CHARS).collect::<String>()).ok();
                let found = words.and_then(|words| self.search(&words, 0, LIKE_BY_WORDS, |_| true).ok());
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

    /// Returns the slot of an endpoint whose words from before the start are not indexed yet.
    pub(super) fn wordless(&self, slug: &str) -> Option<u32> {
        let at_start = self.wordless?;
        self.get(slug).map(|entry| entry.words).filter(|slot| *slot < at_start)
    }

    /// Adds the words of endpoints from before the start. From here on, search is complete.
    pub(super) fn add_words(&mut self, words: Segments) {
        self.words.add(words);
        self.wordless = None;
    }

    /// Returns whether the search is complete.
    pub(super) fn is_searchable(&self) -> bool {
        self.wordless.is_none()
    }

    /// Returns the merge that the search index needs now.
    pub(super) fn due(&self) -> Option<Merge<Arc<Entry>>> {
        self.words.due()
    }

    pub(super) fn adopt(&mut self, merged: Merged) {
        self.words.adopt(merged);
    }

    /// Adds an endpoint or replaces the one with the same slug. Without a text, it keeps its words.
    pub(super) fn put(&mut self, mut entry: Entry, text: Option<&Text<'_>>) {
        let before = self.get(entry.slug.as_str()).cloned();
        if let Some(before) = &before {
            self.take_out(before);
            // Shared values are stored only once.
            entry.slug = before.slug.clone();
        }
        if let Some((owner, _)) = self.owners.get_key_value(&*entry.owner) {
            entry.owner = Arc::clone(owner);
        }
        more(&mut self.owners, &entry.owner);
        if let Some(request) = entry.requested.take() {
            let request = self.requested.get_key_value(&*request).map_or(request, |(known, _)| Arc::clone(known));
            more(&mut self.requested, &request);
            entry.requested = Some(request);
        }
        entry.tags.iter_mut().for_each(|tag| *tag = self.tags.known(tag));
        self.counts.add(&entry);
        let entry = match (before, text) {
            (Some(before), None) => {
                entry.words = before.words;
                let entry = Arc::new(entry);
                self.words.replace(entry.words, Arc::clone(&entry));
                entry
            }
            (before, text) => {
                if let Some(before) = before {
                    self.words.remove(before.words);
                }
                let none = Text { slug: "", title: "", tags: &[], description: "" };
                self.words.put(text.unwrap_or(&none), |slot| {
                    entry.words = slot;
                    Arc::new(entry)
                })
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
            more(&mut self.prices, &entry.max_usd.0);
        }
    }

    pub(super) fn remove(&mut self, slug: &str) {
        let Some(before) = self.get(slug).cloned() else { return };
        self.take_out(&before);
        self.words.remove(before.words);
    }

    /// Removes an entry from everything except the search index.
    fn take_out(&mut self, entry: &Arc<Entry>) {
        self.all.remove(entry);
        self.ids.remove(entry);
        self.owned.remove(entry);
        self.others.remove(entry);
        self.waiting.remove(entry);
        if entry.listed() {
            self.by_price.remove(entry);
            self.newest.remove(entry);
            self.tags.remove(entry);
            fewer(&mut self.prices, &entry.max_usd.0);
        }
        fewer(&mut self.owners, &entry.owner);
        entry.requested.iter().for_each(|request| fewer(&mut self.requested, request));
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
