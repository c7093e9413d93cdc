//! Stores the answer of each payment once: with the intent, or in the commit that takes the money. The body of a large
//! answer is an object, which is stored before that commit and referenced by its row.

mod row;

use tollhouse_objects::PendingObject;
use tollhouse_replica::ANSWERS_APART;
use tollhouse_store::{Batch, Store, StoreError, Table, WrittenRow, schema};

use self::row::AnswerRow;
use super::{
    PAYMENTS, Payments,
    record::{AnswerLocation, PaymentPhase, PaymentRecord, SettlementIntent, StoredAnswer},
};
use crate::{PaymentId, Unanswered};

/// Maximum size of a body stored in its row, in bytes. A larger one is an object, because a database would write it to
/// its log and its table and send it to each standby.
pub(crate) const IN_ROW: usize = 64 * 1024;

pub(super) const PAYMENT_ANSWERS: Table<PaymentId, AnswerRow> = schema::PAYMENT_ANSWERS.holding();

/// Returns the name and hex SHA-256 of the object with an answer's body, or `None` if the row has none.
#[must_use]
pub fn object_of(written: &WrittenRow) -> Option<(String, String)> {
    PAYMENT_ANSWERS.read(written.of(&PAYMENT_ANSWERS)?).ok()?.value.object().map(|object| (object.name.clone(), object.sha256.clone()))
}

/// The answer to a payment that was charged.
pub(super) enum PaidAnswer {
    /// The stored answer.
    Answer(StoredAnswer),
    /// The answer's object is missing or corrupt.
    Lost,
    /// The answer is no longer kept.
    NotKept,
}

/// The outcome of a payment that another call or host handles.
#[derive(Debug)]
pub enum HeldPaymentEnd {
    /// It ended with this answer.
    Answer(StoredAnswer),
    /// It was charged, and its answer is lost.
    Lost,
    /// It is running, or its settlement is being looked up.
    NotYet,
    /// It was charged before its run, which is in flight.
    Running {
        /// Number of earlier runs that ended without an answer.
        failed_runs: u32,
    },
    /// The facilitator did not report the outcome of its settlement.
    Open,
    /// It was charged before its run, and no run is in flight. The same payment can run the tool again.
    Owed {
        /// Number of runs that ended without an answer.
        failed_runs: u32,
        /// The details for the payer.
        unanswered: Unanswered,
    },
    /// It ended without an answer, and nothing was taken.
    Without,
}

/// An answer that is ready to be stored.
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

    /// Returns it if its body is an object.
    pub(super) fn detach(self) -> Option<Self> {
        self.promised.is_some().then_some(self)
    }
}

/// Returns the answer of an intent, without the body if that is an object. Looking up a settlement does not need it.
pub(super) async fn of_intent(store: &dyn Store, id: &PaymentId, intent: &mut SettlementIntent) -> Result<StoredAnswer, StoreError> {
    if let Some(answer) = intent.answer.take() {
        return Ok(answer);
    }
    let missing = || StoreError::Away(format!("the answer of payment `{id}` is missing"));
    Ok(PAYMENT_ANSWERS.get(store, id).await?.ok_or_else(missing)?.into_answer())
}

impl Payments {
    /// Stores the body of a large answer as an object. If that fails, the body is stored in the row.
    pub(super) async fn stage(&self, answer: &StoredAnswer) -> StagedAnswer {
        let promised = match answer.body.len() > IN_ROW {
            true => self.objects.quarantine(self.replica.may_write(ANSWERS_APART), "a large answer", answer.body.clone()).await,
            false => None,
        };
        StagedAnswer { row: AnswerRow::of(answer, promised.as_ref()), promised }
    }

    /// Discards an answer that no row references.
    pub(super) async fn withdraw(&self, staged: StagedAnswer) {
        if let Some(promised) = staged.promised {
            self.objects.withdraw(promised).await;
        }
    }

