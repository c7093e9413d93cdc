//! A facilitator that settles itself. It sends the signed authorization to the token, or a permit and its charge to
//! x402's proxy, and pays the gas with the host's own key.
//!
//! The transaction is signed before the intent is written, which contains its hash, and sent afterwards. Whatever is
//! lost in between, token and Permit2 move money at most once per nonce, and the chain shows the transaction that did.

mod gas;
mod nonces;
mod pending_txs;
mod proxy;
mod signed_order;
mod token;
mod transaction;
mod tx_manager;

use std::{fmt, sync::Arc, time::Duration};

use alloy_primitives::{Address, B256, Bytes, U64, U128, U256};
use alloy_sol_types::SolCall as _;
use async_trait::async_trait;
use k256::ecdsa::SigningKey;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_base::clock::Clock;
use tollhouse_store::Store;

use self::{
    gas::{GasBalance, MAX_GAS},
    nonces::Nonces,
    pending_txs::TxEnd,
    proxy::ProxyCheck,
    signed_order::SignedOrder,
    token::{SignedBy, Token, isValidSignatureCall},
    transaction::TxCall,
    tx_manager::TxManager,
};
use crate::{
    Asset, BurnedGas, ConfigError, Facilitator, Network, OfferedX402, PaymentId, PrepareError, SettleOutcome, SettlementGas,
    StartedSettlement, VerifyResult,
    facilitator::{
        chain::{
            events::TxReceipt,
            node::{BlockTag, Node, RpcError},
        },
        chain_view::ChainView,
        reason::RefusalText,
        settlement,
    },
    x402::permit2::PERMIT2,
};

/// Time limits for transactions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TxTimeouts {
    /// Time without a block after which a transaction is replaced by one that pays more. Default: 30 s.
    pub(crate) stuck: Duration,
    /// Time that a call waits for its settlement. Default: 60 s.
    pub(crate) settle: Duration,
}

impl Default for TxTimeouts {
    fn default() -> Self {
        Self { stuck: Duration::from_secs(30), settle: Duration::from_secs(60) }
    }
}

/// A facilitator that sends its own transactions.
pub(crate) struct EvmFacilitator {
    node: Arc<Node>,
    desk: TxManager,
    signer: Address,
    gas: Arc<GasBalance>,
    proxy: Arc<ProxyCheck>,
    clock: Clock,
    timeout: TxTimeouts,
}

impl fmt::Debug for EvmFacilitator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvmFacilitator").field("signer", &self.signer).finish_non_exhaustive()
    }
}

impl EvmFacilitator {
    /// Constructs a facilitator that sends through `node` and pays gas with `key`: 32 bytes in hex. If [the store is
    /// shared](Store::is_shared), its other hosts use the key too.
    ///
    /// # Errors
    ///
    /// An invalid key.
    pub(crate) fn new(node: Arc<Node>, key: &str, store: &Arc<dyn Store>, clock: Clock, timeout: TxTimeouts) -> Result<Self, ConfigError> {
        let bytes = zeroize::Zeroizing::new(hex::decode(key.trim().trim_start_matches("0x")).map_err(|_| ConfigError::GasKey)?);
        let key = SigningKey::from_slice(&bytes).map_err(|_| ConfigError::GasKey)?;
        let signer = Address::from_private_key(&key);
        let nonces = Nonces::of(store, format!("{}/{signer}", node.network().caip2), timeout.stuck);
        let desk = TxManager::open(Arc::clone(&node), key, timeout.stuck, nonces);
        let gas = GasBalance::watch(Arc::clone(&node), signer);
        let proxy = ProxyCheck::watch(Arc::clone(&node));
        Ok(Self { node, desk, signer, gas, proxy, clock, timeout })
    }

    /// Returns who signed it, or the refusal if nobody did.
    async fn signed_by(&self, order: &SignedOrder<'_>, payment: &OfferedX402) -> Result<SignedBy, VerifyResult> {
        if order.by_key(payment) {
            return Ok(SignedBy::Key);
        }
        let nobody = || invalid(RefusalText::of(order.codes().signature));
        let Ok(signature) = order.signature.parse::<Bytes>() else { return Err(nobody()) };
        let question = isValidSignatureCall { hash: order.hash(payment.asset), signature };
        match self.node.call_payer(payment.signed.sender(), &question.abi_encode(), BlockTag::Latest).await {
            // A call to an address without a contract returns nothing.
            Ok(answer) if answer.len() == 32 && answer[..4] == isValidSignatureCall::SELECTOR => Ok(SignedBy::Contract),
            Ok(_) => Err(nobody()),
            Err(error) if error.reverted() => Err(nobody()),
            Err(error) => Err(VerifyResult::Unavailable(error.to_string())),
        }
    }

