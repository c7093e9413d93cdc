//! Where a payout stands.

use serde::{Deserialize, Serialize};

/// Where a packet stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Its receipts are being moved into it.
    Collecting,
    /// Complete and signed.
    Created,
    /// An admin will send the money.
    Approved,
    /// The money was sent, by the transaction that is recorded.
    Paid,
    /// The money could not be sent; it can be approved again.
    Failed,
}

impl Status {
    /// Each of them.
    pub(super) const ALL: [Self; 5] = [Self::Collecting, Self::Created, Self::Approved, Self::Paid, Self::Failed];

    /// The number in keys, which never changes.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Collecting => 0,
            Self::Created => 1,
            Self::Approved => 2,
            Self::Paid => 3,
            Self::Failed => 4,
        }
    }

    /// The name on the wire.
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
