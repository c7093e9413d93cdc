//! The answers of payments, each stored once: with the intent that may take the money for it, or in the commit that takes it. The body
//! of a large one is an object, put before that commit, which has its row name it.

mod row;

use tollhouse_objects::Promised;
use tollhouse_replica::ANSWERS_APART;
use tollhouse_store::{Batch, Store, StoreError, Table, Written, schema};

use self::row::AnswerRow;
use super::{
    Gate, PAYMENTS,
    record::{Intent, Kept, Record, State, StoredAnswer},
};
use crate::PaymentId;

/// The largest body of an answer that lies in its row, in bytes. A larger one is an object: a database would write it to its log and to
/// its table, and send it to each standby.
pub(crate) const IN_ROW: usize = 64 * 1024;

pub(super) const PAYMENT_ANSWERS: Table<PaymentId, AnswerRow> = schema::PAYMENT_ANSWERS.holding();

/// Which object holds the body of an answer, and its SHA-256 in hex; `None` of a row without one.
#[must_use]
pub fn object_of(written: &Written) -> Option<(String, String)> {
    PAYMENT_ANSWERS.read(written.of(&PAYMENT_ANSWERS)?).ok()?.value.object().map(|object| (object.name.clone(), object.sha256.clone()))
}

/// What a payment that was charged has bought.
pub(super) enum Bought {
    /// This.
    Answer(StoredAnswer),
    /// What is not where it was put, or is something else.
    Lost,
    /// What nobody can ask for any more.
    NotKept,
}

/// What became of a payment that someone else holds.
#[derive(Debug)]
pub enum Ended {
    /// It ended, with this.
    Answer(StoredAnswer),
    /// It was charged, and its answer is lost.
    Lost,
    /// It runs, or is being looked up.
    NotYet,
    /// The facilitator did not say how its settlement ended.
    Open,
    /// It was charged before its run, which has ended without an answer: the same payment can run the tool again.
    Owed,
    /// Nothing was taken.
    Without,
}

/// An answer as it is to be stored.
pub(super) struct Laid {
    row: AnswerRow,
    promised: Option<Promised>,
}

impl Laid {
    /// Has `batch` write the answer that a settlement is begun for, or that the money is taken for.
    pub(super) fn keep(&self, batch: &mut Batch, id: &PaymentId) {
        batch.put(&PAYMENT_ANSWERS, id, &self.row);
        self.promised.iter().for_each(|promised| promised.keep(batch));
    }

    /// The same, where its body is an object.
    pub(super) fn into_apart(self) -> Option<Self> {
        self.promised.is_some().then_some(self)
    }
}

/// The answer that an intent takes the money for. Without its body where that is an object: who finds out how a settlement ended needs
/// none.
pub(super) async fn of_intent(store: &dyn Store, id: &PaymentId, intent: &mut Intent) -> Result<StoredAnswer, StoreError> {
    if let Some(answer) = intent.answer.take() {
        return Ok(answer);
    }
    let missing = || StoreError::Away(format!("the answer of payment `{id}` is missing"));
    Ok(PAYMENT_ANSWERS.get(store, id).await?.ok_or_else(missing)?.into_answer())
}

impl Gate {
    /// Puts the body of a large answer where large ones are. What cannot be put there now is stored as small ones are.
    pub(super) async fn lay(&self, answer: &StoredAnswer) -> Laid {
        let promised = match answer.body.len() > IN_ROW {
            true => self.objects.put_apart(self.replica.may_write(ANSWERS_APART), "a large answer", answer.body.clone()).await,
            false => None,
        };
        Laid { row: AnswerRow::of(answer, promised.as_ref()), promised }
    }

    /// Takes back what no row has come to name, as is known.
    pub(super) async fn withdraw(&self, laid: Laid) {
        if let Some(promised) = laid.promised {
            self.objects.withdraw(promised).await;
        }
    }

    /// The same of what may have been laid apart.
    pub(super) async fn withdraw_some(&self, laid: Option<Laid>) {
        if let Some(laid) = laid {
            self.withdraw(laid).await;
        }
    }

    /// The end of a payment that another call or replica has: its answer, or that it is still under
    /// way, or that it ended without one.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn ended(&self, id: &PaymentId) -> Result<Ended, StoreError> {
        Ok(match PAYMENTS.get(&*self.store, id).await? {
            Some(record @ Record { state: State::Settled, .. }) => match self.answer_of(id, record).await? {
                Bought::Answer(answer) => Ended::Answer(answer),
                Bought::Lost => Ended::Lost,
                Bought::NotKept => Ended::Without,
            },
            Some(Record { state: State::Unresolved, .. }) => Ended::Open,
            Some(record @ Record { state: State::Owed, .. }) => match self.is_running(&record).await? {
                true => Ended::NotYet,
                false => Ended::Owed,
            },
            Some(Record { state: State::Settling, .. }) if self.retries().get(id).is_some_and(|retry| retry.at.is_some()) => Ended::Open,
            Some(Record { state: State::Reserved | State::Settling, .. }) => Ended::NotYet,
            _ => Ended::Without,
        })
    }

    /// The answer that a settled payment has bought.
    pub(super) async fn answer_of(&self, id: &PaymentId, record: Record) -> Result<Bought, StoreError> {
        let settlement = match record.answer {
            None => return Ok(Bought::NotKept),
            Some(Kept::Here(answer)) => return Ok(Bought::Answer(answer)),
            Some(Kept::Apart(settlement)) => settlement,
        };
        let Some(row) = PAYMENT_ANSWERS.get(&*self.store, id).await? else { return Ok(Bought::NotKept) };
        let object = row.object().cloned();
        let receipt_id = record.receipt_id.unwrap_or_default();
        let answer = StoredAnswer { receipt_id, settlement, ..row.into_answer() };
        let Some(object) = object else { return Ok(Bought::Answer(answer)) };
        match self.objects.get(&object.name, Some(&object.sha256)).await {
            Ok(Some(body)) => Ok(Bought::Answer(StoredAnswer { body, ..answer })),
            // Its day went by between the two reads.
            Ok(None) if PAYMENT_ANSWERS.get(&*self.store, id).await?.is_none() => Ok(Bought::NotKept),
            Ok(None) => {
                tracing::error!(payment.id = %id, object.name, "the answer of a payment is not where it was put");
                Ok(Bought::Lost)
            }
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                tracing::error!(payment.id = %id, %error, "the answer of a payment is not what was put");
                Ok(Bought::Lost)
            }
            Err(error) => Err(StoreError::Away(format!("the bucket is away: {error}"))),
        }
    }

    /// Has `batch` remove the answer that a payment does not buy, or not any more. Its object is collected later.
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
