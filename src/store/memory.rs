//! The store in memory: for tests, and for what is to vanish. Nothing outlives it.

use std::{
    collections::BTreeMap,
    sync::{PoisonError, RwLock},
};

use async_trait::async_trait;

use super::{Check, Direction, Durability, KeyRange, Pairs, Size, Sizes, Space, Store, StoreError, Write, check_sizes};

type Spaces = BTreeMap<Space, BTreeMap<Vec<u8>, Vec<u8>>>;

/// A map per space, behind one lock. Every durability is the same to it.
#[derive(Debug, Default)]
pub struct MemoryStore(RwLock<Spaces>);

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let spaces = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Ok(value(&spaces, space, key).cloned())
    }

    async fn scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<Pairs, StoreError> {
        let spaces = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(keys) = spaces.get(&space).filter(|_| !range.is_empty()) else { return Ok(Pairs::new()) };
        let found = keys.range((range.start, range.end)).map(|(key, value)| (key.clone(), value.clone()));
        Ok(match direction {
            Direction::Forward => found.take(limit).collect(),
            Direction::Backward => found.rev().take(limit).collect(),
        })
    }

    async fn commit(&self, checks: Vec<Check>, writes: Vec<Write>, _durability: Durability) -> Result<(), StoreError> {
        check_sizes(&writes)?;
        let mut spaces = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if checks.iter().any(|check| value(&spaces, check.space, &check.key) != check.expected.as_ref()) {
            return Err(StoreError::Conflict);
        }
        for write in writes {
            let keys = spaces.entry(write.space).or_default();
            match write.value {
                Some(value) => keys.insert(write.key, value),
                None => keys.remove(&write.key),
            };
        }
        Ok(())
    }

    fn sizes(&self) -> Sizes {
        let spaces = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let size = |pairs: &BTreeMap<Vec<u8>, Vec<u8>>| Size {
            entries: pairs.len() as u64,
            bytes: pairs.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum(),
        };
        Sizes { spaces: spaces.iter().map(|(space, pairs)| (*space, size(pairs))).collect(), complete: true }
    }
}

fn value<'a>(spaces: &'a Spaces, space: Space, key: &[u8]) -> Option<&'a Vec<u8>> {
    spaces.get(&space)?.get(key)
}
