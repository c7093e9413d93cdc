//! Errors of the store.

use std::fmt::Display;

use super::write::SumLimit;

/// An error of the store. After any error but [`StoreError::Unknown`], nothing was written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// A check failed. Read again and decide again.
    #[error("the value at a checked key has changed")]
    Conflict,
    /// An addition would take its sum beyond its limit.
    #[error("a sum of {sum} would exceed its {limit}")]
    Beyond {
        /// Position of the addition in the batch.
        position: usize,
        /// The limit that it would exceed.
        limit: SumLimit,
        /// The current sum.
        sum: i128,
    },
    /// Every attempt conflicted with writes of the same keys.
    #[error("every attempt conflicted with other commits")]
    Contended,
    /// Another process held a lock on a row of the commit for too long. Nothing was written. The row may be unchanged.
    #[error("another process locked a row for too long: {0}")]
    LockTimeout(String),
    /// The backend did not accept the request.
    #[error("the store is unavailable: {0}")]
    Away(String),
    /// The backend accepted the commit but did not report its outcome.
    #[error("the store did not confirm a commit: {0}")]
    Unknown(String),
}

impl StoreError {
    /// Returns the error that the backend did not accept a request because of `cause`.
    pub fn away(cause: impl Display) -> Self {
        Self::Away(cause.to_string())
    }
}
