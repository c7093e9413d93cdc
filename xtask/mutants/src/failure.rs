//! Why this stops.

/// One sentence for people.
pub(crate) type Failure = String;
