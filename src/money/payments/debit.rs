//! Debits developer credits.

use tollhouse_store::{Durability, StoreError, update};
use tollhouse_telemetry::{Stage, counters::PAYMENTS as PAYMENTS_ENDED, enter};

use super::{Admission, PAYMENTS, PaymentMeans, Payments};
use crate::{SettleError, Settlement, SettlementKind, StoredAnswer, credit::CreditHold, payments::record::PaymentRecord};

impl Payments {
    /// Debits a credit: balance, movement, record, receipt and answer in one commit. The answer of a call that cannot
    /// be repeated is not stored. Without an `answer`, the debit is made before the run.
    pub(super) async fn debit(
        &self,
        mut admission: Admission,
        answer: Option<StoredAnswer>,
        draft: &[u8],
    ) -> Result<StoredAnswer, SettleError> {
        let PaymentMeans::Credit(hold) = &admission.means else { unreachable!("only credits are debited") };
        let id = admission.id.clone();
        let settlement = Settlement {
            kind: SettlementKind::Credit,
            transaction: String::new(),
            network: String::new(),
            asset: String::new(),
            amount: hold.amount.0.to_string(),
            payer: hold.id.to_string(),
            scheme: "credit".to_owned(),
            version: None,
            evidence: None,
        };
        let is_upfront = answer.is_none();
        let finished = self.finisher.finish(draft, &settlement, answer.unwrap_or_default());
        let staged = if admission.reserved && !is_upfront { Some(self.stage(&finished.answer).await) } else { None };
        let before = PAYMENTS.own(id.clone(), PaymentRecord::clone(&admission.record));
        let (own, reserved, settled, receipt, stored) = (&before, admission.reserved, &settlement, &finished, &staged);
        let debiting = update(&*self.store, Durability::Durable, |mut tx| async move {
            if !self.credits.debit(&mut tx, hold, &receipt.answer.receipt_id).await? {
                return tx.answer::<_, StoreError>(false);
            }
            let mut record = self.settled(own.value.clone(), settled, &receipt.answer.receipt_id);
            if is_upfront {
                self.owe(&mut record, true);
                self.end(&mut tx, own, &record);
            } else if let Some(stored) = stored {
                stored.store_answer(&mut tx, &own.key);
                record.has_answer = true;
                self.end(&mut tx, own, &record);
            } else {
                self.add_ended_record(&mut tx, &own.key, &record);
            }
            tx.append(receipt.rows.clone());
            tx.answer(true)
        });
        enter(Stage::Commit);
        let debited = debiting.await;
        match debited {
            Ok(true) => {
                admission.reserved = false;
                PAYMENTS_ENDED.count(["settled"]);
                self.finisher.announce(finished.news);
                Ok(finished.answer)
            }
            // The balance cannot become negative, and a day's spending cannot exceed the budget.
            Ok(false) | Err(StoreError::Beyond { .. }) => {
                self.withdraw_some(staged).await;
                let refused = self.debit_refused(hold, matches!(debited, Ok(false))).await;
                admission.release().await;
                PAYMENTS_ENDED.count(["refused"]);
                let reason = if let SettleError::Refused { reason, .. } = &refused { reason.as_str() } else { "budget_exceeded" };
                self.record_refusal(&id, draft, reason).await;
                Err(refused)
            }
            Err(StoreError::Unknown(cause)) => {
                tracing::error!(payment.id = %id, cause, "a debit was not confirmed");
                admission.reserved = false;
                // Either the debit or the release is written. Without a reservation it is the debit or nothing.
                let released = if reserved { self.release_reservation(&id, &admission.record).await } else { None };
                Err(match released {
                    Some(true) => StoreError::Unknown(cause).into(),
                    Some(false) | None => SettleError::Unknown { payment: id },
                })
            }
            Err(error) => {
                self.withdraw_some(staged).await;
                admission.release().await;
                Err(error.into())
            }
        }
    }

    /// Returns why a debit was refused. `is_stopped` means that the credit's record does not allow it.
    async fn debit_refused(&self, hold: &CreditHold, is_stopped: bool) -> SettleError {
        match self.credits.over_budget(hold).await {
            Ok(Some(over)) => return SettleError::OverBudget(over),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "the budget of a refused debit could not be read"),
        }
        let message = if is_stopped { "the developer credit was revoked or frozen" } else { "the developer credit is used up" };
        SettleError::Refused { reason: "insufficient_funds".to_owned(), message: message.to_owned(), notice: None }
    }
}
