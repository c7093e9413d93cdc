//! Payments that are settled before the run. From the settlement until an answer is stored, the answer is owed: sending
//! the payment again runs the tool again at no further charge.
//!
//! ```text
//! reserved → settling → owed ⇄ running → settled
//! ```
//!
//! During a run, the record names its replica. A crash leaves that name behind, but the next request detects that the
//! run is gone. So nothing has to be repaired at the start.

use std::{sync::Arc, time::Duration};

use tollhouse_base::{boxed, clock::Timestamp, id::ReceiptId};
use tollhouse_store::{Batch, Durability, StoreError, update};
use tollhouse_telemetry::{Stage, enter};

use super::{
    Admission, Admit, PAYMENTS, PaymentRequest, Payments,
    admit::check_run_limits,
    claims::Claim,
    record::{OwedPayment, PaymentRecord, PaymentState, SettlementNotice, StoredAnswer},
    unpaid_runs::{KnownFunds, RunParties, RunPermit, Standing},
};
use crate::{
    CallTerms, Delivery, PaymentId, Refusal, SettleError, receipt,
    receipt::PaymentKind,
    receipt_finisher::CommitEffects,
    refund::{REFUNDS, RefundedTotal},
    reorganized::REORGANIZED,
};

/// Maximum time for which another host's run counts as in flight: the longest wall limit, and a minute to write its
/// answer.
const MAX_RUN: Duration = Duration::from_secs(300 + 60);

/// Details for a payer whose money has moved and who has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    /// Id of the payment.
    pub payment: PaymentId,
    /// Id of the payment's receipt.
    pub receipt: String,
    /// The settle response for the payer, or `None` for credit.
    pub notice: Option<SettlementNotice>,
    /// Number of runs left for the payment.
    pub runs_left: u32,
    /// The time until which a run can begin.
    pub until: Timestamp,
}

/// A run of a payment that was settled before. If it is dropped, the answer stays owed.
#[must_use]
pub struct OwedRun {
    payments: Arc<Payments>,
    unanswered: Unanswered,
    holder: String,
    /// The payer's address, shortened, or `None` for credit.
    pub payer: Option<String>,
    /// The means of payment as in the receipt.
    pub kind: PaymentKind,
    /// Whether the money moved for this run and not for an earlier one.
    pub is_first: bool,
    permit: Option<RunPermit>,
    is_over: bool,
    _claim: Option<Claim>,
}

/// The outcome of storing an answer.
enum Delivered {
    Stored(CommitEffects),
    /// The payment was refunded in full during the run, so it gets no answer.
    Refunded,
    /// The run belongs to another request by now, because this one seemed to be gone.
    Lost,
}

impl Payments {
    /// Takes the money before the run, or before the first byte of a streamed answer. The run keeps its slot until it
    /// ends.
    ///
    /// # Errors
    ///
    /// [`SettleError`]; then the handler must not run, or the answer must be withheld.
    pub async fn settle_before(self: &Arc<Self>, mut admission: Admission, draft: &[u8]) -> Result<OwedRun, SettleError> {
        enter(Stage::Settle);
        if !admission.reserved {
            // A call with credit and without a key, which begins to stream. The record of the owed answer needs a row.
            admission = match self.reserve(admission).await {
                Ok(Admit::Run(admission)) => admission,
                Err(Refusal::Store(error)) => return Err(error.into()),
                Ok(Admit::Seen(_)) | Err(_) => return Err(StoreError::Contended.into()),
            };
        }
        let (id, holder, claim) = (admission.id.clone(), admission.record.holder().to_owned(), admission.claim.take());
        let (payer, kind) = (admission.payer(), admission.kind());
        let (settled, held) = self.take(admission, None, draft).await;
        let reported = match settled {
            Ok(reported) => reported,
            Err(error) => {
                if let Some((held, burned)) = held {
                    self.count(id, *held, burned, &Err(error.clone()));
                }
                return Err(error);
            }
        };
        if reported.status != 0 {
            // Another host found it settled and ran it before this one learned of it.
            return Err(SettleError::Unknown { payment: id });
        }
        let StoredAnswer { receipt_id: receipt, settlement: notice, .. } = reported;
        let (runs_left, until) = (self.config.owed.runs.get() - 1, self.clock.now().plus(self.config.owed.kept));
        let (payments, permit) = (Arc::clone(self), held.map(|(held, _)| held.permit));
        let unanswered = Unanswered { payment: id, receipt, notice, runs_left, until };
        Ok(OwedRun { payments, unanswered, holder, payer, kind, is_first: true, permit, is_over: false, _claim: claim })
    }

