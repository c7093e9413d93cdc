//! Packets by their state: those of each, and how many there are. Written in the commit that has a packet come to it.

use serde::Serialize;

use super::{PAYOUTS, Packet, Payouts, status::Status};
use crate::{
    base::id::{BuilderId, PayoutId},
    store::{Batch, Counter, Direction, Durability, Limit, Store, StoreError, Sum, Table, Tx, schema},
};

pub(super) const PAYOUT_STATES: Table<(u8, PayoutId), BuilderId> = schema::PAYOUT_STATES.holding();
const PAYOUT_COUNTS: Counter<u8> = schema::PAYOUT_COUNTS.counting();
const COUNTS: Table<u8, Sum> = PAYOUT_COUNTS.rows();
/// That every packet has its row there, and is counted.
pub(super) const BY_STATE: Table<(), String> = schema::PAYOUTS_BY_STATE.holding();

/// As that is written now.
const FORM: &str = "1";

/// Packets of a version before that are looked at at once.
const PAGE: usize = 500;

/// Packets by their state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "each is named as its state")]
pub struct Counts {
    pub collecting: u64,
    pub created: u64,
    pub approved: u64,
    pub paid: u64,
    pub failed: u64,
}

impl Counts {
    fn of(&mut self, status: Status) -> &mut u64 {
        match status {
            Status::Collecting => &mut self.collecting,
            Status::Created => &mut self.created,
            Status::Approved => &mut self.approved,
            Status::Paid => &mut self.paid,
            Status::Failed => &mut self.failed,
        }
    }

    /// One more.
    pub(super) fn add(&mut self, status: Status) {
        *self.of(status) += 1;
    }

    /// As they are stored, of one moment.
    pub(super) async fn stored(store: &(impl Store + ?Sized)) -> Result<Self, StoreError> {
        let mut counts = Self::default();
        for row in COUNTS.page(store, &COUNTS.all(), Status::ALL.len(), Direction::Forward).await? {
            let status = Status::ALL.into_iter().find(|status| status.number() == row.key);
            status.into_iter().for_each(|status| *counts.of(status) = u64::try_from(row.value.0).unwrap_or(0));
        }
        Ok(counts)
    }
}

impl Payouts {
    /// Has the packets that a version before this one wrote be found and counted by their state, unless that was done. To be called before
    /// anything else uses them.
    ///
    /// # Errors
    ///
    /// The store's; the next start goes on.
    pub async fn open(&self) -> Result<(), StoreError> {
        let store = &*self.store;
        if BY_STATE.get(store, &()).await?.as_deref() == Some(FORM) {
            return Ok(());
        }
        let mut range = PAYOUTS.all();
        while let Some((rows, rest)) = PAYOUTS.sound(store, &range, PAGE).await? {
            let mut batch = Batch::new();
            for row in rows {
                let at = (row.value.status.number(), row.key.1.clone());
                if PAYOUT_STATES.get(store, &at).await?.is_none() {
                    // As it is stored: another host may do the same, or change it.
                    batch.holds(&PAYOUTS, &row).insert(&PAYOUT_STATES, &at, &row.value.builder_id);
                    count(&mut batch, row.value.status, 1);
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

    /// How many packets there are of each state, whichever host has them.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn counts(&self) -> Result<Counts, StoreError> {
        Counts::stored(&*self.store).await
    }

    /// The packets of a state, newest first, before `cursor`, and whose they are.
    pub(super) async fn in_state(
        &self,
        status: Status,
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

/// Counts a packet that comes from one state to another in the commit that has it do so, if it does; one that is new from `None`. Of a packet
/// that was not counted before, nothing is taken away.
pub(super) async fn comes_to(tx: &mut Tx<'_>, before: Option<Status>, packet: &Packet) -> Result<(), StoreError> {
    if before == Some(packet.status) {
        return Ok(());
    }
    if let Some(before) = before
        && tx.get(&PAYOUT_STATES, &(before.number(), packet.id.clone())).await?.is_some()
    {
        count(tx, before, -1);
    }
    count(tx, packet.status, 1);
    Ok(())
}

fn count(batch: &mut Batch, status: Status, by: i128) {
    batch.add(&PAYOUT_COUNTS, &status.number(), by, Limit::Floor(i128::MIN));
}
