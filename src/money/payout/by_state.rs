//! Lists and counts payouts by state.

use tollhouse_base::id::{BuilderId, PayoutId};
use tollhouse_store::{Batch, Direction, Durability, StoreError, Table, schema};

use super::{
    PAYOUTS, Payouts,
    states::{PAYOUT_STATES, PacketCounts, count},
    status::PayoutStatus,
};

/// Marks that every payout is indexed and counted by its state.
pub(super) const BY_STATE: Table<(), String> = schema::PAYOUTS_BY_STATE.holding();

/// The current value of that mark.
const FORM: &str = "1";

/// Number of payouts indexed at once.
const PAGE: usize = 500;

impl Payouts {
    /// Indexes and counts the payouts of earlier versions by state, unless that was done. Call it before payouts are
    /// used.
    ///
    /// # Errors
    ///
    /// Errors of the store. The next start continues.
    pub async fn open(&self) -> Result<(), StoreError> {
        let store = &*self.store;
        if BY_STATE.get(store, &()).await?.as_deref() == Some(FORM) {
            return Ok(());
        }
        let mut range = PAYOUTS.all();
        while let Some((rows, rest)) = PAYOUTS.sound(store, &range, PAGE).await? {
            let (mut batch, mut new) = (Batch::new(), Vec::new());
            for row in rows {
                let at = (row.value.status.number(), row.key.1.clone());
                if PAYOUT_STATES.get(store, &at).await?.is_none() {
                    // Requires the stored row unchanged, since another host may index or change it.
                    batch.holds(&PAYOUTS, &row).insert(&PAYOUT_STATES, &at, &row.value.builder_id);
                    new.push(row.value.status);
                }
            }
            for status in PayoutStatus::ALL {
                let more = new.iter().filter(|other| **other == status).count();
                if more > 0 {
                    count(&mut batch, status, more as i128);
                }
            }
            match batch.commit(store, Durability::Buffered).await {
                Ok(_) => range = rest,
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        BY_STATE.put(&(), &FORM.to_owned()).commit(store, Durability::Durable).await.map(drop)
    }

    /// Returns the number of payouts per state, of all hosts.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    pub async fn counts(&self) -> Result<PacketCounts, StoreError> {
        PacketCounts::stored(&*self.store).await
    }

    /// Returns the payouts with a state before `cursor`, newest first, with their builders.
    pub(super) async fn in_state(
        &self,
        status: PayoutStatus,
        limit: usize,
        cursor: Option<&PayoutId>,
    ) -> Result<Vec<(PayoutId, BuilderId)>, StoreError> {
        let number = status.number();
        let mut range = PAYOUT_STATES.under(&number);
        if let Some(cursor) = cursor {
            range = range.before(&(number, cursor.clone()));
        }
        let rows = PAYOUT_STATES.page(&*self.store, &range, limit, Direction::Backward).await?;
        Ok(rows.into_iter().map(|row| (row.key.1, row.value)).collect())
    }
}
