//! The error type.

/// One sentence for people.
pub(crate) type Failure = String;
