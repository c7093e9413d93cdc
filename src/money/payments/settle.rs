//! Takes the money: intent, settlement, outcome.

use serde_json::Value;
use tollhouse_base::boxed;
use tollhouse_store::{Batch, Durability, StoreError, Tx, UpdatePlan, update};
use tollhouse_telemetry::{
    Stage,
    counters::{PAYMENTS as PAYMENTS_ENDED, SETTLEMENT_FAULTS},
    enter,
};

use super::{
    Admission, OpenRun, PAYMENTS, PaymentMeans, Payments, RunHolds, answer,
    facilitator_calls::{measured, outcome_of},
    gas::{Burner, CountedGas, GasCaller, cover::is_underpaid},
    resettle,
    retry::PollBackoff,
    settled_elsewhere,
};
use crate::{
    BurnedGas, NOT_SERVED, OfferedX402, PaymentId, PaymentState, PrepareError, SettleError, SettleOutcome, Settlement, SettlementGas,
    StartedSettlement, StoredAnswer,
    payments::record::{Owed, PaymentRecord, SettlementIntent, SettlementNotice, Settler},
    receipt_finisher::CommitEffects,
    reorganized, transactions,
    x402::wire,
};

/// The outcome of taking money, with the limits that the run still holds and the gas that was counted as burned.
pub(super) type Taken = (Result<StoredAnswer, SettleError>, Option<(Box<RunHolds>, Option<CountedGas>)>);

/// The outcome of a payment, and the events to announce.
pub(super) struct PaymentConclusion {
    pub(super) outcome: Result<StoredAnswer, SettleError>,
    pub(super) news: Option<CommitEffects>,
}

impl Payments {
    /// Takes the money for `answer`, and stores `answer` and the receipt made of `draft` in the commit that records it.
    ///
    /// # Errors
    ///
    /// [`SettleError`]; then the answer must be withheld.
    #[boxed]
    pub async fn settle(&self, admission: Admission, answer: StoredAnswer, draft: &[u8]) -> Result<StoredAnswer, SettleError> {
        enter(Stage::Settle);
        let id = admission.id.clone();
        let (settled, held) = self.take(admission, Some(answer), draft).await;
        if let Some((held, burned)) = held {
            self.count(id, *held, burned, &settled);
        }
        settled
    }

    /// Takes the money, for `answer` or before there is one. Also returns the limits that the run holds and the burned
    /// gas.
    pub(super) async fn take(&self, mut admission: Admission, answer: Option<StoredAnswer>, draft: &[u8]) -> Taken {
        if let PaymentMeans::Credit(_) = admission.means {
            let held = admission.held.take();
            return (self.debit(admission, answer, draft).await, held.map(|held| (held, None)));
        }
        let settled = self.settle_x402(&mut admission, answer, draft).await;
        let (PaymentMeans::X402(payment), Some(mut held)) = (&admission.means, admission.held.take()) else { return (settled, None) };
        let (is_known, counted) = self.count_gas(payment, &Burner::from(&held.permit.running), settled.is_ok());
        if is_known {
            held.gas = None;
        }
        (settled, Some((held, counted)))
    }

    /// Counts the gas that transactions of a payment have used or burned since the last call. Returns whether there was
    /// any, and the burned gas that counts against its payer.
    pub(super) fn count_gas(&self, payment: &OfferedX402, burner: &Burner, is_settled: bool) -> (bool, Option<CountedGas>) {
        let (facilitator, id) = (self.facilitators.of(payment.asset.network), payment.id());
        let (used, burned) = (facilitator.take_used(&id), facilitator.drain_burned(&id));
        let is_known = used.is_some() || burned.is_some();
        if let Some(used) = used {
            self.gas.settled(burner, used, self.is_underpaid(payment));
        }
        match burned.map(|burned| self.gas.burned(burner, burned)) {
            // Another transaction moved the money, so the reverted one was not the payer's fault.
            Some(counted) if is_settled => {
                self.gas.forgive(counted);
                (is_known, None)
            }
            counted => (is_known, counted),
        }
    }

