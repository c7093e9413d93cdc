//! Revokes and restores credits.

use tollhouse_api::{CreditDecision, CreditRevocation, CreditVerdict};
use tollhouse_base::{boxed, id::CreditId};
use tollhouse_store::{Batch, Durability, update};
use tollhouse_tool::MicroUsd;

use super::{
    CreditError, Credits, MAX_REASON,
    balance::{CREDITS, Credit, balance},
    row::{BALANCE, LINES, Movement, MovementKind, next_number},
};
use crate::ledger::{self, Cause, Dollars, Posting};

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
