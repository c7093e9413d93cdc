//! Developer credit: prepaid balances that admins mint and successful calls debit.
//!
//! Every change of a balance is one commit that also contains its movement and its posting. The balance is an account
//! of the ledger and equals the sum of the movements.

pub(super) mod balance;
mod budget;
mod mint;
mod movement;
pub(super) mod row;
mod spend;

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicU64},
};

use tollhouse_account::credential;
use tollhouse_base::{boxed, clock::Clock, id::CreditId, lock::Lock};
use tollhouse_store::{Batch, Direction, Durability, Store, StoreError, update};
use tollhouse_tool::{MicroUsd, Slug, public_texts};

use self::balance::CREDITS;
pub(super) use self::spend::CreditHold;
pub use self::{
    balance::{BudgetKind, Credit, OverBudget, SetBy, StoredCredit},
    mint::{IdempotencyKey, MintedCredit},
    movement::{MovementPage, MovementPosition},
    row::{Movement, MovementKind},
};

/// Prefix of every token. Scanners for leaked secrets recognize it.
pub const PREFIX: &str = "dc_";

/// Amounts held by calls in flight, per credit and per credit and tool.
type CreditHolds = HashMap<(CreditId, Option<Slug>), u64>;

/// The developer credits of a host.
pub struct Credits {
    store: Arc<dyn Store>,
    clock: Clock,
    /// Micro-dollars held by calls in flight in this process. If a balance or budget suffices for one call, only one is
    /// admitted at a time.
    held: Lock<CreditHolds>,
    /// Number of times that a held amount was released or lowered.
    releases: AtomicU64,
}

impl Credits {
    pub(super) fn new(store: Arc<dyn Store>, clock: Clock) -> Arc<Self> {
        Arc::new(Self { store, clock, held: Lock::default(), releases: AtomicU64::new(0) })
    }

    /// Returns the credit with this id.
    pub async fn get(&self, id: &CreditId) -> Result<Option<Credit>, StoreError> {
        match CREDITS.get(&*self.store, id).await? {
            Some(holder) => holder.with_balance(&*self.store).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns at most `limit` credits, oldest first, starting after `after`.
    #[boxed]
    pub async fn list(&self, after: Option<&CreditId>, limit: usize) -> Result<Vec<Credit>, StoreError> {
        let range = after.map_or_else(|| CREDITS.all(), |after| CREDITS.all().after(after));
        let mut credits = Vec::with_capacity(limit);
        for row in CREDITS.page(&*self.store, &range, limit, Direction::Forward).await? {
            credits.push(row.value.with_balance(&*self.store).await?);
        }
        Ok(credits)
    }

    /// Changes a credit's record, with the rows that `change` returns. Returns the credit.
    async fn change(&self, id: &CreditId, change: impl Fn(&mut StoredCredit) -> Result<Batch, CreditError>) -> Result<Credit, CreditError> {
        let change = &change;
        let changing = update(&*self.store, Durability::Durable, |mut tx| async move {
            let row = tx.row(&CREDITS, id).await?.ok_or(CreditError::Unknown)?;
            let mut holder = row.value.clone();
            tx.append(change(&mut holder)?).replace(&CREDITS, &row, &holder);
            tx.answer::<_, CreditError>(holder)
        });
        Ok(changing.await?.with_balance(&*self.store).await?)
    }

    /// Finds a credit by its token. Unknown ids and wrong secrets are indistinguishable.
    pub async fn find(&self, token: &str) -> Result<Option<Credit>, StoreError> {
        let Some((id, secret)) = credential::parts(PREFIX, token) else { return Ok(None) };
        let Ok(id) = format!("{}{id}", CreditId::PREFIX).parse::<CreditId>() else { return Ok(None) };
        let holder = CREDITS.get(&*self.store, &id).await?.filter(|holder| holder.secret_sha256.matches(secret));
        match holder {
            Some(holder) => holder.with_balance(&*self.store).await.map(Some),
            None => Ok(None),
        }
    }
}

const MAX_LABEL: usize = public_texts::MAX_CREDIT_LABEL;

/// Maximum length of an admin's reason, in characters.
const MAX_REASON: usize = public_texts::MAX_DECISION_REASON;

/// Why a credit was not created, found or changed.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum CreditError {
    #[error("the amount of a credit must be above 0 USD")]
    Nothing,
    #[error("a balance can be at most {} USD", MicroUsd::MAX.to_usd())]
    TooMuch,
    #[error("no credit has this id")]
    Unknown,
    #[error("the credit is revoked")]
    Revoked,
    #[error("the credit is not revoked")]
    NotRevoked,
    /// Carries the current revision.
    #[error("the budgets have changed; their current revision is {0}")]
    Changed(u64),
    #[error("a reason must have at most {MAX_REASON} characters")]
    Reason,
    #[error("a label must have at most {MAX_LABEL} characters")]
    Label,
    #[error("{0}")]
    Key(String),
    #[error("this `Idempotency-Key` was used for another credit")]
    Reused,
    #[error("no random bytes are available: {0}")]
    Random(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}
