//! A facilitator that settles itself. It sends the signed authorization to the token, or a permit and its charge to
//! x402's proxy, and pays the gas with the host's own key.
//!
//! The transaction is signed before the intent is written, which contains its hash, and sent afterwards. Whatever is
//! lost in between, token and Permit2 move money at most once per nonce, and the chain shows the transaction that did.

mod gas;
mod nonces;
mod pending_txs;
mod proxy;
pub(super) mod signed_order;
mod transaction;
mod tx_manager;

use std::{sync::Arc, time::Duration};

use alloy_primitives::{Address, B256, Bytes, U64, U128, U256};
use alloy_sol_types::SolCall as _;
use async_trait::async_trait;
use k256::ecdsa::SigningKey;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::Mutex, time::Instant};
use tollhouse_base::{clock::Clock, log_gate::LogGate};
use tollhouse_store::Store;

pub(super) use self::gas::funds_of;
use self::{
    gas::{GasBalance, MAX_GAS},
    nonces::Nonces,
    pending_txs::TxEnd,
    proxy::ProxyCheck,
    signed_order::{SignedBy, SignedOrder, Token, UNDEPLOYED, isValidSignatureCall},
    transaction::TxCall,
    tx_manager::TxManager,
};
use crate::{
    Asset, BurnedGas, ConfigError, Facilitator, GasFunds, Network, OfferedX402, PaymentId, PrepareError, SettleOutcome, SettlementGas,
    StartedSettlement, VerifyResult,
    facilitator::{
        chain::{
            events::TxReceipt,
            node::{BlockTag, Node, RpcError},
        },
        reason::RefusalText,
        settlement,
    },
    x402::{eip3009::is_envelope, permit2::PERMIT2, signed::Order},
};

/// Returns the account of a key that pays for gas: 32 bytes in hex.
pub(super) fn signer_of(key: &str) -> Result<Address, ConfigError> {
    signing_key(key).map(|key| Address::from_private_key(&key))
}

fn signing_key(key: &str) -> Result<SigningKey, ConfigError> {
    let bytes = zeroize::Zeroizing::new(hex::decode(key.trim().trim_start_matches("0x")).map_err(|_| ConfigError::GasKey)?);
    SigningKey::from_slice(&bytes).map_err(|_| ConfigError::GasKey)
}

/// How long the result of a check of the node is reused, and how long the check may take.
const CHECK_TTL: Duration = Duration::from_secs(1);
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the verification of a payment may take. More than two simulations and a check of the node, which a payer's
/// contract can prolong.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(25);

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
    tx_manager: TxManager,
    signer: Address,
    gas: Arc<GasBalance>,
    proxy: Arc<ProxyCheck>,
    clock: Clock,
    timeout: TxTimeouts,
    /// When the node was last checked by [`EvmFacilitator::is_node_down`], and the result.
    checked: Mutex<Option<(Instant, bool)>>,
    provoked: LogGate,
}

impl EvmFacilitator {
    /// Constructs a facilitator that sends through `node` and pays gas with `key`: 32 bytes in hex. If [the store is
    /// shared](Store::is_shared), its other hosts use the key too.
    pub(crate) fn new(node: Arc<Node>, key: &str, store: &Arc<dyn Store>, clock: Clock, timeout: TxTimeouts) -> Result<Self, ConfigError> {
        let key = signing_key(key)?;
        let signer = Address::from_private_key(&key);
        let nonces = Nonces::of(store, format!("{}/{signer}", node.network().caip2), timeout.stuck);
        let tx_manager = TxManager::open(Arc::clone(&node), key, timeout.stuck, nonces);
        let gas = GasBalance::watch(Arc::clone(&node), signer);
        let proxy = ProxyCheck::watch(Arc::clone(&node));
        let (checked, provoked) = (Mutex::default(), LogGate::default());
        Ok(Self { node, tx_manager, signer, gas, proxy, clock, timeout, checked, provoked })
    }

