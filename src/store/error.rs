//! Why the store did not do what was asked.

use super::limit::Limit;

/// Why the store did not do what was asked. After any error but [`StoreError::Unknown`] nothing was written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// A check failed: read again and decide again.
    #[error("the value at a checked key is another")]
    Conflict,
    /// An addition would make its sum pass its limit.
    #[error("a sum of {sum} may not pass its {limit}")]
    Beyond {
        /// Which addition of the batch.
        place: usize,
        /// What it would pass.
        limit: Limit,
        /// What the sum is.
        sum: i128,
    },
    /// Others wrote the same keys at every try.
    #[error("others were faster every time")]
    Contended,
    /// Another process held a row of the commit for too long. Nothing was written; the row may be as it was read.
    #[error("a row was locked by another process for too long: {0}")]
    LockTimeout(String),
    /// The backend did not take the request.
    #[error("the store is away: {0}")]
    Away(String),
    /// The backend took the commit and did not say how it ended.
    #[error("the store did not confirm a commit: {0}")]
    Unknown(String),
}
