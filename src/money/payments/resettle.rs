//! Recovers payments whose transaction a reorganization of the chain has dropped.
//!
//! The authorization outlives its transaction: anybody can send it again, and the token or Permit2 moves its money at
//! most once. So the host looks up its nonce. Another transaction that has made the transfer settles the payment again.
//! While the nonce is unused and the authorization valid, the host settles it again. Otherwise the money is lost.
//!
//! A row names the replica that handles it, and the next transaction before it is sent. So two hosts never send at once.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::timeout;
use tollhouse_api::SettlementLoss;
use tollhouse_base::{boxed, clock::Timestamp, id::ReceiptId};
use tollhouse_store::{Batch, Durability, Row, StoreError, update};
use tollhouse_telemetry::counters::SETTLEMENT_FAULTS;

use super::{
    PAYMENTS, Payments,
    facilitator_calls::measured,
    gas::{Burner, GasCaller},
    record::{PaymentRecord, PaymentState, SettlementIntent},
    unpaid_runs::Standing,
};
use crate::{
    Evidence, Facilitator, Network, OfferedX402, SettleOutcome, Settlement, StartedSettlement,
    receipt_finisher::CommitEffects,
    reorganized::{REORGANIZED, RESETTLED, ReorganizedSettlement, ResettledSettlement, SignedPayment, WATCHED, describe_loss, loss_of},
    transactions,
    x402::wire,
};

/// When a nonce is looked up for the first time. Transactions of a replaced block are usually in one of the next.
const FIRST_LOOKUP: Duration = Duration::from_secs(10);

/// Interval between the first two lookups, and the maximum. It doubles each time.
const FIRST_WAIT: Duration = Duration::from_secs(15);
const MAX_WAIT: Duration = Duration::from_secs(600);

/// Maximum number of reorganized settlements that are looked up per round.
pub(super) const MAX_LOOKUPS: usize = 16;

/// Maximum number of times that a payment is sent again.
const MAX_SENDINGS: u32 = 5;

const LOOKUP_PATIENCE: Duration = Duration::from_secs(60);

/// Time that a round waits for the block of a transaction. A later lookup finds a later block.
const SENDING_PATIENCE: Duration = Duration::from_secs(10);

pub(super) type Undone = Row<ReceiptId, ReorganizedSettlement>;

/// The result of recording that a settlement is in a block again.
enum Recorded {
    Settled(CommitEffects),
    /// It was recorded before, or by another host.
    Gone,
    PaysFor(String),
}

/// Returns the part of a payment that is stored to look it up and to send it again. `None` if its intent is malformed.
pub(super) fn signed(intent: &SettlementIntent, started: Timestamp) -> Option<SignedPayment> {
    let mut payload: Value = serde_json::from_str(&intent.payload).ok()?;
    let requirements = serde_json::from_str(&intent.requirements).ok()?;
    let fields = payload.as_object_mut()?;
    for unsigned in ["resource", "extensions"] {
        fields.remove(unsigned);
    }
    Some(SignedPayment { version: intent.version, payload, requirements, started_at: started })
}

impl Payments {
    /// Returns whether the nonce of a reorganized settlement is to be looked up now.
    pub(super) fn is_due(&self, undone: &ReorganizedSettlement) -> bool {
        let next = undone.recovery.next.unwrap_or_else(|| undone.at.plus(FIRST_LOOKUP));
        undone.lost.is_none() && next <= self.clock.now()
    }

    /// Looks up the nonces of reorganized settlements that are due, except for those that another host is looking up.
    pub(super) async fn find_reorganized(&self, network: &'static Network, mut due: Vec<Undone>) -> Result<(), StoreError> {
        if due.is_empty() || self.replica.is_fenced() {
            return Ok(());
        }
        let living = self.replica.living().await?;
        due.retain(|undone| {
            let holder = undone.value.recovery.replica.as_ref();
            holder == Some(self.replica.id()) || !living.has(holder)
        });
        join_all(due.iter().map(|undone| self.find_logged(network, undone))).await;
        Ok(())
    }