    #[boxed]
    async fn settle_x402(
        &self,
        admission: &mut Admission,
        answer: Option<StoredAnswer>,
        draft: &[u8],
    ) -> Result<StoredAnswer, SettleError> {
        let (payment, id, started) = self.write_intent(admission, answer.as_ref(), draft).await?;
        if self.replica.is_fenced() {
            // Another replica may have taken over the settlement, and may look it up at the same time.
            self.schedule_retry(&id);
            return Err(SettleError::Unknown { payment: id });
        }
        enter(Stage::Settle);
        let facilitator = self.facilitators.of(payment.asset.network);
        let outcome = if admission.has_moved {
            measured("look_up", facilitator.look_up(&payment, &started), SettleOutcome::name).await
        } else {
            let outcome = measured("settle", facilitator.settle(&payment, &started), SettleOutcome::name).await;
            self.last_answers.settled(payment.asset.network, self.clock.now(), &outcome);
            outcome
        };
        if settled_elsewhere::note_spent_before(&id, &payment, &outcome) {
            self.alarms.spent_elsewhere();
        }
        enter(Stage::Commit);
        self.conclude(&id, outcome, Some(answer.unwrap_or_default())).await
    }

    /// Counts a run as paid or unpaid. If the outcome of its settlement is unknown, it counts as unpaid and holds the
    /// payer's balance until it is found to be paid.
    pub(super) fn count(&self, id: PaymentId, held: RunHolds, burned: Option<CountedGas>, settled: &Result<StoredAnswer, SettleError>) {
        if let Some(counted) = &burned {
            self.gas.note_counted(&id, counted);
        }
        let RunHolds { permit, balance, gas, by_contract, is_excusable, .. } = held;
        match settled {
            Ok(_) => permit.paid(),
            Err(SettleError::Refused { reason, .. }) if reason == NOT_SERVED => permit.unserved(is_excusable && !by_contract),
            Err(SettleError::Refused { .. } | SettleError::OverBudget(_)) => permit.failed("refused"),
            Err(SettleError::Unknown { .. }) => {
                let running = permit.running.clone();
                permit.failed("unknown");
                let (burner, burned) = (Burner::from(&running), burned.into_iter().collect());
                self.open_runs.lock().insert(id, OpenRun { running: Some(running), burner, burned, balance, gas });
            }
            Err(SettleError::Store(_)) => {}
        }
    }

    fn count_late_settlement(&self, id: &PaymentId, ended: &Result<StoredAnswer, SettleError>) {
        let open = self.open_runs.lock().remove(id);
        let Some(OpenRun { running, burned, .. }) = open else { return };
        match ended {
            // Somebody else's transaction moved the money, so the reverted one was not the payer's fault.
            Ok(_) => {
                running.iter().for_each(|running| self.throttle.settled_afterwards(running));
                burned.into_iter().for_each(|counted| self.gas.forgive(counted));
            }
            Err(SettleError::Refused { reason, .. }) if reason == NOT_SERVED => {
                running.iter().for_each(|running| self.throttle.excuse(running));
            }
            Err(_) => {}
        }
    }

    pub(super) fn count_used(&self, payment: &OfferedX402, used: SettlementGas) {
        let burner = self.open_burner(&payment.id()).unwrap_or_else(|| Burner::of_payer(payment.payer()));
        self.gas.settled(&burner, used, self.is_underpaid(payment));
    }

    /// Counts gas burned by a settlement that is being looked up, unless another process has counted it.
    pub(super) async fn count_burned(&self, payment: &OfferedX402, burned: BurnedGas) {
        let (id, known) = (payment.id(), self.open_burner(&payment.id()));
        let before = match &known {
            Some(_) => None,
            None => self.counted_before(payment, burned).await,
        };
        let counted = before.unwrap_or_else(|| {
            let counted = self.gas.burned(&known.unwrap_or_else(|| Burner::of_payer(payment.payer())), burned);
            self.gas.note_counted(&id, &counted);
            counted
        });
        let mut open = self.open_runs.lock();
        let run = open.entry(id).or_insert_with(|| {
            let burner = counted.burner.clone();
            OpenRun { running: None, burner, burned: Vec::new(), balance: None, gas: None }
        });
        run.burned.push(counted);
        // Counted gas is no longer held.
        drop(run.gas.take());
    }

