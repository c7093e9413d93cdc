//! What became of an authorisation, by the word of the token or of Permit2, at a block that will stay.
//!
//! A judgement is final, so it rests on what proves itself only: the state is asked of the very block whose time is read, which a node
//! that lags has not, and whoever prunes finds no event for a nonce that is spent. Then the settlement stays open.

use alloy_primitives::Address;
use alloy_sol_types::{SolCall as _, sol};
use serde_json::json;
use tollhouse_base::clock::Timestamp;

use super::{
    events::{CANCELED, Log, Receipt},
    node::{At, Block, Node},
    search::Undecided,
};
use crate::{
    Asset, Begun, Payment, SettleOutcome,
    facilitator::{PLAYS, exact, reason::Told, settlement},
    x402::{
        eip3009::Transfer,
        permit2::{PERMIT2, Permit},
    },
};

sol! {
    /// Of EIP-3009: whether a nonce is spent.
    function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
    /// Of ERC-20: what an account has, and what of it somebody else may move.
    function balanceOf(address account) external view returns (uint256);
    function allowance(address owner, address spender) external view returns (uint256);
}

/// How much earlier than its intent a nonce may have been spent, in seconds: clocks differ, and a handler runs between.
const EARLIER_SECS: u64 = 60 * 60;

/// Whose nonce a payment spends: the token keeps those of transfers, Permit2 those of permits.
pub(super) enum Spends {
    Transfer(Transfer),
    Permit(Permit),
}

impl Node {
    /// What became of a payment whose settlement began at that time; unknown while it may still move, and where the node cannot tell.
    pub(crate) async fn judge(&self, payment: &Payment, began: Timestamp) -> SettleOutcome {
        match self.judgement(payment, began).await {
            Ok(outcome) => outcome,
            Err(why) => SettleOutcome::Unknown(why.to_string()),
        }
    }

    async fn judgement(&self, payment: &Payment, began: Timestamp) -> Result<SettleOutcome, Undecided> {
        let spends = self.spends(payment)?;
        // Others may stand behind its address by now.
        self.prove().await?;
        let safe = self.block(At::Safe).await?;
        let after_secs = began.as_secs().saturating_sub(EARLIER_SECS);
        match spends {
            Spends::Transfer(transfer) => self.transferred(payment, &transfer, &safe, after_secs).await,
            Spends::Permit(permit) => self.taken(payment, &permit, &safe, after_secs).await,
        }
    }

    /// What became of a transfer that the token keeps the nonces of.
    async fn transferred(&self, payment: &Payment, transfer: &Transfer, safe: &Block, after_secs: u64) -> Result<SettleOutcome, Undecided> {
        let asset = payment.asset;
        if !self.spent(asset, transfer, At::Hash(safe.hash)).await? {
            return match safe.timestamp.to::<u64>() >= transfer.valid_before_secs() {
                true => Ok(refused("invalid_exact_evm_payload_authorization_valid_before")),
                false => Err(Undecided::Says("the nonce is not used yet".to_owned())),
            };
        }
        let event = self.event(asset, transfer, safe, after_secs).await?;
        if event.topics[0] == CANCELED {
            return Ok(refused("authorization_canceled"));
        }
        let receipt = self.receipt_of(&event, safe).await?;
        // What was signed can pay somebody else, or less than was asked for.
        Ok(match exact::pays(transfer, payment).is_ok() && receipt.made(transfer, asset) {
            true => SettleOutcome::Settled(settlement(payment, event.transaction_hash.to_string()).seen_in(&receipt, true)),
            false => refused("invalid_exact_evm_nonce_already_used"),
        })
    }

    /// The receipt of the transaction that an event is of, which will stay.
    pub(super) async fn receipt_of(&self, event: &Log, safe: &Block) -> Result<Receipt, Undecided> {
        let receipt: Receipt = self.ask("eth_getTransactionReceipt", json!([event.transaction_hash])).await?;
        if receipt.transaction_hash != event.transaction_hash || receipt.block_number > safe.number || !receipt.logs.contains(event) {
            return Err(Undecided::Says("the event is not in its transaction".to_owned()));
        }
        Ok(receipt)
    }

    /// What became of a payment that another facilitator was asked to settle.
    pub(crate) async fn look_up(&self, payment: &Payment, begun: &Begun) -> SettleOutcome {
        match begun.facilitator.as_deref() {
            Some(PLAYS) => SettleOutcome::Unknown(format!("`{PLAYS}` moves its money on no chain")),
            _ => self.judge(payment, begun.at).await,
        }
    }

    /// What the payer has of a payment's token, by the newest block, as far as it can be moved: a permit moves what Permit2 is allowed to.
    /// `None` where the node does not say.
    pub(crate) async fn balance(&self, payment: &Payment) -> Option<u128> {
        let account: Address = payment.signed.sender().parse().ok()?;
        let balance = self.amount(payment.asset, balanceOfCall { account }.abi_encode());
        if payment.permit().is_none() {
            return balance.await;
        }
        let allowance = self.amount(payment.asset, allowanceCall { owner: account, spender: PERMIT2 }.abi_encode());
        let (balance, allowance) = tokio::join!(balance, allowance);
        Some(balance?.min(allowance?))
    }

    /// An amount that a token tells, if it does.
    async fn amount(&self, asset: &Asset, question: Vec<u8>) -> Option<u128> {
        let answer = self.call(asset.address, &question, At::Latest).await.ok()?;
        balanceOfCall::abi_decode_returns_validate(&answer).ok().map(|amount| amount.saturating_to())
    }

    /// Whether the nonce of a payment is spent, or about to be: by the newest block.
    pub(crate) async fn spent_lately(&self, payment: &Payment) -> Result<bool, String> {
        let lately = async {
            match self.spends(payment)? {
                Spends::Transfer(transfer) => self.spent(payment.asset, &transfer, At::Latest).await,
                Spends::Permit(permit) => self.used(&permit, At::Latest).await,
            }
        };
        lately.await.map_err(|why: Undecided| why.to_string())
    }

    /// The nonce that a payment spends, where the node is one of its network.
    pub(super) fn spends(&self, payment: &Payment) -> Result<Spends, Undecided> {
        let (of, own) = (payment.asset.network, self.network());
        if of != own {
            return Err(Undecided::Says(format!("the payment is of {}, the node of {}", of.caip2, own.caip2)));
        }
        let transfer = payment.transfer().map(|(transfer, _)| Spends::Transfer(transfer));
        let spends = transfer.or_else(|| payment.permit().map(|(permit, _)| Spends::Permit(permit)));
        spends.ok_or_else(|| Undecided::Says("the authorization does not read".to_owned()))
    }

    async fn spent(&self, asset: &Asset, transfer: &Transfer, at: At) -> Result<bool, Undecided> {
        let question = authorizationStateCall { authorizer: transfer.from, nonce: transfer.nonce };
        let answer = self.call(asset.address, &question.abi_encode(), at).await?;
        let read = authorizationStateCall::abi_decode_returns_validate(&answer);
        read.map_err(|_| Undecided::Says("the token does not say whether the nonce is used".to_owned()))
    }
}

pub(super) fn refused(reason: &str) -> SettleOutcome {
    let told = Told::of(reason);
    SettleOutcome::Refused { reason: told.code.to_owned(), message: told.sentence.to_owned() }
}
