//! Receipts of free calls: kept for a time and up to a number, then gone.
//!
//! They are the most there are, so they lie in packs, those of one [`WINDOW_MS`] of the time in their ids together,
//! which is how one of them is found. What is too old or too many goes in whole packs, the oldest
//! first, a few at a time. How many there are is never looked up: it is what was added less what was removed,
//! two numbers with one writer each, written in the commits that add and remove.

use std::{
    fmt,
    ops::Bound,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{Kind, Record};
use crate::{
    base::{
        clock::{Clock, Timestamp},
        id::{ReceiptId, RequestId},
    },
    store::{
        Direction, Durability, KeyRange, Size, Space, Store, StoreError, Write,
        pack::{Item, packs, unpack},
    },
};

/// Receipts of this much of time, in milliseconds, may share a pack. A reader unpacks those of one window.
const WINDOW_MS: u64 = 10;
/// How often what is too much is looked for.
const TURN: Duration = Duration::from_secs(1);
/// Packs read or removed at once.
const SOME: usize = 256;
/// Receipts of an older version that are looked at in one go.
const SORT: usize = 250;
/// Time between two such goes, so that calls have the store to themselves most of the time.
const SORT_PAUSE: Duration = Duration::from_millis(10);

/// What was added by calls, added by sorting, and removed: keys in [`Space::Meta`].
const ADDED: &str = "free-receipts/added";
const SORTED: &str = "free-receipts/sorted";
const REMOVED: &str = "free-receipts/removed";
/// How far the receipts of an older version are sorted.
const PLACE: &str = "free-receipts/sorted-to";
/// What [`PLACE`] is when they all are: no receipt's id comes behind it.
const EVERYWHERE: &[u8] = &[u8::MAX];

/// How many receipts of free calls are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeReceiptSettings {
    /// Those beyond go, the oldest first, in packs of a few. Default: 5,000,000.
    pub count: u64,
    /// Age at which one goes, in milliseconds. Default: 7 days.
    pub age_ms: u64,
}

impl Default for FreeReceiptSettings {
    fn default() -> Self {
        Self { count: 5_000_000, age_ms: 7 * 24 * 3_600 * 1_000 }
    }
}

/// The receipts of free calls. One value of this process, for it counts what it adds.
pub struct FreeReceipts {
    store: Arc<dyn Store>,
    clock: Clock,
    settings: FreeReceiptSettings,
    added: Mutex<Tally>,
    sorted: Mutex<Tally>,
    removed: Mutex<Tally>,
    /// Whether an older version may have left some among the others.
    unsorted: AtomicBool,
}

/// Receipts, and the bytes of them, that were added or removed since the first start.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Tally {
    receipts: u64,
    bytes: u64,
}

/// Receipts that share a key.
struct Packed {
    key: Vec<u8>,
    value: Vec<u8>,
    tally: Tally,
}

