//! Folds the rows of calls into daily roll-ups.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Weak},
    time::Duration,
};

use tollhouse_base::{boxed, clock::Timestamp};
use tollhouse_store::{Direction, Durability, SaleKey, StoreError, Tx, UpdatePlan, update};

use super::{Key, SALES, Sale, Sales, day_of, of, report::interval};

const FOLD: usize = 1_000;
/// How long an owner's first row waits for others, so that a busy owner's roll-ups are written rarely.
const GATHER: Duration = Duration::from_millis(500);

impl Sales {
    /// The store's name for the sweep of [`Sales::fold_left`].
    pub const ROUND: &str = "sales";

    /// Starts the task that folds sales of this host. It ends when the sales are dropped. Call it inside a tokio
    /// runtime.
    pub fn start(self: &Arc<Self>) {
        let sales = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                {
                    let Some(sales) = Weak::upgrade(&sales) else { return };
                    // The time-out lets the task notice that the sales were dropped.
                    _ = tokio::time::timeout(GATHER, sales.has_sales.notified()).await;
                }
                tokio::time::sleep(GATHER).await;
                let Some(sales) = Weak::upgrade(&sales) else { return };
                if let Err(error) = sales.fold_sold().await {
                    tracing::warn!(%error, "sales could not be folded; reports still count them");
                }
            }
        });
    }

    /// Folds the rows of owners with sales since the last time.
    async fn fold_sold(&self) -> Result<(), StoreError> {
        let mut owners = self.sold_owners().into_iter();
        while let Some(owner) = owners.next() {
            if let Err(error) = self.fold(&owner).await {
                self.sold.lock().extend(owners.chain([owner]));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Folds rows left by a crash, which nobody announced, for [some owners](tollhouse_store::sweep_cursor). Each call
    /// continues before the last owner of the previous one. An owner's last row shows whether there are any.
    #[boxed]
    pub async fn fold_left(&self, now: Timestamp) -> Result<(), StoreError> {
        let mut round = SALES.round(&*self.store, Self::ROUND, Direction::Backward, now).await?;
        while let Some((owner, last)) = round.next().await? {
            round.past(&owner);
            if matches!(last, SaleKey::Row(..))
                && let Err(error) = self.fold(&owner.0).await
            {
                // An unreadable row must not block other owners.
                round.end().await?;
                return Err(error);
            }
        }
        round.end().await
    }

    pub(super) async fn fold(&self, share: &str) -> Result<(), StoreError> {
        loop {
            let intervals = update(&*self.store, Durability::Buffered, |tx| fold_some(tx, share)).await?;
            if intervals.is_empty() {
                return Ok(());
            }
            self.cache_seller(share, &intervals);
        }
    }
}

/// Moves the first rows into their roll-ups. Returns the intervals of those, or none if there were no rows.
pub(super) async fn fold_some<'a>(mut tx: Tx<'a>, share: &str) -> Result<UpdatePlan<'a, BTreeSet<u32>>, StoreError> {
    // All rows must still exist, since another replica may fold some of them, and a late row may precede them.
    let rows = tx.page(&SALES, &SALES.under(&(of(share), SaleKey::ROW)), FOLD, Direction::Forward).await?;
    let intervals: BTreeSet<_> = rows.iter().map(|row| interval(day_of(&row.key.1))).collect();
    let mut sums = HashMap::<Key, Sale>::new();
    for row in rows {
        tx.sweep(&SALES, &row);
        let roll_up = SaleKey::RollUp(day_of(&row.key.1), row.value.endpoint.clone());
        match sums.entry((row.key.0, roll_up)) {
            std::collections::hash_map::Entry::Occupied(mut sum) => sum.get_mut().totals += row.value.totals,
            std::collections::hash_map::Entry::Vacant(position) => _ = position.insert(row.value),
        }
    }
    for (key, mut sum) in sums {
        if let Some(stored) = tx.get(&SALES, &key).await? {
            sum.totals += stored.totals;
        }
        tx.put(&SALES, &key, &sum);
    }
    tx.answer(intervals)
}
