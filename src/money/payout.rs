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
mod consistency;
mod packet;
mod states;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::json;
pub use tollhouse_api::{PayoutCounts, PayoutDecision, PayoutPeriod, PayoutSettingsDraft, PayoutVerdict, WaitingPayout};
use tollhouse_base::{
    boxed,
    clock::{Clock, Timestamp},
    id::{BuilderId, PayoutId},
};
use tollhouse_event::{Event, Events, Kind};
use tollhouse_store::{Direction, Durability, IndexEntry, Store, StoreError, Table, TerminatedText, schema, update};
use tollhouse_tool::{MicroUsd, Owner};

pub use self::{
    consistency::check_packets,
    packet::{Packet, PayoutSettings},
    states::{PayoutError, PayoutStatus},
};
use self::{
    packet::kind_of,
    states::{PAYOUT_STATES, move_to, stored_counts},
};
use super::{
    Asset, Network,
    ledger::{Cause, Dollars, Posting, unpaid},
    receipt::ReceiptSigner,
    sale::{UNPAID, UnpaidSale},
    transactions,
};

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

/// A payout after a decision.
#[derive(Debug)]
pub struct DecidedPayout {
    /// The payout, as recorded.
    pub packet: Packet,
    /// The warning for admins if its transaction is also recorded for another payout or for a refund.
    pub warning: Option<String>,
}

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

    /// Records an admin's decision on a payout. The warning is that of [`Payouts::warning`]. The commit of the decision reads it,
    /// so that an error of the store never hides a decision that was recorded.
    pub async fn decide(&self, id: &PayoutId, verdict: &PayoutVerdict) -> Result<DecidedPayout, PayoutError> {
        if verdict.decision == PayoutDecision::Reject {
            return Ok(DecidedPayout { packet: self.reject(id, verdict).await?, warning: None });
        }
        let builder = self.builder_of(id).await?;
        let (builder, owner) = (&builder, &Owner::Builder(builder.clone()));
        let (decided, event) = update(&*self.store, Durability::Durable, |mut tx| async move {
            let row = tx.row(&PAYOUTS, &key(builder, id)).await?.ok_or(PayoutError::Unknown)?;
            let mut packet = row.value.clone();
            packet.decide(verdict, self.clock.now())?;
            let (mut event, mut warning) = (self.event(kind_of(verdict.decision), &packet), None);
            if let Some(transaction) = packet.transaction.as_ref().filter(|_| packet.status == PayoutStatus::Paid) {
                if let Some(receipt) = transactions::receipt_paid_by(&mut tx, &packet.network, transaction).await? {
                    let message = format!("this transaction paid for the receipt `{receipt}`; enter the one that paid the builder");
                    return Err(PayoutError::Field { pointer: "/transaction", message });
                }
                if let Some(other) = transactions::sent_for(&mut tx, transaction, id.as_str()).await? {
                    event.data["warning"] = json!(recorded_twice_elsewhere(&other));
                    warning = Some(recorded_twice(&other));
                }
            }
            move_to(&mut tx, Some(row.value.status), packet.status);
            tx.replace(&PAYOUTS, &row, &packet).append(Events::stored(owner, &event));
            if packet.status == PayoutStatus::Paid {
                let posting = Posting::new(Cause::PaidOut(id.clone()), packet.updated_at);
                tx.append(posting.dollars(Dollars::Packet(id.clone()), Dollars::PaidOut, packet.amount()).stored());
            }
            tx.answer::<_, PayoutError>((DecidedPayout { packet, warning }, event))
        })
        .await?;
        self.events.announce(owner, event);
        Ok(decided)
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

    /// Returns a warning for admins if the transaction of a payout is also recorded for another payout or for a refund,
    /// which it names.
    pub async fn warning(&self, packet: &Packet) -> Result<Option<String>, StoreError> {
        Ok(self.other_use(packet).await?.as_deref().map(recorded_twice))
    }

    /// Returns the warning for the builder. It does not name the other payout or receipt, which can be another builder's.
    pub async fn builders_warning(&self, packet: &Packet) -> Result<Option<String>, StoreError> {
        Ok(self.other_use(packet).await?.as_deref().map(recorded_twice_elsewhere))
    }

    async fn other_use(&self, packet: &Packet) -> Result<Option<String>, StoreError> {
        let Some(transaction) = &packet.transaction else { return Ok(None) };
        transactions::also_sent_for(&*self.store, transaction, packet.id.as_str()).await
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

/// Returns the warning for admins about a transaction that is also recorded for another payout or for a refund.
fn recorded_twice(other: &str) -> String {
    format!("the transaction is also recorded for `{other}`; check that it sent both amounts")
}

/// Returns the same warning for builders.
fn recorded_twice_elsewhere(other: &str) -> String {
    let other = if other.starts_with(PayoutId::PREFIX) { "another payout" } else { "a refund" };
    format!("the transaction is also recorded for {other}; check that it sent this amount")
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

const PAYOUT_SETTINGS: Table<BuilderId, PayoutSettings> = schema::PAYOUT_SETTINGS.holding();

/// Default minimum of a payout: 1 USD.
const DEFAULT_MINIMUM: MicroUsd = MicroUsd(1_000_000);

impl Payouts {
    /// Returns the payout settings of `builder`.
    #[boxed]
    pub async fn settings(&self, builder: &BuilderId) -> Result<Option<PayoutSettings>, StoreError> {
        PAYOUT_SETTINGS.get(&*self.store, builder).await
    }

    /// Changes the settings. With `onto`, fails unless they are at that revision, where 0 means that none are set.
    /// Existing payouts keep their address.
    #[boxed]
    pub async fn set(&self, builder: &BuilderId, draft: &PayoutSettingsDraft, onto: Option<u64>) -> Result<PayoutSettings, PayoutError> {
        let checked = &self.checked(draft)?;
        let setting = update(&*self.store, Durability::Durable, |mut tx| async move {
            let before = tx.row(&PAYOUT_SETTINGS, builder).await?;
            let revision = before.as_ref().map_or(0, |row| row.value.revision);
            if onto.is_some_and(|onto| onto != revision) {
                return Err(PayoutError::Changed(revision));
            }
            let settings = PayoutSettings { revision: revision + 1, ..checked.clone() };
            tx.replace_or_insert(&PAYOUT_SETTINGS, before.as_ref(), builder, &settings);
            tx.answer(settings)
        });
        setting.await
    }

    fn checked(&self, draft: &PayoutSettingsDraft) -> Result<PayoutSettings, PayoutError> {
        let field = |pointer, message: String| PayoutError::Field { pointer, message };
        let on = |asset: &&&Asset| draft.network.as_deref().is_none_or(|named| Network::named(named) == Some(asset.network));
        let listed = |names: Vec<String>| names.join(", ");
        let all: Vec<_> = self.assets.iter().filter(on).copied().collect();
        let Some(network) = all.first().map(|asset| asset.network) else {
            let networks = self.assets.iter().map(|asset| format!("`{}`", asset.network.caip2)).collect();
            return Err(field("/network", format!("this host does not pay out on this network; use one of {}", listed(networks))));
        };
        let mut there = all.iter().filter(|asset| asset.network == network);
        let Some(asset) = there.clone().find(|asset| draft.asset.as_deref().is_none_or(|named| asset.is_called(named))) else {
            let assets = there.by_ref().map(|asset| format!("`{}`, `{}`", asset.symbol, asset.address)).collect();
            return Err(field("/asset", format!("this host does not pay out in this token; use one of {}", listed(assets))));
        };
        let address = network
            .checked_address(&draft.address)
            .ok_or_else(|| field("/address", format!("an address has {}", network.address_form())))?;
        if address.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|digit| digit == b'0')) {
            return Err(field("/address", "the zero address would lose the money".to_owned()));
        }
        Ok(PayoutSettings {
            address,
            network: network.caip2.to_owned(),
            asset: asset.address.to_owned(),
            minimum_usd: draft.minimum_usd.unwrap_or(DEFAULT_MINIMUM),
            updated_at: self.clock.now(),
            revision: 0,
        })
    }
}
