//! The kind of a store's money: play money, tokens of a test network, or real money. Credits, earnings and payouts are in
//! dollars whichever money was paid, so one store cannot hold two kinds.

use std::fmt;
use tollhouse_base::boxed;

use serde::{Deserialize, Serialize};
use tollhouse_replica::Replica;
use tollhouse_store::{Batch, Durability, Row, Store, StoreError, Table, schema};

const KIND: Table<(), MoneyKind> = schema::MONEY_KIND.holding();

/// The kind of money that a store contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MoneyKind {
    /// Play money of the simulated facilitator.
    Simulated,
    /// Tokens of test networks, which are worthless.
    Test,
    /// Money on main networks.
    Real,
}
tollhouse_store::json_values!(MoneyKind);

impl MoneyKind {
    /// Returns the settings of a host that takes it, for a message.
    #[must_use]
    pub fn settings(self) -> &'static str {
        match self {
            Self::Simulated => "set `TOLLHOUSE_FACILITATOR` to `simulated`",
            Self::Test => "set `TOLLHOUSE_FACILITATOR` to `http` or `evm`, and `TOLLHOUSE_NETWORK` to a test network",
            Self::Real => "set `TOLLHOUSE_FACILITATOR` to `http` or `evm`, and `TOLLHOUSE_NETWORK` to networks of real money",
        }
    }
}

impl fmt::Display for MoneyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Simulated => "play money",
            Self::Test => "tokens of a test network",
            Self::Real => "real money",
        })
    }
}

/// Why a host cannot serve a store with its kind of money.
#[derive(Debug, thiserror::Error)]
pub enum MoneyKindError {
    /// The store has another kind.
    #[error(
        "the store is for {theirs}, and this host takes {ours}, which would count the same. To take {ours}, start with a new data folder \
         (`TOLLHOUSE_DATA`) or database (`TOLLHOUSE_STORE`). To go on with this store, {settings}",
        settings = .theirs.settings()
    )]
    Other {
        /// The kind of this host.
        ours: MoneyKind,
        /// The kind of the store.
        theirs: MoneyKind,
    },
    /// The kind could not be read or written.
    #[error("the kind of the store's money could not be read")]
    Store(#[from] StoreError),
}

/// Returns the kind of the money in a store, or `None` if it contains no money, so that hosts of any kind can start.
#[boxed]
pub async fn kind_in_use(store: &dyn Store) -> Result<Option<MoneyKind>, StoreError> {
    if has_money(store).await? { KIND.get(store, &()).await } else { Ok(None) }
}

/// Refuses a store of another kind of money, unless it contains no money yet and no other host serves it. Writes
/// nothing.
#[boxed]
pub async fn check_kind(store: &dyn Store, replica: &Replica, ours: MoneyKind) -> Result<(), MoneyKindError> {
    let Some(theirs) = KIND.get(store, &()).await?.filter(|theirs| *theirs != ours) else { return Ok(()) };
    if replica.has_others().await? || has_money(store).await? {
        return Err(MoneyKindError::Other { ours, theirs });
    }
    Ok(())
}

/// Makes this host's kind of money that of the store, durably. The host must hold its lease and must not have taken
/// money yet.
///
/// # Errors
///
/// The store is of another kind, and contains money or has other hosts.
#[boxed]
pub async fn settle_kind(store: &dyn Store, replica: &Replica, ours: MoneyKind) -> Result<(), MoneyKindError> {
    loop {
        let row = KIND.row(store, &()).await?;
        if row.as_ref().is_some_and(|row| row.value == ours) {
            return Ok(());
        }
        check_kind(store, replica, ours).await?;
        let mut batch = Batch::new();
        batch.replace_or_insert(&KIND, row.as_ref(), &(), &ours);
        if !batch.commit_if_unchanged(store, Durability::Durable).await? {
            continue;
        }
        let Some(row) = row else { return Ok(()) };
        // A host that took its lease after the check may have read the kind before.
        if replica.has_others().await? {
            return put_back(store, row, ours).await;
        }
    }
}

/// Restores the kind that another host may have read.
async fn put_back(store: &dyn Store, before: Row<(), MoneyKind>, ours: MoneyKind) -> Result<(), MoneyKindError> {
    let theirs = before.value;
    let mut batch = Batch::new();
    batch.replace(&KIND, &KIND.own((), ours), &before.value);
    batch.commit_if_unchanged(store, Durability::Durable).await?;
    Err(MoneyKindError::Other { ours, theirs })
}

/// Returns whether a store contains money of any kind, or payments that may have moved some.
async fn has_money(store: &dyn Store) -> Result<bool, StoreError> {
    Ok(schema::POSTINGS.has_rows(store).await?
        || schema::CREDITS.has_rows(store).await?
        || schema::RECEIPTS.has_rows(store).await?
        || schema::PAYMENTS.has_rows(store).await?
        || schema::LEDGER_BALANCES.has_rows(store).await?)
}
