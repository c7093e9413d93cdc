//! The simulated ledger: balances of play money, and the nonces that are spent. A nonce is forgotten some time after
//! its authorisation has expired, which refuses it from then on.

use std::{ops::Bound, sync::Arc};

use alloy_primitives::{Address, B256, keccak256};

use crate::money::{Network, PaymentConfig, gate::record::MARGIN};
use crate::{
    base::clock::Timestamp,
    store::{Check, Direction, Durability, KeyRange, Space, Store, StoreError, Write},
    tool::MicroUsd,
};

/// Most that one request to the faucet gives: 1,000 USD.
pub(in crate::money) const MAX_FAUCET: MicroUsd = MicroUsd(1_000_000_000);

/// Tries of a conditional commit before the store counts as away: each failure means that another succeeded.
const TRIES: usize = 10_000;

/// Nonces forgotten in one commit.
const BATCH: usize = 256;

/// A ledger that does not do what is asked.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum LedgerError {
    #[error("`{0}` is no address: 0x and 40 hex digits")]
    Address(String),
    #[error("the faucet gives at most {MAX_FAUCET} USD at once")]
    TooMuch,
    #[error("the payer has {balance} of the {wanted} micro-dollars")]
    Insufficient { balance: u64, wanted: u64 },
    #[error("the nonce is used")]
    NonceUsed { transaction: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One transfer under one nonce.
pub(in crate::money) struct Move {
    pub(in crate::money) from: Address,
    pub(in crate::money) to: Address,
    pub(in crate::money) micros: u64,
    pub(in crate::money) nonce: B256,
    pub(in crate::money) valid_before_secs: u64,
}

/// Balances in the smallest unit of the network's dollar token, kept in the store.
pub struct Ledger {
    store: Arc<dyn Store>,
    network: &'static Network,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("network", &self.network.caip2).finish_non_exhaustive()
    }
}

impl Ledger {
    /// Balances of the network's token in this store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, config: &PaymentConfig) -> Self {
        Self { store, network: config.network }
    }

    /// Adds to an address's balance and answers the new one.
    ///
    /// # Errors
    ///
    /// No address, more than [`MAX_FAUCET`], or the store's.
    pub async fn faucet(&self, address: &str, amount: MicroUsd) -> Result<MicroUsd, LedgerError> {
        if amount > MAX_FAUCET {
            return Err(LedgerError::TooMuch);
        }
        let key = self.balance_key(parse(address)?);
        for _ in 0..TRIES {
            let before = self.read(&key).await?;
            let after = before.0.saturating_add(amount.0);
            let write = Write::put(Space::LedgerBalances, key.clone(), after.to_be_bytes());
            let check = Check { space: Space::LedgerBalances, key: key.clone(), expected: before.1 };
            match self.store.commit(vec![check], vec![write], Durability::Durable).await {
                Ok(()) => return Ok(MicroUsd(after)),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// What an address has.
    ///
    /// # Errors
    ///
    /// No address, or the store's.
    pub async fn balance(&self, address: &str) -> Result<MicroUsd, LedgerError> {
        Ok(MicroUsd(self.read(&self.balance_key(parse(address)?)).await?.0))
    }

    /// The transaction that spent a nonce.
    pub(in crate::money) async fn transaction(&self, from: Address, nonce: B256) -> Result<Option<String>, LedgerError> {
        let spent = self.store.get(Space::LedgerNonces, &self.nonce_key(from, nonce)).await?;
        Ok(spent.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Moves money and spends the nonce, in one commit. Buffered: the commit that records the
    /// outcome is durable and takes this one with it.
    pub(in crate::money) async fn transfer(&self, transfer: &Move) -> Result<String, LedgerError> {
        let nonce = self.nonce_key(transfer.from, transfer.nonce);
        let transaction = keccak256([b"tollhouse simulated transaction\n", nonce.as_slice()].concat()).to_string();
        let (from, to) = (self.balance_key(transfer.from), self.balance_key(transfer.to));
        let until = transfer.valid_before_secs.saturating_add(MARGIN.as_secs()).saturating_mul(1_000);
        for _ in 0..TRIES {
            if let Some(transaction) = self.transaction(transfer.from, transfer.nonce).await? {
                return Err(LedgerError::NonceUsed { transaction });
            }
            let payer = self.read(&from).await?;
            let Some(rest) = payer.0.checked_sub(transfer.micros) else {
                return Err(LedgerError::Insufficient { balance: payer.0, wanted: transfer.micros });
            };
            let mut checks = vec![
                Check::absent(Space::LedgerNonces, nonce.clone()),
                Check { space: Space::LedgerBalances, key: from.clone(), expected: payer.1 },
            ];
            let balance = |key: &[u8], micros: u64| Write::put(Space::LedgerBalances, key, micros.to_be_bytes());
            let mut writes = vec![
                Write::put(Space::LedgerNonces, nonce.clone(), transaction.clone()),
                Write::put(Space::LedgerExpiry, [&until.to_be_bytes()[..], &nonce].concat(), vec![]),
            ];
            if from != to {
                let payee = self.read(&to).await?;
                checks.push(Check { space: Space::LedgerBalances, key: to.clone(), expected: payee.1 });
                writes.push(balance(&from, rest));
                writes.push(balance(&to, payee.0.saturating_add(transfer.micros)));
            }
            match self.store.commit(checks, writes, Durability::Buffered).await {
                Ok(()) => return Ok(transaction),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// Forgets the nonces of authorisations that expired long before `now`. Not while settlements are open: their end is
    /// found out by the nonce.
    ///
    /// # Errors
    ///
    /// The store's; the rest is forgotten the next time.
    pub async fn forget(&self, now: Timestamp) -> Result<(), StoreError> {
        let due = KeyRange { start: Bound::Unbounded, end: Bound::Excluded(now.0.to_be_bytes().to_vec()) };
        loop {
            let page = self.store.scan(Space::LedgerExpiry, due.clone(), BATCH, Direction::Forward).await?;
            if page.is_empty() {
                return Ok(());
            }
            let both = |(key, _): (Vec<u8>, Vec<u8>)| {
                let nonce = key.get(8..).unwrap_or_default().to_vec();
                [Write::delete(Space::LedgerNonces, nonce), Write::delete(Space::LedgerExpiry, key)]
            };
            self.store.commit(vec![], page.into_iter().flat_map(both).collect(), Durability::Buffered).await?;
        }
    }

    async fn read(&self, key: &[u8]) -> Result<(u64, Option<Vec<u8>>), StoreError> {
        let bytes = self.store.get(Space::LedgerBalances, key).await?;
        let balance = bytes.as_deref().and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes);
        Ok((balance, bytes))
    }

    fn balance_key(&self, address: Address) -> Vec<u8> {
        format!("{}/{address:#x}", self.network.caip2).into_bytes()
    }

    fn nonce_key(&self, from: Address, nonce: B256) -> Vec<u8> {
        format!("{}/{from:#x}/{nonce:#x}", self.network.caip2).into_bytes()
    }
}

fn parse(address: &str) -> Result<Address, LedgerError> {
    address.parse().map_err(|_| LedgerError::Address(address.chars().take(64).collect()))
}