    /// Returns the parties of an open settlement, if this process knows them.
    fn open_burner(&self, id: &PaymentId) -> Option<Burner> {
        self.open_runs.lock().get(id).map(|run| run.burner.clone())
    }

    /// Returns whether a payment is below the least amount that covers the gas of its settlement.
    pub(super) fn is_underpaid(&self, payment: &OfferedX402) -> bool {
        is_underpaid(payment, self.config.least_settlement(payment.asset.network))
    }

    /// Releases the held balance of an open settlement whose nonce is spent: its money has moved, or never will.
    pub(super) async fn free_balance(&self, id: &PaymentId) {
        if let Some(run) = self.open_runs.lock().get_mut(id) {
            run.balance = None;
        }
        let freeing = update(&*self.store, Durability::Buffered, |mut tx| async move {
            if let Some(row) = tx.row(&PAYMENTS, id).await?
                && row.value.state == PaymentState::Settling
                && let Some(held) = &row.value.held
            {
                held.release(&mut tx);
                tx.replace(&PAYMENTS, &row, &row.value.clone().without_balance());
            }
            tx.answer::<_, StoreError>(())
        });
        if let Err(error) = freeing.await {
            tracing::warn!(payment.id = %id, %error, "the held balance of an open settlement could not be released");
        }
    }

    /// Returns whether an open settlement holds a part of its payer's balance.
    pub(super) fn holds_balance(&self, id: &PaymentId, record: &PaymentRecord) -> bool {
        record.held.is_some() || self.open_runs.lock().get(id).is_some_and(|run| run.balance.is_some())
    }

    /// Writes the intent. From here on only [`Payments::conclude`] ends the payment.
    pub(super) async fn write_intent(
        &self,
        admission: &mut Admission,
        answer: Option<&StoredAnswer>,
        draft: &[u8],
    ) -> Result<(OfferedX402, PaymentId, StartedSettlement), SettleError> {
        let PaymentMeans::X402(payment) = &admission.means else { unreachable!("only x402 payments have an intent") };
        let payment = OfferedX402::clone(payment);
        let id = admission.id.clone();
        let facilitator = self.facilitators.of(payment.asset.network);
        if let Some(gas) = admission.held.as_mut().and_then(|held| held.gas.as_mut())
            && let Err(reason) = gas.begin_settlement().await
        {
            return Err(self.prepare_failed(admission, draft, reason).await);
        }
        let prepared = if admission.has_moved { Ok(None) } else { facilitator.prepare(&payment).await };
        let transaction = match prepared {
            Ok(transaction) => transaction,
            Err(reason) => {
                // The payer may have got code since its payment was verified, which can make the preparation fail.
                if let Some(held) = &mut admission.held {
                    held.by_contract |= payment.tried_gas().is_some_and(|tried| tried.by_contract);
                    held.is_excusable = matches!(reason, PrepareError::Away(_)) && facilitator.is_down(&payment).await;
                }
                return Err(self.prepare_failed(admission, draft, reason).await);
            }
        };
        if let Err(reason) = self.hold_as_contract(admission, &payment) {
            transaction.iter().for_each(|transaction| facilitator.abandon(transaction));
            return Err(self.prepare_failed(admission, draft, reason).await);
        }
        let staged = match answer {
            Some(answer) => Some(self.stage(answer).await),
            None => None,
        };
        let before = PAYMENTS.own(id.clone(), PaymentRecord::clone(&admission.record));
        let mut record = before.value.clone();
        record.state = PaymentState::Settling;
        record.updated_ms = self.clock.now().0;
        record.intent = Some(SettlementIntent {
            version: payment.version,
            payload: payment.payload.to_string(),
            requirements: payment.requirements.to_string(),
            draft: draft.to_vec(),
        });
        record.settler = Some(Settler { facilitator: facilitator.identity(), transaction: transaction.clone() });
        record.owed = answer.is_none().then(Owed::default);
        let started = record.started();
        // This host knows the settlement as its own before anyone can see it in the store.
        self.retries.lock().insert(id.clone(), PollBackoff::default());
        let mut batch = Batch::new();
        batch.replace(&PAYMENTS, &before, &record);
        staged.iter().for_each(|staged| staged.store_answer(&mut batch, &id));
        enter(Stage::Commit);
        if let Err(error) = batch.commit(&*self.store, Durability::Durable).await {
            transaction.iter().for_each(|transaction| facilitator.abandon(transaction));
            // No settlement was requested. Either the intent or the release is written.
            admission.reserved = false;
            if self.release_reservation(&id, &admission.record).await == Some(true) || !matches!(error, StoreError::Unknown(_)) {
                self.retries.lock().remove(&id);
                self.withdraw_some(staged).await;
                return Err(error.into());
            }
            // The intent may be stored, and will then be handled as such.
            self.schedule_retry(&id);
            return Err(SettleError::Unknown { payment: id });
        }
        admission.reserved = false;
        // From here on the payer cannot prevent the settlement from being sent.
        if let Some(held) = &mut admission.held {
            held.is_excusable = true;
        }
        Ok((payment, id, started))
    }

