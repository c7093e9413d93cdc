//! The in-memory store, for tests and for temporary data.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{PoisonError, RwLock, RwLockReadGuard},
};

use async_trait::async_trait;
use tokio::sync::mpsc;
use tollhouse_base::clock::{Clock, Timestamp};

use super::{
    Batch, Change, Changes, Direction, Durability, KeyRange, Page, Pairs, Size, Sizes, Space, Store, StoreError, Sums, Write, add,
    changes::{KEPT, numbers},
    check_sizes,
};

type Spaces = BTreeMap<Space, BTreeMap<Vec<u8>, Vec<u8>>>;

/// One map for each space, behind one lock. Durability makes no difference to it.
#[derive(Debug, Default)]
pub struct MemoryStore {
    held: RwLock<Held>,
    /// The clock of a store that several hosts in one process share.
    shared: Option<Clock>,
}

#[derive(Debug, Default)]
struct Held {
    spaces: Spaces,
    /// The latest changes of followed tables, oldest first.
    told: VecDeque<Change>,
}

impl MemoryStore {
    /// Returns an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty store that several hosts share. `clock` is their common clock.
    #[must_use]
    pub fn shared(clock: Clock) -> Self {
        Self { shared: Some(clock), ..Self::default() }
    }

    fn read(&self) -> RwLockReadGuard<'_, Held> {
        self.held.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(value(&self.read().spaces, space, key).cloned())
    }

    async fn scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<Pairs, StoreError> {
        let held = self.read();
        let Some(keys) = held.spaces.get(&space).filter(|_| !range.is_empty()) else { return Ok(Pairs::new()) };
        let found = keys.range((range.start, range.end));
        let mut read = 0;
        let copy = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            let goes_on = read < range.bytes;
            read += key.len() + value.len();
            goes_on.then(|| (key.clone(), value.clone()))
        };
        Ok(match direction {
            Direction::Forward => found.take(limit).map_while(copy).collect(),
            Direction::Backward => found.rev().take(limit).map_while(copy).collect(),
        })
    }

    async fn count(&self, space: Space, range: KeyRange, most: usize) -> Result<usize, StoreError> {
        let held = self.read();
        let Some(keys) = held.spaces.get(&space).filter(|_| !range.is_empty()) else { return Ok(0) };
        Ok(keys.range((range.start, range.end)).take(most).count())
    }

    async fn apply(&self, batch: Batch, _durability: Durability) -> Result<Vec<i128>, StoreError> {
        let Batch { checks, mut writes, adds, told } = batch;
        check_sizes(&writes, &adds)?;
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        if checks.iter().any(|check| value(&held.spaces, check.space, &check.key).map(Vec::as_slice) != check.expected.as_deref()) {
            return Err(StoreError::Conflict);
        }
        let sums = add::decide(adds, &mut writes, |space, key| Ok(value(&held.spaces, space, key).cloned()))?;
        for write in writes {
            let keys = held.spaces.entry(write.space).or_default();
            match write.value {
                Some(value) => keys.insert(write.key, value),
                None => keys.remove(&write.key),
            };
        }
        if !told.is_empty() {
            held.tell(told);
        }
        Ok(sums)
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Changes, StoreError> {
        let held = self.read();
        let newest = held.newest();
        let Some((from, to)) = numbers(after, newest, limit) else { return Ok(Changes::none(newest, true)) };
        let changes = held.told.iter().filter(|change| (from..=to).contains(&change.number)).cloned().collect();
        Ok(Changes { changes, newest, gone: false })
    }

    async fn copy(&self, to: mpsc::Sender<Page>) -> Result<(), StoreError> {
        let (mut rows, mut sums) = (Vec::new(), Sums::default());
        for (space, pairs) in &self.read().spaces {
            for (key, value) in pairs {
                sums.add(*space, key, value);
                rows.push(Write::put(*space, &key[..], &value[..]));
            }
        }
        let gone = |_| StoreError::Away("nobody takes the copy any more".to_owned());
        to.send(Page::Rows(rows)).await.map_err(gone)?;
        to.send(Page::End(Box::new(sums))).await.map_err(gone)
    }

    fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.shared.clone().unwrap_or_default().now())
    }

    fn sizes(&self) -> Sizes {
        let held = self.read();
        let size = |pairs: &BTreeMap<Vec<u8>, Vec<u8>>| Size {
            entries: pairs.len() as u64,
            bytes: pairs.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum(),
        };
        Sizes {
            spaces: held.spaces.iter().map(|(space, pairs)| (*space, size(pairs))).collect(),
            complete: true,
            backend: "memory",
            ..Sizes::default()
        }
    }
}

impl Held {
    fn newest(&self) -> u64 {
        self.told.back().map_or(0, |change| change.number)
    }

    fn tell(&mut self, keys: Vec<(Space, Vec<u8>)>) {
        self.told.push_back(Change { number: self.newest() + 1, keys });
        if self.told.len() as u64 > KEPT {
            self.told.pop_front();
        }
    }
}

fn value<'a>(spaces: &'a Spaces, space: Space, key: &[u8]) -> Option<&'a Vec<u8>> {
    spaces.get(&space)?.get(key)
}
