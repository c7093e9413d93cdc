//! The endpoints as they are at one moment: all of them, how many there are of each kind, in every order, and the index of their words.

use std::{fmt, ops::Bound, sync::Arc};

use rpds::RedBlackTreeMapSync;

use super::{
    Live,
    nearest::Pattern,
    order::{Order, Orders, Place},
};
use crate::{
    base::id::EndpointId,
    catalog::search::{Found, Index, Query, Text},
    tool::{Availability, Endpoint, MicroUsd, PricingMode, Slug},
};

/// A value: its clone costs nothing, and a change of one endpoint costs the same however many there are.
#[derive(Clone)]
pub struct Snapshot {
    all: RedBlackTreeMapSync<Slug, Arc<Live>>,
    /// What each is called.
    ids: RedBlackTreeMapSync<EndpointId, Slug>,
    /// Of those that are [`Endpoint::listed`].
    index: Index<Arc<Live>>,
    /// Of the same.
    orders: Orders,
    counts: Counts,
}

/// How many endpoints there are of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Everyone may see them.
    pub listed: usize,
    /// Of those, they cost something.
    pub paid: usize,
    /// They are tools: active, and of a form that a front has for them.
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
    pub fn takes(&self, endpoint: &Endpoint) -> bool {
        let free = |mode| mode == PricingMode::FreePublicUtility;
        self.pricing.is_none_or(|pricing| free(pricing) == free(endpoint.pricing_mode()))
            && self.max_price.is_none_or(|most| endpoint.most_usd() <= most)
            && self.tags.iter().all(|tag| endpoint.tags.iter().any(|has| has.eq_ignore_ascii_case(tag)))
    }
}

impl Default for Snapshot {
    fn default() -> Self {
        let (all, ids) = (RedBlackTreeMapSync::new_sync(), RedBlackTreeMapSync::new_sync());
        Self { all, ids, index: Index::default(), orders: Orders::default(), counts: Counts::default() }
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
    pub fn get(&self, slug: &str) -> Option<&Arc<Live>> {
        self.all.get(slug)
    }

    /// The endpoint with this id.
    #[must_use]
    pub fn of_id(&self, id: &EndpointId) -> Option<&Arc<Live>> {
        self.get(self.ids.get(id)?.as_str())
    }

    /// Those that everyone may see, in an order: from its beginning, or behind a place.
    pub fn ordered(&self, order: Order, after: Option<Place>) -> impl Iterator<Item = &Arc<Live>> {
        self.orders.behind(order, after)
    }

    /// How many `filter` takes of those that everyone may see. They are counted only where more is asked than whether they are free.
    #[must_use]
    pub fn count(&self, filter: &Filter) -> usize {
        let Counts { listed, paid, .. } = self.counts;
        match filter {
            Filter { tags, pricing, max_price: None } if tags.is_empty() => match pricing {
                None => listed,
                Some(PricingMode::FreePublicUtility) => listed - paid,
                Some(PricingMode::FixedPriceSuccessReceipt | PricingMode::MeteredPriceSuccessReceipt) => paid,
            },
            filter => self.values().filter(|live| live.endpoint.listed() && filter.takes(&live.endpoint)).count(),
        }
    }

    /// By slug.
    pub fn values(&self) -> impl Iterator<Item = &Arc<Live>> {
        self.all.values()
    }

    /// Those behind `slug`, by slug.
    pub fn after<'a>(&'a self, slug: &'a str) -> impl Iterator<Item = &'a Arc<Live>> {
        self.all.range::<str, _>((Bound::Excluded(slug), Bound::Unbounded)).map(|(_, live)| live)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.size()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many there are of each kind.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Those with any of the words, best first, of the ones that everyone may see and `keep` takes.
    #[must_use]
    pub fn search(&self, words: &Query, skip: usize, limit: usize, keep: impl Fn(&Live) -> bool) -> Found<Arc<Live>> {
        self.index.search(words, skip, limit, |live| keep(live))
    }

    /// Those whose slugs are like `name`, nearest first, of the ones that everyone may see and `keep` takes.
    #[must_use]
    pub fn nearest(&self, name: &str, keep: impl Fn(&Live) -> bool) -> Vec<&Arc<Live>> {
        let Some(pattern) = Pattern::of(name) else { return Vec::new() };
        let near = self.all.iter().filter_map(|(slug, live)| Some((pattern.distance(slug.as_str())?, live)));
        let mut near: Vec<_> = near.filter(|(_, live)| live.endpoint.listed() && keep(live)).collect();
        // Among equals by slug.
        near.sort_by_key(|(distance, _)| *distance);
        near.into_iter().map(|(_, live)| live).collect()
    }

    /// Shows an endpoint, in place of the one that had its slug.
    pub(super) fn put(&mut self, live: Arc<Live>) {
        let slug = live.endpoint.slug.clone();
        let before = self.all.get(&slug).cloned();
        self.counts.change(before.as_deref(), Some(&live));
        if let Some(before) = before.as_deref() {
            self.orders.remove(&before.endpoint);
            self.ids.remove_mut(&before.endpoint.id);
        }
        self.ids.insert_mut(live.endpoint.id.clone(), slug.clone());
        if live.endpoint.listed() {
            self.orders.put(&live);
        }
        if !live.endpoint.listed() {
            self.index.remove(slug.as_str());
        } else if before.is_none_or(|before| text(&before.endpoint) != text(&live.endpoint)) || !self.index.replace(slug.as_str(), &live) {
            self.index.put(slug.as_str(), &text(&live.endpoint), Arc::clone(&live));
        }
        self.all.insert_mut(slug, live);
    }

    pub(super) fn remove(&mut self, slug: &str) {
        let Some(before) = self.all.get(slug).cloned() else { return };
        self.counts.change(Some(&before), None);
        self.orders.remove(&before.endpoint);
        self.ids.remove_mut(&before.endpoint.id);
        self.index.remove(slug);
        self.all.remove_mut(slug);
    }
}

impl Counts {
    fn change(&mut self, before: Option<&Live>, after: Option<&Live>) {
        let kinds = |live: Option<&Live>| {
            let listed = live.filter(|live| live.endpoint.listed());
            let paid = listed.filter(|live| !live.endpoint.most_usd().is_zero());
            let tool = listed.filter(|live| live.endpoint.availability() == Availability::Active && live.form.is_some());
            [listed.is_some(), paid.is_some(), tool.is_some()].map(usize::from)
        };
        let (was, is) = (kinds(before), kinds(after));
        for (place, count) in [&mut self.listed, &mut self.paid, &mut self.tools].into_iter().enumerate() {
            *count = *count + is[place] - was[place];
        }
    }
}

/// What is searched of an endpoint.
fn text(endpoint: &Endpoint) -> Text<'_> {
    Text { slug: endpoint.slug.as_str(), title: &endpoint.title, tags: &endpoint.tags, description: &endpoint.description }
}