    /// Simulates a call on the node, and returns the gas that it needs. Sender and fees are those of the real
    /// transaction. Otherwise a payer's contract could tell the simulation from it by `tx.gasprice`, and behave
    /// differently.
    async fn tried(&self, to: Address, data: &Bytes) -> Result<u64, RpcError> {
        let fees = self.desk.fees().await.map_err(RpcError::Unsent)?;
        let (max, tip) = (U128::from(fees.max), U128::from(fees.tip));
        let call = json!({ "from": self.signer, "to": to, "data": data, "maxFeePerGas": max, "maxPriorityFeePerGas": tip });
        let gas: U64 = self.node.ask("eth_estimateGas", json!([call])).await?;
        Ok(gas.to())
    }

    /// Reads a number from the token, or `None` if the call fails.
    async fn number(&self, asset: &Asset, question: Vec<u8>) -> Option<U256> {
        let answer = self.node.call(asset.address, &question, BlockTag::Latest).await.ok()?;
        Token::balanceOfCall::abi_decode_returns_validate(&answer).ok()
    }

    /// Finds out why an order was reverted.
    async fn diagnose(&self, order: &SignedOrder<'_>, payment: &OfferedX402) -> RefusalText {
        let codes = order.codes();
        if let Ok(true) = self.node.is_recently_spent(payment).await {
            return RefusalText::of(codes.spent);
        }
        let (account, amount) = order.costs();
        let balance = self.number(payment.asset, Token::balanceOfCall { account }.abi_encode()).await;
        if balance.is_some_and(|balance| balance < amount) {
            return RefusalText::of(codes.insufficient_funds);
        }
        if order.needs_allowance() {
            let allowance = Token::allowanceCall { owner: account, spender: PERMIT2 }.abi_encode();
            if self.number(payment.asset, allowance).await.is_some_and(|allowance| allowance < amount) {
                return RefusalText::of("permit2_allowance_required");
            }
        }
        RefusalText::of(codes.simulation)
    }

    /// Builds the call that moves the money, and simulates it on the newest block.
    async fn call(&self, order: &SignedOrder<'_>, payment: &OfferedX402) -> Result<TxCall, VerifyResult> {
        let by = self.signed_by(order, payment).await?;
        let to = order.contract(payment.asset).ok_or_else(|| VerifyResult::Unavailable("the token has no address".to_owned()))?;
        let data = order.data(&by);
        let gas = match self.tried(to, &data).await {
            // A payer's contract may do anything, but not at any cost.
            Ok(gas) if gas > MAX_GAS => return Err(invalid(RefusalText::of(order.codes().simulation))),
            Ok(gas) => gas,
            Err(error) if error.reverted() => return Err(invalid(self.diagnose(order, payment).await)),
            Err(error) => return Err(VerifyResult::Unavailable(error.to_string())),
        };
        // It is checked again at settlement, because an address may have got code since (EIP-7702).
        let code = self.node.ask::<Bytes>("eth_getCode", json!([payment.signed.sender(), "latest"])).await;
        // Without an answer the stricter limits apply.
        payment.note_code(code.map_or(true, |code| !code.is_empty()));
        // The gas limit is 1.5 times the estimate. The first estimate, made before the call runs, counts against the
        // payer's limits, so that later ones cannot raise it.
        let limit = payment.note_tried_gas(gas + gas / 2);
        if gas > limit {
            return Err(invalid(RefusalText::of(order.codes().simulation)));
        }
        Ok(TxCall { to, data, gas: limit.min(gas + gas / 2) })
    }

    async fn verified(&self, payment: &OfferedX402) -> Result<(), VerifyResult> {
        let order = SignedOrder::of(payment).map_err(invalid)?;
        order.fits(payment, self.clock.now(), self.signer).map_err(invalid)?;
        self.call(&order, payment).await?;
        self.gas.is_enough().map_err(VerifyResult::Unavailable)
    }

