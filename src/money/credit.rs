//! Developer credit: prepaid balances that admins mint, debited on success.
//!
//! Every change of a balance is one commit with the movement that says why; the balance is the sum of the movements.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::gate::checked_key;
use crate::{
    account::credential::{self, SecretHash},
    base::{
        clock::{Clock, Timestamp},
        id::CreditId,
    },
    store::{Batch, Direction, Durability, Store, StoreError, Table, Tx, schema, update},
    tool::{MicroUsd, Slug},
};

const CREDITS: Table<CreditId, Credit> = schema::CREDITS.holding();
const MOVEMENTS: Table<(CreditId, u64), Movement> = schema::CREDIT_MOVEMENTS.holding();
const MINTINGS: Table<String, Done> = schema::MINTINGS.holding();
crate::store::json_values!(Credit, Movement, Done);

/// What every token starts with; scanners for leaked secrets know it by that.
pub(crate) const PREFIX: &str = "dc_";

/// Longest label, in characters.
const MAX_LABEL: usize = 120;
/// Longest reason of an admin's, in characters.
const MAX_REASON: usize = 1_000;

/// A prepaid balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Credit {
    /// Never given twice.
    pub id: CreditId,
    /// For admins, and nobody else.
    pub label: String,
    /// What is left of it.
    #[serde(rename = "balanceUsd")]
    pub balance: MicroUsd,
    /// When it was minted.
    pub created_at: Timestamp,
    /// While an admin has revoked it: it pays for nothing, and what it held is kept here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revoked>,
    /// How many movements it has had: the number of the next.
    #[serde(default)]
    movements: u64,
    secret_sha256: SecretHash,
}

/// Since when a credit is revoked, and what is given back when it is restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    /// When an admin decided.
    pub since: Timestamp,
    /// What was taken.
    #[serde(rename = "amountUsd")]
    pub amount: MicroUsd,
    /// Shown to the holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The body of `POST /ai/admin/credits/{id}`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreditVerdict {
    /// What an admin decided.
    pub decision: CreditDecision,
    /// Shown to the holder.
    pub reason: Option<String>,
}

/// What an admin can do about a credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CreditDecision {
    /// Takes what is left, until it is undone.
    Revoke,
    /// Undoes that.
    Restore,
}

/// One change of a balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Movement {
    /// When it moved.
    pub at: Timestamp,
    /// Why it moved.
    pub kind: MovementKind,
    /// What moved, whichever way.
    #[serde(rename = "amountUsd")]
    pub amount: MicroUsd,
    /// The balance after it.
    #[serde(rename = "balanceUsd")]
    pub balance: MicroUsd,
    /// What was bought, of a debit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt_id: Option<String>,
    /// The tool that was paid for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slug: Option<Slug>,
}

/// Which way a movement goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MovementKind {
    /// Adds to the balance.
    Mint,
    /// Takes from it.
    Debit,
    /// Takes all of it.
    Revoke,
    /// Adds what was revoked.
    Restore,
}

/// Movements, newest first.
#[derive(Debug)]
pub struct Movements {
    /// Those that are wanted, up to the limit.
    pub movements: Vec<Movement>,
    /// The number to go on before, while there are older ones.
    pub next: Option<u64>,
}

/// A credit just made.
#[derive(Debug)]
pub struct Minted {
    /// Shown once: absent when the credit was made before, under the same name.
    pub token: Option<String>,
    /// The balance, as it is now.
    pub credit: Credit,
}

/// The name of a minting, so that it happens once however often it is asked for.
#[derive(Debug, Clone)]
pub struct Once {
    key: String,
    request: String,
}

impl Once {
    /// `key` is the client's; `request` the hash of what it asks for.
    ///
    /// # Errors
    ///
    /// [`CreditError::Key`].
    pub fn new(key: String, request: String) -> Result<Self, CreditError> {
        Ok(Self { key: checked_key(key).map_err(CreditError::Key)?, request })
    }
}

/// What was minted under a name. Kept as long as the movement that it made.
#[derive(Debug, Serialize, Deserialize)]
struct Done {
    request: String,
    /// As it was then.
    credit: Credit,
}

