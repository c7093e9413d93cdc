//! Receipts of free calls: kept for a time and up to a number, then gone.
//!
//! They are the most there are, so they lie in packs, those of one [`WINDOW_MS`] of the time in their ids together,
//! which is how one of them is found. What is too old or too many goes in whole packs, the oldest
//! first, a few at a time. How many there are is never looked up: it is what was added less what was removed,
//! two numbers with one writer each, written in the commits that add and remove.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{RECEIPTS, is_free};
use crate::{
    base::{
        clock::Clock,
        id::{ReceiptId, RequestId},
    },
    store::{
        Batch, Direction, Durability, Formatted, Size, Store, StoreError, Table, keep_up,
        pack::{Item, Pack, packs},
        schema,
    },
};

/// Receipts of this much of time, in milliseconds, may share a pack. A reader unpacks those of one window.
const WINDOW_MS: u64 = 10;
/// How often what is too much is looked for.
const TURN: Duration = Duration::from_secs(1);
/// How far the clock of another host may be ahead, in milliseconds.
const AHEAD_MS: u64 = 1_000;
/// Packs read or removed at once.
const SOME: usize = 256;
/// Receipts of an older version that are looked at in one go.
const SORT: usize = 250;
/// Time between two such goes, so that calls have the store to themselves most of the time.
const SORT_PAUSE: Duration = Duration::from_millis(10);

pub(super) const FREE_RECEIPTS: Table<(u64, RequestId, u32), Pack> = schema::FREE_RECEIPTS.holding();
/// What was added by calls, added by sorting, and removed.
const ADDED: Table<(), Tally> = schema::FREE_ADDED.holding();
const SORTED: Table<(), Tally> = schema::FREE_SORTED.holding();
const REMOVED: Table<(), Tally> = schema::FREE_REMOVED.holding();
const PLACE: Table<(), SortedTo> = schema::FREE_PLACE.holding();

/// How the table says that all are sorted: no receipt's id begins with it.
const EVERYWHERE: u8 = u8::MAX;

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
crate::store::postcard_values!(Tally);

/// How far the receipts of an older version are sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SortedTo {
    Receipt(ReceiptId),
    Everywhere,
}