    /// Discards an answer, if there is one.
    pub(super) async fn withdraw_some(&self, staged: Option<StagedAnswer>) {
        if let Some(staged) = staged {
            self.withdraw(staged).await;
        }
    }

    /// Returns the outcome of a payment that another call or replica handles.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    pub async fn ended(&self, id: &PaymentId) -> Result<HeldPaymentEnd, StoreError> {
        Ok(match PAYMENTS.get(&*self.store, id).await? {
            Some(record @ PaymentRecord { state: PaymentPhase::Settled, .. }) => match self.answer_of(id, record).await? {
                PaidAnswer::Answer(answer) => HeldPaymentEnd::Answer(answer),
                PaidAnswer::Lost => HeldPaymentEnd::Lost,
                PaidAnswer::NotKept => HeldPaymentEnd::Without,
            },
            Some(PaymentRecord { state: PaymentPhase::Unresolved, .. }) => HeldPaymentEnd::Open,
            Some(record @ PaymentRecord { state: PaymentPhase::Owed, .. }) => {
                let failed_runs = record.failed_runs();
                match self.is_running(&record).await? {
                    true => HeldPaymentEnd::Running { failed_runs },
                    false => HeldPaymentEnd::Owed { failed_runs, unanswered: self.unanswered(id.clone(), &record) },
                }
            }
            Some(PaymentRecord { state: PaymentPhase::Settling, .. }) if self.retries().get(id).is_some_and(|retry| retry.at.is_some()) => {
                HeldPaymentEnd::Open
            }
            Some(PaymentRecord { state: PaymentPhase::Reserved | PaymentPhase::Settling, .. }) => HeldPaymentEnd::NotYet,
            _ => HeldPaymentEnd::Without,
        })
    }

    /// Returns the answer of a settled payment.
    pub(super) async fn answer_of(&self, id: &PaymentId, record: PaymentRecord) -> Result<PaidAnswer, StoreError> {
        let settlement = match record.answer {
            None => return Ok(PaidAnswer::NotKept),
            Some(AnswerLocation::Here(answer)) => return Ok(PaidAnswer::Answer(answer)),
            Some(AnswerLocation::Apart(settlement)) => settlement,
        };
        let Some(row) = PAYMENT_ANSWERS.get(&*self.store, id).await? else { return Ok(PaidAnswer::NotKept) };
        let object = row.object().cloned();
        let receipt_id = record.receipt_id.unwrap_or_default();
        let answer = StoredAnswer { receipt_id, settlement, ..row.into_answer() };
        let Some(object) = object else { return Ok(PaidAnswer::Answer(answer)) };
        match self.objects.get(&object.name, Some(&object.sha256)).await {
            Ok(Some(body)) => Ok(PaidAnswer::Answer(StoredAnswer { body, ..answer })),
            // It expired between the two reads.
            Ok(None) if PAYMENT_ANSWERS.get(&*self.store, id).await?.is_none() => Ok(PaidAnswer::NotKept),
            Ok(None) => {
                tracing::error!(payment.id = %id, object.name, "the answer of a payment is not where it was put");
                Ok(PaidAnswer::Lost)
            }
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                tracing::error!(payment.id = %id, %error, "the answer of a payment is not what was put");
                Ok(PaidAnswer::Lost)
            }
            Err(error) => Err(StoreError::Away(format!("the bucket is away: {error}"))),
        }
    }

    /// Adds the removal of a payment's answer to `batch`. Its object is collected later.
    pub(super) async fn forget_answer(&self, batch: &mut Batch, id: &PaymentId) -> Result<(), StoreError> {
        let Some(found) = PAYMENT_ANSWERS.found(&*self.store, id).await? else { return Ok(()) };
        match PAYMENT_ANSWERS.read(found) {
            Ok(row) => _ = self.objects.ends(batch, row.value.object().map(|object| object.name.clone())),
            Err(error) => tracing::error!(payment.id = %id, %error, "an answer that goes does not read: an object of it stays"),
        }
        batch.delete(&PAYMENT_ANSWERS, id);
        Ok(())
    }
}
