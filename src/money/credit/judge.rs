//! Revoking a credit, and restoring it.

use serde::Deserialize;

use super::{
    Credits,
    balance::{CREDITS, Credit, Movement, MovementKind, Revoked},
    error::{CreditError, MAX_REASON},
};
use crate::{
    base::{clock::Timestamp, id::CreditId},
    store::{Batch, Durability, update},
    tool::MicroUsd,
};

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

impl Credit {
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

impl Credits {
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
}
