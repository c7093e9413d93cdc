//! What moved a balance, and beside it the balance.

use serde::{Deserialize, Serialize};
use tollhouse_base::{clock::Timestamp, id::CreditId};
use tollhouse_store::{Batch, Sum, Table, Value, schema};
use tollhouse_tool::{MicroUsd, Slug};

pub(crate) const LINES: Table<(CreditId, u64), Line> = schema::CREDIT_MOVEMENTS.holding();
tollhouse_store::json_values!(Movement);

/// One change of a balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Movement {
    /// When it moved.
    pub at: Timestamp,
    /// Why it moved.
    pub kind: MovementKind,
    /// What moved, whichever way.
    #[serde(rename = "amountUsd")]
    pub amount: MicroUsd,
    /// What was bought, of a debit; of a refund what is given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt_id: Option<String>,
    /// The tool that was paid for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slug: Option<Slug>,
}

/// Which way a movement goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MovementKind {
    /// Adds to the balance.
    Mint,
    /// Takes from it.
    Debit,
    /// Takes all of it.
    Revoke,
    /// Adds what was revoked.
    Restore,
    /// Adds what a call cost, or a part of it.
    Refund,
}

/// A row of a credit: one scan, which is one moment, sees all of them.
#[derive(Debug)]
pub(crate) enum Line {
    /// Behind the last movement.
    Balance(i128),
    Movement(Movement),
}

impl Line {
    pub(crate) fn movement(self) -> Option<Movement> {
        match self {
            Self::Movement(movement) => Some(movement),
            Self::Balance(_) => None,
        }
    }
}

impl Value for Line {
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
    /// One that bought nothing.
    pub(super) fn plain(at: Timestamp, kind: MovementKind, amount: MicroUsd) -> Self {
        Self { at, kind, amount, receipt_id: None, slug: None }
    }

    /// What it adds to the balance; below zero what it takes.
    pub(crate) fn change(&self) -> i128 {
        match self.kind {
            MovementKind::Mint | MovementKind::Restore | MovementKind::Refund => self.amount.0.into(),
            MovementKind::Debit | MovementKind::Revoke => -i128::from(self.amount.0),
        }
    }

    /// What enters it among those of a credit, under a number of its own.
    pub(super) fn stored(self, id: &CreditId, number: u64) -> Batch {
        let mut batch = Batch::new();
        batch.insert(&LINES, &(id.clone(), number), &Line::Movement(self));
        batch
    }
}
