//! The simulated ledger: balances of play money, and spent nonces. A nonce is deleted some time after its authorization
//! has expired, since it is refused from then on anyway.

use std::sync::Arc;

use alloy_primitives::{Address, B256, keccak256};
use tollhouse_base::{boxed, clock::Timestamp};
use tollhouse_store::{Batch, Counter, Durability, Store, StoreError, SumLimit, Table, schema};
use tollhouse_tool::MicroUsd;

use crate::{Asset, payments::record::MARGIN};

const BALANCES: Counter<String> = schema::LEDGER_BALANCES.counting();
const NONCES: Table<String, String> = schema::LEDGER_NONCES.holding();
const EXPIRY: Table<(Timestamp, String), ()> = schema::LEDGER_EXPIRY.holding();

/// Maximum balance.
const FULL: SumLimit = SumLimit::Ceiling(i64::MAX as i128);

/// Maximum of one faucet request: 1,000 USD.
pub(crate) const MAX_FAUCET: MicroUsd = MicroUsd(1_000_000_000);

/// Number of nonces deleted per commit.
const BATCH: usize = 256;

/// Why the ledger refuses a request.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "each error message describes its variant")]
pub enum LedgerError {
    #[error("`{0}` is not an address; an address has `0x` and 40 hex digits")]
    Address(String),
    #[error("the faucet gives at most {MAX_FAUCET} USD per request")]
    TooMuch,
    #[error("the payer has {balance} of {requested} micro-dollars")]
    Insufficient { balance: u64, requested: u64 },
    #[error("the nonce was already used")]
    NonceUsed,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A transfer and the nonce that it spends.
pub(crate) struct Move {
    pub(crate) asset: &'static Asset,
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) micros: u64,
    pub(crate) nonce: B256,
    pub(crate) valid_before_secs: u64,
}

/// Balances of dollar tokens in micro-dollars, stored in the store.
pub struct Ledger {
    store: Arc<dyn Store>,
    /// The default token.
    asset: &'static Asset,
}

impl Ledger {
    /// Constructs a ledger in `store` whose default token is `asset`.
    pub fn new(store: Arc<dyn Store>, asset: &'static Asset) -> Self {
        Self { store, asset }
    }