    /// Looks up one nonce. An error of the store does not delay the others.
    async fn find_logged(&self, network: &'static Network, undone: &Undone) {
        if let Err(error) = self.find(network, undone).await {
            tracing::warn!(receipt.id = %undone.key, %error, "a reorganized settlement could not be looked up; the host will try again");
        }
    }

    #[boxed]
    async fn find(&self, network: &'static Network, undone: &Undone) -> Result<(), StoreError> {
        let signed = &undone.value.settlement.signed;
        let read = OfferedX402::from_parts(signed.version, signed.payload.clone(), signed.requirements.clone());
        let Some(payment) = read.ok().filter(|payment| payment.asset.network == network) else {
            tracing::error!(receipt.id = %undone.key, "the payment of a reorganized settlement cannot be parsed");
            return Ok(());
        };
        let Some(mut row) = self.begin_lookup(undone).await? else { return Ok(()) };
        let facilitator = self.facilitators.of(network);
        let sent = undone.value.recovery.transaction.clone();
        let transaction = sent.unwrap_or_else(|| undone.value.settlement.transaction.clone());
        let started =
            StartedSettlement { at: signed.started_at, facilitator: Some(facilitator.identity()), transaction: Some(transaction) };
        let finding = measured("look_up", facilitator.find_again(&payment, &started), SettleOutcome::name);
        let mut outcome = timeout(LOOKUP_PATIENCE, finding).await.unwrap_or_else(|_| unknown("the chain did not answer in time"));
        if let SettleOutcome::Lost(cause) = &outcome {
            tracing::info!(receipt.id = %row.key, cause, "the authorization of a reorganized settlement is unused");
            let Some(sent) = self.send_again(row, &payment, started, facilitator).await? else { return Ok(()) };
            (row, outcome) = sent;
        }
        _ = self.count_gas(&payment, &burner(&row, &payment), matches!(outcome, SettleOutcome::Settled(_)));
        let (loss, cause) = match outcome {
            SettleOutcome::Settled(settlement) => return self.settled_by(&row, &settlement).await,
            SettleOutcome::Refused { reason, .. } => (loss_of(&reason), reason),
            SettleOutcome::Unknown(cause) | SettleOutcome::Lost(cause) | SettleOutcome::Unsent(cause) => (None, cause),
        };
        tracing::info!(receipt.id = %row.key, cause, "a reorganized settlement is not settled again yet");
        match loss {
            Some(loss) => self.lose(&row, loss).await,
            None => self.end_lookup(&row).await,
        }
    }

    /// Claims a row for this replica, and schedules the next lookup. Returns `None` if another host was faster.
    async fn begin_lookup(&self, undone: &Undone) -> Result<Option<Undone>, StoreError> {
        let mut started = undone.value.clone();
        let wait = FIRST_WAIT.saturating_mul(1 << started.recovery.lookups.min(16)).min(MAX_WAIT);
        started.recovery.lookups = started.recovery.lookups.saturating_add(1);
        started.recovery.next = Some(self.clock.now().plus(wait));
        started.recovery.replica = Some(self.replica.id().clone());
        self.rewrite(undone, started, Durability::Buffered).await
    }

    async fn end_lookup(&self, undone: &Undone) -> Result<(), StoreError> {
        let mut ended = undone.value.clone();
        ended.recovery.replica = None;
        self.rewrite(undone, ended, Durability::Buffered).await.map(drop)
    }

    /// Replaces a row. Returns `None` if another host has changed it.
    async fn rewrite(&self, undone: &Undone, value: ReorganizedSettlement, durability: Durability) -> Result<Option<Undone>, StoreError> {
        let mut batch = Batch::new();
        batch.replace(&REORGANIZED, undone, &value);
        let is_written = batch.commit_if_unchanged(&*self.store, durability).await?;
        Ok(is_written.then(|| REORGANIZED.own(undone.key.clone(), value)))
    }

