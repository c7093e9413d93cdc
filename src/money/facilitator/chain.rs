//! Reads from the chain how a payment ended.

pub(crate) mod events;
pub(crate) mod judge;
pub(crate) mod node;
mod permit;
mod proof;
mod reader;
mod search;
pub(crate) mod sending;
