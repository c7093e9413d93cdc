//! The answers of payments, each stored once: with the intent that may take the money for it, or in the commit that takes it.

use super::{
    Gate,
    record::{Intent, Kept, Record, StoredAnswer},
};
use crate::{
    money::PaymentId,
    store::{Batch, Store, StoreError, Table, schema},
};

const PAYMENT_ANSWERS: Table<PaymentId, StoredAnswer> = schema::PAYMENT_ANSWERS.holding();

/// Has `batch` write the answer that a settlement is begun for.
pub(super) fn keep(batch: &mut Batch, id: &PaymentId, answer: &StoredAnswer) {
    batch.put(&PAYMENT_ANSWERS, id, answer);
}

/// Has `batch` remove the answer that a payment does not buy, or not any more.
pub(super) fn forget(batch: &mut Batch, id: &PaymentId) {
    batch.delete(&PAYMENT_ANSWERS, id);
}

/// The answer that an intent takes the money for.
pub(super) async fn of_intent(store: &dyn Store, id: &PaymentId, intent: &mut Intent) -> Result<StoredAnswer, StoreError> {
    if let Some(answer) = intent.answer.take() {
        return Ok(answer);
    }
    let missing = || StoreError::Away(format!("the answer of payment `{id}` is missing"));
    PAYMENT_ANSWERS.get(store, id).await?.ok_or_else(missing)
}

impl Gate {
    /// The answer that a settled payment has bought; `None` where it is not kept any more.
    pub(super) async fn answer_of(&self, id: &PaymentId, record: Record) -> Result<Option<StoredAnswer>, StoreError> {
        match record.answer {
            None => Ok(None),
            Some(Kept::Here(answer)) => Ok(Some(answer)),
            Some(Kept::Apart(settlement)) => {
                let receipt_id = record.receipt_id.unwrap_or_default();
                let answer = PAYMENT_ANSWERS.get(&*self.store, id).await?;
                Ok(answer.map(|answer| StoredAnswer { receipt_id, settlement, ..answer }))
            }
        }
    }
}
