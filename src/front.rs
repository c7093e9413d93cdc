//! What the fronts share.

pub mod cursor;
