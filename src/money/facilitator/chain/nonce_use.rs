//! Decides from the token or Permit2, at a block that will stay, how an authorization ended.
//!
//! A decision is final, so it relies only on facts that prove themselves. The state is read at the very block whose
//! time is read, which a node that lags does not have. A node that prunes finds no event for a nonce that is spent. In
//! both cases the settlement stays open.
//!
//! Also checks that a transaction made a payment and has the configured number of confirmations.

use std::time::Duration;

use alloy_primitives::{Address, B256, U64};
use alloy_sol_types::{SolCall as _, sol};
use serde_json::json;
use tokio::time::Instant;
use tollhouse_base::{boxed, clock::Timestamp};

use super::{
    events::{CANCELED, EventLog, TxReceipt},
    node::{Block, BlockTag, Node},
    search::Undecided,
};
use crate::{
    Asset, Evidence, OfferedX402, SettleOutcome, Settlement, StartedSettlement,
    facilitator::{PLAYS, exact, reason::RefusalText, settlement},
    x402::{
        eip3009::Transfer,
        permit2::PERMIT2,
        signed::{Order, SignedPayload},
    },
};

sol! {
    /// EIP-3009: whether a nonce is spent.
    function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
    /// ERC-20: an account's balance, and the part of it that another account may move.
    function balanceOf(address account) external view returns (uint256);
    function allowance(address owner, address spender) external view returns (uint256);
}

/// How much earlier than its intent a nonce may have been spent, in seconds: clocks differ, and a handler runs in
/// between.
const EARLIER_SECS: u64 = 60 * 60;

impl Node {
    /// Decides how a payment ended whose settlement began at `began`. Unknown while it may still move or if the node
    /// cannot tell.
    #[boxed]
    pub(crate) async fn nonce_state(&self, payment: &OfferedX402, started: Timestamp) -> SettleOutcome {
        match self.classify(payment, started).await {
            Ok(outcome) => outcome,
            Err(reason) => SettleOutcome::Unknown(reason.to_string()),
        }
    }

    /// Like [`Node::nonce_state`], but says whether the payment can be settled again. It is [`SettleOutcome::Lost`] if its
    /// nonce is unused as of the newest block and its authorization is still valid.
    pub(crate) async fn judge_again(&self, payment: &OfferedX402, started: Timestamp, now: Timestamp) -> SettleOutcome {
        let judged = self.nonce_state(payment, started).await;
        let SettleOutcome::Unknown(reason) = &judged else { return judged };
        let expired = payment.valid_before_secs().is_none_or(|until| now.as_secs() >= until);
        match self.is_recently_spent(payment).await {
            Ok(false) if !expired => SettleOutcome::Lost(format!("no node has the transaction: {reason}")),
            _ => judged,
        }
    }

    async fn classify(&self, payment: &OfferedX402, started: Timestamp) -> Result<SettleOutcome, Undecided> {
        let spends = self.spends(payment)?;
        // The address may lead to another node by now.
        self.prove().await?;
        let safe = self.block(BlockTag::Safe).await?;
        let after_secs = started.as_secs().saturating_sub(EARLIER_SECS);
        match spends {
            Order::Transfer(transfer) => self.transferred(payment, &transfer, &safe, after_secs).await,
            Order::Permit(permit) => self.taken(payment, &permit, &safe, after_secs).await,
        }
    }

    /// Decides how a transfer ended, whose nonces the token stores.
    async fn transferred(
        &self,
        payment: &OfferedX402,
        transfer: &Transfer,
        safe: &Block,
        after_secs: u64,
    ) -> Result<SettleOutcome, Undecided> {
        let asset = payment.asset;
        if !self.spent(asset, transfer, BlockTag::Hash(safe.hash)).await? {
            return match safe.timestamp.to::<u64>() >= transfer.valid_before_secs() {
                true => Ok(RefusalText::of("invalid_exact_evm_payload_authorization_valid_before").refused()),
                false => Err(Undecided::Evidence("the nonce is not used yet".to_owned())),
            };
        }
        let event = self.event(asset, transfer, safe, after_secs).await?;
        if event.topics[0] == CANCELED {
            return Ok(RefusalText::of("authorization_canceled").refused());
        }
        let receipt = self.receipt_of(&event, safe).await?;
        // The authorization may pay somebody else, or less than required.
        Ok(match exact::pays(transfer, payment).is_ok() && receipt.made(transfer, asset) {
            true => SettleOutcome::Settled(settlement(payment, event.transaction_hash.to_string()).seen_in(&receipt, true)),
            false => RefusalText::of("invalid_exact_evm_nonce_already_used").refused(),
        })
    }

