//! Unresolved settlements: after [`PaymentConfig::unresolved_after`](crate::PaymentConfig) no facilitator is asked about
//! them, and an admin decides. Until then the authorization stays used. If a node is configured, the host still looks
//! them up on the chain now and then.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::{Instant, timeout};
use tollhouse_api::{Payment, UnresolvedSettlement};
use tollhouse_base::{boxed, clock::Timestamp};
use tollhouse_store::{Direction, Durability, Store, StoreError, update};
use tollhouse_telemetry::counters::PAYMENTS as PAYMENTS_ENDED;

use super::{
    PAYMENTS, Payments,
    facilitator_calls::{measured, outcome_of},
    record::{PaymentRecord, Settler, UNRESOLVED},
    settle::PaymentConclusion,
};
use crate::{
    OfferedX402, PaymentId, PaymentState, SettleError, SettleOutcome, Settlement,
    facilitator::{chain::search::Undecided, settlement},
};

/// Reason of the refusal if an admin declares a payment unpaid.
const UNPAID: &str = "settlement_unpaid";

/// An admin's action on an unresolved settlement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// Looks it up on the chain.
    LookUp,
    /// Declares that this transaction made the payment. If a node is configured, it must show that the transaction
    /// spent the payment's nonce and moved its money.
    Paid {
        /// The transaction's hash.
        transaction: String,
    },
    /// Declares that no money moved and none will.
    Unpaid,
}

