//! A settlement that has begun.

use tollhouse_base::clock::Timestamp;

/// A settlement that has begun, as recorded in its intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedSettlement {
    /// When the intent was written.
    pub at: Timestamp,
    /// [Identity](super::Facilitator::identity) of the facilitator that was to move the money. `None` in intents of
    /// versions that did not record it.
    pub facilitator: Option<String>,
    /// The transaction that was prepared for it.
    pub transaction: Option<String>,
}
