//! x402 as it is on the wire: challenges, payments, and the signature of a transfer.

pub(super) mod eip3009;
pub(super) mod offer;
pub(super) mod permit2;
pub(super) mod signed;
pub(super) mod svm;
pub(super) mod wire;