    /// Returns the default token.
    pub fn asset(&self) -> &'static Asset {
        self.asset
    }

    /// Adds to an address's balance of the default token, and returns the new one.
    #[cfg(test)]
    pub(crate) async fn faucet(&self, address: &str, amount: MicroUsd) -> Result<MicroUsd, LedgerError> {
        self.faucet_of(self.asset, address, amount).await
    }

    /// Adds to an address's balance of a token, and returns the new one. An amount above [`MAX_FAUCET`] is rejected.
    #[boxed]
    pub async fn faucet_of(&self, asset: &Asset, address: &str, amount: MicroUsd) -> Result<MicroUsd, LedgerError> {
        if amount > MAX_FAUCET {
            return Err(LedgerError::TooMuch);
        }
        let key = balance_key(asset, parse(address)?);
        let mut batch = Batch::new();
        batch.add(&BALANCES, &key, signed(amount.0), FULL);
        let sums = batch.commit(&*self.store, Durability::Durable).await?;
        Ok(MicroUsd(sums.first().copied().map_or(0, unsigned)))
    }

    /// Returns the balance of an address.
    #[boxed]
    pub async fn balance(&self, address: &str) -> Result<MicroUsd, LedgerError> {
        self.balance_of(self.asset, address).await
    }

    /// Returns an address's balance of a token.
    #[boxed]
    pub async fn balance_of(&self, asset: &Asset, address: &str) -> Result<MicroUsd, LedgerError> {
        Ok(MicroUsd(unsigned(BALANCES.get(&*self.store, &balance_key(asset, parse(address)?)).await?)))
    }

    /// Returns an address's balance of a token after it is durable. A transfer can be read before it is durable, so
    /// this is the balance to show to clients.
    #[boxed]
    pub async fn balance_floor(&self, asset: &Asset, address: &str) -> Result<MicroUsd, LedgerError> {
        let balance = self.balance_of(asset, address).await?;
        Batch::new().commit(&*self.store, Durability::Durable).await?;
        Ok(balance)
    }

    /// Returns the transaction that spent a nonce.
    pub(crate) async fn transaction(&self, asset: &Asset, from: Address, nonce: B256) -> Result<Option<String>, LedgerError> {
        Ok(NONCES.get(&*self.store, &nonce_key(asset, from, nonce)).await?)
    }

    /// Moves money and spends the nonce in one commit. If the store is only in this process, the commit need not be
    /// durable, because the commit of the outcome also flushes it.
    pub(crate) async fn transfer(&self, transfer: &Move) -> Result<String, LedgerError> {
        let asset = transfer.asset;
        let nonce = nonce_key(asset, transfer.from, transfer.nonce);
        let transaction = keccak256([b"tollhouse simulated transaction\n", nonce.as_bytes()].concat()).to_string();
        let (from, to) = (balance_key(asset, transfer.from), balance_key(asset, transfer.to));
        let until = transfer.valid_before_secs.saturating_add(MARGIN.as_secs()).saturating_mul(1_000);
        if self.transaction(asset, transfer.from, transfer.nonce).await?.is_some() {
            return Err(LedgerError::NonceUsed);
        }
        let mut batch = Batch::new();
        batch.insert(&NONCES, &nonce, &transaction).put(&EXPIRY, &(Timestamp(until), nonce.clone()), &());
        batch.add(&BALANCES, &from, -signed(transfer.micros), SumLimit::Floor(0)).add(&BALANCES, &to, signed(transfer.micros), FULL);
        match batch.commit(&*self.store, Durability::built_on(&*self.store)).await {
            Ok(_) => Ok(transaction),
            Err(StoreError::Beyond { limit: SumLimit::Floor(_), sum, .. }) => {
                Err(LedgerError::Insufficient { balance: unsigned(sum), requested: transfer.micros })
            }
            // A concurrent transfer with the same nonce was faster.
            Err(StoreError::Conflict) => Err(LedgerError::NonceUsed),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes the nonces of authorizations that expired well before `since`, when the oldest open settlement of any
    /// host of the store began. Open settlements are looked up by their nonce.
    /// After an error the next run deletes the rest.
    #[boxed]
    pub async fn forget(&self, since: Timestamp) -> Result<(), StoreError> {
        let mut due = EXPIRY.all().before(&since);
        while let Some(page) = EXPIRY.sound(&*self.store, &mut due, BATCH).await? {
            let mut batch = Batch::new();
            for row in &page {
                batch.delete(&NONCES, &row.key.1).sweep(&EXPIRY, row);
            }
            batch.commit(&*self.store, Durability::Buffered).await?;
            EXPIRY.expired(page.len() as u64);
        }
        Ok(())
    }
}

fn balance_key(asset: &Asset, address: Address) -> String {
    format!("{}/{address:#x}", space(asset))
}

fn nonce_key(asset: &Asset, from: Address, nonce: B256) -> String {
    format!("{}/{from:#x}/{nonce:#x}", space(asset))
}

/// Returns the key prefix of a token.
fn space(asset: &Asset) -> String {
    format!("{}/{}", asset.network.caip2, asset.address.to_ascii_lowercase())
}

fn parse(address: &str) -> Result<Address, LedgerError> {
    address.parse().map_err(|_| LedgerError::Address(address.chars().take(64).collect()))
}

/// Converts an amount to a sum, capped at the maximum.
fn signed(micros: u64) -> i128 {
    i64::try_from(micros).unwrap_or(i64::MAX).into()
}

/// Converts a sum to an amount. No balance is negative.
fn unsigned(sum: i128) -> u64 {
    u64::try_from(sum).unwrap_or(0)
}