    /// Reserves gas for a payer whose address has got code since its payment was verified.
    fn hold_as_contract(&self, admission: &mut Admission, payment: &OfferedX402) -> Result<(), PrepareError> {
        let PaymentMeans::X402(verified) = &admission.means else { return Ok(()) };
        let was_contract = verified.tried_gas().is_some_and(|tried| tried.by_contract);
        let tried = payment.tried_gas().filter(|tried| tried.by_contract && !was_contract);
        let (Some(tried), Some(held)) = (tried, &mut admission.held) else { return Ok(()) };
        // This reservation replaces the one that was made when the payer was not a contract.
        (held.gas, held.by_contract) = (None, true);
        let caller = GasCaller::new(&held.permit.running, self.gas_cover(payment));
        match self.gas.hold(caller, tried) {
            Ok(mut gas) => {
                gas.settle_now();
                held.gas = Some(gas);
                Ok(())
            }
            Err(_) => Err(PrepareError::Refused {
                reason: "invalid_exact_evm_transaction_simulation_failed".to_owned(),
                message: "the payer's address became a contract after verification, and settlements for contracts used too much gas"
                    .to_owned(),
            }),
        }
    }

    /// Releases a payment whose settlement cannot begin.
    async fn prepare_failed(&self, admission: &mut Admission, draft: &[u8], cause: PrepareError) -> SettleError {
        let (reason, message) = match cause {
            PrepareError::Refused { reason, message } => (reason, message),
            PrepareError::Away(cause) => {
                if let Some(skipped) = self.unprepared.pass() {
                    tracing::warn!(payment.id = %admission.id, cause, skipped, "a payment is released: its settlement could not be prepared");
                }
                (NOT_SERVED.to_owned(), "the facilitator is unavailable".to_owned())
            }
        };
        let outcome = SettleOutcome::Refused { reason: reason.clone(), message: message.clone() };
        if settled_elsewhere::note(&admission.id, &outcome, None) {
            self.alarms.spent_elsewhere();
        }
        admission.reserved = false;
        self.release_reservation(&admission.id, &admission.record).await;
        self.record_refusal(&admission.id, draft, &reason).await;
        let notice = match &admission.means {
            PaymentMeans::X402(payment) => {
                let network = payment.requirements["network"].as_str().unwrap_or_default();
                let body = wire::settle_refusal(&reason, &message, network, payment.signed.sender());
                Some(SettlementNotice { version: payment.version, body: body.to_string() })
            }
            PaymentMeans::Credit(_) => None,
        };
        SettleError::Refused { reason, message, notice }
    }

