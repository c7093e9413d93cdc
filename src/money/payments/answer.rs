//! Stores the answer of each payment once: with the intent, or in the commit that takes the money. The body of a large
//! answer is an object, which is stored before that commit and referenced by its row.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tollhouse_objects::PendingObject;
use tollhouse_store::{Batch, Store, StoreError, Table, WrittenRow, postcard_values, schema};

use super::{Payments, record::StoredAnswer};
use crate::PaymentId;

/// Maximum size of a body stored in its row, in bytes. A larger one is an object, because a database would write it to
/// its log and its table and send it to each standby.
pub(crate) const IN_ROW: usize = 64 * 1024;

pub(super) const PAYMENT_ANSWERS: Table<PaymentId, AnswerRow> = schema::PAYMENT_ANSWERS.holding();

/// The row of an answer. If it names an object, that has the body.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AnswerRow {
    pub(super) answer: StoredAnswer,
    pub(super) object: Option<AnswerObject>,
}
postcard_values!(AnswerRow);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AnswerObject {
    pub(super) name: String,
    /// The hash in hex.
    pub(super) sha256: String,
}

impl AnswerRow {
    fn new(answer: &StoredAnswer, promised: Option<&PendingObject>) -> Self {
        let object = promised.map(|PendingObject { name, sha256, .. }| AnswerObject { name: name.clone(), sha256: sha256.clone() });
        let body = if object.is_some() { Bytes::new() } else { answer.body.clone() };
        // The record of the payment has the settle response.
        Self { answer: StoredAnswer { body, settlement: None, ..answer.clone() }, object }
    }
}

/// Returns the name and hex SHA-256 of the object with an answer's body, or `None` if the row has none.
pub fn object_of(written: &WrittenRow) -> Option<(String, String)> {
    PAYMENT_ANSWERS.read(written.of(&PAYMENT_ANSWERS)?).ok()?.value.object.map(|object| (object.name, object.sha256))
}

pub(super) struct StagedAnswer {
    row: AnswerRow,
    promised: Option<PendingObject>,
}

impl StagedAnswer {
    /// Adds the answer to the commit that begins a settlement or takes the money.
    pub(super) fn store_answer(&self, batch: &mut Batch, id: &PaymentId) {
        batch.put(&PAYMENT_ANSWERS, id, &self.row);
        self.promised.iter().for_each(|promised| promised.keep(batch));
    }
}

/// Returns the answer of an intent, without the body if that is an object. Looking up a settlement does not need it.
pub(super) async fn of_intent(store: &dyn Store, id: &PaymentId) -> Result<StoredAnswer, StoreError> {
    let missing = || StoreError::Away(format!("the answer of payment `{id}` is missing"));
    Ok(PAYMENT_ANSWERS.get(store, id).await?.ok_or_else(missing)?.answer)
}

impl Payments {
    /// Stores the body of a large answer as an object. If that fails, the body is stored in the row.
    pub(super) async fn stage(&self, answer: &StoredAnswer) -> StagedAnswer {
        let promised = match answer.body.len() > IN_ROW {
            true => self.objects.put_apart("a large answer", answer.body.clone()).await,
            false => None,
        };
        StagedAnswer { row: AnswerRow::new(answer, promised.as_ref()), promised }
    }

    /// Discards an answer that no row references, if there is one.
    pub(super) async fn withdraw_some(&self, staged: Option<StagedAnswer>) {
        if let Some(promised) = staged.and_then(|staged| staged.promised) {
            self.objects.withdraw(promised).await;
        }
    }

    /// Adds the removal of a payment's answer to `batch`. Its object is collected later.
    pub(super) async fn forget_answer(&self, batch: &mut Batch, id: &PaymentId) -> Result<(), StoreError> {
        let Some(found) = PAYMENT_ANSWERS.found(&*self.store, id).await? else { return Ok(()) };
        match PAYMENT_ANSWERS.read(found) {
            Ok(row) => _ = self.objects.ends(batch, row.value.object.map(|object| object.name)),
            Err(error) => tracing::error!(payment.id = %id, %error, "a deleted answer is malformed: its object, if any, is not deleted"),
        }
        batch.delete(&PAYMENT_ANSWERS, id);
        Ok(())
    }
}