    /// Begins another run of an owed answer. Returns `None` if another request was faster.
    ///
    /// # Errors
    ///
    /// - [`Refusal::NoMoreRuns`] if the tool is gone, or if the payment was refunded or lost after a reorganization.
    /// - [`Refusal::Reorganized`] until the payment is settled again.
    /// - A limit on runs in flight.
    #[boxed]
    pub async fn resume<'a>(
        self: &'a Arc<Self>,
        owed: OwedPayment,
        terms: &'a CallTerms,
        request: PaymentRequest<'a>,
    ) -> Result<Option<OwedRun>, Refusal> {
        let OwedPayment { id, record, payer: sender } = owed;
        let receipt_id = record.receipt_id.clone().unwrap_or_default();
        let paid = self.paid_receipt(&receipt_id).await?;
        let Some(paid) = paid.filter(|paid| paid.draft.endpoint_id == terms.endpoint_id) else {
            return Err(Refusal::NoMoreRuns { payment: id, receipt: receipt_id, is_refunded: false });
        };
        let receipt = paid.draft.receipt_id;
        if self.is_reorganized(&id, &receipt).await? {
            return Err(Refusal::Reorganized(id));
        }
        // The same payer as for its other runs. A receipt has only the first and last characters of an address,
        // which payers can share. With credit, the digest is the credit's id. The run is already paid, so it counts
        // neither for nor against other payers of the tool.
        let sender = sender.unwrap_or_else(|| record.digest.clone());
        let running = RunParties { standing: Standing::Customer, ..RunParties::new(sender, terms, request.from, KnownFunds::Credit) };
        let permit = self.throttle.begin(running).map_err(check_run_limits)?;
        let renewed = record.clone().run_by(self.replica.id(), self.clock.now());
        let claim = self.claims.claim(&renewed);
        let kind = if record.is_on_credit() { PaymentKind::Credit } else { PaymentKind::X402 };
        let mut batch = Batch::new();
        batch.replace(&PAYMENTS, &PAYMENTS.own(id.clone(), *record), &renewed);
        batch.absent(&REORGANIZED, &receipt);
        if !batch.commit_if_unchanged(&*self.store, Durability::Buffered).await? {
            return Ok(None);
        }
        let (payments, unanswered, holder) = (Arc::clone(self), self.unanswered(id, &renewed), renewed.holder().to_owned());
        let (payer, permit) = (paid.payer.filter(|_| kind == PaymentKind::X402), Some(permit));
        Ok(Some(OwedRun { payments, unanswered, holder, payer, kind, is_first: false, permit, is_over: false, _claim: Some(claim) }))
    }

    /// Returns whether a reorganization has removed the settlement of an owed payment, which can be settled again.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoMoreRuns`] if it was refunded in full, or is lost.
    async fn is_reorganized(&self, payment: &PaymentId, receipt: &ReceiptId) -> Result<bool, Refusal> {
        let reorganized = REORGANIZED.get(&*self.store, receipt).await?;
        let is_lost = reorganized.as_ref().is_some_and(|settlement| settlement.lost.is_some());
        let is_refunded = self.is_refunded(receipt, REFUNDS.get(&*self.store, receipt).await?).await?;
        if is_lost || is_refunded {
            return Err(Refusal::NoMoreRuns { payment: payment.clone(), receipt: receipt.to_string(), is_refunded });
        }
        Ok(reorganized.is_some())
    }

    /// Returns whether these refunds of a receipt return all that was paid. A refund of a part leaves the runs.
    async fn is_refunded(&self, receipt: &ReceiptId, refunded: Option<RefundedTotal>) -> Result<bool, StoreError> {
        let Some(refunded) = refunded else { return Ok(false) };
        let paid = self.paid_receipt(receipt.as_str()).await?;
        Ok(paid.is_none_or(|paid| refunded.sum() >= paid.draft.price_usd))
    }

    /// Fails with [`Refusal::NoMoreRuns`] if an owed payment was refunded in full, or is lost after a reorganization.
    pub(super) async fn check_owed(&self, owed: &OwedPayment) -> Result<(), Refusal> {
        let receipt = owed.record.receipt_id.as_ref().and_then(|receipt| receipt.parse::<ReceiptId>().ok());
        match receipt {
            Some(receipt) => self.is_reorganized(&owed.id, &receipt).await.map(drop),
            None => Ok(()),
        }
    }

    /// Returns the details for the payer of an owed payment while no run begins.
    pub fn unanswered_by(&self, owed: &OwedPayment) -> Unanswered {
        self.unanswered(owed.id.clone(), &owed.record)
    }

    pub(super) fn unanswered(&self, payment: PaymentId, record: &PaymentRecord) -> Unanswered {
        let owed = record.owed.clone().unwrap_or_default();
        Unanswered {
            payment,
            receipt: record.receipt_id.clone().unwrap_or_default(),
            notice: record.notice.clone(),
            runs_left: self.config.owed.runs.get().saturating_sub(owed.runs),
            until: Timestamp(owed.until_ms),
        }
    }

    /// Returns whether a run of the owed answer is in flight, here or at another host.
    pub(super) async fn is_running(&self, record: &PaymentRecord) -> Result<bool, StoreError> {
        if record.replica.is_none() || self.is_ours(record) {
            return Ok(record.replica.is_some() && self.claims.has(record));
        }
        let is_recent = Timestamp(record.updated_ms).plus(MAX_RUN) > self.clock.now();
        Ok(is_recent && self.replica.living().await?.has(record.replica.as_ref()))
    }

    pub(super) async fn paid_receipt(&self, id: &str) -> Result<Option<receipt::UnsignedReceipt>, StoreError> {
        let Ok(id) = id.parse::<ReceiptId>() else { return Ok(None) };
        let stored = receipt::paid(&*self.store, &id).await?;
        Ok(stored.and_then(|json| serde_json::from_slice(&json).ok()))
    }
}