/// Receipts that share a key.
struct Packed {
    key: (u64, RequestId, u32),
    value: Pack,
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
        let [added, sorted, removed] = [ADDED.get(&*store, &()).await?, SORTED.get(&*store, &()).await?, REMOVED.get(&*store, &()).await?];
        let [added, sorted, removed] = [added, sorted, removed].map(Option::unwrap_or_default);
        let unsorted = AtomicBool::new(PLACE.get(&*store, &()).await? != Some(SortedTo::Everywhere));
        let [added, sorted, removed] = [added, sorted, removed].map(Mutex::new);
        Ok(Arc::new(Self { store, clock, settings, added, sorted, removed, unsorted }))
    }

    /// Starts the task that removes what is too much; it ends when nobody holds the value any more. Must be called
    /// inside a tokio runtime.
    pub fn start(self: &Arc<Self>) {
        keep_up(self, TURN, "removing old receipts of free calls", |free, _| async move { free.turn().await });
    }

    /// What stores `receipts`, each an id and a record. The next ones must be asked for after their commit.
    #[must_use]
    pub fn stored<'a>(&self, receipts: impl Iterator<Item = (&'a ReceiptId, &'a [u8])>) -> Batch {
        Self::add(receipts, &mut lock(&self.added), &ADDED)
    }

    fn add<'a>(receipts: impl Iterator<Item = (&'a ReceiptId, &'a [u8])>, sum: &mut Tally, table: &Table<(), Tally>) -> Batch {
        let mut batch = Batch::new();
        for one in in_packs(receipts) {
            sum.receipts += one.tally.receipts;
            sum.bytes += one.tally.bytes;
            batch.put(&FREE_RECEIPTS, &one.key, &one.value);
        }
        if !batch.changes_nothing() {
            batch.put(table, &(), sum);
        }
        batch
    }

    /// A receipt as it is stored.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn get(&self, id: &ReceiptId) -> Result<Option<Vec<u8>>, StoreError> {
        let mut range = FREE_RECEIPTS.under(&window(id));
        loop {
            let packs = FREE_RECEIPTS.page(&*self.store, &range, SOME, Direction::Forward).await?;
            let Some(last) = packs.last() else { return Ok(None) };
            range = range.after(&last.key);
            let found = packs.iter().flat_map(|row| row.value.items()).find(|item| item.name == id.as_str().as_bytes());
            if let Some(found) = found {
                return Ok(Some(found.value.to_vec()));
            }
        }
    }

    /// Whether another host of the store may have made the receipt, within so many milliseconds before now.
    #[must_use]
    pub fn is_of_late(&self, id: &ReceiptId, millis: u64) -> bool {
        let (made_at, now) = (id.made_at(), self.clock.now());
        self.store.is_shared() && made_at <= now.plus_millis(AHEAD_MS) && now <= made_at.plus_millis(millis)
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
        let all = FREE_RECEIPTS.all();
        let range = if excess == 0 { all.before(&oldest) } else { all };
        let packs = FREE_RECEIPTS.page(&*self.store, &range, SOME, Direction::Forward).await?;
        // Only this task removes.
        let mut sum = *lock(&self.removed);
        let mut batch = Batch::new();
        for pack in packs {
            let old = pack.key.0 < oldest;
            let receipts = pack.value.items().count() as u64;
            // A pack goes whole: the last one stays where that would leave fewer than are wanted.
            if !old && receipts > excess {
                break;
            }
            excess = excess.saturating_sub(receipts);
            sum.receipts += receipts;
            sum.bytes += (FREE_RECEIPTS.bytes_of(&pack.key) + pack.value.bytes()) as u64;
            batch.sweep(&FREE_RECEIPTS, &pack);
        }
        if batch.changes_nothing() {
            return Ok(false);
        }
        batch.put(&REMOVED, &(), &sum);
        batch.commit(&*self.store, Durability::Buffered).await?;
        *lock(&self.removed) = sum;
        Ok(true)
    }

    /// Takes the receipts of free calls out of those of paid ones, among which older versions put them. Goes on
    /// where it was cut off.
    async fn sort(&self) -> Result<(), StoreError> {
        let mut place = PLACE.get(&*self.store, &()).await?;
        while place != Some(SortedTo::Everywhere) {
            let range = match &place {
                Some(SortedTo::Receipt(last)) => RECEIPTS.all().after(last),
                Some(SortedTo::Everywhere) | None => RECEIPTS.all(),
            };
            let some = RECEIPTS.page(&*self.store, &range, SORT, Direction::Forward).await?;
            let next = some.last().map_or(SortedTo::Everywhere, |last| SortedTo::Receipt(last.key.clone()));
            let free: Vec<_> = some.into_iter().filter(|row| is_free(&row.value.0)).collect();
            let oldest = self.clock.now().0.saturating_sub(self.settings.age_ms);
            let kept = free.iter().filter(|row| row.key.made_at().0 >= oldest);
            let mut sum = *lock(&self.sorted);
            let mut batch = Self::add(kept.map(|row| (&row.key, &row.value.0[..])), &mut sum, &SORTED);
            free.iter().for_each(|row| _ = batch.sweep(&RECEIPTS, row));
            batch.put(&PLACE, &(), &next);
            batch.commit(&*self.store, Durability::Buffered).await?;
            *lock(&self.sorted) = sum;
            place = Some(next);
            tokio::time::sleep(SORT_PAUSE).await;
        }
        self.unsorted.store(false, Ordering::Relaxed);
        Ok(())
    }
}

impl Formatted for SortedTo {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Receipt(id) => out.extend_from_slice(id.as_str().as_bytes()),
            Self::Everywhere => out.push(EVERYWHERE),
        }
    }

    fn read(format: u8, bytes: &[u8]) -> Option<Self> {
        match bytes {
            _ if format > Self::FORMAT => None,
            [EVERYWHERE] => Some(Self::Everywhere),
            id => Some(Self::Receipt(std::str::from_utf8(id).ok()?.parse().ok()?)),
        }
    }
}

/// Packs of `receipts`, by the windows of their ids.
fn in_packs<'a>(receipts: impl Iterator<Item = (&'a ReceiptId, &'a [u8])>) -> Vec<Packed> {
    let mut receipts: Vec<_> = receipts.collect();
    receipts.sort_unstable_by_key(|(id, _)| *id);
    // Tells packs of one window apart, whoever writes them.
    let name = RequestId::generate();
    let mut packed = Vec::new();
    for some in receipts.chunk_by(|(a, _), (b, _)| window(a) == window(b)) {
        let items: Vec<_> = some.iter().map(|(id, value)| Item { name: id.as_str().as_bytes(), value }).collect();
        for (part, (count, value)) in (0..).zip(packs(&items)) {
            let key = (window(some[0].0), name.clone(), part);
            let tally = Tally { receipts: count as u64, bytes: (FREE_RECEIPTS.bytes_of(&key) + value.bytes()) as u64 };
            packed.push(Packed { key, value, tally });
        }
    }
    packed
}

fn window(id: &ReceiptId) -> u64 {
    id.made_at().0 / WINDOW_MS
}

fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
