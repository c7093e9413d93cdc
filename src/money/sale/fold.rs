//! Folding: from a row for each call to a roll-up for each day.

use std::{
    collections::HashMap,
    ops::Bound,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{Sale, Sales, day_of, end_of, prefix, roll_up_key, rows};
use crate::store::{Check, Direction, Durability, KeyRange, Space, StoreError, Write};

/// Rows folded in one commit.
const FOLD: usize = 1_000;
/// How long the first row of an owner waits for others, so that a busy owner's roll-ups are written seldom.
const GATHER: Duration = Duration::from_millis(500);
/// How often all owners are looked through for rows that nobody announced: of a crash, or of other replicas.
const SWEEP: Duration = Duration::from_secs(600);
/// Tries of one fold: each failure means that another replica folded.
const TRIES: usize = 100;

impl Sales {
    /// Starts the folding task; it ends when nobody holds the sales any more. Must be called inside a tokio runtime.
    pub fn start(self: &Arc<Self>) {
        let sales = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut sweep = tokio::time::interval(SWEEP);
            loop {
                let sweeps = {
                    let Some(sales) = Weak::upgrade(&sales) else { return };
                    tokio::select! {
                        _ = sweep.tick() => true,
                        _ = tokio::time::timeout(GATHER, sales.some.notified()) => false,
                    }
                };
                if !sweeps {
                    tokio::time::sleep(GATHER).await;
                }
                let Some(sales) = Weak::upgrade(&sales) else { return };
                let folded = if sweeps { sales.fold_all().await } else { sales.fold_sold().await };
                if let Err(error) = folded {
                    tracing::warn!(%error, "sales could not be folded; they are counted all the same");
                }
            }
        });
    }

    /// Folds the rows of the owners who sold since the last time.
    async fn fold_sold(&self) -> Result<(), StoreError> {
        let mut owners = self.sold_owners().into_iter();
        while let Some(owner) = owners.next() {
            if let Err(error) = self.fold(&owner).await {
                self.sold_lock().extend(owners.chain([owner]));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Folds the rows of all owners.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn fold_all(&self) -> Result<(), StoreError> {
        let mut start = Bound::Unbounded;
        while let Some(share) = self.next_owner(start).await? {
            self.fold(&share).await?;
            start = Bound::Included(end_of(&share));
        }
        Ok(())
    }

    /// The first owner who has sales from `start` on.
    pub(super) async fn next_owner(&self, start: Bound<Vec<u8>>) -> Result<Option<String>, StoreError> {
        let first = self.store.scan(Space::Sales, KeyRange { start, end: Bound::Unbounded }, 1, Direction::Forward).await?;
        let share =
            |(key, _): (Vec<u8>, Vec<u8>)| String::from_utf8_lossy(key.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
        Ok(first.into_iter().next().map(share))
    }

    /// Folds the rows of one owner.
    pub(super) async fn fold(&self, share: &str) -> Result<(), StoreError> {
        let mut tries = 0;
        loop {
            let pairs = self.store.scan(Space::Sales, rows(share), FOLD, Direction::Forward).await?;
            if pairs.is_empty() {
                return Ok(());
            }
            match self.fold_some(share, &pairs).await {
                Ok(()) => tries = 0,
                Err(StoreError::Conflict) if tries < TRIES => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes `pairs` away and adds them to their roll-ups, in one commit.
    async fn fold_some(&self, share: &str, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<(), StoreError> {
        let skip = prefix(share, &[]).len();
        let mut sums = HashMap::<Vec<u8>, Sale>::new();
        let mut writes = Vec::with_capacity(pairs.len() + 8);
        for (key, bytes) in pairs {
            let read = Sale::decode(bytes).zip(day_of(&key[skip..]));
            let (sale, day) = read.ok_or_else(|| StoreError::Away("a row of the sales does not read".to_owned()))?;
            match sums.entry(roll_up_key(share, day, &sale.endpoint)) {
                std::collections::hash_map::Entry::Occupied(mut sum) => sum.get_mut().totals += sale.totals,
                std::collections::hash_map::Entry::Vacant(place) => _ = place.insert(sale),
            }
            writes.push(Write::delete(Space::Sales, key.clone()));
        }
        let mut checks = Vec::with_capacity(sums.len());
        for (key, mut sum) in sums {
            let before = self.store.get(Space::Sales, &key).await?;
            if let Some(before) = &before {
                let stored = Sale::decode(before).ok_or_else(|| StoreError::Away("a roll-up of the sales does not read".to_owned()))?;
                sum.totals += stored.totals;
            }
            checks.push(Check { space: Space::Sales, key: key.clone(), expected: before });
            writes.push(Write::put(Space::Sales, key, sum.encode()));
        }
        self.store.commit(checks, writes, Durability::Buffered).await
    }
}
