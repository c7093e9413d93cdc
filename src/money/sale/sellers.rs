//! Sellers: who sold something within a stretch of time. The host's own report goes by them, and reads nothing of all who did not.
//!
//! The first sale that a host makes of an owner in a stretch leaves a row, and every fold leaves one with its roll-ups. So there is one for
//! each row and each roll-up, once nobody serves the store any more who leaves none ([`SELLERS_KEPT`]), and what was sold before has been
//! [come by](Sales::list_sellers); until then a report asks after every owner. What a host of the version before writes after others took it
//! for gone, because it stood still, is listed by the next [round](Sales::fold_left).

use std::{collections::BTreeSet, sync::atomic::Ordering};

use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;
use tollhouse_replica::{Replica, SELLERS_KEPT};
use tollhouse_store::{
    Batch, Direction, Durability, Ended, Formatted, SaleKey, StoreError, Table, Tx, read_postcard, round::Round, schema, update,
    write_postcard,
};

use super::{Key, SALES, Sale, Sales, day_of, of, report::PAGE};

/// By the stretch.
pub(super) const SELLERS: Table<(u32, Ended<String>), Seller> = schema::SELLERS.holding();
pub(super) const LISTED: Table<(), Seller> = schema::SELLERS_LISTED.holding();

/// Days of a stretch.
const STRETCH: u32 = 32;

/// An owner who sold something. The first form is none: hosts of versions before leave no row.
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

/// The stretch of a day.
pub(super) fn stretch(day: u32) -> u32 {
    day / STRETCH
}

impl Sales {
    /// What lists the seller of a row of `key`, where this host does not remember that it is done.
    pub(super) fn seller(&self, share: &str, key: &SaleKey) -> Batch {
        let stretch = stretch(day_of(key));
        if self.listed.has(stretch, share) { Batch::new() } else { SELLERS.put(&(stretch, of(share)), &Seller) }
    }

    /// What was folded into roll-ups of these stretches is listed from now on.
    pub(super) fn remember_seller(&self, share: &str, stretches: &BTreeSet<u32>) {
        stretches.iter().for_each(|stretch| self.listed.remember(*stretch, share));
    }

    /// Owners who may have sold something since the start of the day `first`.
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
            // Roll-ups are in the order of their days, and rows behind them.
            if day_of(&last) >= first || matches!(last, SaleKey::Row(..)) {
                sellers.insert(owner.0);
            }
        }
        Ok(sellers)
    }

    /// Lists who sold something before hosts did: [some of them](tollhouse_store::round) at a time, and nothing once all are. For `replica`'s
    /// jobs, of which one is at it at a time.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn list_sellers(&self, replica: &Replica, now: Timestamp) -> Result<(), StoreError> {
        if !replica.writes(SELLERS_KEPT) || self.lists_all().await? {
            return Ok(());
        }
        let mut round = SALES.round(&*self.store, "sellers", Direction::Forward, now).await?;
        let listed = self.list_some(&mut round).await;
        let is_over = round.is_over();
        // An owner whose rows do not read is asked after again, and those before are not.
        round.end().await?;
        listed?;
        if is_over {
            LISTED.put(&(), &Seller).commit(&*self.store, Durability::Durable).await?;
        }
        Ok(())
    }

    async fn list_some(&self, round: &mut Round<'_, Key, Sale>) -> Result<(), StoreError> {
        while let Some((owner, key)) = round.next().await? {
            match key {
                SaleKey::RollUp(day, _) => {
                    let stretch = stretch(day);
                    self.list_seller(&owner.0, stretch).await?;
                    round.past(&(owner, SaleKey::ROLL_UP, stretch * STRETCH + (STRETCH - 1)));
                }
                // Its fold lists them.
                SaleKey::Row(..) => {
                    self.fold(&owner.0).await?;
                    round.past(&owner);
                }
            }
        }
        Ok(())
    }

    /// Lists the seller of roll-ups in a stretch.
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

/// Lists the seller of roll-ups in a stretch, in the commit that writes them.
pub(super) async fn list(tx: &mut Tx<'_>, share: &str, stretch: u32) -> Result<(), StoreError> {
    let key = (stretch, of(share));
    if tx.get(&SELLERS, &key).await?.is_none() {
        tx.put(&SELLERS, &key, &Seller);
    }
    Ok(())
}