    /// Returns who signed it, or the refusal if nobody did. The node is asked only if the payer's key did not sign, and
    /// asked to run code only if the payer has some.
    async fn signed_by(&self, order: &SignedOrder<'_>, payment: &OfferedX402, has_run: bool) -> Result<SignedBy, VerifyResult> {
        if payment.is_signed_by_key() == Some(true) {
            return Ok(SignedBy::Key);
        }
        let nobody = || RefusalText::of(order.codes().signature).invalid();
        let Ok(signature) = order.signature.parse::<Bytes>() else { return Err(nobody()) };
        if !self.has_code(order, has_run).await.map_err(|error| VerifyResult::Unavailable(error.to_string()))? {
            let refused = if is_envelope(&signature) { RefusalText::of(UNDEPLOYED).invalid() } else { nobody() };
            return Err(refused);
        }
        let call = isValidSignatureCall { hash: order.order.signing_hash(payment.asset), signature };
        match self.node.call_payer(payment.signed.sender(), &call.abi_encode(), BlockTag::Latest).await {
            // A call to an address without a contract returns nothing.
            Ok(answer) if answer.len() == 32 && answer[..4] == isValidSignatureCall::SELECTOR => Ok(SignedBy::Contract),
            Ok(_) => Err(nobody()),
            Err(error) if error.reverted() || self.is_provoked(&error, order, payment).await => Err(nobody()),
            Err(error) => Err(VerifyResult::Unavailable(error.to_string())),
        }
    }

    /// Returns whether the payer has code. Before the run, an answer of the last half minute is enough.
    async fn has_code(&self, order: &SignedOrder<'_>, has_run: bool) -> Result<bool, RpcError> {
        if has_run { self.node.has_code(order.payer).await } else { self.node.had_code(order.payer).await }
    }

    /// Returns whether the payer's code caused an unexpected error of a simulation: the payer's address has code, and the
    /// node works for everybody else.
    async fn is_provoked(&self, error: &RpcError, order: &SignedOrder<'_>, payment: &OfferedX402) -> bool {
        // The payer may have got code since it was asked for.
        if !error.may_be_provoked() || !self.has_code(order, true).await.unwrap_or(false) {
            return false;
        }
        if self.is_node_down(payment.asset).await {
            return false;
        }
        if let Some(skipped) = self.provoked.pass() {
            let id = payment.id();
            tracing::warn!(payment.id = %id, %error, skipped, "a payer's contract makes the node fail; its payment is refused");
        }
        true
    }

    /// Returns whether the node fails to simulate a call of the token that no payer can influence. A result is reused for
    /// a second.
    async fn is_node_down(&self, asset: &Asset) -> bool {
        let mut checked = self.checked.lock().await;
        if let Some((_, down)) = checked.filter(|(at, _)| at.elapsed() < CHECK_TTL) {
            return down;
        }
        let Ok(token) = asset.address.parse() else { return true };
        let data = Token::balanceOfCall { account: self.signer }.abi_encode().into();
        let simulated = tokio::time::timeout(CHECK_TIMEOUT, self.estimate_gas(token, &data)).await;
        let down = !matches!(simulated, Ok(Ok(_)));
        *checked = Some((Instant::now(), down));
        down
    }

    /// Simulates a call on the node, and returns the gas that it needs, at most [`MAX_GAS`]. Sender and fees are those of
    /// the real transaction. Otherwise a payer's contract could tell the simulation from it by `tx.gasprice`, and behave
    /// differently.
    async fn estimate_gas(&self, to: Address, data: &Bytes) -> Result<u64, RpcError> {
        let fees = self.tx_manager.fees().await.map_err(RpcError::Unsent)?;
        let (max, tip) = (U128::from(fees.max), U128::from(fees.tip));
        let gas = U64::from(MAX_GAS);
        let call = json!({ "from": self.signer, "to": to, "data": data, "gas": gas, "maxFeePerGas": max, "maxPriorityFeePerGas": tip });
        let gas: U64 = self.node.rpc("eth_estimateGas", json!([call])).await?;
        Ok(gas.to())
    }

    /// Reads an amount from the token, or `None` if the call fails.
    async fn read_amount(&self, asset: &'static Asset, call: Vec<u8>) -> Option<U256> {
        self.node.amount(asset, call).await.map(U256::from)
    }

    /// Finds out why an order was reverted.
    async fn diagnose(&self, order: &SignedOrder<'_>, payment: &OfferedX402) -> RefusalText {
        let codes = order.codes();
        if let Ok(true) = self.node.is_recently_spent(payment).await {
            return RefusalText::of(codes.spent);
        }
        let (account, amount) = (order.payer, order.amount);
        let balance = self.read_amount(payment.asset, Token::balanceOfCall { account }.abi_encode()).await;
        if balance.is_some_and(|balance| balance < amount) {
            return RefusalText::of(codes.insufficient_funds);
        }
        if matches!(order.order, Order::Permit(_)) {
            let allowance = Token::allowanceCall { owner: account, spender: PERMIT2 }.abi_encode();
            if self.read_amount(payment.asset, allowance).await.is_some_and(|allowance| allowance < amount) {
                return RefusalText::of("permit2_allowance_required");
            }
        }
        RefusalText::of(codes.simulation)
    }

