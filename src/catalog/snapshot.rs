//! The endpoints as they are at one moment: where each stands, how many there are of each kind, in every order, and the index of their words.

use std::{fmt, sync::Arc};

use imbl::OrdMap;

use super::{
    Entry,
    nearest::Pattern,
    order::{Id, Name, Newest, Order, Ordered, Owned, Place, Price, Standing, Waiting},
};
use crate::{
    base::{clock::Timestamp, id::EndpointId},
    catalog::search::{Found, Index, Query, Text},
    tool::{EndpointState, MicroUsd, Owner, PricingMode, Slug},
};

/// A value: its clone costs nothing, and a change of one endpoint costs the same however many there are.
#[derive(Clone, Default)]
pub struct Snapshot {
    all: Ordered<Name>,
    ids: Ordered<Id>,
    owned: Ordered<Owned>,
    /// Those that are not active.
    others: Ordered<Standing>,
    /// Those of which an admin has something to decide.
    waiting: Ordered<Waiting>,
    /// Of those that are [`Entry::listed`].
    by_price: Ordered<Price>,
    newest: Ordered<Newest>,
    /// How many of them cost so much at most.
    prices: OrdMap<u64, usize>,
    /// How many each owner has.
    owners: OrdMap<Arc<Owner>, usize>,
    /// What is asked of limits, and by how many.
    asked: OrdMap<Arc<str>, usize>,
    words: Index<Arc<Entry>>,
    counts: Counts,
}

/// How many endpoints there are of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Everyone may see them.
    pub listed: usize,
    /// Of those, they cost something.
    pub paid: usize,
    /// They are tools: [`Entry::is_tool`].
    pub tools: usize,
}

/// Which endpoints are wanted, whatever their words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// All of these, in any case.
    pub tags: Vec<String>,
    /// Free ones, or paid ones.
    pub pricing: Option<PricingMode>,
    /// None that costs more.
    pub max_price: Option<MicroUsd>,
}

impl Filter {
    /// Whether an endpoint is of those wanted.
    #[must_use]
    pub fn takes(&self, entry: &Entry) -> bool {
        self.affords(entry.most_usd) && self.tags.iter().all(|tag| entry.has_tag(tag))
    }

    /// Whether it is by what it costs at most.
    fn affords(&self, most: MicroUsd) -> bool {
        let free = |mode| mode == PricingMode::FreePublicUtility;
        self.pricing.is_none_or(|pricing| free(pricing) == most.is_zero()) && self.max_price.is_none_or(|limit| most <= limit)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("endpoints", &self.len()).field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Snapshot {
    /// The endpoint that is called so.
    #[must_use]
    pub fn get(&self, slug: &str) -> Option<&Arc<Entry>> {
        self.all.get((slug,))
    }

    /// The endpoint with this id.
    #[must_use]
    pub fn of_id(&self, id: &EndpointId) -> Option<&Arc<Entry>> {
        self.ids.of_id(id)
    }

    /// Those that everyone may see, in an order: from its beginning, or behind a place.
    pub fn ordered(&self, order: Order, after: Option<&Place>) -> Box<dyn Iterator<Item = &Arc<Entry>> + Send + '_> {
        let key = after.map_or((0, ""), |place| (place.rank, place.slug.as_str()));
        match order {
            Order::Price => Box::new(self.by_price.behind(key)),
            Order::Newest => Box::new(self.newest.behind(key)),
        }
    }

    /// How many `filter` takes of those that everyone may see. They are looked at one by one only where tags are asked for.
    #[must_use]
    pub fn count(&self, filter: &Filter) -> usize {
        if filter.tags.is_empty() {
            return self.prices.iter().filter(|(price, _)| filter.affords(MicroUsd(**price))).map(|(_, count)| count).sum();
        }
        self.values().filter(|entry| entry.listed() && filter.takes(entry)).count()
    }

    /// By slug.
    pub fn values(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.all.iter()
    }

    /// Those behind `slug`, by slug.
    pub fn after(&self, slug: &str) -> impl Iterator<Item = &Arc<Entry>> + use<'_> {
        self.all.behind((slug,))
    }

