//! The x402 protocol: challenges, payments, and signatures of transfers.

mod bazaar;
pub(super) mod eip3009;
pub(super) mod extensions;
pub(super) mod offer;
pub(super) mod permit2;
mod sample;
pub(super) mod signed;
pub(super) mod svm;
pub(super) mod wire;
