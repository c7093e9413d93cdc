//! What is settled: a transfer that the token makes, or a permit of which Permit2 takes what was charged.

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

/// What a payer signed, and the signature.
pub(super) struct Order<'a> {
    what: What,
    pub(super) signature: &'a str,
}

enum What {
    Transfer(Transfer),
    /// And what was charged of it.
    Permit(Permit, U256),
}

/// What is told of an order that cannot be settled, for each reason.
pub(super) struct Codes {
    pub(super) signature: &'static str,
    pub(super) spent: &'static str,
    pub(super) poor: &'static str,
    /// It was tried on the node.
    pub(super) simulation: &'static str,
    /// Its transaction was reverted.
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
    /// That of a payment, or why there is none.
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

    /// Who pays, and how much.
    pub(super) fn costs(&self) -> (Address, U256) {
        match &self.what {
            What::Transfer(transfer) => (transfer.from, transfer.value),
            What::Permit(permit, charged) => (permit.from, *charged),
        }
    }

    /// Whether it is what `payment` is asked for, now, and `signer` may settle it.
    pub(super) fn fits(&self, payment: &Payment, now: Timestamp, signer: Address) -> Result<(), Told> {
        match &self.what {
            What::Transfer(transfer) => exact::fits(transfer, payment, now),
            What::Permit(permit, _) if permit.facilitator != signer => Err(Told::of("upto_facilitator_mismatch")),
            What::Permit(permit, _) => upto::fits(permit, now),
        }
    }

    /// Whether the payer's own key signed it.
    pub(super) fn by_key(&self, payment: &Payment) -> bool {
        match &self.what {
            What::Transfer(transfer) => payment.by_key(transfer, self.signature),
            What::Permit(permit, _) => payment.permitted_by_key(permit, self.signature),
        }
    }

    /// The hash that is signed.
    pub(super) fn hash(&self, asset: &Asset) -> B256 {
        match &self.what {
            What::Transfer(transfer) => transfer.signing_hash(asset),
            What::Permit(permit, _) => permit.signing_hash(asset.network),
        }
    }

    /// The contract that makes it move; `None` where the token has no address.
    pub(super) fn contract(&self, asset: &Asset) -> Option<Address> {
        match self.what {
            What::Transfer(_) => asset.address.parse().ok(),
            What::Permit(..) => Some(UPTO_PROXY),
        }
    }

    /// Whether Permit2 has to be allowed to move the token.
    pub(super) fn needs_allowance(&self) -> bool {
        matches!(self.what, What::Permit(..))
    }

    /// What that contract is called with.
    pub(super) fn data(&self, by: &SignedBy) -> Bytes {
        match &self.what {
            What::Transfer(transfer) => token::data(transfer, self.signature, by),
            What::Permit(permit, charged) => permit.taking(*charged, self.signature.parse().unwrap_or_default()),
        }
    }

    /// Whether a transaction that was to settle it has done so.
    pub(super) fn made_by(&self, receipt: &Receipt, asset: &Asset) -> bool {
        match &self.what {
            What::Transfer(transfer) => receipt.made(transfer, asset),
            What::Permit(permit, charged) => receipt.paid(permit.from, permit.to, *charged, asset),
        }
    }
}