    /// Those of an owner behind `slug`, by slug.
    pub fn of_owner<'a>(&'a self, owner: &'a Owner, slug: &str) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
        self.owned.of_owner(owner, slug)
    }

    /// Those behind `slug` that stand so, by slug.
    pub fn standing(&self, state: EndpointState, slug: &str) -> Box<dyn Iterator<Item = &Arc<Entry>> + Send + '_> {
        match state {
            EndpointState::Active => Box::new(self.after(slug).filter(|entry| entry.is_active())),
            other => Box::new(self.others.behind((other, slug)).take_while(move |entry| entry.state() == other)),
        }
    }

    /// Those of which an admin has something to decide, the longest waiting first, behind a place among them; and how many there are.
    pub fn waiting(&self, after: Option<(Timestamp, &Slug)>) -> (impl Iterator<Item = &Arc<Entry>> + use<'_>, usize) {
        let key = after.map_or((0, ""), |(since, slug)| (since.0, slug.as_str()));
        (self.waiting.behind(key), self.waiting.len())
    }

    /// How many an owner has, in whatever state.
    #[must_use]
    pub fn owned(&self, owner: &Owner) -> usize {
        self.owners.get(owner).copied().unwrap_or_default()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are of each kind.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Those with any of the words, best first, of the ones that everyone may see and `keep` takes.
    #[must_use]
    pub fn search(&self, words: &Query, skip: usize, limit: usize, keep: impl Fn(&Entry) -> bool) -> Found<Arc<Entry>> {
        self.words.search(words, skip, limit, |entry| entry.listed() && keep(entry))
    }

    /// Those whose slugs are like `name`, nearest first, of the ones that everyone may see and `keep` takes.
    #[must_use]
    pub fn nearest(&self, name: &str, keep: impl Fn(&Entry) -> bool) -> Vec<&Arc<Entry>> {
        let Some(pattern) = Pattern::of(name) else { return Vec::new() };
        let near = self.values().filter_map(|entry| Some((pattern.distance(entry.slug.as_str())?, entry)));
        let mut near: Vec<_> = near.filter(|(_, entry)| entry.listed() && keep(entry)).collect();
        // Among equals by slug.
        near.sort_by_key(|(distance, _)| *distance);
        near.into_iter().map(|(_, entry)| entry).collect()
    }

    /// Shows an endpoint, in place of the one that had its slug. Without a text it has the words that it had.
    pub(super) fn put(&mut self, mut entry: Entry, text: Option<&Text<'_>>) {
        if let Some(before) = self.get(entry.slug.as_str()).cloned() {
            self.take_out(&before);
            // Written once, however many entries name it.
            entry.slug = before.slug.clone();
        }
        match self.owners.get_key_value(&*entry.owner) {
            Some((owner, count)) => {
                let (owner, count) = (Arc::clone(owner), count + 1);
                entry.owner = Arc::clone(&owner);
                self.owners.insert(owner, count);
            }
            None => _ = self.owners.insert(Arc::clone(&entry.owner), 1),
        }
        if let Some(asked) = entry.asked.take() {
            let (asked, count) = self.asked.get_key_value(&*asked).map_or((asked, 1), |(known, count)| (Arc::clone(known), count + 1));
            entry.asked = Some(Arc::clone(&asked));
            self.asked.insert(asked, count);
        }
        let entry = Arc::new(entry);
        self.all.put(&entry);
        self.ids.put(&entry);
        self.owned.put(&entry);
        if !entry.is_active() {
            self.others.put(&entry);
        }
        if entry.waits_since.is_some() {
            self.waiting.put(&entry);
        }
        if entry.listed() {
            self.by_price.put(&entry);
            self.newest.put(&entry);
            more(&mut self.prices, entry.most_usd.0);
        }
        self.counts.add(&entry);
        let slug = entry.slug.as_str();
        match text {
            Some(text) => self.words.put(slug, text, Arc::clone(&entry)),
            None => _ = self.words.replace(slug, &entry),
        }
    }

    pub(super) fn remove(&mut self, slug: &str) {
        let Some(before) = self.get(slug).cloned() else { return };
        self.take_out(&before);
        self.words.remove(slug);
    }

    /// Takes an entry out of everything but the words.
    fn take_out(&mut self, entry: &Arc<Entry>) {
        self.all.remove(entry);
        self.ids.remove(entry);
        self.owned.remove(entry);
        self.others.remove(entry);
        self.waiting.remove(entry);
        if entry.listed() {
            self.by_price.remove(entry);
            self.newest.remove(entry);
            fewer(&mut self.prices, &entry.most_usd.0);
        }
        fewer(&mut self.owners, &entry.owner);
        entry.asked.iter().for_each(|asked| fewer(&mut self.asked, asked));
        self.counts.take(entry);
    }
}

fn more<K: Ord + Clone>(counts: &mut OrdMap<K, usize>, key: K) {
    let count = counts.get(&key).map_or(1, |count| count + 1);
    counts.insert(key, count);
}

fn fewer<K: Ord + Clone>(counts: &mut OrdMap<K, usize>, key: &K) {
    match counts.get(key) {
        Some(1) | None => _ = counts.remove(key),
        Some(count) => {
            let count = count - 1;
            counts.insert(key.clone(), count);
        }
    }
}

impl Counts {
    fn kinds(entry: &Entry) -> [usize; 3] {
        [entry.listed(), entry.listed() && entry.is_paid(), entry.is_tool()].map(usize::from)
    }

    fn add(&mut self, entry: &Entry) {
        let [listed, paid, tools] = Self::kinds(entry);
        *self = Self { listed: self.listed + listed, paid: self.paid + paid, tools: self.tools + tools };
    }

    fn take(&mut self, entry: &Entry) {
        let [listed, paid, tools] = Self::kinds(entry);
        *self = Self { listed: self.listed - listed, paid: self.paid - paid, tools: self.tools - tools };
    }
}