/// Why a credit was not made or found.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum CreditError {
    #[error("a credit is minted with more than 0 USD")]
    Nothing,
    #[error("a balance is at most {} USD", MicroUsd::MAX.to_usd())]
    TooMuch,
    #[error("no credit has this id")]
    Unknown,
    #[error("the credit is revoked")]
    Revoked,
    #[error("the credit is not revoked")]
    NotRevoked,
    #[error("a reason has at most {MAX_REASON} characters")]
    Reason,
    #[error("a label has at most {MAX_LABEL} characters")]
    Label,
    #[error("{0}")]
    Key(String),
    #[error("this `Idempotency-Key` was used for another minting")]
    Reused,
    #[error("the system gave no randomness: {0}")]
    Random(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// All credits of a host.
pub struct Credits {
    store: Arc<dyn Store>,
    clock: Clock,
    /// Of calls under way in this process, so that a balance for one call admits one at a time.
    held: Mutex<HashMap<CreditId, Held>>,
}

impl fmt::Debug for Credits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credits").finish_non_exhaustive()
    }
}

/// An amount of a credit that a call under way may need. Dropping it gives it back.
pub(super) struct Hold {
    credits: Arc<Credits>,
    pub(super) id: CreditId,
    pub(super) amount: MicroUsd,
    /// Of what is called.
    slug: Slug,
    /// One debit of the credit at a time: of those that are decided on one balance, one is committed. Only a courtesy: what
    /// keeps the balance right are the commits' checks.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
}

/// What calls under way may need of a credit.
#[derive(Default)]
struct Held {
    /// Micro-dollars.
    amount: u64,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Credit {
    /// As its holder and admins see it.
    #[must_use]
    pub fn public(&self) -> Value {
        json!({
            "creditId": self.id,
            "label": self.label,
            "balanceUsd": self.balance,
            "createdAt": self.created_at,
            "revoked": self.revoked,
        })
    }

    /// Makes the balance `balance`: the movement that the commit of the credit has beside it. The credit counts them, so each
    /// commit checks its number too.
    fn moved(&mut self, balance: MicroUsd, movement: &Movement) -> Batch {
        let number = self.movements;
        self.balance = balance;
        self.movements += 1;
        MOVEMENTS.put(&(self.id.clone(), number), movement)
    }

    fn minted(&mut self, amount: MicroUsd, at: Timestamp) -> Result<Batch, CreditError> {
        let balance = self.balance.0.checked_add(amount.0).map(MicroUsd).filter(|balance| *balance <= MicroUsd::MAX);
        let balance = balance.ok_or(CreditError::TooMuch)?;
        Ok(self.moved(balance, &Movement::plain(at, MovementKind::Mint, amount, balance)))
    }

    /// Does as an admin decided: what it holds is taken whole, or given back whole.
    fn judged(&mut self, verdict: &CreditVerdict, at: Timestamp) -> Result<Batch, CreditError> {
        match (verdict.decision, self.revoked.take()) {
            (CreditDecision::Revoke, None) => {
                let amount = self.balance;
                self.revoked = Some(Revoked { since: at, amount, reason: verdict.reason.clone() });
                Ok(self.moved(MicroUsd::ZERO, &Movement::plain(at, MovementKind::Revoke, amount, MicroUsd::ZERO)))
            }
            (CreditDecision::Restore, Some(Revoked { amount, .. })) => {
                Ok(self.moved(amount, &Movement::plain(at, MovementKind::Restore, amount, amount)))
            }
            (CreditDecision::Revoke, Some(_)) => Err(CreditError::Revoked),
            (CreditDecision::Restore, None) => Err(CreditError::NotRevoked),
        }
    }
}

impl Movement {
    /// One that bought nothing.
    fn plain(at: Timestamp, kind: MovementKind, amount: MicroUsd, balance: MicroUsd) -> Self {
        Self { at, kind, amount, balance, receipt_id: None, slug: None }
    }
}

impl Credits {
    pub(super) fn new(store: Arc<dyn Store>, clock: Clock) -> Arc<Self> {
        Arc::new(Self { store, clock, held: Mutex::default() })
    }

