//! Limits of sums.

use std::fmt;

/// The limit of a sum. A key without a sum counts as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SumLimit {
    /// The sum must stay at or above this.
    Floor(i128),
    /// The sum must stay at or below this.
    Ceiling(i128),
}

impl SumLimit {
    /// Returns `sum` plus `by` if the result is within the limit and fits in an `i128`.
    pub(super) fn add(self, sum: i128, by: i128) -> Option<i128> {
        sum.checked_add(by).filter(|sum| match self {
            Self::Floor(floor) => *sum >= floor,
            Self::Ceiling(ceiling) => *sum <= ceiling,
        })
    }
}

impl fmt::Display for SumLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Floor(floor) => write!(f, "floor of {floor}"),
            Self::Ceiling(ceiling) => write!(f, "ceiling of {ceiling}"),
        }
    }
}
