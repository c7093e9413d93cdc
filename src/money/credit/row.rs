//! Movements of a balance, their numbers, and the balance next to them.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
pub use tollhouse_api::MovementKind;
use tollhouse_base::{clock::Timestamp, id::CreditId};
use tollhouse_store::{Batch, Sum, Table, Value, schema};
use tollhouse_tool::{MicroUsd, Slug};

pub(crate) const LINES: Table<(CreditId, u64), CreditRow> = schema::CREDIT_MOVEMENTS.holding();
tollhouse_store::json_values!(Movement);

/// One change of a balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Movement {
    /// When it moved.
    pub at: Timestamp,
    /// The reason of the change.
    pub kind: MovementKind,
    /// The amount, always positive.
    #[serde(rename = "amountUsd")]
    pub amount: MicroUsd,
    /// Receipt of the call that a debit paid for or a refund returns.
    pub receipt_id: Option<String>,
    /// The tool that was paid for.
    pub slug: Option<Slug>,
}

/// A row of a credit. One scan reads all of them from one snapshot.
#[derive(Debug)]
pub(crate) enum CreditRow {
    /// The balance. It sorts after the last movement.
    Balance(i128),
    Movement(Movement),
}

impl CreditRow {
    pub(crate) fn movement(self) -> Option<Movement> {
        match self {
            Self::Movement(movement) => Some(movement),
            Self::Balance(_) => None,
        }
    }
}

impl Value for CreditRow {
    fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Balance(sum) => Sum(*sum).to_bytes(),
            Self::Movement(movement) => movement.to_bytes(),
        }
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        match Sum::of_bytes(bytes) {
            Some(Sum(sum)) => Some(Self::Balance(sum)),
            None => Movement::of_bytes(bytes).map(Self::Movement),
        }
    }
}

impl Movement {
    pub(crate) fn plain(at: Timestamp, kind: MovementKind, amount: MicroUsd) -> Self {
        Self { at, kind, amount, receipt_id: None, slug: None }
    }

    pub(crate) fn change(&self) -> i128 {
        match self.kind {
            MovementKind::Mint | MovementKind::Restore | MovementKind::Refund => self.amount.0.into(),
            MovementKind::Debit | MovementKind::Revoke => -i128::from(self.amount.0),
        }
    }

    pub(super) fn stored(self, id: &CreditId, number: u64) -> Batch {
        let mut batch = Batch::new();
        batch.insert(&LINES, &(id.clone(), number), &CreditRow::Movement(self));
        batch
    }
}

/// Number of the balance row. It sorts after all movements, so that one scan reads both.
pub(crate) const BALANCE: u64 = u64::MAX;

/// Bits below the time, which number the movements of one millisecond.
const WITHIN: u32 = 22;

/// Returns a number above all earlier ones, even if the clock was set back.
pub(crate) fn next_number(at: Timestamp) -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(after(last, at)));
    after(last.unwrap_or_default(), at)
}

fn after(last: u64, at: Timestamp) -> u64 {
    let of_time = at.0.min((1 << (u64::BITS - WITHIN)) - 2) << WITHIN;
    of_time.max(last.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_grow_regardless_of_the_clock() {
        let times = [1_800_000_000_000, 1_800_000_000_000, 1_700_000_000_000, 1_900_000_000_000, u64::MAX, 0];
        let numbers = times.into_iter().scan(0, |last, at| {
            *last = after(*last, Timestamp(at));
            Some(*last)
        });
        let numbers: Vec<_> = numbers.collect();
        assert!(numbers.is_sorted_by(|one, other| one < other), "{numbers:?}");
        assert!(numbers[5] < BALANCE);
    }

    #[test]
    fn a_number_is_the_time_with_room_below_it_and_never_that_of_the_balance() {
        assert_eq!(after(0, Timestamp(1_800_000_000_000)), 1_800_000_000_000 << 22);
        assert_eq!(after(0, Timestamp(u64::MAX)), ((1 << 42) - 2) << 22);
    }
}
