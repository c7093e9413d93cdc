//! x402 as it is on the wire: challenges, payments, and the signature of a transfer.

mod bazaar;
pub(super) mod eip3009;
pub(super) mod extensions;
pub(super) mod offer;
pub(super) mod permit2;
mod sample;
pub(super) mod signed;
pub(super) mod svm;
pub(super) mod wire;
