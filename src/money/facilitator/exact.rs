//! Rules of the scheme `exact` for authorizations, for all facilitators.

use alloy_primitives::{Address, U256};
use tollhouse_base::clock::Timestamp;

use super::reason::Told;
use crate::{Payment, x402::eip3009::Transfer};

/// Minimum remaining validity of an authorization, in seconds, as facilitators require.
pub(super) const MIN_VALIDITY_SECS: u64 = 6;

/// Returns the transfer of a payment and its signature, or the refusal `invalid_payload`. It does not check them.
pub(super) fn transfer(payment: &Payment) -> Result<(Transfer, &str), Told> {
    payment.transfer().ok_or_else(|| Told::of("invalid_payload"))
}

/// Checks that `transfer` pays the right recipient, and at least the required amount. A remote facilitator can accept
/// more.
pub(super) fn pays(transfer: &Transfer, payment: &Payment) -> Result<(), Told> {
    let pay_to: Option<Address> = payment.requirements["payTo"].as_str().and_then(|address| address.parse().ok());
    if pay_to != Some(transfer.to) {
        return Err(Told::of("invalid_exact_evm_recipient_mismatch"));
    }
    // An empty text would parse as zero.
    let asked: Option<U256> = Some(payment.asked()).filter(|asked| !asked.is_empty()).and_then(|asked| asked.parse().ok());
    match asked.is_some_and(|asked| transfer.value >= asked) {
        true => Ok(()),
        false => Err(Told::of("invalid_exact_evm_payload_authorization_value_mismatch")),
    }
}

/// Checks that `transfer` is already valid.
pub(super) fn has_begun(transfer: &Transfer, now: Timestamp) -> Result<(), Told> {
    match transfer.valid_after > U256::from(now.as_secs()) {
        true => Err(Told::of("invalid_exact_evm_payload_authorization_valid_after")),
        false => Ok(()),
    }
}

/// Checks that `transfer` meets the requirements of `payment` now.
pub(super) fn fits(transfer: &Transfer, payment: &Payment, now: Timestamp) -> Result<(), Told> {
    let requirements = &payment.requirements;
    let pay_to: Option<Address> = requirements["payTo"].as_str().and_then(|address| address.parse().ok());
    if pay_to != Some(transfer.to) {
        return Err(Told::of("invalid_exact_evm_recipient_mismatch"));
    }
    let now = U256::from(now.as_secs());
    if transfer.valid_before < now + U256::from(MIN_VALIDITY_SECS) {
        return Err(Told::of("invalid_exact_evm_payload_authorization_valid_before"));
    }
    if transfer.valid_after > now {
        return Err(Told::of("invalid_exact_evm_payload_authorization_valid_after"));
    }
    if transfer.value.to_string() != payment.asked() {
        return Err(Told::of("invalid_exact_evm_payload_authorization_value_mismatch"));
    }
    Ok(())
}
