//! The state of a payout.

use serde::{Deserialize, Serialize};

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
    /// The money could not be sent. It can be approved again.
    Failed,
}

impl PayoutStatus {
    pub(super) const ALL: [Self; 5] = [Self::Collecting, Self::Created, Self::Approved, Self::Paid, Self::Failed];

    /// Returns its number in keys, which never changes.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Collecting => 0,
            Self::Created => 1,
            Self::Approved => 2,
            Self::Paid => 3,
            Self::Failed => 4,
        }
    }

    /// Returns its name in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Collecting => "collecting",
            Self::Created => "created",
            Self::Approved => "approved",
            Self::Paid => "paid",
            Self::Failed => "failed",
        }
    }
}