    /// Records that a payment was refused before its settlement began.
    pub(super) async fn record_refusal(&self, id: &PaymentId, draft: &[u8], reason: &str) {
        let (rows, news) = self.finisher.refuse(draft, reason);
        match rows.commit(&*self.store, Durability::Buffered).await {
            Ok(_) => self.finisher.announce(news),
            Err(error) => tracing::warn!(payment.id = %id, %error, "a refused payment was not recorded"),
        }
    }

    /// Records the outcome of a settlement. `answer` is the answer that it pays for, if available.
    pub(super) async fn conclude(
        &self,
        id: &PaymentId,
        outcome: SettleOutcome,
        answer: Option<StoredAnswer>,
    ) -> Result<StoredAnswer, SettleError> {
        let unknown = || SettleError::Unknown { payment: id.clone() };
        // A lookup has no answer at hand, and the settlement was already counted as open.
        let answered = answer.is_some();
        let ending = update(&*self.store, Durability::Durable, |tx| self.end_batch(tx, id, &outcome, answer.clone()));
        let concluded = ending.await.and_then(|PaymentConclusion { outcome, news }| {
            if news.is_some() {
                PAYMENTS_ENDED.count([outcome_of(&outcome)]);
            }
            news.into_iter().for_each(|news| self.finisher.announce(news));
            outcome
        });
        match &concluded {
            Ok(_) | Err(SettleError::Refused { .. }) => {
                self.retries.lock().remove(id);
                self.count_late_settlement(id, &concluded);
            }
            Err(error) => {
                tracing::warn!(payment.id = %id, %error, "a settlement is open");
                if answered {
                    PAYMENTS_ENDED.count(["unknown"]);
                }
                self.schedule_retry(id);
            }
        }
        // The intent is stored. If the store fails now, the outcome is looked up again.
        concluded.map_err(|error| if matches!(error, SettleError::Store(_)) { unknown() } else { error })
    }