    /// Signs the transaction. Returns `None` if the nonce is already spent because somebody else sent the
    /// authorization.
    async fn signed(&self, payment: &OfferedX402) -> Result<Option<B256>, PrepareError> {
        let away = PrepareError::Away;
        let order = SignedOrder::of(payment).map_err(|reported| away(reported.sentence.to_owned()))?;
        match self.call(&order, payment).await {
            Ok(call) => self.desk.sign(call).await.map(Some).map_err(away),
            Err(VerifyResult::Unavailable(cause)) => Err(away(cause)),
            Err(VerifyResult::Invalid { reason, .. }) if reason == order.codes().spent => {
                payment.note_spent_before();
                Ok(None)
            }
            Err(VerifyResult::Invalid { reason, message }) => Err(PrepareError::Refused { reason, message }),
            Err(VerifyResult::Valid) => Err(away("it is valid and is not".to_owned())),
        }
    }

    /// Sends the signed transaction, and returns the outcome.
    async fn sent(&self, payment: &OfferedX402, started: &StartedSettlement, hash: B256) -> SettleOutcome {
        match tokio::time::timeout(self.timeout.settle, self.desk.send(hash)).await {
            Ok(TxEnd::Mined(receipt)) => self.mined(payment, started, &receipt, self.timeout.settle).await,
            Ok(TxEnd::Unsent(reason)) => {
                self.gas.refresh();
                SettleOutcome::Unsent(reason)
            }
            Ok(TxEnd::Lost) => self.node.nonce_state(payment, started.at).await,
            Err(_) => SettleOutcome::Unknown(format!("`{hash}` is in no block yet")),
        }
    }

    async fn mined(&self, payment: &OfferedX402, started: &StartedSettlement, receipt: &TxReceipt, timeout: Duration) -> SettleOutcome {
        let Ok(order) = SignedOrder::of(payment) else {
            return SettleOutcome::Unknown("the authorization does not read".to_owned());
        };
        if receipt.status != U64::ONE {
            self.gas.reverted(payment.id(), receipt);
        }
        if order.signed_by(receipt, payment.asset) {
            // A payment signed by a key costs what the token's code needs. Only a contract can choose to use more.
            let by_contract = payment.tried_gas().is_none_or(|tried| tried.by_contract);
            let settled = |receipt: &TxReceipt| {
                self.gas.settled(payment.id(), receipt, by_contract);
                SettleOutcome::Settled(settlement(payment, receipt.transaction_hash.to_string()).seen_in(receipt, false))
            };
            if self.node.confirmations() <= 1 {
                return settled(receipt);
            }
            return match self.node.confirmed(receipt.transaction_hash, timeout).await {
                Ok(receipt) if order.signed_by(&receipt, payment.asset) => settled(&receipt),
                Ok(_) => SettleOutcome::Unknown("its block was replaced, and it was reverted".to_owned()),
                Err(reason) => SettleOutcome::Unknown(reason),
            };
        }
        // It was reverted and moved nothing. But somebody else may have sent the authorization to the token before.
        match (self.node.is_recently_spent(payment).await, self.node.block(BlockTag::Safe).await) {
            (Ok(false), Ok(safe)) if receipt.block_number <= safe.number => {
                let reported = RefusalText::of(order.codes().failed);
                SettleOutcome::Refused { reason: reported.code.to_owned(), message: reported.sentence.to_owned() }
            }
            (Ok(false), Ok(_)) => SettleOutcome::Unknown("it was reverted in a block that may be replaced".to_owned()),
            (Ok(true), Ok(_)) => self.node.nonce_state(payment, started.at).await,
            (Err(reason), _) => SettleOutcome::Unknown(reason),
            (_, Err(error)) => SettleOutcome::Unknown(error.to_string()),
        }
    }