impl OwedPayment {
    /// Returns the payment's id.
    pub fn payment(&self) -> &PaymentId {
        &self.id
    }

    /// Returns the number of runs that ended without an answer.
    pub fn failed_runs(&self) -> u32 {
        self.record.failed_runs()
    }
}

impl OwedRun {
    /// Returns the payment's id.
    pub fn payment(&self) -> &PaymentId {
        &self.unanswered.payment
    }

    /// Returns the id of the settlement's receipt.
    pub fn receipt(&self) -> &str {
        &self.unanswered.receipt
    }

    /// Returns the settle response for the payer, or `None` for credit.
    pub fn notice(&self) -> Option<&SettlementNotice> {
        self.unanswered.notice.as_ref()
    }

    /// Stores the answer, and adds its hash to the receipt. From now on the payment gets this answer.
    ///
    /// # Errors
    ///
    /// Errors of the store, with the details for the payer. The answer stays owed. If the payment was refunded during
    /// the run, no runs are left for it.
    #[boxed]
    pub async fn deliver(mut self, answer: StoredAnswer, delivery: &Delivery) -> Result<StoredAnswer, (StoreError, Unanswered)> {
        enter(Stage::Commit);
        let Unanswered { payment: id, receipt, notice, .. } = self.unanswered.clone();
        let payments = Arc::clone(&self.payments);
        let answer = StoredAnswer { receipt_id: receipt.clone(), settlement: notice, ..answer };
        let staged = Some(payments.stage(&answer).await);
        let (holder, stored) = (&self.holder, &staged);
        let (gate, own, receipt) = (&*payments, &id, &receipt);
        let delivering = update(&*payments.store, Durability::Durable, |mut tx| async move {
            let row = tx.row(&PAYMENTS, own).await?.filter(|row| row.value.state == PaymentState::Owed && row.value.holder() == holder);
            let Some(row) = row else { return tx.answer::<_, StoreError>(Delivered::Lost) };
            if let Ok(id) = receipt.parse::<ReceiptId>()
                && gate.is_refunded(&id, tx.get(&REFUNDS, &id).await?).await?
            {
                // The next request with it is refused for that reason.
                return tx.answer(Delivered::Refunded);
            }
            let Some(paid) = gate.paid_receipt(receipt).await? else {
                return Err(StoreError::Away(format!("the receipt `{receipt}` is missing")));
            };
            let mut record = row.value.clone();
            (record.state, record.replica, record.owed) = (PaymentState::Settled, None, None);
            record.updated_ms = gate.clock.now().0;
            stored.iter().for_each(|stored| stored.store_answer(&mut tx, own));
            record.has_answer = true;
            gate.end(&mut tx, &row, &record);
            let (rows, news) = gate.finisher.deliver(paid, delivery);
            tx.append(rows);
            tx.answer(Delivered::Stored(news))
        });
        let delivered = delivering.await;
        match delivered {
            Ok(Delivered::Stored(news)) => {
                payments.finisher.announce(news);
                self.end();
                Ok(answer)
            }
            Ok(Delivered::Refunded) => {
                payments.withdraw_some(staged).await;
                let reported = Unanswered { runs_left: 0, ..self.unanswered.clone() };
                self.give_back(true).await;
                Err((StoreError::Conflict, reported))
            }
            Ok(Delivered::Lost) => {
                payments.withdraw_some(staged).await;
                self.end();
                Err((StoreError::Conflict, self.unanswered.clone()))
            }
            Err(error) => {
                if !matches!(error, StoreError::Unknown(_)) {
                    payments.withdraw_some(staged).await;
                }
                let reported = self.unanswered.clone();
                self.give_back(true).await;
                Err((error, reported))
            }
        }
    }

