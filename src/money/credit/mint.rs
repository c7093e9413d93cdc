//! Minting: credits that admins make or add to, once under each name.

use serde::{Deserialize, Serialize};
use tollhouse_account::credential::{self, SecretHash};
use tollhouse_base::id::CreditId;
use tollhouse_store::{Batch, Durability, StoreError, Table, schema, update};
use tollhouse_tool::MicroUsd;

use super::{
    Credits, PREFIX,
    balance::{CREDITS, Credit, Holder},
    budgets::Budgets,
    error::{CreditError, MAX_LABEL},
    line::{Movement, MovementKind},
    number,
};
use crate::{
    ledger::{Cause, Dollars, Posting},
    offered::checked_key,
};

const MINTINGS: Table<String, Done> = schema::MINTINGS.holding();
tollhouse_store::json_values!(Done);

/// A credit just made.
#[derive(Debug)]
pub struct Minted {
    /// Shown once: absent when the credit was made before, under the same name.
    pub token: Option<String>,
    /// The balance, as it is now.
    pub credit: Credit,
}

/// The name of a minting or a refund, so that it happens once however often it is asked for.
#[derive(Debug, Clone)]
pub struct Once {
    pub(crate) key: String,
    pub(crate) request: String,
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

impl Credits {
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
        let holder = Holder {
            id: id.clone(),
            label: label.to_owned(),
            created_at: now,
            revoked: None,
            budgets: Budgets::default(),
            before: None,
            secret_sha256: SecretHash::of(&secret),
        };
        let mut batch = self.minted(&id, amount);
        batch.insert(&CREDITS, &id, &holder);
        let credit = Credit { balance: amount, holder };
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
            let holder = tx.get(&CREDITS, id).await?.ok_or(CreditError::Unknown)?;
            if holder.revoked.is_some() {
                return Err(CreditError::Revoked);
            }
            let before = holder.with_balance(tx.store()).await?;
            let balance = before.balance.0.checked_add(amount.0).map(MicroUsd).filter(|balance| *balance <= MicroUsd::MAX);
            let credit = Credit { balance: balance.ok_or(CreditError::TooMuch)?, ..before };
            tx.append(self.minted(id, amount));
            if let Some(Once { key, request }) = once {
                tx.put(&MINTINGS, key, &Done { request: request.clone(), credit: credit.clone() });
            }
            tx.answer((credit, true))
        });
        let (credit, added) = topping.await.map_err(|error| match error {
            // Others added to it meanwhile.
            CreditError::Store(StoreError::Beyond { .. }) => CreditError::TooMuch,
            error => error,
        })?;
        if added {
            tracing::info!(credit.id = %credit.id, "a credit was topped up");
        }
        Ok(credit)
    }

    /// What adds `amount` to a credit.
    fn minted(&self, id: &CreditId, amount: MicroUsd) -> Batch {
        let at = self.clock.now();
        let number = number::next(at);
        let posting = Posting::new(Cause::Minted(id.clone(), number), at).dollars(Dollars::Issued, Dollars::Credit(id.clone()), amount);
        Movement::plain(at, MovementKind::Mint, amount).stored(id, number).and(posting.stored())
    }

    /// What was minted under the name.
    async fn done(&self, once: Option<&Once>) -> Result<Option<Credit>, CreditError> {
        let Some(once) = once else { return Ok(None) };
        let Some(done) = MINTINGS.get(&*self.store, &once.key).await? else { return Ok(None) };
        if done.request == once.request { Ok(Some(done.credit)) } else { Err(CreditError::Reused) }
    }
}
