//! Endpoints in the orders that lists are asked for in: kept with each change, so that a page costs what stands on it.

use std::{ops::Bound, sync::Arc};

use rpds::RedBlackTreeMapSync;

use super::Live;
use crate::tool::{Endpoint, Slug};

/// An order that is asked for. Among equals it is that of the names, or of how well they fit the words that are searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By the most that a call costs, the least first.
    Price,
    /// By when they were published, the last first.
    Newest,
}

/// Where an endpoint stands in an order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// [`Order::rank`].
    pub rank: u64,
    /// Among equals.
    pub slug: Slug,
}

/// Some endpoints in every order. A clone costs nothing.
#[derive(Clone)]
pub(super) struct Orders {
    by_price: RedBlackTreeMapSync<Place, Arc<Live>>,
    newest: RedBlackTreeMapSync<Place, Arc<Live>>,
}

impl Order {
    /// How far from the beginning an endpoint stands.
    #[must_use]
    pub fn rank(self, endpoint: &Endpoint) -> u64 {
        match self {
            Self::Price => endpoint.most_usd().0,
            Self::Newest => u64::MAX - endpoint.created_at.0,
        }
    }

    /// Where an endpoint stands.
    #[must_use]
    pub fn place(self, endpoint: &Endpoint) -> Place {
        Place { rank: self.rank(endpoint), slug: endpoint.slug.clone() }
    }
}

impl Default for Orders {
    fn default() -> Self {
        Self { by_price: RedBlackTreeMapSync::new_sync(), newest: RedBlackTreeMapSync::new_sync() }
    }
}

impl Orders {
    /// Those behind `after`, or all.
    pub(super) fn behind(&self, order: Order, after: Option<Place>) -> impl Iterator<Item = &Arc<Live>> {
        let places = match order {
            Order::Price => &self.by_price,
            Order::Newest => &self.newest,
        };
        places.range::<Place, _>((after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)).map(|(_, live)| live)
    }

    pub(super) fn put(&mut self, live: &Arc<Live>) {
        self.by_price.insert_mut(Order::Price.place(&live.endpoint), Arc::clone(live));
        self.newest.insert_mut(Order::Newest.place(&live.endpoint), Arc::clone(live));
    }

    pub(super) fn remove(&mut self, endpoint: &Endpoint) {
        self.by_price.remove_mut(&Order::Price.place(endpoint));
        self.newest.remove_mut(&Order::Newest.place(endpoint));
    }
}
