//! Tollhouse: a host for paid JavaScript tools.

pub mod clock;
pub mod id;
pub mod store;
pub mod tool;