/// Why an unresolved settlement cannot be resolved.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum ResolutionError {
    #[error("no payment has this id")]
    Unknown,
    #[error("the payment is not waiting for a decision")]
    WrongState(PaymentState),
    #[error("`{0}` is not a transaction of the payment's network")]
    Transaction(String),
    /// Somebody else resolved it with another result while the decision was being made.
    #[error("the payment was resolved with another result at the same time, and your decision was not recorded")]
    Overtaken(PaymentState),
    /// The transaction did not make the payment, or pays for another receipt.
    #[error("the transaction did not make this payment, or it already pays for another receipt")]
    NotPaid,
    /// The outcome is still unknown.
    #[error("the result of the settlement is unknown: {0}")]
    Undecided(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Number of settlements that are looked up on the chain at once.
const AT_ONCE: usize = 16;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Minimum time for which a host looks up a settlement, however long it was down before, in milliseconds.
const ASKED_AT_LEAST_MS: u64 = 15 * 60 * 1_000;

impl From<Undecided> for ResolutionError {
    fn from(error: Undecided) -> Self {
        Self::Undecided(error.to_string())
    }
}

/// Returns the number of unresolved settlements of a store, up to `max`, and when the oldest of them began.
#[boxed]
pub async fn summarize_unresolved(store: &dyn Store, max: usize) -> Result<(usize, Option<Timestamp>), StoreError> {
    let rows = UNRESOLVED.page(store, &UNRESOLVED.all(), max, Direction::Forward).await?;
    let mut oldest = None;
    for row in &rows {
        let since = PAYMENTS.get(store, &row.key).await?.map(|record| record.started().at);
        oldest = oldest.into_iter().chain(since).min();
    }
    Ok((rows.len(), oldest))
}

impl Payments {
    /// Returns whether a settlement has been open for so long that it is no longer looked up.
    pub(super) fn is_overdue(&self, record: &PaymentRecord) -> bool {
        let max = u64::try_from(self.config.unresolved_after.as_millis()).unwrap_or(u64::MAX);
        let since = |at: u64| self.clock.now().0.saturating_sub(at);
        record.state == PaymentState::Settling && since(record.updated_ms) >= max && since(self.started.0) >= max.min(ASKED_AT_LEAST_MS)
    }

    /// Stops looking up an overdue settlement, and frees the limits that it held.
    pub(super) async fn give_up(&self, id: &PaymentId) {
        match self.write_unresolved(id).await {
            Ok(true) => {
                self.retries.lock().remove(id);
                self.open_runs.lock().remove(id);
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(payment.id = %id, %error, "a settlement could not be marked as unresolved; the host will try again")
            }
        }
    }

    async fn write_unresolved(&self, id: &PaymentId) -> Result<bool, StoreError> {
        let marking = update(&*self.store, Durability::Durable, |mut tx| async move {
            let row = tx.row(&PAYMENTS, id).await?.filter(|row| self.is_overdue(&row.value) && self.is_ours(&row.value));
            let Some(row) = row else { return tx.answer::<_, StoreError>(None) };
            let record = row.value.clone().given_up();
            self.end(&mut tx, &row, &record);
            let news = record.intent.as_ref().map(|intent| self.finisher.unresolved(&intent.draft, id));
            let news = news.map(|(rows, news)| {
                tx.append(rows);
                news
            });
            tx.answer(Some((record.started().at, news)))
        });
        let Some((started, news)) = marking.await? else { return Ok(false) };
        tracing::error!(
            payment.id = %id,
            %started,
            "the outcome of a settlement is unknown, and the host stops looking it up: resolve it with `tollhouse settlements`"
        );
        PAYMENTS_ENDED.count(["unresolved"]);
        news.into_iter().for_each(|news| self.finisher.announce(news));
        Ok(true)
    }

    /// Returns unresolved settlements, sorted by id.
    #[boxed]
    pub async fn unresolved(&self, after: Option<&PaymentId>, limit: usize) -> Result<Vec<UnresolvedSettlement>, StoreError> {
        let range = match after {
            Some(after) => UNRESOLVED.all().after(after),
            None => UNRESOLVED.all(),
        };
        let mut settlements = Vec::new();
        for row in UNRESOLVED.page(&*self.store, &range, limit, Direction::Forward).await? {
            let read = self.read_shared(&row.key).await?;
            settlements.extend(read.and_then(|row| self.described(&row.key, &row.value)));
        }
        Ok(settlements)
    }

    /// Resolves a settlement as an admin decides.
    #[boxed]
    pub async fn resolve_unresolved(&self, id: &PaymentId, resolution: &Resolution) -> Result<Payment, ResolutionError> {
        let record = PAYMENTS.get(&*self.store, id).await?.ok_or(ResolutionError::Unknown)?;
        if record.state != PaymentState::Unresolved {
            return Err(ResolutionError::WrongState(record.state));
        }
        let payment = payment_of(&record).ok_or_else(|| ResolutionError::Undecided("its intent cannot be read".to_owned()))?;
        let outcome = match resolution {
            Resolution::LookUp => {
                let facilitator = self.facilitators.of(payment.asset.network);
                measured("look_up", facilitator.look_up(&payment, &record.started()), SettleOutcome::name).await
            }
            Resolution::Paid { transaction } => self.paid_by(&payment, transaction).await?,
            Resolution::Unpaid => {
                SettleOutcome::Refused { reason: UNPAID.to_owned(), message: "an admin found that no money moved".to_owned() }
            }
        };
        if let SettleOutcome::Unknown(reason) | SettleOutcome::Lost(reason) | SettleOutcome::Unsent(reason) = &outcome {
            return Err(ResolutionError::Undecided(reason.clone()));
        }
        let is_written = self.end_unresolved(id, &outcome).await?;
        let record = PAYMENTS.get(&*self.store, id).await?.ok_or(ResolutionError::Unknown)?;
        if !is_written && !has_ended_with(&record, &outcome) {
            return Err(ResolutionError::Overtaken(record.state));
        }
        tracing::info!(payment.id = %id, state = ?record.state, "an admin resolved a settlement");
        Ok(record.public(id))
    }

    /// Records the outcome of an unresolved settlement. Returns false if it had already ended.
    async fn end_unresolved(&self, id: &PaymentId, outcome: &SettleOutcome) -> Result<bool, ResolutionError> {
        let ending = update(&*self.store, Durability::Durable, |tx| self.end_batch(tx, id, outcome, None));
        match ending.await {
            Ok(PaymentConclusion { outcome, news }) => {
                let is_written = news.is_some();
                news.iter().for_each(|_| PAYMENTS_ENDED.count([outcome_of(&outcome)]));
                news.into_iter().for_each(|news| self.finisher.announce(news));
                Ok(is_written)
            }
            Err(SettleError::Store(error)) => Err(error.into()),
            Err(SettleError::Unknown { .. } | SettleError::Refused { .. } | SettleError::OverBudget(_)) => Err(ResolutionError::NotPaid),
        }
    }

    /// Looks up some unresolved settlements on the chain, if a pass through them is due.
    pub(super) async fn look_up_some_unresolved(&self) -> Result<(), StoreError> {
        let after = {
            let mut pass = self.pass.lock();
            if !pass.has_begun(Instant::now()) {
                return Ok(());
            }
            pass.after.clone()
        };
        let last = self.look_up_unresolved(after.as_ref()).await?;
        self.pass.lock().record_progress(last, Instant::now());
        Ok(())
    }

    /// Looks up on the chain the first unresolved settlements after `after`. Returns the last one, or `None` at the
    /// end.
    pub(crate) async fn look_up_unresolved(&self, after: Option<&PaymentId>) -> Result<Option<PaymentId>, StoreError> {
        let range = after.map_or_else(|| UNRESOLVED.all(), |after| UNRESOLVED.all().after(after));
        let mut page = UNRESOLVED.page(&*self.store, &range, AT_ONCE, Direction::Forward).await?;
        join_all(page.iter().map(|row| self.look_up_one(&row.key))).await;
        Ok(page.pop().map(|last| last.key))
    }

    /// Looks up an unresolved settlement on the chain, and ends it if the chain decides.
    async fn look_up_one(&self, id: &PaymentId) {
        let read = self.read_shared(id).await;
        let record = read.ok().flatten().map(|row| row.value).filter(|record| record.state == PaymentState::Unresolved);
        let Some((payment, record)) = record.and_then(|record| Some((payment_of(&record)?, record))) else { return };
        let facilitator = self.facilitators.of(payment.asset.network);
        if facilitator.node().is_none() {
            return;
        }
        let started = record.started();
        let looking = measured("look_up", facilitator.look_up(&payment, &started), SettleOutcome::name);
        let Ok(outcome @ (SettleOutcome::Settled(_) | SettleOutcome::Refused { .. })) = timeout(TIMEOUT, looking).await else { return };
        match self.end_unresolved(id, &outcome).await {
            Ok(true) => tracing::info!(payment.id = %id, outcome = outcome.name(), "the chain resolved a settlement"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(payment.id = %id, %error, "the outcome of an unresolved settlement was found on the chain, but could not be recorded")
            }
        }
    }

    /// Returns the settlement by this transaction. If a node is configured, it must show that the transaction spent the
    /// payment's nonce and moved its money: the nonce may have been canceled, and a transfer of the same amount may be
    /// another payment's.
    async fn paid_by(&self, payment: &OfferedX402, transaction: &str) -> Result<SettleOutcome, ResolutionError> {
        let network = payment.asset.network;
        let hash = network.checked_transaction(transaction).ok_or_else(|| ResolutionError::Transaction(transaction.to_owned()))?;
        let chain = self.facilitators.chains().find(|(known, _)| *known == network);
        if let Some((_, chain)) = chain {
            let evidence = chain.spent_by(payment, &hash).await?.ok_or(ResolutionError::NotPaid)?;
            return Ok(SettleOutcome::Settled(Settlement { evidence: Some(evidence), ..settlement(payment, hash) }));
        }
        Ok(SettleOutcome::Settled(settlement(payment, hash)))
    }

    fn described(&self, id: &PaymentId, record: &PaymentRecord) -> Option<UnresolvedSettlement> {
        let payment = payment_of(record)?;
        let (slug, price_usd) = self.finisher.subject(&record.intent.as_ref()?.draft);
        let settler = record.settler.clone();
        Some(UnresolvedSettlement {
            payment_id: id.clone(),
            since: Timestamp(record.updated_ms),
            network: payment.asset.network.caip2.to_owned(),
            asset: payment.asset.address.to_owned(),
            amount: payment.amount(),
            payer: payment.signed.sender().to_owned(),
            pay_to: payment.requirements["payTo"].as_str().unwrap_or_default().to_owned(),
            slug,
            price_usd,
            facilitator: settler.as_ref().map(|settler| settler.facilitator.clone()),
            transaction: settler.and_then(|Settler { transaction, .. }| transaction),
        })
    }
}

fn has_ended_with(record: &PaymentRecord, outcome: &SettleOutcome) -> bool {
    match outcome {
        SettleOutcome::Settled(settlement) => {
            let is_settled = matches!(record.state, PaymentState::Settled | PaymentState::Owed);
            is_settled && record.transaction.as_deref().unwrap_or_default() == settlement.transaction
        }
        SettleOutcome::Refused { .. } => record.state == PaymentState::Refused,
        SettleOutcome::Unsent(_) | SettleOutcome::Unknown(_) | SettleOutcome::Lost(_) => false,
    }
}

/// Returns the payment of a settlement, or `None` if its intent is malformed.
pub(super) fn payment_of(record: &PaymentRecord) -> Option<OfferedX402> {
    let intent = record.intent.as_ref()?;
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    OfferedX402::from_parts(intent.version, parse(&intent.payload), parse(&intent.requirements)).ok()
}
