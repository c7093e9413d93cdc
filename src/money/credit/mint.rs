//! Mints credits, revokes and restores them. Admins create credits or add to them once per idempotency key.

use serde::{Deserialize, Serialize};
use tollhouse_account::credential::{self, SecretHash};
use tollhouse_api::{Budgets, CreditDecision, CreditRevocation, CreditVerdict};
use tollhouse_base::{boxed, id::CreditId};
use tollhouse_store::{Batch, Durability, StoreError, Table, schema, update};
use tollhouse_tool::MicroUsd;

use super::{
    CreditError, Credits, MAX_LABEL, MAX_REASON, PREFIX,
    balance::{CREDITS, Credit, StoredCredit, balance},
    row::{BALANCE, LINES, Movement, MovementKind, next_number},
};
use crate::{
    ledger::{self, Cause, Dollars, Posting},
    payment_offer::checked_key,
};

const MINTINGS: Table<String, MintRow> = schema::MINTINGS.holding();
tollhouse_store::json_values!(MintRow);

/// A newly created credit.
#[derive(Debug)]
pub struct MintedCredit {
    /// The token, shown once. `None` if the credit was created before with the same key.
    pub token: Option<String>,
    /// The credit with its current balance.
    pub credit: Credit,
}

/// Idempotency key of a minting or a refund.
#[derive(Debug, Clone)]
pub struct IdempotencyKey {
    pub(crate) key: String,
    pub(crate) request: String,
}

impl IdempotencyKey {
    /// Constructs it from the client's `key` and the hash of its `request`.
    pub fn new(key: String, request: String) -> Result<Self, CreditError> {
        Ok(Self { key: checked_key(key).map_err(CreditError::Key)?, request })
    }
}

/// The result of a minting, stored by its idempotency key. It is stored as long as its movement.
#[derive(Debug, Serialize, Deserialize)]
struct MintRow {
    request: String,
    credit: Credit,
}

