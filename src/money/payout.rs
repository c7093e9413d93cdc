//! Payouts of builders' net earnings. Each receipt is in at most one payout.
//!
//! A payout is made by moving unpaid earnings from `UnpaidSale` to `PayoutReceipts`, a thousand receipts per commit. Each
//! commit checks that the payout's record is unchanged, and updates it. A builder has at most one payout that is being
//! collected (recorded in its `head`). If one was interrupted, the next request continues it.
//!
//! ```text
//!   collecting ──▶ created ──▶ approved ──▶ paid
//!                     │           ▲  │
//!                     │           │  ▼
//!                     │          failed
//!                     ▼             │
//!    rejected ◀── rejecting ◀───────┘
//! ```
//!
//! **Invariant: a receipt is in at most one payout, and a payout's amount is the sum of its receipts**, minus the
//! refunds of earlier sales that were owed when it began. The collecting commits maintain it, and the sealing commit
//! sums again before it signs. No payout begins while owed refunds exceed unpaid earnings. A rejected payout keeps its
//! amount in its record, and no longer has receipts.

mod collect;
mod configure;
mod consistency;
mod error;
mod packet;
mod states;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::json;
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::{BuilderId, PayoutId},
};
use tollhouse_event::{Event, Events, Kind};
use tollhouse_store::{Direction, Durability, IndexEntry, Store, StoreError, Table, TerminatedText, schema, update};
use tollhouse_tool::{MicroUsd, Owner};

pub use self::{
    consistency::check_packets,
    error::PayoutError,
    packet::{Packet, PayoutSettings},
    states::PayoutStatus,
};
use self::{
    packet::kind_of,
    states::{PAYOUT_STATES, move_to, stored_counts},
};
use super::{
    Asset,
    ledger::{Cause, Dollars, Posting, unpaid},
    receipt::ReceiptSigner,
    sale::{UNPAID, UnpaidSale},
    transactions,
};
pub use tollhouse_api::{PayoutCounts, PayoutDecision, PayoutPeriod, PayoutSettingsDraft, PayoutVerdict, WaitingPayout};

type Key = (TerminatedText<String>, PayoutId);

pub(crate) const PAYOUTS: Table<Key, Packet> = schema::PAYOUTS.indexed(&[builder_index, state_index]);
pub(crate) const PAYOUT_BUILDERS: Table<PayoutId, BuilderId> = schema::PAYOUT_BUILDERS.holding();
pub(crate) const PAYOUT_RECEIPTS: Table<(TerminatedText<PayoutId>, String), UnpaidSale> = schema::PAYOUT_RECEIPTS.holding();

fn builder_index((_, id): &Key, packet: &Packet) -> Option<IndexEntry> {
    Some(schema::PAYOUT_BUILDERS.entry(id, &packet.builder_id))
}

fn state_index((_, id): &Key, packet: &Packet) -> Option<IndexEntry> {
    Some(schema::PAYOUT_STATES.entry(&(packet.status as u8, id.clone()), &packet.builder_id))
}

/// The payouts of all builders.
pub struct Payouts {
    store: Arc<dyn Store>,
    clock: Clock,
    events: Arc<Events>,
    signer: Arc<ReceiptSigner>,
    /// The tokens for payouts. The first is the default.
    assets: Vec<&'static Asset>,
}

const MOST_COUNTED: usize = 10_000;

/// Payouts, newest first, and the position of the next page.
type Page = (Vec<Packet>, Option<PayoutId>);

impl Payouts {
    /// Constructs it. `assets` are the tokens for payouts, at least one.
    pub fn new(store: Arc<dyn Store>, clock: Clock, events: Arc<Events>, signer: Arc<ReceiptSigner>, assets: Vec<&'static Asset>) -> Self {
        Self { store, clock, events, signer, assets }
    }

    /// Returns a payout of `builder`.
    pub async fn get(&self, builder: &BuilderId, id: &PayoutId) -> Result<Packet, PayoutError> {
        if self.builder_of(id).await? != *builder {
            return Err(PayoutError::NotOwner);
        }
        self.read(builder, id).await
    }

    /// Returns the earnings of `builder` that are not in a payout yet.
    pub async fn waits(&self, builder: &BuilderId) -> Result<WaitingPayout, StoreError> {
        let balance = unpaid(&*self.store, builder).await?;
        let receipts = UNPAID.count(&*self.store, &UNPAID.under(&TerminatedText(builder.clone())), MOST_COUNTED).await?;
        Ok(WaitingPayout { amount_usd: MicroUsd(u64::try_from(balance).unwrap_or(0)), receipt_count: receipts as u64 })
    }

    /// Returns the payouts of `builder` before `cursor`, newest first.
    pub async fn list(&self, builder: &BuilderId, limit: usize, cursor: Option<&PayoutId>) -> Result<Page, PayoutError> {
        let mut range = PAYOUTS.under(&of(builder));
        if let Some(cursor) = cursor {
            range = range.before(&key(builder, cursor));
        }
        let rows = PAYOUTS.page(&*self.store, &range, limit, Direction::Backward).await?;
        let full = rows.len() == limit;
        let packets: Vec<_> = rows.into_iter().map(|row| row.value).collect();
        let next = packets.last().filter(|_| full).map(|packet| packet.id.clone());
        Ok((packets, next))
    }

