//! A settlement order: a transfer by the token, or a permit from which Permit2 takes the charge.

use alloy_primitives::{Address, B256, Bytes, U256};
use tollhouse_base::clock::Timestamp;

use super::token::{self, SignedBy};
use crate::{
    Asset, Payment,
    facilitator::{chain::events::Receipt, exact, reason::Told, upto},
    x402::{
        eip3009::Transfer,
        permit2::{Permit, UPTO_PROXY},
    },
};

/// The authorization that a payer signed, and its signature.
pub(super) struct Order<'a> {
    what: What,
    pub(super) signature: &'a str,
}

enum What {
    Transfer(Transfer),
    /// A permit, and the amount charged.
    Permit(Permit, U256),
}

/// Error codes of an order that cannot be settled.
pub(super) struct Codes {
    pub(super) signature: &'static str,
    pub(super) spent: &'static str,
    pub(super) poor: &'static str,
    /// The simulation on the node failed.
    pub(super) simulation: &'static str,
    /// The transaction was reverted.
    pub(super) failed: &'static str,
}

const TRANSFER: Codes = Codes {
    signature: "invalid_exact_evm_signature",
    spent: "invalid_exact_evm_nonce_already_used",
    poor: "invalid_exact_evm_insufficient_balance",
    simulation: "invalid_exact_evm_transaction_simulation_failed",
    failed: "invalid_exact_evm_transaction_failed",
};

const PERMIT: Codes = Codes {
    signature: "invalid_permit2_signature",
    spent: "permit2_invalid_nonce",
    poor: "permit2_insufficient_balance",
    simulation: "permit2_simulation_failed",
    failed: "invalid_upto_evm_transaction_failed",
};

impl<'a> Order<'a> {
    /// Returns the order of a payment, or the refusal if it has none.
    pub(super) fn of(payment: &'a Payment) -> Result<Self, Told> {
        if let Some((permit, signature)) = payment.permit() {
            let charged = upto::charged(&permit, payment)?;
            return Ok(Self { what: What::Permit(permit, charged), signature });
        }
        let (transfer, signature) = exact::transfer(payment)?;
        Ok(Self { what: What::Transfer(transfer), signature })
    }

    pub(super) fn codes(&self) -> &'static Codes {
        match self.what {
            What::Transfer(_) => &TRANSFER,
            What::Permit(..) => &PERMIT,
        }
    }

    /// Returns the payer and the amount.
    pub(super) fn costs(&self) -> (Address, U256) {
        match &self.what {
            What::Transfer(transfer) => (transfer.from, transfer.value),
            What::Permit(permit, charged) => (permit.from, *charged),
        }
    }

    /// Checks that it meets the requirements of `payment` now, and that `signer` may settle it.
    pub(super) fn fits(&self, payment: &Payment, now: Timestamp, signer: Address) -> Result<(), Told> {
        match &self.what {
            What::Transfer(transfer) => exact::fits(transfer, payment, now),
            What::Permit(permit, _) if permit.facilitator != signer => Err(Told::of("upto_facilitator_mismatch")),
            What::Permit(permit, _) => upto::fits(permit, now),
        }
    }

    /// Returns whether the payer's own key signed it.
    pub(super) fn by_key(&self, payment: &Payment) -> bool {
        match &self.what {
            What::Transfer(transfer) => payment.by_key(transfer, self.signature),
            What::Permit(permit, _) => payment.permitted_by_key(permit, self.signature),
        }
    }

    /// Returns the hash that is signed.
    pub(super) fn hash(&self, asset: &Asset) -> B256 {
        match &self.what {
            What::Transfer(transfer) => transfer.signing_hash(asset),
            What::Permit(permit, _) => permit.signing_hash(asset.network),
        }
    }

    /// Returns the contract to call. `None` if the token has no address.
    pub(super) fn contract(&self, asset: &Asset) -> Option<Address> {
        match self.what {
            What::Transfer(_) => asset.address.parse().ok(),
            What::Permit(..) => Some(UPTO_PROXY),
        }
    }

    /// Returns whether Permit2 needs an allowance for the token.
    pub(super) fn needs_allowance(&self) -> bool {
        matches!(self.what, What::Permit(..))
    }

    /// Returns the call data.
    pub(super) fn data(&self, by: &SignedBy) -> Bytes {
        match &self.what {
            What::Transfer(transfer) => token::data(transfer, self.signature, by),
            What::Permit(permit, charged) => permit.taking(*charged, self.signature.parse().unwrap_or_default()),
        }
    }

    /// Returns whether the transaction with this receipt settled it.
    pub(super) fn made_by(&self, receipt: &Receipt, asset: &Asset) -> bool {
        match &self.what {
            What::Transfer(transfer) => receipt.made(transfer, asset),
            What::Permit(permit, charged) => receipt.paid(permit.from, permit.to, *charged, asset),
        }
    }
}