    /// Builds the call that moves the money, and simulates it on the newest block: before the run, and again when it
    /// `has_run`, before the transaction is signed.
    async fn call(&self, order: &SignedOrder<'_>, payment: &OfferedX402, has_run: bool) -> Result<TxCall, VerifyResult> {
        let by = self.signed_by(order, payment, has_run).await?;
        let to = order.contract(payment.asset).ok_or_else(|| VerifyResult::Unavailable("the token has no address".to_owned()))?;
        let data = order.data(&by);
        let has_code = async {
            match by {
                SignedBy::Key => self.has_code(order, has_run).await.ok(),
                SignedBy::Contract => Some(true),
            }
        };
        // The code is checked again at settlement, because an address may have got code since (EIP-7702).
        let (simulated, has_code) = tokio::join!(self.estimate_gas(to, &data), has_code);
        if let Some(has_code) = has_code {
            payment.note_code(has_code);
        }
        let refused = || RefusalText::of(order.codes().simulation).invalid();
        let gas = match simulated {
            // A payer's contract may do anything, but not at any cost.
            Ok(gas) if gas > MAX_GAS => return Err(refused()),
            Ok(gas) => gas,
            Err(error) if error.reverted() => return Err(self.diagnose(order, payment).await.invalid()),
            Err(error) if self.is_provoked(&error, order, payment).await => return Err(refused()),
            Err(error) => return Err(VerifyResult::Unavailable(error.to_string())),
        };
        if has_code.is_none() {
            // The stricter limits apply.
            payment.note_code(true);
        }
        // The gas limit is 1.5 times the estimate. The first estimate, made before the call runs, counts against the
        // payer's limits, so that later ones cannot raise it.
        let limit = payment.note_tried_gas(gas + gas / 2);
        if gas > limit {
            return Err(RefusalText::of(order.codes().simulation).invalid());
        }
        Ok(TxCall { to, data, gas: limit.min(gas + gas / 2) })
    }

    async fn verified(&self, payment: &OfferedX402) -> Result<(), VerifyResult> {
        let order = SignedOrder::of(payment).map_err(RefusalText::invalid)?;
        order.fits(payment, self.clock.now(), Some(self.signer)).map_err(RefusalText::invalid)?;
        self.call(&order, payment, false).await?;
        self.gas.is_enough().map_err(VerifyResult::Unavailable)
    }

    /// Signs the transaction. Returns `None` if the nonce is already spent because somebody else sent the
    /// authorization.
    async fn signed(&self, payment: &OfferedX402) -> Result<Option<B256>, PrepareError> {
        let away = PrepareError::Away;
        let order = SignedOrder::of(payment).map_err(|refusal| away(refusal.sentence.to_owned()))?;
        match self.call(&order, payment, true).await {
            Ok(call) => self.tx_manager.sign(call).await.map(Some).map_err(away),
            Err(VerifyResult::Unavailable(cause)) => Err(away(cause)),
            Err(VerifyResult::Invalid { reason, .. }) if reason == order.codes().spent => {
                payment.note_spent_before();
                Ok(None)
            }
            Err(VerifyResult::Invalid { reason, message }) => Err(PrepareError::Refused { reason, message }),
            Err(VerifyResult::Valid) => Err(away("the node reports both that the payment is valid and that it is not".to_owned())),
        }
    }

    /// Sends the signed transaction, and returns the outcome.
    async fn sent(&self, payment: &OfferedX402, started: &StartedSettlement, hash: B256) -> SettleOutcome {
        match tokio::time::timeout(self.timeout.settle, self.tx_manager.send(hash)).await {
            Ok(TxEnd::Mined(receipt)) => self.mined(payment, started, &receipt, self.timeout.settle).await,
            Ok(TxEnd::Unsent(reason)) => {
                self.gas.refresh();
                SettleOutcome::Unsent(reason)
            }
            Ok(TxEnd::Lost) => self.node.nonce_state(payment, started.at).await,
            Err(_) => SettleOutcome::Unknown(format!("`{hash}` is not in a block yet")),
        }
    }

