//! The checks, writes and additions of a commit, in bytes.

use std::fmt;

use bytes::Bytes;

use super::space::Space;

/// A condition for a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The space of the key.
    pub space: Space,
    /// The key.
    pub key: Vec<u8>,
    /// The value that must be stored, byte for byte. `None` requires that the key is absent.
    pub expected: Option<Bytes>,
}

/// A change by a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The space of the key.
    pub space: Space,
    /// The key.
    pub key: Vec<u8>,
    /// The new value. `None` deletes the key.
    pub value: Option<Vec<u8>>,
}

/// An addition in a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Add {
    /// The space of the sum.
    pub space: Space,
    /// The key of the sum.
    pub key: Vec<u8>,
    /// The amount. A negative amount subtracts.
    pub by: i128,
    /// The limit that the sum must not exceed.
    pub limit: SumLimit,
}

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

impl Check {
    /// Requires that `key` has exactly this value.
    pub fn holds(space: Space, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { space, key: key.into(), expected: Some(Bytes::from(value.into())) }
    }

    /// Requires that `key` is absent.
    pub fn absent(space: Space, key: impl Into<Vec<u8>>) -> Self {
        Self { space, key: key.into(), expected: None }
    }
}

impl Write {
    /// Puts `value` at `key`.
    pub fn put(space: Space, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { space, key: key.into(), value: Some(value.into()) }
    }

    /// Deletes `key` if it exists.
    pub fn delete(space: Space, key: impl Into<Vec<u8>>) -> Self {
        Self { space, key: key.into(), value: None }
    }
}
