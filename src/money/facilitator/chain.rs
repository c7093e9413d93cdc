//! Reads from the chain how a payment ended.

pub(crate) mod events;
pub(crate) mod node;
pub(crate) mod nonce_use;
mod permit;
mod proof;
mod reader;
mod search;
pub(crate) mod sending;