    /// Settles again a payment whose nonce is unused. The row names the transaction before it is sent, so that the next
    /// lookup finds it. Returns `None` if another host has changed the row.
    async fn send_again(
        &self,
        row: Undone,
        payment: &OfferedX402,
        started: StartedSettlement,
        facilitator: &dyn Facilitator,
    ) -> Result<Option<(Undone, SettleOutcome)>, StoreError> {
        if row.value.recovery.sendings >= MAX_SENDINGS {
            return Ok(Some((row, unknown("it was sent again the maximum number of times"))));
        }
        let transaction = match timeout(SENDING_PATIENCE, facilitator.prepare(payment)).await {
            Ok(Ok(transaction)) => transaction,
            Ok(Err(reason)) => return Ok(Some((row, unknown(&format!("it could not be sent again: {reason:?}"))))),
            Err(_) => return Ok(Some((row, unknown("it could not be sent again: no answer in time")))),
        };
        let abandon = || transaction.iter().for_each(|transaction| facilitator.abandon(transaction));
        let caller = GasCaller::again(burner(&row, payment));
        let held = payment.tried_gas().map(|tried| self.gas.hold(caller, tried)).transpose();
        let Ok(_held) = held else {
            abandon();
            return Ok(Some((row, unknown("its payer has reached the limit for gas of failed settlements"))));
        };
        let mut renewed = row.value.clone();
        renewed.recovery.sendings += 1;
        if transaction.is_some() {
            renewed.recovery.transaction.clone_from(&transaction);
        }
        let row = match self.rewrite(&row, renewed, Durability::Durable).await {
            Ok(Some(row)) => row,
            other => {
                abandon();
                return other.map(|_| None);
            }
        };
        if self.replica.is_fenced() {
            // Another host may take it over.
            abandon();
            return Ok(Some((row, unknown("the host has lost its lease"))));
        }
        let hash = transaction.as_deref();
        tracing::info!(receipt.id = %row.key, transaction = hash, "the payment of a reorganized settlement is sent again");
        let started = StartedSettlement { transaction, ..started };
        let settling = measured("settle", facilitator.settle(payment, &started), SettleOutcome::name);
        let outcome = match timeout(SENDING_PATIENCE, settling).await {
            Ok(settled @ SettleOutcome::Settled(_)) => settled,
            // Only the chain decides that the money is lost.
            Ok(SettleOutcome::Refused { reason, .. }) => unknown(&format!("it was sent again and refused: {reason}")),
            Ok(SettleOutcome::Unknown(reason) | SettleOutcome::Lost(reason) | SettleOutcome::Unsent(reason)) => {
                SettleOutcome::Unknown(reason)
            }
            Err(_) => unknown("it was sent again"),
        };
        Ok(Some((row, outcome)))
    }

    async fn settled_by(&self, row: &Undone, settlement: &Settlement) -> Result<(), StoreError> {
        let Some(evidence) = &settlement.evidence else {
            tracing::warn!(receipt.id = %row.key, settlement.transaction, "a new settlement of a reorganized payment has no evidence");
            return self.end_lookup(row).await;
        };
        let is_other = !settlement.transaction.eq_ignore_ascii_case(&row.value.settlement.transaction);
        self.write_settled(row, evidence, is_other.then_some(settlement)).await
    }

