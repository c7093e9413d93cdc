//! Taking the money: intent, settlement, outcome.

use serde_json::Value;

use super::{Admission, Gate, Means, Retry, TRIES};
use crate::{
    money::{
        Finished, Outcome, Payment, PaymentId, SettleError, Settlement, SettlementKind, State, StoredAnswer,
        gate::record::{Intent, Record, SettlementNotice},
        x402::wire,
    },
    store::{Check, Durability, Space, StoreError, Write},
};

impl Gate {
    /// Takes the money for `answer`, and stores receipt and answer in the commit that says so.
    /// `draft` is what the finisher makes the receipt from.
    ///
    /// # Errors
    ///
    /// [`SettleError`]; the answer must be withheld.
    pub async fn settle(&self, mut admission: Admission, answer: StoredAnswer, draft: &[u8]) -> Result<StoredAnswer, SettleError> {
        match &admission.means {
            Means::X402(_) => {
                let (payment, id) = self.intend(&mut admission, answer, draft).await?;
                let outcome = self.facilitator.settle(&payment).await;
                self.conclude(&id, outcome).await
            }
            Means::Credit(_) => self.debit(admission, answer, draft).await,
        }
    }

    /// Writes the intent. From here on only [`Gate::conclude`] ends the payment.
    pub(super) async fn intend(
        &self,
        admission: &mut Admission,
        answer: StoredAnswer,
        draft: &[u8],
    ) -> Result<(Payment, PaymentId), SettleError> {
        let Means::X402(payment) = &admission.means else { unreachable!("only x402 payments have an intent") };
        let payment = Payment::clone(payment);
        let id = admission.id.clone();
        let before = admission.record.encode();
        let mut record = admission.record.clone();
        record.state = State::Settling;
        record.updated_ms = self.clock.now().0;
        record.intent = Some(Intent {
            version: payment.version,
            payload: payment.payload.to_string(),
            requirements: payment.requirements.to_string(),
            draft: draft.to_vec(),
            answer,
        });
        // Known as ours before anyone can see it in the store.
        self.retries().insert(id.clone(), Retry { at: None, tries: 0 });
        let check = Check::holds(Space::Payments, id.key(), before);
        let committed =
            self.store.commit(vec![check], vec![Write::put(Space::Payments, id.key(), record.encode())], Durability::Durable).await;
        if let Err(error) = committed {
            // Not asked to settle. Of the intent and the release, one is written.
            admission.ended = true;
            if self.give_back(&id, &admission.record).await == Some(true) || !matches!(error, StoreError::Unknown(_)) {
                self.retries().remove(&id);
                return Err(error.into());
            }
            // The intent may be on disk: whoever finds it there acts on it.
            self.ask_later(&id);
            return Err(SettleError::Unknown { payment: id });
        }
        admission.ended = true;
        Ok((payment, id))
    }

    /// Records how a settlement ended.
    pub(super) async fn conclude(&self, id: &PaymentId, outcome: Outcome) -> Result<StoredAnswer, SettleError> {
        let unknown = || SettleError::Unknown { payment: id.clone() };
        let mut concluded = self.try_conclude(id, &outcome).await;
        for _ in 0..TRIES {
            if !matches!(concluded, Err(SettleError::Store(StoreError::Conflict))) {
                break;
            }
            // Another replica was faster.
            concluded = self.try_conclude(id, &outcome).await;
        }
        match &concluded {
            Ok(_) | Err(SettleError::Refused { .. }) => _ = self.retries().remove(id),
            Err(error) => {
                tracing::warn!(payment.id = %id, %error, "a settlement is open");
                self.ask_later(id);
            }
        }
        // The intent is on disk: a store that went away now leaves the outcome to be found out again.
        concluded.map_err(|error| if matches!(error, SettleError::Store(_)) { unknown() } else { error })
    }

