//! Limits on unpaid runs, on gas that is not paid back, and on runs that were paid for before.

use std::{
    num::{NonZeroU32, NonZeroU64},
    time::Duration,
};

/// Unpaid runs and refused payments per minute after which further ones get 429. `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedRuns {
    /// Per payer, for all tools together. Default: 30.
    pub of_payer: Option<NonZeroU32>,
    /// Per caller's address, for all payers together. Default: 60.
    pub of_address: Option<NonZeroU32>,
    /// Per tool, for all payers together who have not paid for it before: once for x402, and once for credit. Default: 100.
    pub of_tool: Option<NonZeroU32>,
    /// Payments per caller's address that are refused, or verified for no run, for all payers together. Default: 60.
    pub refused_of_address: Option<NonZeroU32>,
}

impl Default for FailedRuns {
    fn default() -> Self {
        let some = NonZeroU32::new;
        Self { of_payer: some(30), of_address: some(60), of_tool: some(100), refused_of_address: some(60) }
    }
}

/// Limits on gas per hour that settlements burn without paying. `None` means no limit. Gas of underpaid settlements counts
/// apart, and has the same limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GasLimits {
    /// Per payer. Default: 3,000,000.
    pub of_payer: Option<NonZeroU64>,
    /// Per address, for callers who have not paid for the tool before. Default: 6,000,000.
    pub of_address: Option<NonZeroU64>,
    /// For all tools of a builder. Default: 15,000,000.
    pub of_builder: Option<NonZeroU64>,
    /// In total. Default: 60,000,000.
    pub of_all: Option<NonZeroU64>,
    /// Maximum number of reverted settlements per payer and hour. As many more are excused if another transaction had
    /// moved the money before. Default: 5.
    pub reverts: Option<NonZeroU32>,
}

impl Default for GasLimits {
    fn default() -> Self {
        let some = NonZeroU64::new;
        Self {
            of_payer: some(3_000_000),
            of_address: some(6_000_000),
            of_builder: some(15_000_000),
            of_all: some(60_000_000),
            reverts: NonZeroU32::new(5),
        }
    }
}

/// Limits on repeated runs for a payment that was settled before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwedLimits {
    /// Maximum number of runs for one payment, including the first. Default: 10.
    pub runs: NonZeroU32,
    /// Time from the settlement until the last run can begin. Default: 24 hours.
    pub kept: Duration,
}

impl Default for OwedLimits {
    fn default() -> Self {
        Self { runs: NonZeroU32::MIN.saturating_add(9), kept: Duration::from_secs(24 * 60 * 60) }
    }
}
