//! The state of a payout, with an index and counts that the commit of a change updates.

use serde::{Deserialize, Serialize};
use tollhouse_api::PayoutCounts;
use tollhouse_base::id::{BuilderId, PayoutId};
use tollhouse_store::{Batch, Counter, Direction, Store, StoreError, SumLimit, Table, schema};

pub(super) const PAYOUT_STATES: Table<(u8, PayoutId), BuilderId> = schema::PAYOUT_STATES.holding();
const PAYOUT_COUNTS: Counter<u8> = schema::PAYOUT_COUNTS.counting();

/// The state of a payout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PayoutStatus {
    /// Receipts are being moved into it.
    Collecting,
    /// It is complete and signed.
    Created,
    /// An admin will send the money.
    Approved,
    /// The money was sent by the recorded transaction.
    Paid,
    /// The money could not be sent. It can be approved again, or rejected.
    Failed,
    /// Its receipts are being moved back to the unpaid earnings.
    Rejecting,
    /// It will not be paid, and no longer has receipts.
    Rejected,
}

impl PayoutStatus {
    const ALL: [Self; 7] = [Self::Collecting, Self::Created, Self::Approved, Self::Paid, Self::Failed, Self::Rejecting, Self::Rejected];

    /// Returns its number in keys, which never changes.
    pub(super) fn number(self) -> u8 {
        self as u8
    }

    /// Returns its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Collecting => "collecting",
            Self::Created => "created",
            Self::Approved => "approved",
            Self::Paid => "paid",
            Self::Failed => "failed",
            Self::Rejecting => "rejecting",
            Self::Rejected => "rejected",
        }
    }

    /// Returns what an admin can do with a payout in this state, for a message.
    pub(super) fn next(self) -> &'static str {
        match self {
            Self::Collecting => "wait until it is created",
            Self::Created => "approve or reject it",
            Self::Approved => "record that it was paid or that it failed",
            Self::Failed => "approve it again, or reject it",
            Self::Rejecting => "reject it again to complete that",
            Self::Paid | Self::Rejected => "this is final",
        }
    }
}

/// Returns the number of payouts with a state.
pub(super) fn count_of(counts: &mut PayoutCounts, status: PayoutStatus) -> &mut u64 {
    match status {
        PayoutStatus::Collecting => &mut counts.collecting,
        PayoutStatus::Created => &mut counts.created,
        PayoutStatus::Approved => &mut counts.approved,
        PayoutStatus::Paid => &mut counts.paid,
        PayoutStatus::Failed => &mut counts.failed,
        PayoutStatus::Rejecting => &mut counts.rejecting,
        PayoutStatus::Rejected => &mut counts.rejected,
    }
}

/// Reads the stored counts from one snapshot.
pub(super) async fn stored_counts(store: &(impl Store + ?Sized)) -> Result<PayoutCounts, StoreError> {
    let (mut counts, rows) = (PayoutCounts::default(), PAYOUT_COUNTS.rows());
    for row in rows.page(store, &rows.all(), PayoutStatus::ALL.len(), Direction::Forward).await? {
        let status = PayoutStatus::ALL.into_iter().find(|status| status.number() == row.key);
        status.into_iter().for_each(|status| *count_of(&mut counts, status) = u64::try_from(row.value.0).unwrap_or(0));
    }
    Ok(counts)
}

/// Updates the counts if a payout's state changes. `before` is `None` for a new payout.
pub(super) fn move_to(batch: &mut Batch, before: Option<PayoutStatus>, status: PayoutStatus) {
    if before == Some(status) {
        return;
    }
    for (status, by) in before.map(|before| (before, -1)).into_iter().chain([(status, 1)]) {
        batch.add(&PAYOUT_COUNTS, &status.number(), by, SumLimit::Floor(i128::MIN));
    }
}