    /// Returns the payouts of all builders before `cursor`, newest first, optionally only those with `status`.
    pub async fn list_all(&self, status: Option<PayoutStatus>, limit: usize, cursor: Option<&PayoutId>) -> Result<Page, PayoutError> {
        let found: Vec<_> = match status {
            None => {
                let all = PAYOUT_BUILDERS.all();
                let range = cursor.map_or_else(|| all.clone(), |cursor| all.clone().before(cursor));
                let rows = PAYOUT_BUILDERS.page(&*self.store, &range, limit, Direction::Backward).await?;
                rows.into_iter().map(|row| (row.key, row.value)).collect()
            }
            Some(status) => self.in_state(status, limit, cursor).await?,
        };
        let next = found.last().filter(|_| found.len() == limit).map(|(id, _)| id.clone());
        let mut packets = Vec::with_capacity(found.len());
        for (id, builder) in found {
            let packet = self.read(&builder, &id).await?;
            // Leave out those whose state has changed since.
            packets.extend(Some(packet).filter(|packet| status.is_none_or(|status| packet.status == status)));
        }
        Ok((packets, next))
    }

    /// Returns the receipts of a payout after `cursor`, sorted by id, with their net amounts.
    pub async fn receipts(&self, id: &PayoutId, limit: usize, cursor: Option<&str>) -> Result<Vec<(String, MicroUsd)>, StoreError> {
        let mut range = PAYOUT_RECEIPTS.under(&TerminatedText(id.clone()));
        if let Some(cursor) = cursor {
            range = range.after(&(TerminatedText(id.clone()), cursor.to_owned()));
        }
        let rows = PAYOUT_RECEIPTS.page(&*self.store, &range, limit, Direction::Forward).await?;
        Ok(rows.into_iter().map(|row| (row.key.1, MicroUsd(row.value.net))).collect())
    }

    /// Records an admin's decision on a payout.
    pub async fn decide(&self, id: &PayoutId, verdict: &PayoutVerdict) -> Result<Packet, PayoutError> {
        if verdict.decision == PayoutDecision::Reject {
            return self.reject(id, verdict).await;
        }
        let builder = self.builder_of(id).await?;
        let (builder, owner) = (&builder, &Owner::Builder(builder.clone()));
        let (packet, event) = update(&*self.store, Durability::Durable, |mut tx| async move {
            let row = tx.row(&PAYOUTS, &key(builder, id)).await?.ok_or(PayoutError::Unknown)?;
            let mut packet = row.value.clone();
            packet.decide(verdict, self.clock.now())?;
            let mut event = self.event(kind_of(verdict.decision), &packet);
            if let Some(transaction) = packet.transaction.as_ref().filter(|_| packet.status == PayoutStatus::Paid)
                && let Some(other) = transactions::sent_for(&mut tx, transaction, id.as_str()).await?
            {
                event.data["transactionAlsoFor"] = json!(other);
            }
            move_to(&mut tx, Some(row.value.status), packet.status);
            tx.replace(&PAYOUTS, &row, &packet).append(Events::stored(owner, &event));
            if packet.status == PayoutStatus::Paid {
                let posting = Posting::new(Cause::PaidOut(id.clone()), packet.updated_at);
                tx.append(posting.dollars(Dollars::Packet(id.clone()), Dollars::PaidOut, packet.amount()).stored());
            }
            tx.answer::<_, PayoutError>((packet, event))
        })
        .await?;
        self.events.announce(owner, event);
        Ok(packet)
    }

    fn event(&self, kind: Kind, packet: &Packet) -> Event {
        let mut data = json!({ "payoutId": packet.id, "amountUsd": packet.amount(), "receiptCount": packet.receipt_count });
        if let Some(transaction) = packet.transaction.as_ref().filter(|_| kind == Kind::PayoutPaid) {
            data["transaction"] = json!(transaction);
        }
        if let Some(reason) = packet.reason.as_ref().filter(|_| matches!(kind, Kind::PayoutFailed | Kind::PayoutRejected)) {
            data["reason"] = json!(reason);
        }
        self.events.event(kind, None, data)
    }

    /// Returns the builder of a payout.
    pub async fn builder_of(&self, id: &PayoutId) -> Result<BuilderId, PayoutError> {
        PAYOUT_BUILDERS.get(&*self.store, id).await?.ok_or(PayoutError::Unknown)
    }

    /// Returns the number of payouts per state, of all hosts.
    pub async fn counts(&self) -> Result<PayoutCounts, StoreError> {
        stored_counts(&*self.store).await
    }

    /// Returns the payouts with a state before `cursor`, newest first, with their builders.
    pub(super) async fn in_state(
        &self,
        status: PayoutStatus,
        limit: usize,
        cursor: Option<&PayoutId>,
    ) -> Result<Vec<(PayoutId, BuilderId)>, StoreError> {
        let number = status as u8;
        let mut range = PAYOUT_STATES.under(&number);
        if let Some(cursor) = cursor {
            range = range.before(&(number, cursor.clone()));
        }
        let rows = PAYOUT_STATES.page(&*self.store, &range, limit, Direction::Backward).await?;
        Ok(rows.into_iter().map(|row| (row.key.1, row.value)).collect())
    }

    async fn read(&self, builder: &BuilderId, id: &PayoutId) -> Result<Packet, PayoutError> {
        PAYOUTS.get(&*self.store, &key(builder, id)).await?.ok_or(PayoutError::Unknown)
    }
}

/// Returns the prefix of a builder's payout keys: the id without the prefix of all builder ids.
fn of(builder: &BuilderId) -> TerminatedText<String> {
    TerminatedText(builder.as_str().trim_start_matches(BuilderId::PREFIX).to_owned())
}

pub(crate) fn key(builder: &BuilderId, id: &PayoutId) -> Key {
    (of(builder), id.clone())
}

fn damaged() -> StoreError {
    StoreError::Away("the payouts cannot be read".to_owned())
}
