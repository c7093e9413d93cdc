//! The error of xtask.

/// One sentence for people.
pub(crate) type Failure = String;
