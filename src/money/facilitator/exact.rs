//! Rules of the schemes `exact` and `upto` for what payers sign, for all facilitators.

use alloy_primitives::{Address, U256};
use tollhouse_base::clock::Timestamp;

use super::reason::RefusalText;
use crate::{
    OfferedX402,
    x402::{eip3009::Transfer, permit2::Permit},
};

/// Minimum remaining validity of an authorization, in seconds, as facilitators require.
const MIN_VALIDITY_SECS: u64 = 6;

/// Checks that `transfer` pays the right recipient, and at least the required amount. A remote facilitator can accept
/// more.
pub(super) fn pays(transfer: &Transfer, payment: &OfferedX402) -> Result<(), RefusalText> {
    pays_recipient(transfer, payment)?;
    // An empty text would parse as zero.
    let asked: Option<U256> = Some(payment.asked()).filter(|asked| !asked.is_empty()).and_then(|asked| asked.parse().ok());
    check(asked.is_some_and(|asked| transfer.value >= asked), "invalid_exact_evm_payload_authorization_value_mismatch")
}

/// Checks that `transfer` is already valid.
pub(super) fn has_begun(transfer: &Transfer, now: Timestamp) -> Result<(), RefusalText> {
    check(transfer.valid_after <= U256::from(now.as_secs()), "invalid_exact_evm_payload_authorization_valid_after")
}

/// Checks that `transfer` meets the requirements of `payment` now.
pub(super) fn fits(transfer: &Transfer, payment: &OfferedX402, now: Timestamp) -> Result<(), RefusalText> {
    pays_recipient(transfer, payment)?;
    let needed_until = U256::from(now.as_secs()) + U256::from(MIN_VALIDITY_SECS);
    check(transfer.valid_before >= needed_until, "invalid_exact_evm_payload_authorization_valid_before")?;
    has_begun(transfer, now)?;
    check(transfer.value.to_string() == payment.asked(), "invalid_exact_evm_payload_authorization_value_mismatch")
}

fn pays_recipient(transfer: &Transfer, payment: &OfferedX402) -> Result<(), RefusalText> {
    let pay_to: Option<Address> = payment.requirements["payTo"].as_str().and_then(|address| address.parse().ok());
    check(pay_to == Some(transfer.to), "invalid_exact_evm_recipient_mismatch")
}

fn check(holds: bool, reason: &str) -> Result<(), RefusalText> {
    if holds { Ok(()) } else { Err(RefusalText::of(reason)) }
}

/// Returns the charge for `permit`. Fails if it exceeds the permitted amount.
pub(super) fn charged(permit: &Permit, payment: &OfferedX402) -> Result<U256, RefusalText> {
    let charged = payment.asked().parse().ok().filter(|charged| *charged <= permit.max);
    charged.ok_or_else(|| RefusalText::of("invalid_upto_evm_payload_settlement_exceeds_amount"))
}

/// Checks that `permit` can be taken now.
pub(super) fn permit_fits(permit: &Permit, now: Timestamp) -> Result<(), RefusalText> {
    let now = U256::from(now.as_secs());
    check(permit.deadline >= now + U256::from(MIN_VALIDITY_SECS), "permit2_deadline_expired")?;
    check(permit.valid_after <= now, "permit2_not_yet_valid")
}
