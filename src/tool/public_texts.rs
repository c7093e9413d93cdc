//! Maximum lengths of free texts, in characters. Longer texts are refused, and page inputs do not accept them.

/// Maximum length of the reason for a decision about a builder, a tool or a credit.
pub const MAX_DECISION_REASON: usize = 1_000;
/// Maximum length of the reason for a refund or a failed payout.
pub const MAX_MONEY_REASON: usize = 500;
/// Maximum length of a developer credit's label.
pub const MAX_CREDIT_LABEL: usize = 120;
/// Maximum length of a builder's name.
pub const MAX_BUILDER_NAME: usize = 120;
/// Maximum length of a builder's contact.
pub const MAX_BUILDER_CONTACT: usize = 254;
/// Maximum length of a version's note.
pub const MAX_VERSION_NOTE: usize = 200;