    pub(super) async fn try_conclude(&self, id: &PaymentId, outcome: &Outcome) -> Result<StoredAnswer, SettleError> {
        let unknown = || SettleError::Unknown { payment: id.clone() };
        let Some((mut record, before)) = self.read(id).await? else { return Err(unknown()) };
        let Some(intent) = record.intent.take() else {
            return match (record.state, record.reason) {
                (State::Refused, Some(reason)) => Err(SettleError::Refused { message: reason.clone(), reason, notice: None }),
                _ => record.answer.ok_or_else(unknown),
            };
        };
        record.updated_ms = self.clock.now().0;
        let check = Check::holds(Space::Payments, id.key(), before);
        let text = |json: &str, pointer: &str| Some(serde_json::from_str::<Value>(json).ok()?.pointer(pointer)?.as_str()?.to_owned());
        // As the intent names it: the settings may be others since.
        let network = text(&intent.requirements, "/network");
        match outcome {
            Outcome::Settled(settlement) => {
                let mut finished = self.finisher.finish(&intent.draft, settlement, intent.answer);
                let network = network.as_deref().unwrap_or(&settlement.network);
                let body = wire::settle_response(settlement, intent.version, network, finished.extensions.as_ref());
                finished.answer.settlement = Some(SettlementNotice { version: intent.version, body: body.to_string() });
                let answer = self.finish(id, check, record, settlement.clone(), finished).await?;
                Ok(answer)
            }
            Outcome::Refused { reason, message } => {
                let payer = text(&intent.payload, "/payload/authorization/from").unwrap_or_default();
                let body = wire::settle_refusal(reason, message, network.as_deref().unwrap_or_default(), &payer);
                let notice = Some(SettlementNotice { version: intent.version, body: body.to_string() });
                record.state = State::Refused;
                record.reason = Some(reason.clone());
                let (mut writes, news) = self.finisher.refuse(&intent.draft, reason);
                writes.extend(self.ended_writes(id, &record));
                self.store.commit(vec![check], writes, Durability::Durable).await?;
                self.finisher.announce(news);
                Err(SettleError::Refused { reason: reason.clone(), message: message.clone(), notice })
            }
            Outcome::Unknown(why) => {
                tracing::warn!(payment.id = %id, why, "the facilitator did not say how a settlement ended");
                Err(unknown())
            }
        }
    }

    /// The commit that ends a payment: record, receipt and answer together.
    pub(super) async fn finish(
        &self,
        id: &PaymentId,
        check: Check,
        record: Record,
        settlement: Settlement,
        finished: Finished,
    ) -> Result<StoredAnswer, StoreError> {
        let writes = self.final_writes(id, record, settlement, &finished);
        self.store.commit(vec![check], [finished.writes, writes].concat(), Durability::Durable).await?;
        self.finisher.announce(finished.news);
        Ok(finished.answer)
    }

    pub(super) fn final_writes(&self, id: &PaymentId, mut record: Record, settlement: Settlement, finished: &Finished) -> Vec<Write> {
        record.state = State::Settled;
        record.updated_ms = self.clock.now().0;
        record.receipt_id = Some(finished.answer.receipt_id.clone());
        record.transaction = (!settlement.transaction.is_empty()).then_some(settlement.transaction);
        record.answer = Some(finished.answer.clone());
        self.ended_writes(id, &record)
    }

    /// Debits a credit: balance, movement, record, receipt and answer in one commit.
    pub(super) async fn debit(&self, mut admission: Admission, answer: StoredAnswer, draft: &[u8]) -> Result<StoredAnswer, SettleError> {
        let Means::Credit(hold) = &admission.means else { unreachable!("only credits are debited") };
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
        };
        let finished = self.finisher.finish(draft, &settlement, answer);
        for _ in 0..TRIES {
            let Some((check, movement)) = self.credits.debit(hold, &finished.answer.receipt_id).await? else {
                let (reason, message) = ("insufficient_funds".to_owned(), "developer credit is used up, or was revoked".to_owned());
                admission.release().await;
                let (writes, news) = self.finisher.refuse(draft, &reason);
                match self.store.commit(vec![], writes, Durability::Buffered).await {
                    Ok(()) => self.finisher.announce(news),
                    Err(error) => tracing::warn!(payment.id = %id, %error, "a refused debit was not recorded"),
                }
                return Err(SettleError::Refused { reason, message, notice: None });
            };
            let own = Check::holds(Space::Payments, id.key(), admission.record.encode());
            let mut writes = self.final_writes(&id, Record::clone(&admission.record), settlement.clone(), &finished);
            writes.extend(movement);
            writes.extend(finished.writes.iter().cloned());
            match self.store.commit(vec![own, check], writes, Durability::Durable).await {
                Ok(()) => {
                    admission.ended = true;
                    self.finisher.announce(finished.news);
                    return Ok(finished.answer);
                }
                // Another call of the same credit was faster.
                Err(StoreError::Conflict) => {}
                Err(StoreError::Unknown(why)) => {
                    tracing::error!(payment.id = %id, why, "a debit was not confirmed");
                    admission.ended = true;
                    // Of the debit and the release, one is written.
                    return Err(match self.give_back(&id, &admission.record).await {
                        Some(true) => StoreError::Unknown(why).into(),
                        Some(false) | None => SettleError::Unknown { payment: id },
                    });
                }
                Err(error) => {
                    admission.release().await;
                    return Err(error.into());
                }
            }
        }
        Err(StoreError::Conflict.into())
    }
}
