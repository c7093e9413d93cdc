//! Rules of the scheme `upto` for permits, for all facilitators.

use alloy_primitives::U256;
use tollhouse_base::clock::Timestamp;

use super::{exact::MIN_VALIDITY_SECS, reason::RefusalText};
use crate::{OfferedX402, x402::permit2::Permit};

/// Returns the charge for `permit`. Fails if it exceeds the permitted amount.
pub(super) fn charged(permit: &Permit, payment: &OfferedX402) -> Result<U256, RefusalText> {
    let charged = payment.asked().parse().ok().filter(|charged| *charged <= permit.max);
    charged.ok_or_else(|| RefusalText::of("invalid_upto_evm_payload_settlement_exceeds_amount"))
}

/// Checks that `permit` can be taken now.
pub(super) fn fits(permit: &Permit, now: Timestamp) -> Result<(), RefusalText> {
    let now = U256::from(now.as_secs());
    if permit.deadline < now + U256::from(MIN_VALIDITY_SECS) {
        return Err(RefusalText::of("permit2_deadline_expired"));
    }
    if permit.valid_after > now {
        return Err(RefusalText::of("permit2_not_yet_valid"));
    }
    Ok(())
}
