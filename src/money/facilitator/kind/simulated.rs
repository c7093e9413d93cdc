//! The simulated facilitator. Signatures, times and amounts are checked for real; the money is play money.

use std::sync::Arc;

use alloy_primitives::{Address, B256, keccak256};
use async_trait::async_trait;
use tollhouse_base::clock::Clock;

use super::ledger::Move;
use crate::{
    Facilitator, Ledger, LedgerError, Network, OfferedX402, SettleOutcome, StartedSettlement, VerifyResult,
    facilitator::{PLAYS, exact, reason::RefusalText, settlement, upto},
    x402::{eip3009::Transfer, permit2::Permit},
};

/// The facilitator address that payers name for metered charges. Nobody owns it.
const METER: &str = "0x70110e5e70110e5e70110e5e70110e5e70110e5e";

/// Verifies for real and moves play money.
pub(crate) struct SimulatedFacilitator {
    ledger: Arc<Ledger>,
    clock: Clock,
}

impl SimulatedFacilitator {
    /// Constructs a facilitator that settles on this ledger, at this clock's time.
    pub(crate) fn new(ledger: Arc<Ledger>, clock: Clock) -> Self {
        Self { ledger, clock }
    }

    /// Returns the transfer if nothing but balance and nonce can prevent it.
    fn check(&self, payment: &OfferedX402) -> Result<Move, RefusalText> {
        if let Some((permit, signature)) = payment.permit() {
            return self.check_permit(&permit, signature, payment);
        }
        let (transfer, signature) = exact::transfer(payment)?;
        if !payment.by_key(&transfer, signature) {
            return Err(RefusalText::of("invalid_exact_evm_signature"));
        }
        exact::fits(&transfer, payment, self.clock.now())?;
        // A larger amount cannot be a price.
        let worth = u128::try_from(transfer.value).ok().and_then(|atomic| payment.asset.worth(atomic));
        let micros = worth.ok_or_else(|| RefusalText::of("invalid_exact_evm_payload_authorization_value_mismatch"))?.0;
        let Transfer { from, to, nonce, .. } = transfer;
        Ok(Move { asset: payment.asset, from, to, micros, nonce, valid_before_secs: transfer.valid_before_secs() })
    }

    /// Returns the transfer of a permit's charge if nothing but balance and nonce can prevent it.
    fn check_permit(&self, permit: &Permit, signature: &str, payment: &OfferedX402) -> Result<Move, RefusalText> {
        if !payment.permitted_by_key(permit, signature) {
            return Err(RefusalText::of("invalid_permit2_signature"));
        }
        upto::fits(permit, self.clock.now())?;
        // A larger amount cannot be a price.
        let worth = u128::try_from(upto::charged(permit, payment)?).ok().and_then(|charged| payment.asset.worth(charged));
        let micros = worth.ok_or_else(|| RefusalText::of("invalid_upto_evm_payload_settlement_exceeds_amount"))?.0;
        let nonce = permit_nonce(permit);
        Ok(Move { asset: payment.asset, from: permit.from, to: permit.to, micros, nonce, valid_before_secs: permit.deadline_secs() })
    }
}

#[async_trait]
impl Facilitator for SimulatedFacilitator {
    async fn verify(&self, payment: &OfferedX402) -> VerifyResult {
        let invalid = |reason: &str, message: String| VerifyResult::Invalid { reason: reason.to_owned(), message };
        let transfer = match self.check(payment) {
            Ok(transfer) => transfer,
            Err(refusal) => return refusal.invalid(),
        };
        match self.ledger.transaction(payment.asset, transfer.from, transfer.nonce).await {
            Ok(None) => {}
            Ok(Some(_)) => return RefusalText::of("invalid_exact_evm_nonce_already_used").invalid(),
            Err(error) => return VerifyResult::Unavailable(error.to_string()),
        }
        match self.ledger.balance_of(payment.asset, payment.signed.sender()).await {
            Ok(balance) if balance.0 >= transfer.micros => VerifyResult::Valid,
            Ok(balance) => invalid(
                "invalid_exact_evm_insufficient_balance",
                format!("the payer has {balance} USD; fund the address with POST /dev/faucet {{\"address\", \"amountUsd\"}}"),
            ),
            Err(error) => VerifyResult::Unavailable(error.to_string()),
        }
    }

    async fn balance(&self, payment: &OfferedX402) -> Option<u128> {
        let balance = self.ledger.balance_of(payment.asset, payment.signed.sender()).await.ok()?;
        Some(payment.asset.atomic(balance))
    }

    async fn settle(&self, payment: &OfferedX402, _begun: &StartedSettlement) -> SettleOutcome {
        let refused = |reason: &str, message: String| SettleOutcome::Refused { reason: reason.to_owned(), message };
        let transfer = match self.check(payment) {
            Ok(transfer) => transfer,
            Err(refusal) => return refusal.refused(),
        };
        match self.ledger.transfer(&transfer).await {
            Ok(transaction) => SettleOutcome::Settled(settlement(payment, transaction)),
            Err(LedgerError::NonceUsed { .. }) => RefusalText::of("invalid_exact_evm_nonce_already_used").refused(),
            Err(error @ LedgerError::Insufficient { .. }) => refused("invalid_exact_evm_insufficient_balance", error.to_string()),
            Err(error) => SettleOutcome::Unknown(error.to_string()),
        }
    }

    async fn resolve(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        let Some((from, nonce)) = spends(payment) else {
            return SettleOutcome::Refused { reason: "invalid_payload".to_owned(), message: "not a transfer".to_owned() };
        };
        // Only this transfer can have spent the nonce, because the intent contains its signature.
        match self.ledger.transaction(payment.asset, from, nonce).await {
            Ok(Some(transaction)) => SettleOutcome::Settled(settlement(payment, transaction)),
            Ok(None) => match self.settle(payment, started).await {
                // A concurrent settlement was faster.
                refused @ SettleOutcome::Refused { .. } => match self.ledger.transaction(payment.asset, from, nonce).await {
                    Ok(Some(transaction)) => SettleOutcome::Settled(settlement(payment, transaction)),
                    Ok(None) => refused,
                    Err(error) => SettleOutcome::Unknown(error.to_string()),
                },
                ended => ended,
            },
            Err(error) => SettleOutcome::Unknown(error.to_string()),
        }
    }

    fn name(&self) -> &'static str {
        PLAYS
    }

    fn meter(&self, _network: &Network) -> Option<String> {
        Some(METER.to_owned())
    }

    fn simulated(&self) -> bool {
        true
    }
}

/// Returns the owner and key of the nonce that a payment spends in the ledger.
fn spends(payment: &OfferedX402) -> Option<(Address, B256)> {
    match (payment.transfer(), payment.permit()) {
        (Some((transfer, _)), _) => Some((transfer.from, transfer.nonce)),
        (None, Some((permit, _))) => Some((permit.from, permit_nonce(&permit))),
        (None, None) => None,
    }
}

/// Returns a permit's nonce in the ledger, hashed to keep it apart from those of transfers.
fn permit_nonce(permit: &Permit) -> B256 {
    keccak256([b"permit2".as_slice(), &permit.nonce.to_be_bytes::<32>()].concat())
}
