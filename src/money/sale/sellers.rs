//! An index of sellers: the owners with sales in an interval of days. The host's report uses it to skip all others.
//!
//! A host's first sale of an owner in an interval adds a row, and so does every fold with its roll-ups. So every row
//! and roll-up has its seller listed, once no host runs a version that lists none ([`SELLERS_STORED`]), and
//! [`Sales::list_sellers`] has listed older sales. Until then a report reads every owner. If a stalled host of an
//! earlier version writes after others have taken it for gone, the next [sweep](Sales::fold_left) lists it.

use std::{collections::BTreeSet, sync::atomic::Ordering};

use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;
use tollhouse_replica::{Replica, SELLERS_STORED};
use tollhouse_store::{
    Batch, Direction, Durability, Formatted, SaleKey, StoreError, Table, TerminatedText, Tx, read_postcard, schema,
    sweep_cursor::SweepTurn, update, write_postcard,
};

use super::{Key, SALES, Sale, Sales, day_of, of, report::PAGE};

/// The key is the interval and the owner.
pub(super) const SELLERS: Table<(u32, TerminatedText<String>), Seller> = schema::SELLERS.holding();
pub(super) const LISTED: Table<(), Seller> = schema::SELLERS_LISTED.holding();

/// Length of an interval in days.
const STRETCH: u32 = 32;

/// Marks an owner with sales. The first format does not exist, because hosts of earlier versions write no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seller;

impl Formatted for Seller {
    const FORMAT: u8 = 2;

    fn write(&self, out: &mut Vec<u8>) {
        write_postcard(self, out);
    }

    fn read(format: u8, bytes: &[u8]) -> Option<Self> {
        (format == Self::FORMAT).then(|| read_postcard(bytes)).flatten()
    }
}

/// Returns the interval of a day.
pub(super) fn stretch(day: u32) -> u32 {
    day / STRETCH
}

impl Sales {
    /// Returns the row that lists the seller of a sale, unless this host remembers it as listed.
    pub(super) fn seller(&self, share: &str, key: &SaleKey) -> Batch {
        let stretch = stretch(day_of(key));
        if self.listed.has(stretch, share) { Batch::new() } else { SELLERS.put(&(stretch, of(share)), &Seller) }
    }

    /// Remembers an owner as listed in these intervals.
    pub(super) fn remember_seller(&self, share: &str, stretches: &BTreeSet<u32>) {
        stretches.iter().for_each(|stretch| self.listed.remember(*stretch, share));
    }

    /// Returns owners who may have sales since the start of day `first`.
    pub(super) async fn sellers(&self, first: u32) -> Result<BTreeSet<String>, StoreError> {
        if self.lists_all().await? {
            let (mut sellers, mut rest) = (BTreeSet::new(), SELLERS.all().from(&stretch(first)));
            loop {
                let page = SELLERS.unread(&*self.store, &rest, PAGE, Direction::Forward).await?;
                for row in &page {
                    sellers.insert(SELLERS.key(row)?.1.0);
                }
                let Some(last) = page.last().filter(|_| page.len() == PAGE) else { return Ok(sellers) };
                rest = rest.after(&SELLERS.key(last)?);
            }
        }
        let (mut sellers, mut rest) = (BTreeSet::new(), SALES.all());
        while let Some(last) = SALES.unread(&*self.store, &rest, 1, Direction::Backward).await?.pop() {
            let (owner, last) = SALES.key(&last)?;
            rest = rest.before(&owner);
            // Roll-ups are sorted by day, and rows follow them.
            if day_of(&last) >= first || matches!(last, SaleKey::Row(..)) {
                sellers.insert(owner.0);
            }
        }
        Ok(sellers)
    }

    /// Lists the sellers of older sales, [some at a time](tollhouse_store::sweep_cursor), until all are listed. It is a job of
    /// `replica`, which runs at one host at a time.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    pub async fn list_sellers(&self, replica: &Replica, now: Timestamp) -> Result<(), StoreError> {
        if !replica.writes(SELLERS_STORED) || self.lists_all().await? {
            return Ok(());
        }
        let mut round = SALES.round(&*self.store, "sellers", Direction::Forward, now).await?;
        let listed = self.list_some(&mut round).await;
        let is_over = round.is_over();
        // Continues with an owner whose rows are unreadable, and not with those before.
        round.end().await?;
        listed?;
        if is_over {
            LISTED.put(&(), &Seller).commit(&*self.store, Durability::Durable).await?;
        }
        Ok(())
    }

    async fn list_some(&self, round: &mut SweepTurn<'_, Key, Sale>) -> Result<(), StoreError> {
        while let Some((owner, key)) = round.next().await? {
            match key {
                SaleKey::RollUp(day, _) => {
                    let stretch = stretch(day);
                    self.list_seller(&owner.0, stretch).await?;
                    round.past(&(owner, SaleKey::ROLL_UP, stretch * STRETCH + (STRETCH - 1)));
                }
                // Folding its rows lists them.
                SaleKey::Row(..) => {
                    self.fold(&owner.0).await?;
                    round.past(&owner);
                }
            }
        }
        Ok(())
    }

    /// Lists the seller of roll-ups in an interval.
    pub(super) async fn list_seller(&self, share: &str, stretch: u32) -> Result<(), StoreError> {
        if !self.listed.has(stretch, share) {
            update(&*self.store, Durability::Buffered, |mut tx| async move {
                list(&mut tx, share, stretch).await?;
                tx.answer::<_, StoreError>(())
            })
            .await?;
            self.listed.remember(stretch, share);
        }
        Ok(())
    }

    async fn lists_all(&self) -> Result<bool, StoreError> {
        if !self.listed.all.load(Ordering::Relaxed) && LISTED.get(&*self.store, &()).await?.is_some() {
            self.listed.all.store(true, Ordering::Relaxed);
        }
        Ok(self.listed.all.load(Ordering::Relaxed))
    }
}

/// Lists the seller of roll-ups in an interval, in the commit that writes them.
pub(super) async fn list(tx: &mut Tx<'_>, share: &str, stretch: u32) -> Result<(), StoreError> {
    let key = (stretch, of(share));
    if tx.get(&SELLERS, &key).await?.is_none() {
        tx.put(&SELLERS, &key, &Seller);
    }
    Ok(())
}