    /// Records that the payment of a reorganized settlement is in a block again. `other` is the new settlement, if it is
    /// by another transaction than the dropped one.
    pub(super) async fn write_settled(&self, undone: &Undone, found: &Evidence, other: Option<&Settlement>) -> Result<(), StoreError> {
        let (receipt_id, payment, before) = (&undone.key, &undone.value.settlement.payment, &undone.value.settlement.transaction);
        let extensions = self.new_extensions(receipt_id, other).await?;
        let (extensions, now) = (extensions.as_ref(), self.clock.now());
        let recording = update(&*self.store, Durability::Durable, |mut tx| async move {
            let row = tx.row(&REORGANIZED, receipt_id).await?.filter(|row| row.value.lost.is_none());
            let Some(row) = row else { return tx.answer::<_, StoreError>(Recorded::Gone) };
            let mut watched = row.value.settlement.clone();
            (watched.block, watched.block_hash, watched.missing_since) = (found.block, found.block_hash.clone(), None);
            if let Some(settlement) = other {
                if let Some(paid) = transactions::claim(&mut tx, payment, receipt_id.as_str(), settlement, now).await? {
                    return tx.answer(Recorded::PaysFor(paid));
                }
                watched.made_by(&settlement.transaction);
                let (transaction, former) = (watched.transaction.clone(), watched.former.clone());
                tx.put(&RESETTLED, receipt_id, &ResettledSettlement { transaction, former, at: now });
            }
            if let Some(paid) = tx.row(&PAYMENTS, payment).await? {
                let record = self.paid_again(paid.value.clone(), undone, other, extensions);
                if record != paid.value {
                    self.end(&mut tx, &paid, &record);
                }
            }
            tx.remove(&REORGANIZED, &row);
            if !found.is_final {
                tx.put(&WATCHED, &watched.key(), &watched);
            }
            let (rows, news) = self.finisher.settled_again(&row.value, other);
            tx.append(rows);
            tx.answer(Recorded::Settled(news))
        });
        let transaction = other.map_or(before, |other| &other.transaction);
        match recording.await? {
            Recorded::Settled(news) => {
                tracing::info!(receipt.id = %receipt_id, transaction, former = before, "a reorganized settlement is in a block again");
                self.finisher.announce(news);
                Ok(())
            }
            Recorded::Gone => Ok(()),
            Recorded::PaysFor(other) => {
                tracing::warn!(payment.id = %payment, transaction, receipt.id = other, "a transaction already pays for another receipt");
                SETTLEMENT_FAULTS.count(["second_receipt"]);
                self.end_lookup(undone).await
            }
        }
    }

    /// Returns the fields for `extensions` of the new settle response, if there is one.
    async fn new_extensions(&self, receipt_id: &ReceiptId, other: Option<&Settlement>) -> Result<Option<Value>, StoreError> {
        let Some(other) = other else { return Ok(None) };
        let receipt = self.paid_receipt(receipt_id.as_str()).await?;
        Ok(receipt.and_then(|receipt| self.finisher.extensions(receipt, other)))
    }

    /// Returns the record of a payment that is settled again. If its answer is owed, the time for runs starts again.
    fn paid_again(
        &self,
        mut record: PaymentRecord,
        undone: &Undone,
        other: Option<&Settlement>,
        extensions: Option<&Value>,
    ) -> PaymentRecord {
        if record.state == PaymentState::Owed
            && let Some(owed) = &mut record.owed
        {
            owed.until_ms = self.clock.now().plus(self.config.owed.kept).0;
        }
        let Some(settlement) = other else { return record };
        // The network's name in the payment's version of x402.
        let network = undone.value.settlement.signed.requirements["network"].as_str().unwrap_or(&settlement.network);
        record.transaction = Some(settlement.transaction.clone());
        if let Some(notice) = &mut record.notice {
            notice.body = wire::settle_response(settlement, notice.version, network, extensions).to_string();
        }
        record
    }

    /// Records that the money of a reorganized settlement can no longer move.
    async fn lose(&self, row: &Undone, loss: SettlementLoss) -> Result<(), StoreError> {
        let mut lost = row.value.clone();
        (lost.lost, lost.recovery.replica) = (Some(loss), None);
        let (rows, news) = self.finisher.reorganized(&lost);
        let mut batch = Batch::new();
        batch.replace(&REORGANIZED, row, &lost).append(rows);
        if !batch.commit_if_unchanged(&*self.store, Durability::Durable).await? {
            return Ok(());
        }
        tracing::error!(
            receipt.id = %row.key,
            transaction = row.value.settlement.transaction,
            loss = describe_loss(loss),
            "a reorganized settlement is lost: its money can no longer move"
        );
        self.finisher.announce(news);
        Ok(())
    }
}

/// Returns the parties for which the gas counts when a payment is sent again. The payer has paid before.
fn burner(row: &Undone, payment: &OfferedX402) -> Burner {
    let builder = Some(row.value.settlement.owner.share().to_owned());
    Burner { builder, standing: Standing::Customer, ..Burner::of_payer(payment.payer()) }
}

fn unknown(reason: &str) -> SettleOutcome {
    SettleOutcome::Unknown(reason.to_owned())
}