    /// Makes a credit; if one was made under the same name already, answers that.
    ///
    /// # Errors
    ///
    /// No amount, a label that is too long, a name that was given to something else, or the store's.
    pub async fn mint(&self, amount: MicroUsd, label: &str, once: Option<&Once>) -> Result<Minted, CreditError> {
        if amount.is_zero() {
            return Err(CreditError::Nothing);
        }
        if label.chars().count() > MAX_LABEL {
            return Err(CreditError::Label);
        }
        if let Some(credit) = self.done(once).await? {
            return Ok(Minted { token: None, credit });
        }
        let secret = credential::random_secret().map_err(|error| CreditError::Random(error.to_string()))?;
        let id = CreditId::generate();
        let token = credential::token(PREFIX, id.as_str(), &secret);
        let now = self.clock.now();
        let mut credit = Credit {
            id: id.clone(),
            label: label.to_owned(),
            balance: MicroUsd::ZERO,
            created_at: now,
            revoked: None,
            movements: 0,
            secret_sha256: SecretHash::of(&secret),
        };
        let mut batch = credit.minted(amount, now)?;
        batch.insert(&CREDITS, &id, &credit);
        if let Some(Once { key, request }) = once {
            batch.insert(&MINTINGS, key, &Done { request: request.clone(), credit: credit.clone() });
        }
        match batch.commit(&*self.store, Durability::Durable).await {
            Ok(_) => {
                tracing::info!(credit.id = %credit.id, "a credit was minted");
                Ok(Minted { token: Some(token), credit })
            }
            // A twin was faster.
            Err(StoreError::Conflict) => {
                self.done(once).await?.map(|credit| Minted { token: None, credit }).ok_or(StoreError::Conflict.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Adds to a credit that is there; answers it as it was then, if that was done under the same name already.
    ///
    /// # Errors
    ///
    /// No amount, an id that is not known, a credit that is revoked, a balance that would be too large, a name that was given
    /// to something else, or the store's.
    pub async fn top_up(&self, id: &CreditId, amount: MicroUsd, once: Option<&Once>) -> Result<Credit, CreditError> {
        if amount.is_zero() {
            return Err(CreditError::Nothing);
        }
        let topping = update(&*self.store, Durability::Durable, |mut tx| async move {
            if let Some(Once { key, request }) = once
                && let Some(done) = tx.get(&MINTINGS, key).await?
            {
                let answer = if done.request == *request { done.credit } else { return Err(CreditError::Reused) };
                return tx.answer((answer, false));
            }
            let row = tx.row(&CREDITS, id).await?.ok_or(CreditError::Unknown)?;
            let mut credit = row.value.clone();
            if credit.revoked.is_some() {
                return Err(CreditError::Revoked);
            }
            tx.append(credit.minted(amount, self.clock.now())?);
            tx.replace(&CREDITS, &row, &credit);
            if let Some(Once { key, request }) = once {
                tx.put(&MINTINGS, key, &Done { request: request.clone(), credit: credit.clone() });
            }
            tx.answer((credit, true))
        });
        let (credit, added) = topping.await?;
        if added {
            tracing::info!(credit.id = %credit.id, "a credit was topped up");
        }
        Ok(credit)
    }

    /// Revokes a credit, or restores it. A call under way that was admitted with it is settled before, or refused.
    ///
    /// # Errors
    ///
    /// An id that is not known, [`CreditError::Revoked`] or [`CreditError::NotRevoked`] where there is nothing to do, a reason
    /// that is too long, or the store's.
    pub async fn judge(&self, id: &CreditId, verdict: &CreditVerdict) -> Result<Credit, CreditError> {
        if verdict.reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON) {
            return Err(CreditError::Reason);
        }
        let judging = update(&*self.store, Durability::Durable, |mut tx| async move {
            let row = tx.row(&CREDITS, id).await?.ok_or(CreditError::Unknown)?;
            let mut credit = row.value.clone();
            tx.append(credit.judged(verdict, self.clock.now())?);
            tx.replace(&CREDITS, &row, &credit);
            tx.answer::<_, CreditError>(credit)
        });
        judging.await
    }

    /// What was minted under the name.
    async fn done(&self, once: Option<&Once>) -> Result<Option<Credit>, CreditError> {
        let Some(once) = once else { return Ok(None) };
        let Some(done) = MINTINGS.get(&*self.store, &once.key).await? else { return Ok(None) };
        if done.request == once.request { Ok(Some(done.credit)) } else { Err(CreditError::Reused) }
    }

    /// The credit with this id.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn get(&self, id: &CreditId) -> Result<Option<Credit>, StoreError> {
        CREDITS.get(&*self.store, id).await
    }

    /// At most `limit` credits, the oldest first, from behind `after`.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn list(&self, after: Option<&CreditId>, limit: usize) -> Result<Vec<Credit>, StoreError> {
        let range = after.map_or_else(|| CREDITS.all(), |after| CREDITS.all().after(after));
        let rows = CREDITS.page(&*self.store, &range, limit, Direction::Forward).await?;
        Ok(rows.into_iter().map(|row| row.value).collect())
    }

    /// At most `limit` movements of a credit, newest first, from before the number `before`.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn movements(&self, id: &CreditId, before: Option<u64>, limit: usize) -> Result<Movements, StoreError> {
        let mut range = MOVEMENTS.under(id);
        if let Some(before) = before {
            range = range.before(&(id.clone(), before));
        }
        let rows = MOVEMENTS.page(&*self.store, &range, limit, Direction::Backward).await?;
        let next = rows.last().filter(|_| rows.len() == limit).map(|row| row.key.1).filter(|number| *number > 0);
        let movements = rows.into_iter().map(|row| row.value).collect();
        Ok(Movements { movements, next })
    }

