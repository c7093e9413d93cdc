//! A settlement order: a transfer by the token, or a permit from which Permit2 takes the charge. With the call data for
//! contracts.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall as _, sol};
use tollhouse_base::clock::Timestamp;

use crate::{
    Asset, OfferedX402,
    facilitator::{chain::events::TxReceipt, exact, reason::RefusalText},
    x402::{eip3009::Transfer, permit2::UPTO_PROXY, signed::Order},
};

sol! {
    /// The functions of the dollar token that are used.
    interface Token {
        function transferWithAuthorization(address from, address to, uint256 value, uint256 valid_after, uint256 valid_before, bytes32 nonce, uint8 v, bytes32 r, bytes32 s);
        function transferWithAuthorization(address from, address to, uint256 value, uint256 valid_after, uint256 valid_before, bytes32 nonce, bytes signature);
        function balanceOf(address account) returns (uint256);
        function allowance(address owner, address spender) returns (uint256);
    }

    /// A contract wallet (EIP-1271).
    function isValidSignature(bytes32 hash, bytes signature) returns (bytes4);
}

/// The kind of signer of a transfer.
pub(super) enum SignedBy {
    /// The payer's own key.
    Key,
    /// A contract, which confirms the signature.
    Contract,
}

/// The authorization that a payer signed, and its signature.
pub(in crate::facilitator::kind) struct SignedOrder<'a> {
    pub(in crate::facilitator::kind) order: Order,
    pub(in crate::facilitator::kind) payer: Address,
    /// The amount that it moves. Of a permit, the charge.
    pub(in crate::facilitator::kind) amount: U256,
    pub(super) signature: &'a str,
}

/// Error codes of an order that cannot be settled.
pub(in crate::facilitator::kind) struct ReasonCodes {
    pub(in crate::facilitator::kind) signature: &'static str,
    pub(super) spent: &'static str,
    pub(super) insufficient_funds: &'static str,
    /// The simulation on the node failed.
    pub(super) simulation: &'static str,
    /// The transaction was reverted.
    pub(super) failed: &'static str,
}

/// Error code for the signature of a wallet that is not deployed, for both kinds of order.
pub(super) const UNDEPLOYED: &str = "invalid_exact_evm_payload_undeployed_smart_wallet";

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
    pub(in crate::facilitator::kind) fn of(payment: &'a OfferedX402) -> Result<Self, RefusalText> {
        let (order, signature) = payment.order().ok_or_else(|| RefusalText::of("invalid_payload"))?;
        let (payer, amount) = match &order {
            Order::Transfer(transfer) => (transfer.from, transfer.value),
            Order::Permit(permit) => (permit.from, exact::charged(permit, payment)?),
        };
        Ok(Self { order, payer, amount, signature })
    }

    pub(in crate::facilitator::kind) fn codes(&self) -> &'static ReasonCodes {
        match self.order {
            Order::Transfer(_) => &TRANSFER,
            Order::Permit(_) => &PERMIT,
        }
    }

    /// Checks that it meets the requirements of `payment` now, and that `signer` may settle it, if there is one.
    pub(in crate::facilitator::kind) fn fits(
        &self,
        payment: &OfferedX402,
        now: Timestamp,
        signer: Option<Address>,
    ) -> Result<(), RefusalText> {
        match &self.order {
            Order::Transfer(transfer) => exact::fits(transfer, payment, now),
            Order::Permit(permit) if signer.is_some_and(|signer| permit.facilitator != signer) => {
                Err(RefusalText::of("upto_facilitator_mismatch"))
            }
            Order::Permit(permit) => exact::permit_fits(permit, now),
        }
    }

    /// Returns the contract to call. `None` if the token has no address.
    pub(super) fn contract(&self, asset: &Asset) -> Option<Address> {
        match self.order {
            Order::Transfer(_) => asset.address.parse().ok(),
            Order::Permit(_) => Some(UPTO_PROXY),
        }
    }

    /// Returns the call data.
    pub(super) fn data(&self, by: &SignedBy) -> Bytes {
        let signature: Bytes = self.signature.parse().unwrap_or_default();
        let Transfer { from, to, value, valid_after, valid_before, nonce } = match &self.order {
            Order::Transfer(transfer) => transfer.clone(),
            Order::Permit(permit) => return permit.taking(self.amount, signature),
        };
        match by {
            SignedBy::Key => {
                let (r, s, v) = (B256::from_slice(&signature[..32]), B256::from_slice(&signature[32..64]), signature[64]);
                Token::transferWithAuthorization_0Call { from, to, value, valid_after, valid_before, nonce, v, r, s }.abi_encode()
            }
            SignedBy::Contract => {
                Token::transferWithAuthorization_1Call { from, to, value, valid_after, valid_before, nonce, signature }.abi_encode()
            }
        }
        .into()
    }

    /// Returns whether the transaction with this receipt settled it.
    pub(super) fn signed_by(&self, receipt: &TxReceipt, asset: &Asset) -> bool {
        match &self.order {
            Order::Transfer(transfer) => receipt.made(transfer, asset),
            Order::Permit(permit) => receipt.paid(permit.from, permit.to, self.amount, asset),
        }
    }
}
