//! A settlement order: a transfer by the token, or a permit from which Permit2 takes the charge.

use alloy_primitives::{Address, B256, Bytes, U256};
use tollhouse_base::clock::Timestamp;

use super::token::{self, SignedBy};
use crate::{
    Asset, OfferedX402,
    facilitator::{chain::events::TxReceipt, exact, reason::RefusalText, upto},
    x402::{
        eip3009::Transfer,
        permit2::{Permit, UPTO_PROXY},
    },
};

/// The authorization that a payer signed, and its signature.
pub(super) struct SignedOrder<'a> {
    what: OrderKind,
    pub(super) signature: &'a str,
}

enum OrderKind {
    Transfer(Transfer),
    /// A permit, and the amount charged.
    Permit(Permit, U256),
}

/// Error codes of an order that cannot be settled.
pub(super) struct ReasonCodes {
    pub(super) signature: &'static str,
    pub(super) spent: &'static str,
    pub(super) insufficient_funds: &'static str,
    /// The simulation on the node failed.
    pub(super) simulation: &'static str,
    /// The transaction was reverted.
    pub(super) failed: &'static str,
}

const TRANSFER: ReasonCodes = ReasonCodes {
    signature: "invalid_exact_evm_signature",
    spent: "invalid_exact_evm_nonce_already_used",
    insufficient_funds: "invalid_exact_evm_insufficient_balance",
    simulation: "invalid_exact_evm_transaction_simulation_failed",
    failed: "invalid_exact_evm_transaction_failed",
};

const PERMIT: ReasonCodes = ReasonCodes {
    signature: "invalid_permit2_signature",
    spent: "permit2_invalid_nonce",
    insufficient_funds: "permit2_insufficient_balance",
    simulation: "permit2_simulation_failed",
    failed: "invalid_upto_evm_transaction_failed",
};

impl<'a> SignedOrder<'a> {
    pub(super) fn of(payment: &'a OfferedX402) -> Result<Self, RefusalText> {
        if let Some((permit, signature)) = payment.permit() {
            let charged = upto::charged(&permit, payment)?;
            return Ok(Self { what: OrderKind::Permit(permit, charged), signature });
        }
        let (transfer, signature) = exact::transfer(payment)?;
        Ok(Self { what: OrderKind::Transfer(transfer), signature })
    }

    pub(super) fn codes(&self) -> &'static ReasonCodes {
        match self.what {
            OrderKind::Transfer(_) => &TRANSFER,
            OrderKind::Permit(..) => &PERMIT,
        }
    }

    /// Returns the payer and the amount.
    pub(super) fn costs(&self) -> (Address, U256) {
        match &self.what {
            OrderKind::Transfer(transfer) => (transfer.from, transfer.value),
            OrderKind::Permit(permit, charged) => (permit.from, *charged),
        }
    }

    /// Checks that it meets the requirements of `payment` now, and that `signer` may settle it.
    pub(super) fn fits(&self, payment: &OfferedX402, now: Timestamp, signer: Address) -> Result<(), RefusalText> {
        match &self.what {
            OrderKind::Transfer(transfer) => exact::fits(transfer, payment, now),
            OrderKind::Permit(permit, _) if permit.facilitator != signer => Err(RefusalText::of("upto_facilitator_mismatch")),
            OrderKind::Permit(permit, _) => upto::fits(permit, now),
        }
    }

    /// Returns whether the payer's own key signed it.
    pub(super) fn by_key(&self, payment: &OfferedX402) -> bool {
        match &self.what {
            OrderKind::Transfer(transfer) => payment.by_key(transfer, self.signature),
            OrderKind::Permit(permit, _) => payment.permitted_by_key(permit, self.signature),
        }
    }

    pub(super) fn hash(&self, asset: &Asset) -> B256 {
        match &self.what {
            OrderKind::Transfer(transfer) => transfer.signing_hash(asset),
            OrderKind::Permit(permit, _) => permit.signing_hash(asset.network),
        }
    }

    /// Returns the contract to call. `None` if the token has no address.
    pub(super) fn contract(&self, asset: &Asset) -> Option<Address> {
        match self.what {
            OrderKind::Transfer(_) => asset.address.parse().ok(),
            OrderKind::Permit(..) => Some(UPTO_PROXY),
        }
    }

    /// Returns whether Permit2 needs an allowance for the token.
    pub(super) fn needs_allowance(&self) -> bool {
        matches!(self.what, OrderKind::Permit(..))
    }

    /// Returns the call data.
    pub(super) fn data(&self, by: &SignedBy) -> Bytes {
        match &self.what {
            OrderKind::Transfer(transfer) => token::data(transfer, self.signature, by),
            OrderKind::Permit(permit, charged) => permit.taking(*charged, self.signature.parse().unwrap_or_default()),
        }
    }

    /// Returns whether the transaction with this receipt settled it.
    pub(super) fn signed_by(&self, receipt: &TxReceipt, asset: &Asset) -> bool {
        match &self.what {
            OrderKind::Transfer(transfer) => receipt.made(transfer, asset),
            OrderKind::Permit(permit, charged) => receipt.paid(permit.from, permit.to, *charged, asset),
        }
    }
}
