//! Checks that a transaction made a payment and has the configured number of confirmations.

use std::time::Duration;

use alloy_primitives::{B256, U64};
use serde_json::json;
use tokio::time::Instant;

use super::{
    events::Receipt,
    judge::Spends,
    node::{At, Node},
    search::Undecided,
};
use crate::{Evidence, Payment, Settlement, facilitator::exact};

/// How far a node may lag behind a block that somebody else has seen.
const BEHIND: Duration = Duration::from_secs(15);

/// Pause between two checks.
const PAUSE: Duration = Duration::from_millis(250);

impl Settlement {
    /// Adds the block that its transaction was seen in.
    pub(crate) fn seen_in(self, receipt: &Receipt, is_final: bool) -> Self {
        let block_hash = receipt.block_hash.map(|hash| hash.to_string());
        let evidence = Evidence { block: receipt.block_number.to(), block_hash, spends_nonce: true, is_final };
        Self { evidence: Some(evidence), ..self }
    }
}

impl Node {
    /// Checks on the chain that a transaction made a payment. Waits for its block and the confirmations, at most
    /// `patience`.
    ///
    /// # Errors
    ///
    /// Why it does not count, or not yet. The text is for the log.
    pub(crate) async fn proof(&self, payment: &Payment, hash: B256, patience: Duration) -> Result<Evidence, String> {
        let spends = self.spends(payment).map_err(|why| why.to_string())?;
        let receipt = self.confirmed(hash, patience).await?;
        let made = match &spends {
            Spends::Transfer(transfer) => (exact::pays(transfer, payment).is_ok() && receipt.made(transfer, payment.asset)).then_some(true),
            Spends::Permit(permit) => {
                let charged = payment.asked().parse().map_err(|_| "the charge does not read".to_owned())?;
                match receipt.paid(permit.from, permit.to, charged, payment.asset) {
                    false => None,
                    true => match self.took(permit, charged, hash).await.map_err(|why| why.to_string())? {
                        Some(took) => took.then_some(true),
                        // It called another contract, whose call data is not readable. The nonce is marked, and the
                        // money moved.
                        None => self.used(permit, At::Latest).await.map_err(|why: Undecided| why.to_string())?.then_some(false),
                    },
                }
            }
        };
        let spends_nonce = made.ok_or_else(|| format!("`{hash}` did not make the transfer"))?;
        let block_hash = receipt.block_hash.map(|hash| hash.to_string());
        Ok(Evidence { block: receipt.block_number.to(), block_hash, spends_nonce, is_final: false })
    }

    /// Returns the receipt of a transaction once its block has the configured confirmations. A block that is replaced
    /// meanwhile does not count.
    pub(crate) async fn confirmed(&self, hash: B256, patience: Duration) -> Result<Receipt, String> {
        let (began, mut has) = (Instant::now(), None);
        loop {
            let why = match self.confirmations_of(hash).await {
                Ok(Some((receipt, blocks))) if blocks >= self.confirmations() => return Ok(receipt),
                Ok(Some((_, blocks))) => {
                    has = Some(blocks);
                    format!("`{hash}` has {blocks} of {} confirmations", self.confirmations())
                }
                Ok(None) => format!("`{hash}` is in no block that the node knows"),
                Err(error) => error.to_string(),
            };
            let longest = if has.is_some() { patience } else { patience.min(BEHIND) };
            if began.elapsed() + PAUSE > longest {
                return Err(why);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns the receipt of a transaction, and the number of blocks from its own on.
    async fn confirmations_of(&self, hash: B256) -> Result<Option<(Receipt, u64)>, Undecided> {
        let receipt: Option<Receipt> = self.ask("eth_getTransactionReceipt", json!([hash])).await?;
        let Some(receipt) = receipt.filter(|receipt| receipt.transaction_hash == hash) else { return Ok(None) };
        if self.confirmations() <= 1 {
            return Ok(Some((receipt, 1)));
        }
        let head: U64 = self.ask("eth_blockNumber", json!([])).await?;
        let blocks = head.to::<u64>().saturating_sub(receipt.block_number.to()) + 1;
        Ok(Some((receipt, blocks)))
    }
}
