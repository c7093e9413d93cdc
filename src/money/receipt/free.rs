//! Receipts of free calls. They are kept up to an age and a number.
//!
//! They are the most numerous rows. So those whose ids are from the same [`WINDOW_MS`] share packs, which is also how
//! one is found. Old or excess receipts are deleted in whole packs, oldest first, a few at a time. They are never
//! counted by a scan: the commits that add and delete them, of all hosts of a store, update the count.

use std::{sync::Arc, time::Duration};

use tollhouse_base::{
    boxed,
    clock::Clock,
    id::{ReceiptId, RequestId},
    lock::Lock,
};
use tollhouse_store::{
    Batch, Counter, Direction, Durability, SpaceSize, Store, StoreError, SumLimit, Table,
    pack::{Item, Pack, packs},
    schema,
};

/// Receipts of a period of this length, in milliseconds, may share a pack. A reader unpacks one period.
const WINDOW_MS: u64 = 10;
/// How far another host's clock may be ahead, in milliseconds.
const AHEAD_MS: u64 = 1_000;
/// Maximum time to wait for the size. After that, the last known one is good enough.
const SIZE_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of packs read or deleted at once.
const SOME: usize = 256;

pub(super) const FREE_RECEIPTS: Table<(u64, RequestId, u32), Pack> = schema::FREE_RECEIPTS.holding();
const COUNT: Counter<()> = schema::FREE_COUNT.counting();
const BYTES: Counter<()> = schema::FREE_BYTES.counting();

/// Limits on stored receipts of free calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeReceiptSettings {
    /// Maximum number. Excess ones are deleted in small packs, oldest first. Default: 5,000,000.
    pub count: u64,
    /// Maximum age in milliseconds. Default: 7 days.
    pub age_ms: u64,
}

impl Default for FreeReceiptSettings {
    fn default() -> Self {
        Self { count: 5_000_000, age_ms: 7 * 24 * 3_600 * 1_000 }
    }
}

/// The receipts of free calls.
pub struct FreeReceipts {
    store: Arc<dyn Store>,
    clock: Clock,
    settings: FreeReceiptSettings,
    known: Lock<SpaceSize>,
}

impl FreeReceipts {
    /// Constructs it over the receipts in `store`.
    pub fn new(store: Arc<dyn Store>, clock: Clock, settings: FreeReceiptSettings) -> Arc<Self> {
        Arc::new(Self { store, clock, settings, known: Lock::default() })
    }

    /// Returns the rows that store `receipts`, given as ids and records.
    #[must_use]
    pub fn stored<'a>(receipts: impl Iterator<Item = (&'a ReceiptId, &'a [u8])>) -> Batch {
        let mut receipts: Vec<_> = receipts.collect();
        receipts.sort_unstable_by_key(|(id, _)| *id);
        // Distinguishes packs of the same period by different writers.
        let name = RequestId::generate();
        let (mut batch, mut sum) = (Batch::new(), (0, 0));
        for some in receipts.chunk_by(|(a, _), (b, _)| window(a) == window(b)) {
            let items: Vec<_> = some.iter().map(|(id, value)| Item { name: id.as_str().as_bytes(), value }).collect();
            for (part, (number, pack)) in (0..).zip(packs(&items)) {
                let key = (window(some[0].0), name.clone(), part);
                sum = (sum.0 + number as u64, sum.1 + (FREE_RECEIPTS.bytes_of(&key) + pack.bytes()) as u64);
                batch.put(&FREE_RECEIPTS, &key, &pack);
            }
        }
        if !batch.changes_nothing() {
            count(&mut batch, 1, sum);
        }
        batch
    }

    /// Returns a stored receipt.
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

    /// Returns whether another host of the store may have made the receipt within the last `millis` milliseconds.
    pub fn is_recent(&self, id: &ReceiptId, millis: u64) -> bool {
        let (made_at, now) = (id.made_at(), self.clock.now());
        self.store.is_shared() && made_at <= now.plus_millis(AHEAD_MS) && now <= made_at.plus_millis(millis)
    }

    /// Returns the number and size of the receipts, or the last known ones while the store is unavailable.
    #[boxed]
    pub async fn size(&self) -> SpaceSize {
        let request = tokio::time::timeout(SIZE_TIMEOUT, self.stored_size()).await;
        let mut known = self.known.lock();
        if let Ok(Ok(size)) = request {
            *known = size;
        }
        *known
    }

    async fn stored_size(&self) -> Result<SpaceSize, StoreError> {
        let sum = async |counter: &Counter<()>| Ok(u64::try_from(counter.get(&*self.store, &()).await?).unwrap_or_default());
        Ok(SpaceSize { entries: sum(&COUNT).await?, bytes: sum(&BYTES).await? })
    }

    /// Deletes old and excess receipts.
    #[boxed]
    pub async fn turn(&self) -> Result<(), StoreError> {
        while self.remove_some().await? {}
        Ok(())
    }

    /// Deletes some packs. Returns false if there is nothing more to delete.
    async fn remove_some(&self) -> Result<bool, StoreError> {
        let oldest = self.clock.now().0.saturating_sub(self.settings.age_ms) / WINDOW_MS;
        let mut excess = self.stored_size().await?.entries.saturating_sub(self.settings.count);
        let all = FREE_RECEIPTS.all();
        let range = if excess == 0 { all.before(&oldest) } else { all };
        let packs = FREE_RECEIPTS.page(&*self.store, &range, SOME, Direction::Forward).await?;
        let (mut batch, mut sum, mut removed) = (Batch::new(), (0, 0), 0);
        // All deletions include the first pack, so that concurrent ones conflict.
        packs.iter().take(1).for_each(|first| _ = batch.holds(&FREE_RECEIPTS, first));
        for pack in packs {
            let old = pack.key.0 < oldest;
            let receipts = pack.value.items().count() as u64;
            // Packs are deleted whole. The last one stays if its deletion would leave too few.
            if !old && receipts > excess {
                break;
            }
            excess = excess.saturating_sub(receipts);
            sum = (sum.0 + receipts, sum.1 + (FREE_RECEIPTS.bytes_of(&pack.key) + pack.value.bytes()) as u64);
            batch.sweep(&FREE_RECEIPTS, &pack);
            removed += 1;
        }
        if batch.changes_nothing() {
            return Ok(false);
        }
        count(&mut batch, -1, sum);
        // After a conflict, another host of the store is deleting them.
        let is_removed = batch.commit_if_unchanged(&*self.store, Durability::Buffered).await?;
        if is_removed {
            FREE_RECEIPTS.expired(removed);
        }
        Ok(is_removed)
    }
}

fn window(id: &ReceiptId) -> u64 {
    id.made_at().0 / WINDOW_MS
}

/// Adds or subtracts a number of receipts and their bytes.
fn count(batch: &mut Batch, sign: i128, (receipts, bytes): (u64, u64)) {
    const ANY: SumLimit = SumLimit::Floor(i128::MIN);
    batch.add(&COUNT, &(), sign * i128::from(receipts), ANY).add(&BYTES, &(), sign * i128::from(bytes), ANY);
}

#[cfg(test)]
mod tests;
