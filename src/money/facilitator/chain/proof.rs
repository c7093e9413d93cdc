//! Checks that a transaction made a payment and has the configured number of confirmations.

use std::time::Duration;

use alloy_primitives::{B256, U64};
use serde_json::json;
use tokio::time::Instant;

use super::{
    events::TxReceipt,
    node::{BlockTag, Node},
    search::Undecided,
};
use crate::{Evidence, OfferedX402, Settlement, facilitator::exact, x402::signed::Order};

/// How far a node may lag behind a block that somebody else has seen.
const BEHIND: Duration = Duration::from_secs(15);

/// Pause between two checks.
const PAUSE: Duration = Duration::from_millis(250);

impl Settlement {
    /// Adds the block that its transaction was seen in.
    pub(crate) fn seen_in(self, receipt: &TxReceipt, is_final: bool) -> Self {
        Self { evidence: Some(Evidence { is_final, ..evidence(receipt, true) }), ..self }
    }
}

impl Node {
    /// Checks on the chain that a transaction made a payment. Waits for its block and the confirmations, at most
    /// `patience`.
    /// The error is for the log.
    pub(crate) async fn proof(&self, payment: &OfferedX402, hash: B256, timeout: Duration) -> Result<Evidence, String> {
        let spends = self.spends(payment).map_err(|reason| reason.to_string())?;
        let receipt = self.confirmed(hash, timeout).await?;
        let made = self.made(payment, &spends, &receipt).await.map_err(|reason| reason.to_string())?;
        let spends_nonce = made.ok_or_else(|| format!("`{hash}` did not make the transfer"))?;
        Ok(evidence(&receipt, spends_nonce))
    }

    /// Returns the evidence that a transaction moved the money of a payment with the payment's own nonce, or `None` if
    /// the chain does not show this. A transfer of the same amount is not enough, because it may belong to another
    /// payment.
    pub(crate) async fn spent_by(&self, payment: &OfferedX402, transaction: &str) -> Result<Option<Evidence>, Undecided> {
        let Ok(hash) = transaction.parse() else { return Ok(None) };
        let spends = self.spends(payment)?;
        // The address may lead to another node by now.
        self.prove().await?;
        let Some((receipt, blocks)) = self.confirmations_of(hash).await? else { return Ok(None) };
        if blocks < self.confirmations() {
            return Err(Undecided::Evidence(format!("`{hash}` has {blocks} of {} confirmations", self.confirmations())));
        }
        let made = self.made(payment, &spends, &receipt).await?;
        Ok((made == Some(true)).then(|| evidence(&receipt, true)))
    }

    /// Returns whether a transaction made a payment, and if so, whether it provably spent the payment's nonce. `None`
    /// if it did not make the payment.
    async fn made(&self, payment: &OfferedX402, spends: &Order, receipt: &TxReceipt) -> Result<Option<bool>, Undecided> {
        let permit = match spends {
            Order::Transfer(transfer) => {
                return Ok((exact::pays(transfer, payment).is_ok() && receipt.made(transfer, payment.asset)).then_some(true));
            }
            Order::Permit(permit) => permit,
        };
        let charged = payment.asked().parse().map_err(|_| Undecided::Evidence("the charge is malformed".to_owned()))?;
        if !receipt.paid(permit.from, permit.to, charged, payment.asset) {
            return Ok(None);
        }
        Ok(match self.took_charge(permit, charged, receipt.transaction_hash).await? {
            Some(took) => took.then_some(true),
            // It called another contract, whose call data is not readable. The nonce is marked, and the money moved.
            None => self.used(permit, BlockTag::Latest).await?.then_some(false),
        })
    }

    /// Returns the receipt of a transaction once its block has the configured confirmations. A block that is replaced
    /// meanwhile does not count.
    pub(crate) async fn confirmed(&self, hash: B256, timeout: Duration) -> Result<TxReceipt, String> {
        let (started, mut has) = (Instant::now(), None);
        loop {
            let reason = match self.confirmations_of(hash).await {
                Ok(Some((receipt, blocks))) if blocks >= self.confirmations() => return Ok(receipt),
                Ok(Some((_, blocks))) => {
                    has = Some(blocks);
                    format!("`{hash}` has {blocks} of {} confirmations", self.confirmations())
                }
                Ok(None) => format!("the node does not know a block with `{hash}`"),
                Err(error) => error.to_string(),
            };
            let max_len = if has.is_some() { timeout } else { timeout.min(BEHIND) };
            if started.elapsed() + PAUSE > max_len {
                return Err(reason);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns the receipt of a transaction, and the number of blocks from its own on.
    async fn confirmations_of(&self, hash: B256) -> Result<Option<(TxReceipt, u64)>, Undecided> {
        let receipt = self.receipt(hash).await?.filter(|receipt| receipt.transaction_hash == hash);
        let Some(receipt) = receipt else { return Ok(None) };
        if self.confirmations() <= 1 {
            return Ok(Some((receipt, 1)));
        }
        let head: U64 = self.rpc("eth_blockNumber", json!([])).await?;
        let blocks = head.to::<u64>().saturating_sub(receipt.block_number.to()) + 1;
        Ok(Some((receipt, blocks)))
    }
}

/// Returns the evidence of a transaction in a block that may still be replaced.
pub(crate) fn evidence(receipt: &TxReceipt, spends_nonce: bool) -> Evidence {
    let block_hash = receipt.block_hash.map(|hash| hash.to_string());
    Evidence { block: receipt.block_number.to(), block_hash, spends_nonce, is_final: false }
}
