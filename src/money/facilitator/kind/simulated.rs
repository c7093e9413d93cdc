//! The simulated facilitator. Signatures, times and amounts are checked for real; the money is play money.

use std::sync::Arc;

use alloy_primitives::{Address, B256, keccak256};
use async_trait::async_trait;
use tollhouse_base::clock::Clock;

use super::{evm::signed_order::SignedOrder, ledger::Move};
use crate::{
    Facilitator, Ledger, LedgerError, Network, OfferedX402, SettleOutcome, StartedSettlement, VerifyResult,
    facilitator::{PLAYS, reason::RefusalText, settlement},
    x402::signed::Order,
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
        let order = SignedOrder::of(payment)?;
        if payment.is_signed_by_key() != Some(true) {
            return Err(RefusalText::of(order.codes().signature));
        }
        order.fits(payment, self.clock.now(), None)?;
        // A larger amount cannot be a price.
        let worth = u128::try_from(order.amount).ok().and_then(|amount| payment.asset.worth(amount));
        let micros = worth.ok_or_else(|| RefusalText::of("invalid_exact_evm_payload_authorization_value_mismatch"))?.0;
        let (from, nonce) = (order.payer, nonce_of(&order.order));
        let (to, valid_before_secs) = match order.order {
            Order::Transfer(transfer) => (transfer.to, transfer.valid_before_secs()),
            Order::Permit(permit) => (permit.to, permit.deadline_secs()),
        };
        Ok(Move { asset: payment.asset, from, to, micros, nonce, valid_before_secs })
    }

    async fn verified(&self, payment: &OfferedX402) -> Result<(), VerifyResult> {
        let away = |error: LedgerError| VerifyResult::Unavailable(error.to_string());
        let transfer = self.check(payment).map_err(RefusalText::invalid)?;
        if self.ledger.transaction(payment.asset, transfer.from, transfer.nonce).await.map_err(away)?.is_some() {
            return Err(RefusalText::of("invalid_exact_evm_nonce_already_used").invalid());
        }
        let balance = self.ledger.balance_of(payment.asset, payment.signed.sender()).await.map_err(away)?;
        if balance.0 < transfer.micros {
            return Err(VerifyResult::Invalid {
                reason: "invalid_exact_evm_insufficient_balance".to_owned(),
                message: format!("the payer has {balance} USD; fund the address with POST /dev/faucet {{\"address\", \"amountUsd\"}}"),
            });
        }
        Ok(())
    }

    /// Returns the settlement that spent the nonce, if one did. Only this payment's transfer can have spent it, because
    /// the intent contains its signature.
    async fn found(&self, payment: &OfferedX402, from: Address, nonce: B256) -> Option<SettleOutcome> {
        match self.ledger.transaction(payment.asset, from, nonce).await {
            Ok(transaction) => transaction.map(|transaction| SettleOutcome::Settled(settlement(payment, transaction))),
            Err(error) => Some(SettleOutcome::Unknown(error.to_string())),
        }
    }
}

#[async_trait]
impl Facilitator for SimulatedFacilitator {
    async fn verify(&self, payment: &OfferedX402) -> VerifyResult {
        self.verified(payment).await.err().unwrap_or(VerifyResult::Valid)
    }

    async fn balance(&self, payment: &OfferedX402) -> Option<u128> {
        let balance = self.ledger.balance_of(payment.asset, payment.signed.sender()).await.ok()?;
        Some(payment.asset.atomic(balance))
    }

    async fn settle(&self, payment: &OfferedX402, _begun: &StartedSettlement) -> SettleOutcome {
        let transfer = match self.check(payment) {
            Ok(transfer) => transfer,
            Err(refusal) => return refusal.refused(),
        };
        match self.ledger.transfer(&transfer).await {
            Ok(transaction) => SettleOutcome::Settled(settlement(payment, transaction)),
            Err(LedgerError::NonceUsed) => RefusalText::of("invalid_exact_evm_nonce_already_used").refused(),
            Err(error @ LedgerError::Insufficient { .. }) => {
                SettleOutcome::Refused { reason: "invalid_exact_evm_insufficient_balance".to_owned(), message: error.to_string() }
            }
            Err(error) => SettleOutcome::Unknown(error.to_string()),
        }
    }

    async fn resolve(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        let (from, nonce) = match SignedOrder::of(payment) {
            Ok(order) => (order.payer, nonce_of(&order.order)),
            Err(refusal) => return refusal.refused(),
        };
        match self.settle(payment, started).await {
            // The payment may have been settled before.
            refused @ SettleOutcome::Refused { .. } => self.found(payment, from, nonce).await.unwrap_or(refused),
            ended => ended,
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

/// Returns an order's nonce in the ledger. That of a permit is hashed, to keep it apart from those of transfers.
fn nonce_of(order: &Order) -> B256 {
    match order {
        Order::Transfer(transfer) => transfer.nonce,
        Order::Permit(permit) => keccak256([b"permit2".as_slice(), &permit.nonce.to_be_bytes::<32>()].concat()),
    }
}
