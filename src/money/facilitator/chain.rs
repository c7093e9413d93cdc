//! Reads from the chain how a payment ended.

pub(crate) mod events;
pub(crate) mod node;
pub(crate) mod nonce_use;
mod permit;
mod recent_reads;
mod rpc_error;
pub(crate) mod search;
pub(crate) mod sending;
