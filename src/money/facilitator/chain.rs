//! The chain, where it alone knows what became of a payment.

pub(crate) mod events;
pub(crate) mod judge;
pub(crate) mod node;
mod permit;
mod proof;
mod reader;
mod search;
pub(crate) mod sending;
