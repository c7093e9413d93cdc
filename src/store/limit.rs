//! What a sum must not pass.

use std::fmt;

/// What a sum must not pass. A key without a sum counts as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// At least this much is left.
    Floor(i128),
    /// At most this much is there.
    Ceiling(i128),
}

impl Limit {
    /// `sum` and `by` together, where they keep to it. Sums end where `i128` does.
    pub(super) fn add(self, sum: i128, by: i128) -> Option<i128> {
        sum.checked_add(by).filter(|sum| match self {
            Self::Floor(floor) => *sum >= floor,
            Self::Ceiling(ceiling) => *sum <= ceiling,
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Floor(floor) => write!(f, "floor of {floor}"),
            Self::Ceiling(ceiling) => write!(f, "ceiling of {ceiling}"),
        }
    }
}
