//! A value for each tier.

use std::ops::{Index, IndexMut};

use tollhouse_protocol::Tier;

/// One value for each tier.
#[derive(Debug, Clone, Default)]
pub(crate) struct EachTier<T>([T; Tier::ALL.len()]);

impl<T> EachTier<T> {
    /// Iterates over the values by tier.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Tier, &T)> {
        Tier::ALL.into_iter().zip(&self.0)
    }

    /// Iterates mutably over the values by tier.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Tier, &mut T)> {
        Tier::ALL.into_iter().zip(&mut self.0)
    }
}

impl<T> Index<Tier> for EachTier<T> {
    type Output = T;

    fn index(&self, tier: Tier) -> &T {
        &self.0[tier as usize]
    }
}

impl<T> IndexMut<Tier> for EachTier<T> {
    fn index_mut(&mut self, tier: Tier) -> &mut T {
        &mut self.0[tier as usize]
    }
}
