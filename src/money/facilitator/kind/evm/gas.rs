//! The signer's balance for gas.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
    time::Duration,
};

use alloy_primitives::{Address, B256, U128, U256};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tollhouse_base::lock::Lock;

use crate::{
    BurnedGas, GasFunds, PaymentId, SettlementGas,
    facilitator::chain::{
        events::TxReceipt,
        node::{CONTRACT_GAS, Node, RpcError},
    },
};

/// Gas of a transfer for estimating the remaining settlements: the maximum of the dollar tokens.
const TRANSFER_GAS: u64 = 110_000;

/// Maximum gas of a transfer, above that of any key. It prevents a payer's contract from draining the signer.
pub(super) const MAX_GAS: u64 = CONTRACT_GAS;

/// Interval between balance checks, and the interval while the balance is empty.
const PAUSE: Duration = Duration::from_secs(60);
const EMPTY_PAUSE: Duration = Duration::from_secs(5);

/// Number of transactions that are remembered.
const MOST_COUNTED: usize = 4_096;

/// The signer's balance as last seen.
#[derive(Debug)]
pub(super) struct GasBalance {
    signer: Address,
    seen: Lock<Option<SeenBalance>>,
    again: Notify,
    /// Gas burned by reverted transactions.
    burned: Lock<Counted<BurnedGas>>,
    /// Gas used by successful transactions. Kept apart from reverted ones, because many successful transactions would push
    /// them out.
    used: Lock<Counted<SettlementGas>>,
}

/// Gas of transactions, each counted once.
#[derive(Debug)]
struct Counted<G> {
    /// The transactions counted last. Each is looked up again until its block is final.
    transactions: VecDeque<B256>,
    /// Gas that was not taken yet.
    of: HashMap<PaymentId, G>,
}

impl<G> Default for Counted<G> {
    fn default() -> Self {
        Self { transactions: VecDeque::new(), of: HashMap::new() }
    }
}

impl<G> Counted<G> {
    /// Counts the gas of a transaction, unless it was counted before.
    fn add(&mut self, payment: PaymentId, transaction: B256, gas: G) {
        if self.transactions.contains(&transaction) {
            return;
        }
        if self.transactions.len() >= MOST_COUNTED {
            self.transactions.pop_front();
        }
        self.transactions.push_back(transaction);
        if self.of.len() < MOST_COUNTED {
            self.of.insert(payment, gas);
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct SeenBalance {
    /// In the smallest unit of the network's native currency.
    balance: U256,
    /// Number of settlements that it pays for at the gas price of that time.
    settlements: u64,
}

impl SeenBalance {
    fn is_low(self) -> bool {
        self.funds().is_low()
    }

    fn funds(self) -> GasFunds {
        GasFunds { wei: self.balance.saturating_to(), settlements: self.settlements }
    }

    /// Reads the balance of an account, and how many settlements it pays for at the current gas price.
    async fn read(node: &Node, account: Address) -> Result<Self, RpcError> {
        let balance: U256 = node.rpc("eth_getBalance", json!([account, "latest"])).await?;
        let price: U128 = node.rpc("eth_gasPrice", json!([])).await?;
        let one = U256::from(TRANSFER_GAS).saturating_mul(U256::from(price.to::<u128>().max(1)));
        Ok(Self { balance, settlements: (balance / one).saturating_to() })
    }
}

impl GasBalance {
    /// Watches the balance of `signer` until the returned value is dropped.
    pub(super) fn watch(node: Arc<Node>, signer: Address) -> Arc<Self> {
        let gas = Arc::new(Self { signer, seen: Lock::default(), again: Notify::new(), burned: Lock::default(), used: Lock::default() });
        tokio::spawn(watch(Arc::downgrade(&gas), node));
        gas
    }

    /// Requests a check of the balance soon, because it may be used up.
    pub(super) fn refresh(&self) {
        self.again.notify_one();
    }

    /// Fails if the last seen balance is too low for a settlement.
    pub(super) fn is_enough(&self) -> Result<(), String> {
        match *self.seen.lock() {
            Some(seen) if seen.settlements == 0 => Err(format!("`{}` does not have enough to pay for gas", self.signer)),
            _ => Ok(()),
        }
    }

    /// Counts the gas burned by a reverted transaction, once.
    pub(super) fn reverted(&self, payment: PaymentId, receipt: &TxReceipt) {
        let gas = cost(receipt.gas_used.to(), receipt);
        self.burned.lock().add(payment, receipt.transaction_hash, gas);
    }

    /// Counts the gas that a successful transaction has used, once. `by_contract` says whether the payer is
    /// a contract, which can choose that amount.
    pub(super) fn settled(&self, payment: PaymentId, receipt: &TxReceipt, by_contract: bool) {
        let gas: u64 = receipt.gas_used.to();
        let excess = if by_contract { gas.saturating_sub(BurnedGas::ORDINARY) } else { 0 };
        let used = SettlementGas { ordinary: cost(gas - excess, receipt), excess: cost(excess, receipt) };
        self.used.lock().add(payment, receipt.transaction_hash, used);
    }

    /// Takes the gas that a successful settlement has used and that was not taken before.
    pub(super) fn take_used(&self, payment: &PaymentId) -> Option<SettlementGas> {
        self.used.lock().of.remove(payment)
    }

    /// Takes the gas burned for a payment that was not taken before.
    pub(super) fn drain_burned(&self, payment: &PaymentId) -> Option<BurnedGas> {
        self.burned.lock().of.remove(payment)
    }

    /// Returns the status for operators.
    pub(super) fn status(&self) -> Value {
        let seen = *self.seen.lock();
        json!({
            "signer": self.signer.to_checksum(None),
            "balanceWei": seen.map(|seen| seen.balance.to_string()),
            "settlementsLeft": seen.map(|seen| seen.settlements),
            "low": seen.map(SeenBalance::is_low),
        })
    }

    /// Returns the balance as last seen, if it was.
    pub(super) fn funds(&self) -> Option<GasFunds> {
        self.seen.lock().map(SeenBalance::funds)
    }

    async fn look(&self, node: &Node) -> Result<(), RpcError> {
        let seen = SeenBalance::read(node, self.signer).await?;
        if seen.is_low() {
            tracing::warn!(signer = %self.signer, seen.settlements, "the signer's balance for gas is low");
        }
        *self.seen.lock() = Some(seen);
        Ok(())
    }
}

/// Reads the funds of an account that pays for gas.
pub(in crate::facilitator::kind) async fn funds_of(node: &Node, account: Address) -> Result<GasFunds, RpcError> {
    SeenBalance::read(node, account).await.map(SeenBalance::funds)
}

/// Returns an amount of gas with its cost at the price of the transaction with this receipt.
fn cost(gas: u64, receipt: &TxReceipt) -> BurnedGas {
    BurnedGas { gas, wei: u128::from(gas).saturating_mul(receipt.effective_gas_price.to()) }
}

async fn watch(gas: Weak<GasBalance>, node: Arc<Node>) {
    while let Some(gas) = gas.upgrade() {
        if let Err(error) = gas.look(&node).await {
            tracing::warn!(%error, "the signer's balance could not be read");
        }
        let pause = if gas.is_enough().is_ok() { PAUSE } else { EMPTY_PAUSE };
        _ = tokio::time::timeout(pause, gas.again.notified()).await;
    }
}
