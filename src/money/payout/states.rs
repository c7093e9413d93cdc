//! What packets are found and counted by, each by its state: written in the commit that has it come to that.

use serde::Serialize;
use tollhouse_base::id::{BuilderId, PayoutId};
use tollhouse_store::{Batch, Counter, Direction, Limit, Store, StoreError, Sum, Table, Tx, schema};

use super::{Packet, status::Status};

pub(super) const PAYOUT_STATES: Table<(u8, PayoutId), BuilderId> = schema::PAYOUT_STATES.holding();
const PAYOUT_COUNTS: Counter<u8> = schema::PAYOUT_COUNTS.counting();
const COUNTS: Table<u8, Sum> = PAYOUT_COUNTS.rows();
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

pub(super) fn count(batch: &mut Batch, status: Status, by: i128) {
    batch.add(&PAYOUT_COUNTS, &status.number(), by, Limit::Floor(i128::MIN));
}
