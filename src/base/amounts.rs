//! Amounts by key, with fast access to the largest one.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

/// Amounts by key. Keys with an amount of 0 are not stored.
#[derive(Debug)]
pub struct Amounts<K> {
    of: HashMap<K, usize>,
    in_order: BTreeSet<(usize, K)>,
}

impl<K> Default for Amounts<K> {
    fn default() -> Self {
        Self { of: HashMap::new(), in_order: BTreeSet::new() }
    }
}

impl<K: Clone + Hash + Ord> Amounts<K> {
    /// Returns the amount of a key.
    pub fn of(&self, key: &K) -> usize {
        self.of.get(key).copied().unwrap_or_default()
    }

    /// Returns whether all amounts are 0.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Increases the amount of a key.
    pub fn add(&mut self, key: &K, more: usize) {
        let before = self.of(key);
        self.set(key, before, before + more);
    }

    /// Decreases the amount of a key, but not below 0.
    pub fn take(&mut self, key: &K, less: usize) {
        let before = self.of(key);
        self.set(key, before, before.saturating_sub(less));
    }

    fn set(&mut self, key: &K, before: usize, amount: usize) {
        if before == amount {
            return;
        }
        let mut entry = (before, key.clone());
        if before > 0 {
            self.in_order.remove(&entry);
        }
        if amount == 0 {
            self.of.remove(key);
            return;
        }
        match self.of.get_mut(key) {
            Some(of) => *of = amount,
            None => _ = self.of.insert(key.clone(), amount),
        }
        entry.0 = amount;
        self.in_order.insert(entry);
    }

    /// Returns the key with the largest amount, and the amount. Among equal amounts, the largest key counts.
    pub fn largest(&self) -> Option<(&K, usize)> {
        self.in_order.last().map(|(amount, key)| (key, *amount))
    }
}

#[cfg(test)]
mod tests;
