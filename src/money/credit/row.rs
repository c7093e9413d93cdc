//! Movements of a balance, and the balance next to them.

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