impl fmt::Debug for FreeReceipts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FreeReceipts").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl FreeReceipts {
    /// Those in `store`.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn open(store: Arc<dyn Store>, clock: Clock, settings: FreeReceiptSettings) -> Result<Arc<Self>, StoreError> {
        let [added, sorted, removed] = [tally(&store, ADDED).await?, tally(&store, SORTED).await?, tally(&store, REMOVED).await?];
        let place = store.get(Space::Meta, PLACE.as_bytes()).await?;
        let unsorted = AtomicBool::new(place.as_deref() != Some(EVERYWHERE));
        let [added, sorted, removed] = [added, sorted, removed].map(Mutex::new);
        Ok(Arc::new(Self { store, clock, settings, added, sorted, removed, unsorted }))
    }

    /// Starts the task that removes what is too much; it ends when nobody holds the value any more. Must be called
    /// inside a tokio runtime.
    pub fn start(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut tick = tokio::time::interval(TURN);
            loop {
                tick.tick().await;
                let Some(free) = Weak::upgrade(&weak) else { return };
                if let Err(error) = free.turn().await {
                    tracing::warn!(%error, "the store was not there for removing old receipts of free calls");
                }
            }
        });
    }

    /// The writes that store `receipts`, each an id and a record. The next ones must be asked for after their commit.
    #[must_use]
    pub fn writes<'a>(&self, receipts: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<Write> {
        Self::add(receipts, &mut lock(&self.added), ADDED)
    }

    fn add<'a>(receipts: impl Iterator<Item = (&'a [u8], &'a [u8])>, sum: &mut Tally, name: &str) -> Vec<Write> {
        let packed = in_packs(receipts);
        if packed.is_empty() {
            return vec![];
        }
        for one in &packed {
            sum.receipts += one.tally.receipts;
            sum.bytes += one.tally.bytes;
        }
        let count = sum.write(name);
        packed.into_iter().map(|one| Write::put(Space::FreeReceipts, one.key, one.value)).chain([count]).collect()
    }

    /// A receipt as it is stored.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn get(&self, id: &ReceiptId) -> Result<Option<Vec<u8>>, StoreError> {
        let mut range = KeyRange::prefix(&window(id).to_be_bytes());
        loop {
            let packs = self.store.scan(Space::FreeReceipts, range.clone(), SOME, Direction::Forward).await?;
            let Some((last, _)) = packs.last() else { return Ok(None) };
            range = range.after(last);
            let found = packs.iter().flat_map(|(_, pack)| unpack(pack)).find(|item| item.name == id.as_str().as_bytes());
            if let Some(found) = found {
                return Ok(Some(found.value.to_vec()));
            }
        }
    }

    /// How many there are.
    #[must_use]
    pub fn size(&self) -> Size {
        let (added, sorted, removed) = (*lock(&self.added), *lock(&self.sorted), *lock(&self.removed));
        Size {
            entries: (added.receipts + sorted.receipts).saturating_sub(removed.receipts),
            bytes: (added.bytes + sorted.bytes).saturating_sub(removed.bytes),
        }
    }

    /// Removes what is too old or too many, once what an older version left is sorted.
    ///
    /// # Errors
    ///
    /// The store's; the rest is removed at the next turn.
    pub async fn turn(&self) -> Result<(), StoreError> {
        if self.unsorted.load(Ordering::Relaxed) {
            self.sort().await?;
        }
        while self.remove_some().await? {}
        Ok(())
    }

    /// Removes some packs. False when there is nothing more to remove.
    async fn remove_some(&self) -> Result<bool, StoreError> {
        let oldest = self.clock.now().0.saturating_sub(self.settings.age_ms) / WINDOW_MS;
        let mut excess = self.size().entries.saturating_sub(self.settings.count);
        let end = if excess > 0 { Bound::Unbounded } else { Bound::Excluded(oldest.to_be_bytes().to_vec()) };
        let range = KeyRange { start: Bound::Unbounded, end };
        let packs = self.store.scan(Space::FreeReceipts, range, SOME, Direction::Forward).await?;
        // Only this task removes.
        let mut sum = *lock(&self.removed);
        let mut writes = Vec::with_capacity(packs.len() + 1);
        for (key, pack) in packs {
            let old = key.first_chunk().is_none_or(|window| u64::from_be_bytes(*window) < oldest);
            let receipts = unpack(&pack).count() as u64;
            // A pack goes whole: the last one stays where that would leave fewer than are wanted.
            if !old && receipts > excess {
                break;
            }
            excess = excess.saturating_sub(receipts);
            sum.receipts += receipts;
            sum.bytes += (key.len() + pack.len()) as u64;
            writes.push(Write::delete(Space::FreeReceipts, key));
        }
        if writes.is_empty() {
            return Ok(false);
        }
        writes.push(sum.write(REMOVED));
        self.store.commit(vec![], writes, Durability::Buffered).await?;
        *lock(&self.removed) = sum;
        Ok(true)
    }

    /// Takes the receipts of free calls out of those of paid ones, among which older versions put them. Goes on
    /// where it was cut off.
    async fn sort(&self) -> Result<(), StoreError> {
        let mut place = self.store.get(Space::Meta, PLACE.as_bytes()).await?.unwrap_or_default();
        while place != EVERYWHERE {
            let range = KeyRange { start: Bound::Excluded(place.clone()), end: Bound::Unbounded };
            let some = self.store.scan(Space::Receipts, range, SORT, Direction::Forward).await?;
            let next = some.last().map_or(EVERYWHERE, |(last, _)| last).to_vec();
            let free: Vec<_> = some.into_iter().filter(|(_, receipt)| is_free(receipt)).collect();
            let oldest = self.clock.now().0.saturating_sub(self.settings.age_ms);
            let kept = free.iter().filter(|(id, _)| made_at(id).is_some_and(|at| at.0 >= oldest));
            let mut sum = *lock(&self.sorted);
            let mut writes = Self::add(kept.map(|(id, receipt)| (&id[..], &receipt[..])), &mut sum, SORTED);
            writes.extend(free.iter().map(|(id, _)| Write::delete(Space::Receipts, id.clone())));
            writes.push(Write::put(Space::Meta, PLACE, next.clone()));
            self.store.commit(vec![], writes, Durability::Buffered).await?;
            *lock(&self.sorted) = sum;
            place = next;
            tokio::time::sleep(SORT_PAUSE).await;
        }
        self.unsorted.store(false, Ordering::Relaxed);
        Ok(())
    }
}

impl Tally {
    fn write(self, name: &str) -> Write {
        let bytes = postcard::to_stdvec(&self).expect("plain data: encoding it into memory cannot fail");
        Write::put(Space::Meta, name, bytes)
    }
}

async fn tally(store: &Arc<dyn Store>, name: &str) -> Result<Tally, StoreError> {
    let Some(bytes) = store.get(Space::Meta, name.as_bytes()).await? else { return Ok(Tally::default()) };
    postcard::from_bytes(&bytes).map_err(|error| StoreError::Away(format!("`{name}` does not read: {error}")))
}

/// Packs of `receipts`, by the windows of their ids.
fn in_packs<'a>(receipts: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<Packed> {
    let mut items: Vec<_> = receipts.map(|(name, value)| Item { name, value }).collect();
    items.sort_unstable_by_key(|item| item.name);
    // Tells packs of one window apart, whoever writes them.
    let name = RequestId::generate();
    let of_window = items.chunk_by(|a, b| item_window(a) == item_window(b));
    let packs = of_window.flat_map(|items| {
        let window = item_window(&items[0]).to_be_bytes();
        let name = name.as_str().as_bytes();
        (0_u32..).zip(packs(items)).map(move |(part, (count, value))| {
            let key = [&window[..], name, &part.to_be_bytes()].concat();
            let tally = Tally { receipts: count as u64, bytes: (key.len() + value.len()) as u64 };
            Packed { key, value, tally }
        })
    });
    packs.collect()
}

fn item_window(item: &Item<'_>) -> u64 {
    made_at(item.name).map_or(0, |at| at.0 / WINDOW_MS)
}

fn window(id: &ReceiptId) -> u64 {
    id.made_at().0 / WINDOW_MS
}

fn made_at(id: &[u8]) -> Option<Timestamp> {
    Some(std::str::from_utf8(id).ok()?.parse::<ReceiptId>().ok()?.made_at())
}

fn is_free(receipt: &[u8]) -> bool {
    serde_json::from_slice::<Record>(receipt).is_ok_and(|record| record.kind == Kind::Free)
}

fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
