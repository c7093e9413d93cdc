//! An index of sellers: the owners with sales in an interval of days. The host's report uses it to skip all others.
//!
//! The commit of a sale also lists its seller, unless this host knows that it is listed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tollhouse_base::{boxed, check_report::CheckReport};
use tollhouse_store::{Batch, Direction, SaleKey, Store, StoreError, Table, TerminatedText, postcard_values, schema};

use super::{SALES, Sales, day_of, of, report::PAGE};

/// The key is the interval and the owner.
pub(super) const SELLERS: Table<(u32, TerminatedText<String>), Seller> = schema::SELLERS.holding();

const INTERVAL_DAYS: u32 = 32;

/// Marks an owner with sales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seller;
postcard_values!(Seller);

pub(super) fn interval(day: u32) -> u32 {
    day / INTERVAL_DAYS
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

/// Compares the list of sellers with the sales.
/// An unreadable row is reported as a flaw.
#[boxed]
pub async fn check_sellers(store: &dyn Store, flaws: &mut CheckReport) -> Result<(), StoreError> {
    let (mut rows, mut before) = (SALES.inspect(store, PAGE), None);
    while let Some(row) = rows.next(flaws).await? {
        let seller = (interval(day_of(&row.key.1)), row.key.0);
        if before.as_ref() != Some(&seller) {
            let listed = SELLERS.get(store, &seller).await?.is_some();
            flaws.unless(listed, || format!("{} sold something, but is not listed", seller.1.0));
            before = Some(seller);
        }
    }
    Ok(())
}