impl Credits {
    /// Creates a credit, or returns the one that was created with the same key.
    ///
    /// # Errors
    ///
    /// A zero amount, a label that is too long, a key that was used for another request, or errors of the store.
    #[boxed]
    pub async fn mint(&self, amount: MicroUsd, label: &str, once: Option<&IdempotencyKey>) -> Result<MintedCredit, CreditError> {
        if amount.is_zero() {
            return Err(CreditError::Nothing);
        }
        if label.chars().count() > MAX_LABEL {
            return Err(CreditError::Label);
        }
        if let Some(credit) = self.done(once).await? {
            return Ok(MintedCredit { token: None, credit });
        }
        let secret = credential::random_secret().map_err(|error| CreditError::Random(error.to_string()))?;
        let id = CreditId::generate();
        let token = credential::token(PREFIX, id.as_str(), &secret);
        let now = self.clock.now();
        let holder = StoredCredit {
            id: id.clone(),
            label: label.to_owned(),
            created_at: now,
            revoked: None,
            budgets: Budgets::default(),
            secret_sha256: SecretHash::of(&secret),
        };
        let mut batch = self.minted(&id, amount);
        batch.insert(&CREDITS, &id, &holder);
        let credit = Credit { balance: amount, holder };
        if let Some(IdempotencyKey { key, request }) = once {
            batch.insert(&MINTINGS, key, &MintRow { request: request.clone(), credit: credit.clone() });
        }
        match batch.commit(&*self.store, Durability::Durable).await {
            Ok(_) => {
                tracing::info!(credit.id = %credit.id, "a credit was minted");
                Ok(MintedCredit { token: Some(token), credit })
            }
            // A concurrent request with the same key was faster.
            Err(StoreError::Conflict) => {
                self.done(once).await?.map(|credit| MintedCredit { token: None, credit }).ok_or(StoreError::Conflict.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Adds to a credit. If this was already done with the same key, returns the credit as it was after that.
    ///
    /// # Errors
    ///
    /// A zero amount, an unknown id, a revoked credit, a balance that would be too large, a key that was used for
    /// another request, or errors of the store.
    #[boxed]
    pub async fn top_up(&self, id: &CreditId, amount: MicroUsd, once: Option<&IdempotencyKey>) -> Result<Credit, CreditError> {
        if amount.is_zero() {
            return Err(CreditError::Nothing);
        }
        let topping = update(&*self.store, Durability::Durable, |mut tx| async move {
            if let Some(IdempotencyKey { key, request }) = once
                && let Some(done) = tx.get(&MINTINGS, key).await?
            {
                let answer = if done.request == *request { done.credit } else { return Err(CreditError::Reused) };
                return tx.answer((answer, false));
            }
            let holder = tx.get(&CREDITS, id).await?.ok_or(CreditError::Unknown)?;
            if holder.revoked.is_some() {
                return Err(CreditError::Revoked);
            }
            let before = holder.with_balance(tx.store()).await?;
            let balance = before.balance.0.checked_add(amount.0).map(MicroUsd).filter(|balance| *balance <= MicroUsd::MAX);
            let credit = Credit { balance: balance.ok_or(CreditError::TooMuch)?, ..before };
            tx.append(self.minted(id, amount));
            if let Some(IdempotencyKey { key, request }) = once {
                tx.put(&MINTINGS, key, &MintRow { request: request.clone(), credit: credit.clone() });
            }
            tx.answer((credit, true))
        });
        let (credit, added) = topping.await.map_err(|error| match error {
            // Concurrent requests added to it.
            CreditError::Store(StoreError::Beyond { .. }) => CreditError::TooMuch,
            error => error,
        })?;
        if added {
            tracing::info!(credit.id = %credit.id, "a credit was topped up");
        }
        Ok(credit)
    }

    fn minted(&self, id: &CreditId, amount: MicroUsd) -> Batch {
        let at = self.clock.now();
        let number = next_number(at);
        let posting = Posting::new(Cause::Minted(id.clone(), number), at).dollars(Dollars::Issued, Dollars::Credit(id.clone()), amount);
        Movement::plain(at, MovementKind::Mint, amount).stored(id, number).and(posting.stored())
    }

    async fn done(&self, once: Option<&IdempotencyKey>) -> Result<Option<Credit>, CreditError> {
        let Some(once) = once else { return Ok(None) };
        let Some(done) = MINTINGS.get(&*self.store, &once.key).await? else { return Ok(None) };
        if done.request == once.request { Ok(Some(done.credit)) } else { Err(CreditError::Reused) }
    }
}

impl Credits {
    /// Revokes or restores a credit. The whole balance is taken or returned. A call in flight that was admitted with
    /// the credit is either settled before or refused.
    ///
    /// # Errors
    ///
    /// An unknown id; [`CreditError::Revoked`] or [`CreditError::NotRevoked`] if there is nothing to do; a reason that
    /// is too long; errors of the store.
    #[boxed]
    pub async fn decide(&self, id: &CreditId, verdict: &CreditVerdict) -> Result<Credit, CreditError> {
        if verdict.reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON) {
            return Err(CreditError::Reason);
        }
        match verdict.decision {
            CreditDecision::Revoke => {
                self.revoke(id, verdict.reason.as_deref()).await?;
                self.drain(id).await
            }
            CreditDecision::Restore => self.restore(id).await,
        }
    }

    /// Stops the credit from paying: debits require an unchanged record. If the host crashes after this, the balance is
    /// not taken and is still there when the credit is restored.
    async fn revoke(&self, id: &CreditId, reason: Option<&str>) -> Result<(), CreditError> {
        let stopping = self.change(id, |holder| {
            if holder.revoked.is_some() {
                return Err(CreditError::Revoked);
            }
            holder.revoked =
                Some(CreditRevocation { since: self.clock.now(), amount_usd: MicroUsd::ZERO, reason: reason.map(str::to_owned) });
            Ok(Batch::new())
        });
        stopping.await.map(drop)
    }

    /// Takes the balance of a stopped credit. Only other requests that revoke it can change the balance at the same
    /// time, so the amount of the revocation is the sum of the amounts that all these requests took.
    async fn drain(&self, id: &CreditId) -> Result<Credit, CreditError> {
        let taking = update(&*self.store, Durability::Durable, |mut tx| async move {
            let row = tx.row(&CREDITS, id).await?.ok_or(CreditError::Unknown)?;
            let mut holder = row.value.clone();
            let amount = balance(tx.get(&LINES, &(id.clone(), BALANCE)).await?);
            let taken = ledger::revoked(&mut tx, id).await?;
            if let Some(revoked) = &mut holder.revoked {
                revoked.amount_usd = MicroUsd(taken.0.saturating_add(amount.0));
                tx.append(self.moved(id, MovementKind::Revoke, amount)).replace(&CREDITS, &row, &holder);
            }
            tx.answer::<_, CreditError>(holder)
        });
        Ok(taking.await?.with_balance(&*self.store).await?)
    }

    /// Returns everything that the ledger has taken from the credit.
    async fn restore(&self, id: &CreditId) -> Result<Credit, CreditError> {
        let restoring = update(&*self.store, Durability::Durable, |mut tx| async move {
            let row = tx.row(&CREDITS, id).await?.ok_or(CreditError::Unknown)?;
            let mut holder = row.value.clone();
            if holder.revoked.take().is_none() {
                return Err(CreditError::NotRevoked);
            }
            let amount = ledger::revoked(&mut tx, id).await?;
            tx.append(self.moved(id, MovementKind::Restore, amount)).replace(&CREDITS, &row, &holder);
            tx.answer::<_, CreditError>(holder)
        });
        Ok(restoring.await?.with_balance(&*self.store).await?)
    }

    /// Returns the rows that move `amount` between the credit and its revoked amount. There are none for zero.
    fn moved(&self, id: &CreditId, kind: MovementKind, amount: MicroUsd) -> Batch {
        if amount.is_zero() {
            return Batch::new();
        }
        let at = self.clock.now();
        let number = next_number(at);
        let (credit, revoked) = (Dollars::Credit(id.clone()), Dollars::Revoked(id.clone()));
        let posting = Posting::new(Cause::Judged(id.clone(), number), at);
        let posting = match kind {
            MovementKind::Restore => posting.dollars(revoked, credit, amount),
            MovementKind::Mint | MovementKind::Debit | MovementKind::Refund | MovementKind::Revoke => {
                posting.dollars(credit, revoked, amount)
            }
        };
        Movement::plain(at, kind, amount).stored(id, number).and(posting.stored())
    }
}