    /// Ends a run without an answer, which stays owed. If the tool did not run (`ran` is false), the run does not
    /// count.
    #[boxed]
    pub async fn fail(self, ran: bool) -> Unanswered {
        let mut reported = self.unanswered.clone();
        reported.runs_left = reported.runs_left.saturating_add(u32::from(!ran));
        self.give_back(ran).await;
        reported
    }

    async fn give_back(mut self, ran: bool) {
        self.end();
        self.payments.stop_running(&self.unanswered.payment, &self.holder, ran).await;
    }

    /// Frees the slot. The first run counts as paid, however it ended.
    fn end(&mut self) {
        self.is_over = true;
        if let Some(permit) = self.permit.take()
            && self.is_first
        {
            permit.paid();
        }
    }
}

impl Drop for OwedRun {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.end();
        let (payments, id, holder) = (Arc::clone(&self.payments), self.unanswered.payment.clone(), self.holder.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { payments.stop_running(&id, &holder, true).await });
        }
    }
}

impl Payments {
    /// Records that a run is over, so that other hosts do not wait for it. If that fails, they notice after a time.
    async fn stop_running(&self, id: &PaymentId, holder: &str, ran: bool) {
        let stopping = update(&*self.store, Durability::Buffered, |mut tx| async move {
            let row = tx.row(&PAYMENTS, id).await?.filter(|row| row.value.state == PaymentState::Owed && row.value.holder() == holder);
            let Some(row) = row else { return tx.answer::<_, StoreError>(()) };
            let mut record = row.value.clone();
            record.replica = None;
            if let Some(owed) = record.owed.as_mut().filter(|_| !ran) {
                owed.runs = owed.runs.saturating_sub(1);
            }
            tx.replace(&PAYMENTS, &row, &record);
            tx.answer(())
        });
        if let Err(error) = stopping.await {
            tracing::warn!(payment.id = %id, %error, "the end of a run could not be recorded; its payment can be used again later");
        }
    }
}
