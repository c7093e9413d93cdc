//! Rules of the scheme `upto` for permits, for all facilitators.

use alloy_primitives::U256;
use tollhouse_base::clock::Timestamp;

use super::{exact::MIN_VALIDITY_SECS, reason::Told};
use crate::{Payment, x402::permit2::Permit};

/// Returns the charge for `permit`. Fails if it exceeds the permitted amount.
pub(super) fn charged(permit: &Permit, payment: &Payment) -> Result<U256, Told> {
    let charged = payment.asked().parse().ok().filter(|charged| *charged <= permit.most);
    charged.ok_or_else(|| Told::of("invalid_upto_evm_payload_settlement_exceeds_amount"))
}

/// Checks that `permit` can be taken now.
pub(super) fn fits(permit: &Permit, now: Timestamp) -> Result<(), Told> {
    let now = U256::from(now.as_secs());
    if permit.deadline < now + U256::from(MIN_VALIDITY_SECS) {
        return Err(Told::of("permit2_deadline_expired"));
    }
    if permit.valid_after > now {
        return Err(Told::of("permit2_not_yet_valid"));
    }
    Ok(())
}
