//! The signer's balance for gas.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use alloy_primitives::{Address, B256, U128, U256};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    BurnedGas, PaymentId,
    facilitator::chain::{
        events::Receipt,
        node::{CONTRACT_GAS, Node, RpcError},
    },
};

/// Gas of a transfer for estimating the remaining settlements: the maximum of the dollar tokens.
const TRANSFER_GAS: u64 = 110_000;

/// Maximum gas of a transfer, above that of any key. It prevents a payer's contract from draining the signer.
pub(super) const MOST_GAS: u64 = CONTRACT_GAS;

/// Interval between balance checks, and the interval while the balance is empty.
const PAUSE: Duration = Duration::from_secs(60);
const EMPTY_PAUSE: Duration = Duration::from_secs(5);

/// Number of transactions that are remembered.
const MOST_COUNTED: usize = 4_096;

/// Remaining settlements below which the operator is warned.
const FEW: u64 = 1_000;

/// The signer's balance as last seen.
#[derive(Debug)]
pub(super) struct Gas {
    signer: Address,
    seen: Mutex<Option<Seen>>,
    again: Notify,
    burned: Mutex<Burned>,
}

/// Gas burned by reverted transactions, and used by successful ones beyond an ordinary settlement.
#[derive(Debug, Default)]
struct Burned {
    /// The transactions counted last. Each is looked up again until its block will stay.
    counted: VecDeque<B256>,
    /// Amounts of reverted transactions that were not taken yet.
    of: HashMap<PaymentId, BurnedGas>,
    /// Amounts of successful transactions that were not taken yet.
    excess: HashMap<PaymentId, BurnedGas>,
}

impl Burned {
    /// Records that a transaction is counted. Returns false if it was counted before.
    fn count(&mut self, transaction: B256) -> bool {
        if self.counted.contains(&transaction) {
            return false;
        }
        if self.counted.len() >= MOST_COUNTED {
            self.counted.pop_front();
        }
        self.counted.push_back(transaction);
        true
    }
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    /// In the smallest unit of the network's native currency.
    balance: U256,
    /// Number of settlements that it pays for at the gas price of that time.
    settlements: u64,
}

impl Seen {
    fn low(self) -> bool {
        self.settlements < FEW
    }
}

impl Gas {
    /// Watches the balance of `signer` until the returned value is dropped.
    pub(super) fn watch(node: Arc<Node>, signer: Address) -> Arc<Self> {
        let gas = Arc::new(Self { signer, seen: Mutex::default(), again: Notify::new(), burned: Mutex::default() });
        tokio::spawn(watch(Arc::downgrade(&gas), node));
        gas
    }

    /// Requests a check of the balance soon, because it may be used up.
    pub(super) fn look_again(&self) {
        self.again.notify_one();
    }

    /// Fails if the last seen balance is too low for a settlement.
    pub(super) fn suffices(&self) -> Result<(), String> {
        match *self.seen() {
            Some(seen) if seen.settlements == 0 => Err(format!("`{}` has too little to pay gas with", self.signer)),
            _ => Ok(()),
        }
    }

    /// Counts the gas burned by a reverted transaction, once.
    pub(super) fn reverted(&self, payment: PaymentId, receipt: &Receipt) {
        let mut burned = self.burned.lock().unwrap_or_else(PoisonError::into_inner);
        if !burned.count(receipt.transaction_hash) {
            return;
        }
        let gas: u64 = receipt.gas_used.to();
        let wei = u128::from(gas).saturating_mul(receipt.effective_gas_price.to());
        if burned.of.len() < MOST_COUNTED {
            burned.of.insert(payment, BurnedGas { gas, wei });
        }
    }

    /// Counts the gas that a successful transaction has used beyond an ordinary settlement, once.
    pub(super) fn paid(&self, payment: PaymentId, receipt: &Receipt) {
        let gas = receipt.gas_used.to::<u64>().saturating_sub(BurnedGas::ORDINARY);
        if gas == 0 {
            return;
        }
        let mut burned = self.burned.lock().unwrap_or_else(PoisonError::into_inner);
        if burned.count(receipt.transaction_hash) && burned.excess.len() < MOST_COUNTED {
            let wei = u128::from(gas).saturating_mul(receipt.effective_gas_price.to());
            burned.excess.insert(payment, BurnedGas { gas, wei });
        }
    }

    /// Takes the gas that a successful settlement has used beyond an ordinary one and that was not taken before.
    pub(super) fn take_excess(&self, payment: &PaymentId) -> Option<BurnedGas> {
        self.burned.lock().unwrap_or_else(PoisonError::into_inner).excess.remove(payment)
    }

    /// Takes the gas burned for a payment that was not taken before.
    pub(super) fn take_burned(&self, payment: &PaymentId) -> Option<BurnedGas> {
        self.burned.lock().unwrap_or_else(PoisonError::into_inner).of.remove(payment)
    }

    /// Returns the status for operators.
    pub(super) fn status(&self) -> Value {
        let seen = *self.seen();
        json!({
            "signer": self.signer.to_checksum(None),
            "balanceWei": seen.map(|seen| seen.balance.to_string()),
            "settlementsLeft": seen.map(|seen| seen.settlements),
            "low": seen.map(Seen::low),
        })
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Option<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look(&self, node: &Node) -> Result<(), RpcError> {
        let balance: U256 = node.ask("eth_getBalance", json!([self.signer, "latest"])).await?;
        let price: U128 = node.ask("eth_gasPrice", json!([])).await?;
        let one = U256::from(TRANSFER_GAS).saturating_mul(U256::from(price.to::<u128>().max(1)));
        let seen = Seen { balance, settlements: (balance / one).saturating_to() };
        if seen.low() {
            tracing::warn!(signer = %self.signer, seen.settlements, "the signer has little left to pay gas with");
        }
        *self.seen() = Some(seen);
        Ok(())
    }
}

async fn watch(gas: Weak<Gas>, node: Arc<Node>) {
    while let Some(gas) = gas.upgrade() {
        if let Err(error) = gas.look(&node).await {
            tracing::warn!(%error, "what the signer has left to pay gas with is not known");
        }
        let pause = if gas.suffices().is_ok() { PAUSE } else { EMPTY_PAUSE };
        _ = tokio::time::timeout(pause, gas.again.notified()).await;
    }
}
