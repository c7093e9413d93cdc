//! An index of sellers: the owners with sales in an interval of days. The host's report uses it to skip all others.
//!
//! The commit of a sale also lists its seller, unless this host knows that it is listed.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};
use tollhouse_store::{Batch, Direction, SaleKey, StoreError, Table, TerminatedText, postcard_values, schema};

use super::{Sales, day_of, of, report::PAGE};

/// The key is the interval and the owner.
pub(super) const SELLERS: Table<(u32, TerminatedText<String>), Seller> = schema::SELLERS.holding();

const INTERVAL: u32 = 32;

const MAX_CACHED: usize = 100_000;

/// Marks an owner with sales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seller;
postcard_values!(Seller);

/// The sellers that this host knows to be listed, by interval.
#[derive(Debug, Default)]
pub(super) struct SellerCache(Mutex<HashMap<u32, HashSet<String>>>);

impl SellerCache {
    fn has(&self, interval: u32, share: &str) -> bool {
        self.owners().get(&interval).is_some_and(|owners| owners.contains(share))
    }

    fn insert(&self, interval: u32, share: &str) {
        let mut owners = self.owners();
        let full = owners.values().map(HashSet::len).sum::<usize>() >= MAX_CACHED;
        let evicted = if full { std::mem::take(&mut *owners) } else { HashMap::new() };
        owners.entry(interval).or_default().insert(share.to_owned());
        // The evicted ones are dropped outside of the lock.
        drop(owners);
        drop(evicted);
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<u32, HashSet<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn interval(day: u32) -> u32 {
    day / INTERVAL
}

impl Sales {
    /// Returns the row that lists the seller of a sale, unless this host knows that it is listed.
    pub(super) fn seller(&self, share: &str, key: &SaleKey) -> Batch {
        let interval = interval(day_of(key));
        if self.listed.has(interval, share) { Batch::new() } else { SELLERS.put(&(interval, of(share)), &Seller) }
    }

    /// Remembers that an owner is listed in these intervals.
    pub(super) fn cache_seller(&self, share: &str, intervals: &BTreeSet<u32>) {
        intervals.iter().for_each(|interval| self.listed.insert(*interval, share));
    }

    /// Returns the owners who may have sales since the start of day `first`.
    pub(super) async fn sellers(&self, first: u32) -> Result<BTreeSet<String>, StoreError> {
        let (mut sellers, mut rest) = (BTreeSet::new(), SELLERS.all().from(&interval(first)));
        loop {
            let page = SELLERS.unread(&*self.store, &rest, PAGE, Direction::Forward).await?;
            for row in &page {
                sellers.insert(SELLERS.key(row)?.1.0);
            }
            let Some(last) = page.last().filter(|_| page.len() == PAGE) else { return Ok(sellers) };
            rest = rest.after(&SELLERS.key(last)?);
        }
    }
}