    async fn mined(&self, payment: &OfferedX402, started: &StartedSettlement, receipt: &TxReceipt, timeout: Duration) -> SettleOutcome {
        let Ok(order) = SignedOrder::of(payment) else {
            return SettleOutcome::Unknown("the authorization cannot be read".to_owned());
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
        // The transaction was reverted and moved nothing. But somebody else may have sent the authorization to the token before.
        match (self.node.is_recently_spent(payment).await, self.node.block(BlockTag::Safe).await) {
            (Ok(false), Ok(safe)) if receipt.block_number <= safe.number => RefusalText::of(order.codes().failed).refused(),
            (Ok(false), Ok(_)) => SettleOutcome::Unknown("it was reverted in a block that is not final yet".to_owned()),
            (Ok(true), Ok(_)) => self.node.nonce_state(payment, started.at).await,
            (Err(reason), _) => SettleOutcome::Unknown(reason),
            (_, Err(error)) => SettleOutcome::Unknown(error.to_string()),
        }
    }

    /// Looks up the transaction of an intent. Returns its outcome, which is unknown while the transaction is pending,
    /// or `None` if no node has it.
    async fn found(&self, payment: &OfferedX402, started: &StartedSettlement, hash: B256) -> Result<Option<SettleOutcome>, RpcError> {
        if let Some(receipt) = self.node.receipt(hash).await? {
            return Ok(Some(self.mined(payment, started, &receipt, Duration::ZERO).await));
        }
        let pending: Option<PendingTx> = self.node.rpc("eth_getTransactionByHash", json!([hash])).await?;
        let Some(PendingTx { nonce, from }) = pending else { return Ok(None) };
        // Somebody else may have sent it, with a nonce of its own.
        if let Some(nonce) = nonce.filter(|_| from.is_none_or(|from| from == self.signer)) {
            let nonce = nonce.to();
            if nonce < self.node.tx_count(self.signer, "latest").await? {
                // Another transaction with this nonce is in a block, so this one never will be, even if a node keeps
                // it.
                return Ok(None);
            }
            self.tx_manager.track(nonce, hash).await;
        }
        Ok(Some(SettleOutcome::Unknown(format!("`{hash}` is not in a block yet"))))
    }
}

/// The fields of a pending transaction that are used.
#[derive(Deserialize)]
struct PendingTx {
    nonce: Option<U64>,
    from: Option<Address>,
}

#[async_trait]
impl Facilitator for EvmFacilitator {
    async fn verify(&self, payment: &OfferedX402) -> VerifyResult {
        if payment.asset.network != self.node.network() {
            return VerifyResult::Unavailable(format!("the node does not serve {}", payment.asset.network.caip2));
        }
        match tokio::time::timeout(VERIFY_TIMEOUT, self.verified(payment)).await {
            Ok(verified) => verified.err().unwrap_or(VerifyResult::Valid),
            Err(_) => VerifyResult::Unavailable(format!("the node did not answer within {} s", VERIFY_TIMEOUT.as_secs())),
        }
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

    async fn is_down(&self, payment: &OfferedX402) -> bool {
        self.is_node_down(payment.asset).await
    }

    fn abandon(&self, transaction: &str) {
        if let Ok(hash) = transaction.parse() {
            self.tx_manager.release(hash);
        }
    }

    async fn settle(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        self.node.forget_balance(payment);
        match started.transaction.as_deref().and_then(|hash| hash.parse().ok()) {
            Some(hash) => self.sent(payment, started, hash).await,
            None => self.node.nonce_state(payment, started.at).await,
        }
    }

    async fn resolve(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        if let Some(hash) = started.transaction.as_deref().and_then(|hash| hash.parse().ok()) {
            match self.found(payment, started, hash).await {
                Ok(Some(outcome)) => return outcome,
                Ok(None) if self.tx_manager.has(hash).await => {
                    return SettleOutcome::Unknown(format!("`{hash}` is not in a block yet, and is sent again"));
                }
                Ok(None) => {}
                Err(error) => return SettleOutcome::Unknown(error.to_string()),
            }
        }
        self.node.judge_again(payment, started.at, self.clock.now()).await
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
            self.tx_manager.recount().await;
        }
        found
    }

    fn node(&self) -> Option<&Arc<Node>> {
        Some(&self.node)
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

    fn gas_funds(&self) -> Option<GasFunds> {
        self.gas.funds()
    }
}
