//! The state of a payout, with an index and counts that the commit of a change updates, and the errors of payouts.

use tollhouse_api::PayoutCounts;
pub use tollhouse_api::PayoutStatus;
use tollhouse_base::id::{BuilderId, PayoutId};
use tollhouse_store::{Batch, Counter, Direction, Store, StoreError, SumLimit, Table, schema};
use tollhouse_tool::MicroUsd;

pub(super) const PAYOUT_STATES: Table<(u8, PayoutId), BuilderId> = schema::PAYOUT_STATES.holding();
const PAYOUT_COUNTS: Counter<u8> = schema::PAYOUT_COUNTS.counting();

const STATUSES: [PayoutStatus; 7] = [
    PayoutStatus::Collecting,
    PayoutStatus::Created,
    PayoutStatus::Approved,
    PayoutStatus::Paid,
    PayoutStatus::Failed,
    PayoutStatus::Rejecting,
    PayoutStatus::Rejected,
];

/// Returns what an admin can do with a payout in this state, for a message.
pub(super) fn next(status: &PayoutStatus) -> &'static str {
    match status {
        PayoutStatus::Collecting => "wait until it is created",
        PayoutStatus::Created => "approve or reject it",
        PayoutStatus::Approved => "record that it was paid or that it failed",
        PayoutStatus::Failed => "approve it again, or reject it",
        PayoutStatus::Rejecting => "reject it again to complete that",
        PayoutStatus::Paid | PayoutStatus::Rejected => "this is final",
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
    for row in rows.page(store, &rows.all(), STATUSES.len(), Direction::Forward).await? {
        let status = STATUSES.into_iter().find(|status| *status as u8 == row.key);
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
        batch.add(&PAYOUT_COUNTS, &(status as u8), by, SumLimit::Floor(i128::MIN));
    }
}

/// Why a payout failed, or its settings were rejected.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum PayoutError {
    /// An invalid field. `pointer` is its JSON Pointer.
    #[error("{message}")]
    Field { pointer: &'static str, message: String },
    #[error("no payout address is set; set one with POST /ai/builders/payout-settings")]
    NoSettings,
    #[error("{amount} USD can be paid out, and the minimum is {minimum} USD")]
    BelowMinimum { amount: MicroUsd, minimum: MicroUsd },
    #[error("no payout has this id")]
    Unknown,
    #[error("this payout belongs to another builder")]
    NotOwner,
    #[error("a payout that is `{}` cannot become `{}`: {}", .from.as_str(), .to.as_str(), next(.from))]
    WrongState { from: PayoutStatus, to: PayoutStatus },
    /// Carries the current revision.
    #[error("the settings have changed; their current revision is {0}")]
    Changed(u64),
    #[error(transparent)]
    Store(#[from] StoreError),
}