    /// Returns the receipt of an event's transaction, which is in a block that will stay.
    #[boxed]
    pub(super) async fn receipt_of(&self, event: &EventLog, safe: &Block) -> Result<TxReceipt, Undecided> {
        let receipt: TxReceipt = self.rpc("eth_getTransactionReceipt", json!([event.transaction_hash])).await?;
        if receipt.transaction_hash != event.transaction_hash || receipt.block_number > safe.number || !receipt.logs.contains(event) {
            return Err(Undecided::Evidence("the event is not in its transaction".to_owned()));
        }
        Ok(receipt)
    }

    /// Decides how a payment ended that another facilitator was asked to settle.
    #[boxed]
    pub(crate) async fn look_up(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        match started.facilitator.as_deref() {
            Some(PLAYS) => SettleOutcome::Unknown(format!("`{PLAYS}` moves its money on no chain")),
            _ => self.nonce_state(payment, started.at).await,
        }
    }

    /// Returns the payer's balance of a payment's token as of the newest block. For a permit it is limited by Permit2's
    /// allowance. `None` if the node does not answer.
    #[boxed]
    pub(crate) async fn balance(&self, payment: &OfferedX402) -> Option<u128> {
        let account: Address = payment.signed.sender().parse().ok()?;
        let balance = self.amount(payment.asset, balanceOfCall { account }.abi_encode());
        if !matches!(payment.signed, SignedPayload::Permit { .. }) {
            return balance.await;
        }
        let allowance = self.amount(payment.asset, allowanceCall { owner: account, spender: PERMIT2 }.abi_encode());
        let (balance, allowance) = tokio::join!(balance, allowance);
        Some(balance?.min(allowance?))
    }

    /// Forgets the payer's balance, which a settlement of this payment changes.
    pub(crate) fn forget_balance(&self, payment: &OfferedX402) {
        if let Ok(account) = payment.signed.sender().parse() {
            self.forget_amount(payment.asset, balanceOfCall { account }.abi_encode());
        }
    }

    /// Returns whether the nonce of a payment is spent as of the newest block, which may still be replaced.
    #[boxed]
    pub(crate) async fn is_recently_spent(&self, payment: &OfferedX402) -> Result<bool, String> {
        let lately = async {
            match self.spends(payment)? {
                Order::Transfer(transfer) => self.spent(payment.asset, &transfer, BlockTag::Latest).await,
                Order::Permit(permit) => self.used(&permit, BlockTag::Latest).await,
            }
        };
        lately.await.map_err(|reason: Undecided| reason.to_string())
    }

    /// Returns the order whose nonce a payment spends: the token stores those of transfers, Permit2 those of permits. Fails if the node is of another network.
    pub(super) fn spends(&self, payment: &OfferedX402) -> Result<Order, Undecided> {
        let (of, own) = (payment.asset.network, self.network());
        if of != own {
            return Err(Undecided::Evidence(format!("the payment is on {}, but the node serves {}", of.caip2, own.caip2)));
        }
        payment.order().map(|(order, _)| order).ok_or_else(|| Undecided::Evidence("the authorization is malformed".to_owned()))
    }

    async fn spent(&self, asset: &Asset, transfer: &Transfer, at: BlockTag) -> Result<bool, Undecided> {
        let question = authorizationStateCall { authorizer: transfer.from, nonce: transfer.nonce };
        let answer = self.call(asset.address, &question.abi_encode(), at).await?;
        let read = authorizationStateCall::abi_decode_returns_validate(&answer);
        read.map_err(|_| Undecided::Evidence("the token does not say whether the nonce was already used".to_owned()))
    }
}

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
            return Err(Undecided::Evidence(format!("confirmations of `{hash}`: {blocks} of {}", self.confirmations())));
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
            // The transaction called another contract, whose call data is not readable. The nonce is marked, and the money moved.
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
                    format!("confirmations of `{hash}`: {blocks} of {}", self.confirmations())
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
