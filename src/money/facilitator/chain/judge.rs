//! What became of an authorisation, by the token's own word, at a block that will stay.
//!
//! A judgement is final, so it rests on what proves itself only: the state is asked of the very block whose time is read, which a node
//! that lags has not, and whoever prunes finds no event for a nonce that is spent. Then the settlement stays open.

use alloy_sol_types::{SolCall as _, sol};
use serde_json::json;

use super::{
    events::{CANCELED, Receipt},
    node::{At, Node},
    search::Undecided,
};
use crate::{
    base::clock::Timestamp,
    money::{
        Asset, Begun, Payment, SettleOutcome,
        facilitator::{PLAYS, reason::Told, settlement},
        x402::eip3009::Transfer,
    },
};

sol! {
    /// Of EIP-3009: whether a nonce is spent.
    function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
}

/// How much earlier than its intent a nonce may have been spent, in seconds: clocks differ, and a handler runs between.
const EARLIER_SECS: u64 = 60 * 60;

impl Node {
    /// What became of a payment whose settlement began at that time; unknown while it may still move, and where the node cannot tell.
    pub(in crate::money) async fn judge(&self, payment: &Payment, began: Timestamp) -> SettleOutcome {
        match self.judgement(payment, began).await {
            Ok(outcome) => outcome,
            Err(why) => SettleOutcome::Unknown(why.to_string()),
        }
    }

    async fn judgement(&self, payment: &Payment, began: Timestamp) -> Result<SettleOutcome, Undecided> {
        let transfer = self.transfer(payment)?;
        // Others may stand behind its address by now.
        self.prove().await?;
        let safe = self.block(At::Safe).await?;
        let asset = payment.asset;
        if !self.spent(asset, &transfer, At::Hash(safe.hash)).await? {
            return match safe.timestamp.to::<u64>() >= transfer.valid_before_secs() {
                true => Ok(refused("invalid_exact_evm_payload_authorization_valid_before")),
                false => Err(Undecided::Says("the nonce is not used yet".to_owned())),
            };
        }
        let event = self.event(asset, &transfer, &safe, began.as_secs().saturating_sub(EARLIER_SECS)).await?;
        if event.topics[0] == CANCELED {
            return Ok(refused("authorization_canceled"));
        }
        let receipt: Receipt = self.ask("eth_getTransactionReceipt", json!([event.transaction_hash])).await?;
        if receipt.transaction_hash != event.transaction_hash || receipt.block_number > safe.number || !receipt.logs.contains(&event) {
            return Err(Undecided::Says("the event is not in its transaction".to_owned()));
        }
        Ok(match receipt.made(&transfer, asset) {
            true => SettleOutcome::Settled(settlement(payment, event.transaction_hash.to_string())),
            false => refused("invalid_exact_evm_nonce_already_used"),
        })
    }

    /// What became of a payment that another facilitator was asked to settle.
    pub(in crate::money) async fn look_up(&self, payment: &Payment, begun: &Begun) -> SettleOutcome {
        match begun.facilitator.as_deref() {
            Some(PLAYS) => SettleOutcome::Unknown(format!("`{PLAYS}` moves its money on no chain")),
            _ => self.judge(payment, begun.at).await,
        }
    }

    /// Whether the nonce of a payment is spent, or about to be: by the newest block.
    pub(in crate::money) async fn spent_lately(&self, payment: &Payment) -> Result<bool, String> {
        let lately = async { self.spent(payment.asset, &self.transfer(payment)?, At::Latest).await };
        lately.await.map_err(|why: Undecided| why.to_string())
    }

    fn transfer(&self, payment: &Payment) -> Result<Transfer, Undecided> {
        let (of, own) = (payment.asset.network, self.network());
        if of != own {
            return Err(Undecided::Says(format!("the payment is of {}, the node of {}", of.caip2, own.caip2)));
        }
        payment.transfer().map(|(transfer, _)| transfer).ok_or_else(|| Undecided::Says("the authorization does not read".to_owned()))
    }

    async fn spent(&self, asset: &Asset, transfer: &Transfer, at: At) -> Result<bool, Undecided> {
        let question = authorizationStateCall { authorizer: transfer.from, nonce: transfer.nonce };
        let answer = self.call(asset.address, &question.abi_encode(), at).await?;
        let read = authorizationStateCall::abi_decode_returns_validate(&answer);
        read.map_err(|_| Undecided::Says("the token does not say whether the nonce is used".to_owned()))
    }
}

fn refused(reason: &str) -> SettleOutcome {
    let told = Told::of(reason);
    SettleOutcome::Refused { reason: told.code.to_owned(), message: told.sentence.to_owned() }
}
