//! Rules of the scheme `exact` for authorizations, for all facilitators.

use alloy_primitives::{Address, U256};
use tollhouse_base::clock::Timestamp;

use super::reason::RefusalText;
use crate::{OfferedX402, x402::eip3009::Transfer};

/// Minimum remaining validity of an authorization, in seconds, as facilitators require.
pub(super) const MIN_VALIDITY_SECS: u64 = 6;

/// Returns the transfer of a payment and its signature, or the refusal `invalid_payload`. It does not check them.
pub(super) fn transfer(payment: &OfferedX402) -> Result<(Transfer, &str), RefusalText> {
    payment.transfer().ok_or_else(|| RefusalText::of("invalid_payload"))
}

/// Checks that `transfer` pays the right recipient, and at least the required amount. A remote facilitator can accept
/// more.
pub(super) fn pays(transfer: &Transfer, payment: &OfferedX402) -> Result<(), RefusalText> {
    let pay_to: Option<Address> = payment.requirements["payTo"].as_str().and_then(|address| address.parse().ok());
    if pay_to != Some(transfer.to) {
        return Err(RefusalText::of("invalid_exact_evm_recipient_mismatch"));
    }
    // An empty text would parse as zero.
    let request: Option<U256> = Some(payment.asked()).filter(|request| !request.is_empty()).and_then(|request| request.parse().ok());
    match request.is_some_and(|request| transfer.value >= request) {
        true => Ok(()),
        false => Err(RefusalText::of("invalid_exact_evm_payload_authorization_value_mismatch")),
    }
}

/// Checks that `transfer` is already valid.
pub(super) fn has_begun(transfer: &Transfer, now: Timestamp) -> Result<(), RefusalText> {
    match transfer.valid_after > U256::from(now.as_secs()) {
        true => Err(RefusalText::of("invalid_exact_evm_payload_authorization_valid_after")),
        false => Ok(()),
    }
}

/// Checks that `transfer` meets the requirements of `payment` now.
pub(super) fn fits(transfer: &Transfer, payment: &OfferedX402, now: Timestamp) -> Result<(), RefusalText> {
    let requirements = &payment.requirements;
    let pay_to: Option<Address> = requirements["payTo"].as_str().and_then(|address| address.parse().ok());
    if pay_to != Some(transfer.to) {
        return Err(RefusalText::of("invalid_exact_evm_recipient_mismatch"));
    }
    let now = U256::from(now.as_secs());
    if transfer.valid_before < now + U256::from(MIN_VALIDITY_SECS) {
        return Err(RefusalText::of("invalid_exact_evm_payload_authorization_valid_before"));
    }
    if transfer.valid_after > now {
        return Err(RefusalText::of("invalid_exact_evm_payload_authorization_valid_after"));
    }
    if transfer.value.to_string() != payment.asked() {
        return Err(RefusalText::of("invalid_exact_evm_payload_authorization_value_mismatch"));
    }
    Ok(())
}
