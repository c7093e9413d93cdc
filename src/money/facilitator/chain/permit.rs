//! Decides how a permit ended. Permit2 marks its nonce without an event. So the transaction is found among the token's
//! transfers, and proven by its call data.

use alloy_primitives::{Address, B256, Bytes, U64, U256};
use alloy_sol_types::SolCall as _;
use serde::Deserialize;
use serde_json::json;
use tollhouse_base::boxed;

use super::{
    events::{EventLog, MOVED},
    node::{Block, BlockTag, Node, RpcError},
    search::{Undecided, Walk},
};
use crate::{
    OfferedX402, SettleOutcome,
    facilitator::{reason::RefusalText, settlement},
    x402::permit2::{PERMIT2, Permit, ProxyCall, UPTO_PROXY, nonceBitmapCall},
};

/// Maximum number of transactions examined per decision.
const MAX_TRANSACTIONS: usize = 50;

/// The fields of a transaction that show what it called.
#[derive(Deserialize)]
struct TxCall {
    hash: B256,
    to: Option<Address>,
    input: Bytes,
}

impl Node {
    /// Returns whether Permit2 has marked the nonce.
    #[boxed]
    pub(super) async fn used(&self, permit: &Permit, at: BlockTag) -> Result<bool, Undecided> {
        let question = nonceBitmapCall { owner: permit.from, word: permit.nonce >> 8 };
        let answer = self.call(&PERMIT2.to_string(), &nonceBitmapCall::abi_encode(&question), at).await?;
        let read = nonceBitmapCall::abi_decode_returns_validate(&answer);
        let word: U256 = read.map_err(|_| Undecided::Evidence("Permit2 does not say whether the nonce was already used".to_owned()))?;
        Ok(word.bit(permit.nonce.as_limbs()[0] as usize & 0xff))
    }

    /// Decides how a permit ended, from which the charge is to be taken.
    #[boxed]
    pub(super) async fn taken(
        &self,
        payment: &OfferedX402,
        permit: &Permit,
        safe: &Block,
        after_secs: u64,
    ) -> Result<SettleOutcome, Undecided> {
        if !self.used(permit, BlockTag::Hash(safe.hash)).await? {
            // A permit is valid through the second of its deadline.
            return match safe.timestamp.to::<u64>() > permit.deadline_secs() {
                true => Ok(RefusalText::of("permit2_deadline_expired").refused()),
                false => Err(Undecided::Evidence("the permit's nonce is not used yet".to_owned())),
            };
        }
        let first = self.search_back(safe, after_secs).await?;
        let used = self.used_in(permit, first, safe).await?;
        let (first, last) = used.map_or_else(|| (first, safe.number.to()), |block| (block, block));
        let charged = payment.asked().parse().map_err(|_| Undecided::Evidence("the charge is malformed".to_owned()))?;
        let topics = (MOVED, permit.from.into_word(), permit.to.into_word());
        let mut walk = Walk::new(self, json!({ "address": payment.asset.address, "topics": topics }), first, last);
        let (mut paid, mut checked_at) = (false, 0);
        while let Some(logs) = walk.next().await? {
            // A payer could send any other amount in the same block to keep the settlement open.
            paid |= logs.iter().any(|log| log.moves(permit.from, permit.to, charged, payment.asset));
            // If the block is unknown there may be many, so only transfers of the charge are examined.
            let likely = |log: &EventLog| used.is_some() || log.moves(permit.from, permit.to, charged, payment.asset);
            for log in logs.into_iter().filter(likely) {
                if checked_at == MAX_TRANSACTIONS {
                    return Err(walk.inconclusive());
                }
                checked_at += 1;
                if let Some(outcome) = self.taken_by(payment, permit, charged, &log, safe).await? {
                    return Ok(outcome);
                }
            }
        }
        match used {
            Some(block) if !paid && self.has_events(payment, block).await? => Ok(RefusalText::of("permit2_invalid_nonce").refused()),
            Some(_) | None => Err(walk.inconclusive()),
        }
    }

    /// Finds the block that marked the nonce, unless the node does not keep the state of all blocks. No block unmarks one.
    async fn used_in(&self, permit: &Permit, first: u64, safe: &Block) -> Result<Option<u64>, Undecided> {
        let used = async |number| match self.used(permit, BlockTag::Number(number)).await {
            // The node may keep only the state of its newest blocks.
            Err(Undecided::Node(RpcError::Answered { .. })) => Ok(None),
            used => used.map(Some),
        };
        match used(first).await? {
            Some(false) => {}
            Some(true) => return Err(Undecided::Evidence(format!("the permit's nonce was used up to block {first}"))),
            None => return Ok(None),
        }
        let (mut before, mut after) = (first, safe.number.to::<u64>());
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            match used(middle).await? {
                Some(true) => after = middle,
                Some(false) => before = middle,
                None => return Ok(None),
            }
        }
        Ok(Some(after))
    }

    /// Returns how the permit ended according to the transaction of an event, or `None` if that does not concern the
    /// permit.
    async fn taken_by(
        &self,
        payment: &OfferedX402,
        permit: &Permit,
        charged: U256,
        event: &EventLog,
        safe: &Block,
    ) -> Result<Option<SettleOutcome>, Undecided> {
        let called: TxCall = self.rpc("eth_getTransactionByHash", json!([event.transaction_hash])).await?;
        if called.hash != event.transaction_hash || called.to != Some(UPTO_PROXY) {
            return Ok(None);
        }
        let Some(taking) = ProxyCall::read(&called.input).filter(|taking| taking.spends(permit)) else { return Ok(None) };
        let receipt = self.receipt_of(event, safe).await?;
        if receipt.status != U64::ONE {
            return Err(Undecided::Evidence("the event is of a transaction that was reverted".to_owned()));
        }
        if !taking.takes(permit) {
            // The payer has signed another permit with the same nonce.
            return Ok(Some(RefusalText::of("permit2_invalid_nonce").refused()));
        }
        match taking.amount == charged && event.moves(permit.from, permit.to, charged, payment.asset) {
            true => Ok(Some(SettleOutcome::Settled(settlement(payment, event.transaction_hash.to_string()).seen_in(&receipt, true)))),
            false => Err(Undecided::Evidence(format!(
                "`{}` transferred {} by the permit, but {charged} was charged",
                called.hash, taking.amount
            ))),
        }
    }

    /// Returns whether a transaction took the charge of a permit according to its call data, or `None` if it did not
    /// call x402's proxy.
    pub(super) async fn took_charge(&self, permit: &Permit, charged: U256, hash: B256) -> Result<Option<bool>, Undecided> {
        let called: Option<TxCall> = self.rpc("eth_getTransactionByHash", json!([hash])).await?;
        let called = called.filter(|called| called.hash == hash && called.to == Some(UPTO_PROXY));
        Ok(called.and_then(|called| ProxyCall::read(&called.input)).map(|taking| taking.takes(permit) && taking.amount == charged))
    }

    /// Returns whether the node knows any events of the token and Permit2 in a block. A node that has pruned them
    /// returns none.
    async fn has_events(&self, payment: &OfferedX402, block: u64) -> Result<bool, Undecided> {
        let both = json!({ "address": [payment.asset.address, PERMIT2] });
        Ok(Walk::new(self, both, block, block).next().await?.is_some_and(|events| !events.is_empty()))
    }
}