    /// The credit whose token this is. Unknown ids and wrong secrets look the same.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn find(&self, token: &str) -> Result<Option<Credit>, StoreError> {
        let Some((id, secret)) = credential::parts(PREFIX, token) else { return Ok(None) };
        let Ok(id) = format!("{}{id}", CreditId::PREFIX).parse::<CreditId>() else { return Ok(None) };
        let Some(credit) = self.get(&id).await? else { return Ok(None) };
        Ok(credit.secret_sha256.matches(secret).then_some(credit))
    }

    /// Holds `amount` for a call of `slug`, if the balance less what other calls hold is enough.
    pub(super) fn hold(self: &Arc<Self>, credit: &Credit, amount: MicroUsd, slug: &Slug) -> Option<Hold> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let others = held.get(&credit.id).map_or(0, |held| held.amount);
        let needed = others.checked_add(amount.0).filter(|needed| *needed <= credit.balance.0)?;
        let own = held.entry(credit.id.clone()).or_default();
        own.amount = needed;
        let turn = Arc::clone(&own.turn);
        drop(held);
        Some(Hold { credits: Arc::clone(self), id: credit.id.clone(), amount, slug: slug.clone(), turn })
    }

    /// Debits what is held, in the commit of `tx`. False when the balance is not enough.
    pub(super) async fn debit(&self, tx: &mut Tx<'_>, hold: &Hold, receipt_id: &str) -> Result<bool, StoreError> {
        let Some(row) = tx.row(&CREDITS, &hold.id).await? else { return Ok(false) };
        let mut credit = row.value.clone();
        let Some(balance) = credit.balance.0.checked_sub(hold.amount.0).map(MicroUsd) else { return Ok(false) };
        let movement = Movement {
            at: self.clock.now(),
            kind: MovementKind::Debit,
            amount: hold.amount,
            balance,
            receipt_id: Some(receipt_id.to_owned()),
            slug: Some(hold.slug.clone()),
        };
        tx.append(credit.moved(balance, &movement));
        tx.replace(&CREDITS, &row, &credit);
        Ok(true)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.credits.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = held.get_mut(&self.id) {
            own.amount = own.amount.saturating_sub(self.amount.0);
            if own.amount == 0 {
                held.remove(&self.id);
            }
        }
    }
}
