//! The chain, where it alone knows what became of a payment.

pub(in crate::money) mod events;
pub(in crate::money) mod judge;
pub(in crate::money) mod node;
mod permit;
mod proof;
mod reader;
mod search;
pub(in crate::money) mod sending;
