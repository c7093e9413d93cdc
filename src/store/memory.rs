//! The in-memory store, for tests and for temporary data.

use std::collections::{BTreeMap, VecDeque};

use async_trait::async_trait;
use tokio::sync::mpsc;
use tollhouse_base::{
    clock::{Clock, Timestamp},
    lock::Lock,
};

use super::{
    Batch, Changes, CommittedChange, CopyPage, Direction, Durability, KeyRange, KeyValues, RowSums, Space, SpaceSize, SpaceSizes, Store,
    StoreError, Write, add,
    changes::{RETAINED, numbers},
    check_sizes,
};

type Spaces = BTreeMap<Space, BTreeMap<Vec<u8>, Vec<u8>>>;

/// One map for each space, behind one lock. Durability makes no difference to it.
#[derive(Debug, Default)]
pub struct MemoryStore {
    data: Lock<MemoryData>,
    /// The clock of a store that several hosts in one process share.
    shared: Option<Clock>,
}

#[derive(Debug, Default)]
struct MemoryData {
    spaces: Spaces,
    /// The latest changes of followed tables, oldest first.
    changelog: VecDeque<CommittedChange>,
}

impl MemoryStore {
    /// Returns an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty store that several hosts share. `clock` is their common clock.
    pub fn shared(clock: Clock) -> Self {
        Self { shared: Some(clock), ..Self::default() }
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(value(&self.data.lock().spaces, space, key).cloned())
    }

    async fn scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<KeyValues, StoreError> {
        let data = self.data.lock();
        let Some(keys) = data.spaces.get(&space).filter(|_| !range.is_empty()) else { return Ok(KeyValues::new()) };
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

    async fn count(&self, space: Space, range: KeyRange, max: usize) -> Result<usize, StoreError> {
        let data = self.data.lock();
        let Some(keys) = data.spaces.get(&space).filter(|_| !range.is_empty()) else { return Ok(0) };
        Ok(keys.range((range.start, range.end)).take(max).count())
    }

    async fn apply(&self, batch: Batch, _durability: Durability) -> Result<Vec<i128>, StoreError> {
        let Batch { checks, mut writes, adds, changelog: changed } = batch;
        check_sizes(&writes, &adds)?;
        let mut data = self.data.lock();
        if checks.iter().any(|check| value(&data.spaces, check.space, &check.key).map(Vec::as_slice) != check.expected.as_deref()) {
            return Err(StoreError::Conflict);
        }
        let sums = add::decide(adds, &mut writes, |space, key| Ok(value(&data.spaces, space, key).cloned()))?;
        for write in writes {
            let keys = data.spaces.entry(write.space).or_default();
            match write.value {
                Some(value) => keys.insert(write.key, value),
                None => keys.remove(&write.key),
            };
        }
        if !changed.is_empty() {
            data.log_change(changed);
        }
        Ok(sums)
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Changes, StoreError> {
        let data = self.data.lock();
        let newest = data.newest();
        let Some((from, to)) = numbers(after, newest, limit) else { return Ok(Changes::none(newest, true)) };
        let changes = data.changelog.iter().filter(|change| (from..=to).contains(&change.number)).cloned().collect();
        Ok(Changes { changes, newest, truncated: false })
    }

    async fn copy(&self, to: mpsc::Sender<CopyPage>) -> Result<(), StoreError> {
        let (mut rows, mut sums) = (Vec::new(), RowSums::default());
        for (space, pairs) in &self.data.lock().spaces {
            for (key, value) in pairs {
                sums.add(*space, key, value);
                rows.push(Write::put(*space, &key[..], &value[..]));
            }
        }
        let removed = |_| StoreError::Away("the receiver of the copy has gone".to_owned());
        to.send(CopyPage::Rows(rows)).await.map_err(removed)?;
        to.send(CopyPage::End(Box::new(sums))).await.map_err(removed)
    }

    fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.shared.clone().unwrap_or_default().now())
    }

    fn sizes(&self) -> SpaceSizes {
        let data = self.data.lock();
        let size = |pairs: &BTreeMap<Vec<u8>, Vec<u8>>| SpaceSize {
            entries: pairs.len() as u64,
            bytes: pairs.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum(),
        };
        SpaceSizes {
            spaces: data.spaces.iter().map(|(space, pairs)| (*space, size(pairs))).collect(),
            complete: true,
            backend: "memory",
            ..SpaceSizes::default()
        }
    }
}

impl MemoryData {
    fn newest(&self) -> u64 {
        self.changelog.back().map_or(0, |change| change.number)
    }

    fn log_change(&mut self, keys: Vec<(Space, Vec<u8>)>) {
        self.changelog.push_back(CommittedChange { number: self.newest() + 1, keys });
        if self.changelog.len() as u64 > RETAINED {
            self.changelog.pop_front();
        }
    }
}

fn value<'a>(spaces: &'a Spaces, space: Space, key: &[u8]) -> Option<&'a Vec<u8>> {
    spaces.get(&space)?.get(key)
}