    /// Applies an outcome to a payment that is settling, or returns the outcome of one that has already ended.
    #[boxed]
    pub(super) async fn end_batch<'a: 'async_recursion>(
        &self,
        mut tx: Tx<'a>,
        id: &PaymentId,
        outcome: &SettleOutcome,
        answer: Option<StoredAnswer>,
    ) -> Result<UpdatePlan<'a, PaymentConclusion>, SettleError> {
        let unknown = || SettleError::Unknown { payment: id.clone() };
        let Some(row) = tx.row(&PAYMENTS, id).await? else { return Err(unknown()) };
        let mut record = row.value.clone();
        let Some(intent) = record.intent.take() else {
            let ended = match (record.state, &record.reason) {
                (PaymentState::Refused, Some(reason)) => {
                    Err(SettleError::Refused { message: reason.clone(), reason: reason.clone(), notice: None })
                }
                _ => self.kept_answer(id, record).await?.ok_or_else(unknown),
            };
            return tx.answer(PaymentConclusion { outcome: ended, news: None });
        };
        if !self.is_ours(&row.value) && record.state != PaymentState::Unresolved && !matches!(outcome, SettleOutcome::Settled(_)) {
            // The replica that took it over looks it up too, and may have moved the money. Only a success is certain.
            return Err(unknown());
        }
        if settled_elsewhere::note(id, outcome, record.settler.as_ref().and_then(|settler| settler.transaction.as_deref())) {
            self.alarms.spent_elsewhere();
        }
        (record.settler, record.replica) = (None, None);
        record.updated_ms = self.clock.now().0;
        let text = |json: &str, pointer: &str| Some(serde_json::from_str::<Value>(json).ok()?.pointer(pointer)?.as_str()?.to_owned());
        // From the intent, since the settings may have changed.
        let network = text(&intent.requirements, "/network");
        let (outcome, news) = match outcome {
            SettleOutcome::Settled(settlement) => {
                let is_awaited = answer.is_some();
                let answer = match answer {
                    Some(answer) => answer,
                    None if record.owed.is_some() => StoredAnswer::default(),
                    None => answer::of_intent(tx.store(), id).await?,
                };
                let mut finished = self.finisher.finish(&intent.draft, settlement, answer);
                let receipt_id = &finished.answer.receipt_id;
                if let Some(other) = transactions::claim(&mut tx, id, receipt_id, settlement, self.clock.now()).await? {
                    let transaction = &settlement.transaction;
                    tracing::warn!(payment.id = %id, transaction, receipt.id = other, "a transaction already pays for another receipt");
                    SETTLEMENT_FAULTS.count(["second_receipt"]);
                    return Err(unknown());
                }
                let slug = finished.news.events.iter().find_map(|event| event.endpoint_slug.as_ref());
                let signed = settlement.evidence.as_ref().and_then(|_| resettle::signed(&intent, row.value.started().at));
                tx.append(reorganized::watch(id, receipt_id, settlement, (&finished.news.owner, slug), signed));
                let network = network.as_deref().unwrap_or(&settlement.network);
                let body = wire::settle_response(settlement, intent.version, network, finished.extensions.as_ref());
                finished.answer.settlement = Some(SettlementNotice { version: intent.version, body: body.to_string() });
                let mut record = self.settled(record, settlement, &finished.answer.receipt_id);
                record.notice = finished.answer.settlement.clone();
                match record.owed.is_some() {
                    true => self.owe(&mut record, is_awaited),
                    false => record.has_answer = true,
                }
                self.end(&mut tx, &row, &record);
                tx.append(finished.rows);
                (Ok(finished.answer), finished.news)
            }
            SettleOutcome::Unsent(cause) => {
                tracing::warn!(payment.id = %id, cause, "a payment is released: its facilitator could not be reached");
                (record.state, record.owed) = (PaymentState::Released, None);
                let (rows, news) = self.finisher.refuse(&intent.draft, NOT_SERVED);
                self.end(&mut tx, &row, &record);
                self.forget_answer(&mut tx, id).await?;
                tx.append(rows);
                let message = "the facilitator is unavailable".to_owned();
                (Err(SettleError::Refused { reason: NOT_SERVED.to_owned(), message, notice: None }), news)
            }
            SettleOutcome::Refused { reason, message } => {
                let payer = text(&intent.payload, "/payload/authorization/from").unwrap_or_default();
                let body = wire::settle_refusal(reason, message, network.as_deref().unwrap_or_default(), &payer);
                let notice = Some(SettlementNotice { version: intent.version, body: body.to_string() });
                (record.state, record.owed) = (PaymentState::Refused, None);
                record.reason = Some(reason.clone());
                let (rows, news) = self.finisher.refuse(&intent.draft, reason);
                self.end(&mut tx, &row, &record);
                self.forget_answer(&mut tx, id).await?;
                tx.append(rows);
                (Err(SettleError::Refused { reason: reason.clone(), message: message.clone(), notice }), news)
            }
            SettleOutcome::Unknown(cause) | SettleOutcome::Lost(cause) => {
                tracing::warn!(payment.id = %id, cause, "the facilitator did not report the outcome of a settlement");
                return Err(unknown());
            }
        };
        tx.answer(PaymentConclusion { outcome, news: Some(news) })
    }

    pub(super) fn settled(&self, mut record: PaymentRecord, settlement: &Settlement, receipt_id: &str) -> PaymentRecord {
        (record.state, record.replica) = (PaymentState::Settled, None);
        record.updated_ms = self.clock.now().0;
        record.receipt_id = Some(receipt_id.to_owned());
        record.transaction = (!settlement.transaction.is_empty()).then(|| settlement.transaction.clone());
        record
    }

    /// Marks a record as charged with the answer owed. If a call awaits it, its run begins here.
    pub(super) fn owe(&self, record: &mut PaymentRecord, is_awaited: bool) {
        let until = self.clock.now().plus(self.config.owed.kept);
        (record.state, record.replica) = (PaymentState::Owed, is_awaited.then(|| self.replica.id().clone()));
        record.owed = Some(Owed { runs: u32::from(is_awaited), until_ms: until.0 });
    }
}
