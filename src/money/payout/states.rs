//! Index and counts of payouts by state, updated in the commit that changes a state.

use serde::Serialize;
use tollhouse_base::id::{BuilderId, PayoutId};
use tollhouse_store::{Batch, Counter, Direction, Store, StoreError, Sum, SumLimit, Table, Tx, schema};

use super::{Packet, status::PayoutStatus};

pub(super) const PAYOUT_STATES: Table<(u8, PayoutId), BuilderId> = schema::PAYOUT_STATES.holding();
const PAYOUT_COUNTS: Counter<u8> = schema::PAYOUT_COUNTS.counting();
const COUNTS: Table<u8, Sum> = PAYOUT_COUNTS.rows();
/// Number of payouts per state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "each is named as its state")]
pub struct PacketCounts {
    pub collecting: u64,
    pub created: u64,
    pub approved: u64,
    pub paid: u64,
    pub failed: u64,
}

impl PacketCounts {
    fn of(&mut self, status: PayoutStatus) -> &mut u64 {
        match status {
            PayoutStatus::Collecting => &mut self.collecting,
            PayoutStatus::Created => &mut self.created,
            PayoutStatus::Approved => &mut self.approved,
            PayoutStatus::Paid => &mut self.paid,
            PayoutStatus::Failed => &mut self.failed,
        }
    }

    pub(super) fn add(&mut self, status: PayoutStatus) {
        *self.of(status) += 1;
    }

    /// Reads the stored counts from one snapshot.
    pub(super) async fn stored(store: &(impl Store + ?Sized)) -> Result<Self, StoreError> {
        let mut counts = Self::default();
        for row in COUNTS.page(store, &COUNTS.all(), PayoutStatus::ALL.len(), Direction::Forward).await? {
            let status = PayoutStatus::ALL.into_iter().find(|status| status.number() == row.key);
            status.into_iter().for_each(|status| *counts.of(status) = u64::try_from(row.value.0).unwrap_or(0));
        }
        Ok(counts)
    }
}

/// Updates index and counts if a payout's state changes. `before` is `None` for a new payout. A payout that was not
/// counted before is not subtracted.
pub(super) async fn comes_to(tx: &mut Tx<'_>, before: Option<PayoutStatus>, packet: &Packet) -> Result<(), StoreError> {
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

pub(super) fn count(batch: &mut Batch, status: PayoutStatus, by: i128) {
    batch.add(&PAYOUT_COUNTS, &status.number(), by, SumLimit::Floor(i128::MIN));
}
