//! A settlement that has begun.

use tollhouse_base::clock::Timestamp;

/// What its intent says of a settlement that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// When the intent was written.
    pub at: Timestamp,
    /// Who was to move the money, as [`super::Facilitator::identity`] has it; `None` in an intent of a version that did not say.
    pub facilitator: Option<String>,
    /// The transaction that was prepared for it.
    pub transaction: Option<String>,
}