    /// Looks up the transaction of an intent. Returns its outcome, which is unknown while the transaction is pending,
    /// or `None` if no node has it.
    async fn found(&self, payment: &OfferedX402, started: &StartedSettlement, hash: B256) -> Result<Option<SettleOutcome>, RpcError> {
        let receipt: Option<TxReceipt> = self.node.ask("eth_getTransactionReceipt", json!([hash])).await?;
        if let Some(receipt) = receipt {
            return Ok(Some(self.mined(payment, started, &receipt, Duration::ZERO).await));
        }
        let pending: Option<PendingTx> = self.node.ask("eth_getTransactionByHash", json!([hash])).await?;
        let Some(PendingTx { nonce, from }) = pending else { return Ok(None) };
        // Somebody else may have sent it, with a nonce of its own.
        if let Some(nonce) = nonce.filter(|_| from.is_none_or(|from| from == self.signer)) {
            let used: U64 = self.node.ask("eth_getTransactionCount", json!([self.signer, "latest"])).await?;
            if nonce < used {
                // Another transaction with this nonce is in a block, so this one never will be, even if a node keeps
                // it.
                return Ok(None);
            }
            self.desk.track(nonce.to(), hash).await;
        }
        Ok(Some(SettleOutcome::Unknown(format!("`{hash}` is in no block yet"))))
    }
}

/// The fields of a pending transaction that are used.
#[derive(Deserialize)]
struct PendingTx {
    nonce: Option<U64>,
    from: Option<Address>,
}

fn invalid(reported: RefusalText) -> VerifyResult {
    VerifyResult::Invalid { reason: reported.code.to_owned(), message: reported.sentence.to_owned() }
}

#[async_trait]
impl Facilitator for EvmFacilitator {
    async fn verify(&self, payment: &OfferedX402) -> VerifyResult {
        if payment.asset.network != self.node.network() {
            return VerifyResult::Unavailable(format!("the node is not of {}", payment.asset.network.caip2));
        }
        self.verified(payment).await.err().unwrap_or(VerifyResult::Valid)
    }

    async fn balance(&self, payment: &OfferedX402) -> Option<u128> {
        self.node.balance(payment).await
    }

    async fn is_spent(&self, payment: &OfferedX402) -> bool {
        self.node.is_recently_spent(payment).await == Ok(true)
    }

    fn drain_burned(&self, payment: &PaymentId) -> Option<BurnedGas> {
        self.gas.drain_burned(payment)
    }

    fn take_used(&self, payment: &PaymentId) -> Option<SettlementGas> {
        self.gas.take_used(payment)
    }

    async fn prepare(&self, payment: &OfferedX402) -> Result<Option<String>, PrepareError> {
        Ok(self.signed(payment).await?.map(|hash| hash.to_string()))
    }

    fn abandon(&self, transaction: &str) {
        if let Ok(hash) = transaction.parse() {
            self.desk.give_back(hash);
        }
    }

    async fn settle(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        match started.transaction.as_deref().and_then(|hash| hash.parse().ok()) {
            Some(hash) => self.sent(payment, started, hash).await,
            None => self.node.nonce_state(payment, started.at).await,
        }
    }

    async fn resolve(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        if let Some(hash) = started.transaction.as_deref().and_then(|hash| hash.parse().ok()) {
            match self.found(payment, started, hash).await {
                Ok(Some(outcome)) => return outcome,
                Ok(None) if self.desk.has(hash).await => {
                    return SettleOutcome::Unknown(format!("`{hash}` is in no block yet, and is sent again"));
                }
                Ok(None) => {}
                Err(error) => return SettleOutcome::Unknown(error.to_string()),
            }
        }
        self.node.judge_again(payment, started.at, self.clock.now()).await
    }

    async fn look_up(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        self.node.look_up(payment, started).await
    }

    async fn find_again(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        let mut found = self.resolve(payment, started).await;
        let failed = SignedOrder::of(payment).ok().map(|order| order.codes().failed);
        if matches!(&found, SettleOutcome::Refused { reason, .. } if Some(reason.as_str()) == failed) {
            // The transaction was reverted, but the authorization is unused.
            found = self.node.judge_again(payment, started.at, self.clock.now()).await;
        }
        if matches!(found, SettleOutcome::Lost(_)) {
            // The nonce of the dropped transaction is unused too.
            self.desk.recount().await;
        }
        found
    }

    fn chain(&self) -> Option<Arc<dyn ChainView>> {
        Some(Arc::clone(&self.node) as _)
    }

    fn name(&self) -> &'static str {
        "evm"
    }

    fn meter(&self, _network: &Network) -> Option<String> {
        self.proxy.is_there().then(|| self.signer.to_checksum(None))
    }

    fn status(&self) -> Option<Value> {
        Some(self.gas.status())
    }
}
