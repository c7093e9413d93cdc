//! Longest texts that people write beside what they do, in characters. A longer one is refused, and pages let nobody type it.

/// Reason of a decision about a builder, an endpoint or a credit.
pub const MAX_DECISION_REASON: usize = 1_000;
/// Reason of a refund, or of a payout that failed.
pub const MAX_MONEY_REASON: usize = 500;
/// Label of a developer credit.
pub const MAX_CREDIT_LABEL: usize = 120;
/// Name of a builder.
pub const MAX_BUILDER_NAME: usize = 120;
/// Contact of a builder.
pub const MAX_BUILDER_CONTACT: usize = 254;
/// Note of a version.
pub const MAX_VERSION_NOTE: usize = 200;
