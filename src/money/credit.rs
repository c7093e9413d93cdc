//! Developer credit: prepaid balances that admins mint, debited on success.
//!
//! Every change of a balance is one commit with the movement that says why; the balance is the sum of the movements.

mod balance;
mod error;
mod judge;
mod mint;
mod spend;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
};

use self::balance::{CREDITS, MOVEMENTS};
pub(super) use self::spend::Hold;
pub use self::{
    balance::{Credit, Movement, MovementKind, Revoked},
    error::CreditError,
    judge::{CreditDecision, CreditVerdict},
    mint::{Minted, Once},
};
use crate::{
    account::credential,
    base::{clock::Clock, id::CreditId},
    store::{Direction, Store, StoreError},
};

/// What every token starts with; scanners for leaked secrets know it by that.
pub(crate) const PREFIX: &str = "dc_";

/// Movements, newest first.
#[derive(Debug)]
pub struct Movements {
    /// Those that are wanted, up to the limit.
    pub movements: Vec<Movement>,
    /// The number to go on before, while there are older ones.
    pub next: Option<u64>,
}

/// All credits of a host.
pub struct Credits {
    store: Arc<dyn Store>,
    clock: Clock,
    /// Of calls under way in this process, so that a balance for one call admits one at a time.
    held: Mutex<HashMap<CreditId, Held>>,
}

/// What calls under way may need of a credit.
#[derive(Default)]
struct Held {
    /// Micro-dollars.
    amount: u64,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl fmt::Debug for Credits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credits").finish_non_exhaustive()
    }
}

impl Credits {
    pub(super) fn new(store: Arc<dyn Store>, clock: Clock) -> Arc<Self> {
        Arc::new(Self { store, clock, held: Mutex::default() })
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
}
