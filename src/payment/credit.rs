//! Developer credit: prepaid balances that admins mint, debited on success.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

use crate::{
    clock::{Clock, Timestamp},
    credential::{self, SecretHash},
    id::CreditId,
    store::{Check, Durability, Space, Store, StoreError, Write},
    tool::MicroUsd,
};

/// What every token starts with; scanners for leaked secrets know it by that.
const PREFIX: &str = "dc_";

/// Longest label, in characters.
const MAX_LABEL: usize = 120;

/// A prepaid balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Credit {
    pub id: CreditId,
    pub label: String,
    #[serde(rename = "balanceUsd")]
    pub balance: MicroUsd,
    pub created_at: Timestamp,
    secret_sha256: SecretHash,
}

/// A credit just made. The token is shown this once.
#[derive(Debug)]
pub struct Minted {
    pub token: String,
    pub id: CreditId,
}

/// Why a credit was not made or found.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CreditError {
    #[error("a credit is minted with more than 0 USD")]
    Nothing,
    #[error("a label has at most {MAX_LABEL} characters")]
    Label,
    #[error("the system gave no randomness: {0}")]
    Random(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// All credits of a host.
pub struct Credits {
    store: Arc<dyn Store>,
    clock: Clock,
    /// Micro-dollars of calls under way in this process, so that a balance for one call admits one at a time.
    held: Mutex<HashMap<CreditId, u64>>,
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
}

impl Credits {
    pub(super) fn new(store: Arc<dyn Store>, clock: Clock) -> Arc<Self> {
        Arc::new(Self { store, clock, held: Mutex::default() })
    }

    /// Makes a credit.
    ///
    /// # Errors
    ///
    /// No amount, a label that is too long, or the store's.
    pub async fn mint(&self, amount: MicroUsd, label: &str) -> Result<Minted, CreditError> {
        if amount.is_zero() {
            return Err(CreditError::Nothing);
        }
        if label.chars().count() > MAX_LABEL {
            return Err(CreditError::Label);
        }
        let secret = credential::random_secret().map_err(|error| CreditError::Random(error.to_string()))?;
        let id = CreditId::generate();
        let token = credential::token(PREFIX, id.as_str(), &secret);
        let credit = Credit {
            id: id.clone(),
            label: label.to_owned(),
            balance: amount,
            created_at: self.clock.now(),
            secret_sha256: SecretHash::of(&secret),
        };
        let key = key(&id);
        let write = Write { space: Space::Credits, key: key.clone(), value: Some(encode(&credit)) };
        self.store.commit(vec![Check { space: Space::Credits, key, expected: None }], vec![write], Durability::Durable).await?;
        Ok(Minted { token, id })
    }

    /// The credit whose token this is. Unknown ids and wrong secrets look the same.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn find(&self, token: &str) -> Result<Option<Credit>, StoreError> {
        let Some((id, secret)) = credential::parts(PREFIX, token) else { return Ok(None) };
        let Ok(id) = format!("{}{id}", CreditId::PREFIX).parse::<CreditId>() else { return Ok(None) };
        let Some((credit, _)) = self.read(&id).await? else { return Ok(None) };
        Ok(credit.secret_sha256.matches(secret).then_some(credit))
    }

    /// Holds `amount` for a call, if the balance less what other calls hold is enough.
    pub(super) fn hold(self: &Arc<Self>, credit: &Credit, amount: MicroUsd) -> Option<Hold> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let others = held.entry(credit.id.clone()).or_default();
        let needed = others.checked_add(amount.0).filter(|needed| *needed <= credit.balance.0)?;
        *others = needed;
        drop(held);
        Some(Hold { credits: Arc::clone(self), id: credit.id.clone(), amount })
    }

    /// The check and the write that debit `amount`; `None` when the balance is not enough.
    pub(super) async fn debit(&self, id: &CreditId, amount: MicroUsd) -> Result<Option<(Check, Write)>, StoreError> {
        let Some((mut credit, bytes)) = self.read(id).await? else { return Ok(None) };
        let Some(rest) = credit.balance.0.checked_sub(amount.0) else { return Ok(None) };
        credit.balance = MicroUsd(rest);
        let check = Check { space: Space::Credits, key: key(id), expected: Some(bytes) };
        Ok(Some((check, Write { space: Space::Credits, key: key(id), value: Some(encode(&credit)) })))
    }

    async fn read(&self, id: &CreditId) -> Result<Option<(Credit, Vec<u8>)>, StoreError> {
        let Some(bytes) = self.store.get(Space::Credits, &key(id)).await? else { return Ok(None) };
        match serde_json::from_slice(&bytes) {
            Ok(credit) => Ok(Some((credit, bytes))),
            Err(error) => Err(StoreError::Away(format!("the credit `{id}` does not read: {error}"))),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.credits.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(amount) = held.get_mut(&self.id) {
            *amount = amount.saturating_sub(self.amount.0);
            if *amount == 0 {
                held.remove(&self.id);
            }
        }
    }
}

fn key(id: &CreditId) -> Vec<u8> {
    id.as_str().as_bytes().to_vec()
}

fn encode(credit: &Credit) -> Vec<u8> {
    serde_json::to_vec(credit).expect("a credit is plain data: encoding it into memory cannot fail")
}
