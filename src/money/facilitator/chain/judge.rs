//! What became of an authorisation, by the token's own word, at a block that will stay.
//!
//! A judgement is final, so it rests on what proves itself only: the state is asked of the very block whose time is read, which a node
//! that lags has not, and whoever prunes finds no event for a nonce that is spent. Then the settlement stays open.

use alloy_primitives::B256;
use alloy_sol_types::{SolCall as _, sol};
use serde_json::json;

use super::{
    events::{CANCELED, Log, Receipt, USED},
    node::{At, Block, Node, RpcError},
};
use crate::{
    base::clock::Timestamp,
    money::{
        Payment, SettleOutcome,
        facilitator::{reason::Told, settlement},
        x402::eip3009::Transfer,
    },
};

sol! {
    /// Of EIP-3009: whether a nonce is spent.
    function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
}

/// How much earlier than its intent a nonce may have been spent, in seconds: clocks differ, and a handler runs between.
const EARLIER_SECS: u64 = 60 * 60;

/// Blocks whose events are asked for at once, and the fewest of them for nodes that allow no more.
const SPAN: u64 = 1_000;
const LEAST_SPAN: u64 = 10;

/// Questions for events in one judgement.
const MOST_QUESTIONS: u32 = 100;

/// Why a node decides nothing.
#[derive(Debug, thiserror::Error)]
enum Undecided {
    #[error(transparent)]
    Node(#[from] RpcError),
    #[error("{0}")]
    Says(String),
}

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
        if !self.spent(&transfer, At::Hash(safe.hash)).await? {
            return match safe.timestamp.to::<u64>() >= transfer.valid_before_secs() {
                true => Ok(refused("invalid_exact_evm_payload_authorization_valid_before")),
                false => Err(Undecided::Says("the nonce is not used yet".to_owned())),
            };
        }
        let event = self.event(&transfer, &safe, began.as_secs().saturating_sub(EARLIER_SECS)).await?;
        if event.topics[0] == CANCELED {
            return Ok(refused("authorization_canceled"));
        }
        let receipt: Receipt = self.ask("eth_getTransactionReceipt", json!([event.transaction_hash])).await?;
        if receipt.transaction_hash != event.transaction_hash || receipt.block_number > safe.number || !receipt.logs.contains(&event) {
            return Err(Undecided::Says("the event is not in its transaction".to_owned()));
        }
        Ok(match receipt.made(&transfer, self.network()) {
            true => SettleOutcome::Settled(settlement(payment, event.transaction_hash.to_string())),
            false => refused("invalid_exact_evm_nonce_already_used"),
        })
    }

    /// Whether the nonce of a payment is spent, or about to be: by the newest block.
    pub(in crate::money) async fn spent_lately(&self, payment: &Payment) -> Result<bool, String> {
        let lately = async { self.spent(&self.transfer(payment)?, At::Latest).await };
        lately.await.map_err(|why: Undecided| why.to_string())
    }

    fn transfer(&self, payment: &Payment) -> Result<Transfer, Undecided> {
        if payment.network != self.network() {
            return Err(Undecided::Says(format!("the payment is of {}, the node of {}", payment.network.caip2, self.network().caip2)));
        }
        Transfer::parse(&payment.authorization).ok_or_else(|| Undecided::Says("the authorization does not read".to_owned()))
    }

    async fn spent(&self, transfer: &Transfer, at: At) -> Result<bool, Undecided> {
        let question = authorizationStateCall { authorizer: transfer.from, nonce: transfer.nonce };
        let answer = self.call(self.network().asset, &question.abi_encode(), at).await?;
        let read = authorizationStateCall::abi_decode_returns_validate(&answer);
        read.map_err(|_| Undecided::Says("the token does not say whether the nonce is used".to_owned()))
    }

    /// The event by which the nonce was spent, after about this time.
    async fn event(&self, transfer: &Transfer, safe: &Block, after_secs: u64) -> Result<Log, Undecided> {
        let first = self.block_before(safe, after_secs).await?;
        let (last, mut from, mut span) = (safe.number.to::<u64>(), first, SPAN);
        for _ in 0..MOST_QUESTIONS {
            if from > last {
                break;
            }
            let to = (from + span - 1).min(last);
            match self.events(transfer, from, to).await {
                Ok(logs) => match logs.into_iter().find(|log| log.spends(transfer, self.network())) {
                    Some(event) => return Ok(event),
                    None => from = to + 1,
                },
                // It may be more than the node looks through at once.
                Err(RpcError::Said { .. }) if span > LEAST_SPAN => span = (span / 4).max(LEAST_SPAN),
                Err(error) => return Err(error.into()),
            }
        }
        Err(Undecided::Says(format!("the nonce is spent, but no event from block {first} to {} says how", from.min(last + 1) - 1)))
    }

    async fn events(&self, transfer: &Transfer, from: u64, to: u64) -> Result<Vec<Log>, RpcError> {
        let topics: (_, B256, B256) = ([USED, CANCELED], transfer.from.into_word(), transfer.nonce);
        let (from, to) = (format!("{from:#x}"), format!("{to:#x}"));
        let filter = json!({ "address": self.network().asset, "topics": topics, "fromBlock": from, "toBlock": to });
        self.ask("eth_getLogs", json!([filter])).await
    }

    /// The number of a block that is not younger than that time, and not much older.
    async fn block_before(&self, safe: &Block, secs: u64) -> Result<u64, RpcError> {
        let older = async |number| Ok::<_, RpcError>(self.block(At::Number(number)).await?.timestamp.to::<u64>() <= secs);
        let (mut young, mut step) = (safe.number.to::<u64>(), SPAN);
        let mut old = loop {
            let number = young.saturating_sub(step);
            if number == 0 || older(number).await? {
                break number;
            }
            (young, step) = (number, step * 2);
        };
        while young - old > SPAN {
            let middle = old + (young - old) / 2;
            if older(middle).await? { old = middle } else { young = middle }
        }
        Ok(old)
    }
}

fn refused(reason: &str) -> SettleOutcome {
    let told = Told::of(reason);
    SettleOutcome::Refused { reason: told.code.to_owned(), message: told.sentence.to_owned() }
}
