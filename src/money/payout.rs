//! Payouts: packets of net revenue, each receipt in at most one.
//!
//! A packet is made by moving what waits from `Unpaid` to `PayoutReceipts`, a thousand receipts a commit, and
//! each commit checks the packet's record as it was read and changes it. One packet of a builder is being
//! collected at a time (its `head` says which); whoever finds one that was cut off goes on with it.
//!
//! ```text
//!   collecting ──▶ created ──▶ approved ──▶ paid
//!                                 ▲  │
//!                                 │  ▼
//!                                failed
//! ```
//!
//! **Invariant: a receipt is in at most one packet, and a packet's amount is the sum of its receipts.** The
//! collecting commits keep it, and the sealing one adds up again before it signs.

mod collect;
mod packet;
mod settings;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc};

use serde_json::json;

pub use self::{
    packet::{Decision, Packet, Paid, Period, Status, Verdict},
    settings::{PayoutSettings, SettingsDraft},
};
use crate::{
    base::{
        clock::{Clock, Timestamp},
        id::{BuilderId, PayoutId},
    },
    event::{Event, Events, Kind},
    money::{Network, receipt::Signer, sale::Unpaid},
    store::{Check, Direction, Durability, KeyRange, Space, Store, StoreError, Write},
    tool::{MicroUsd, Owner},
};

/// Tries of a conditional commit: each failure means that another succeeded.
const TRIES: usize = 1_000;

/// Why a payout did not happen, or its settings were not taken.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum PayoutError {
    /// `pointer` is the field.
    #[error("{message}")]
    Field { pointer: &'static str, message: String },
    #[error("say first where payouts go: POST /ai/builders/payout-settings")]
    NoSettings,
    #[error("{amount} USD wait to be paid out, the minimum is {minimum} USD")]
    BelowMinimum { amount: MicroUsd, minimum: MicroUsd },
    #[error("no payout has this id")]
    Unknown,
    #[error("this payout is another builder's")]
    NotOwner,
    #[error("a payout that is `{}` cannot become `{}`", .from.as_str(), .to.as_str())]
    WrongState { from: Status, to: Status },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The payouts of all builders.
pub struct Payouts {
    store: Arc<dyn Store>,
    clock: Clock,
    events: Arc<Events>,
    signer: Arc<Signer>,
    network: &'static Network,
}

/// Packets, newest first, and the place of the next page.
type Page = (Vec<Packet>, Option<PayoutId>);

impl fmt::Debug for Payouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payouts").field("network", &self.network.caip2).finish_non_exhaustive()
    }
}

impl Payouts {
    /// Payouts are made on `network`, in its dollar token.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Clock, events: Arc<Events>, signer: Arc<Signer>, network: &'static Network) -> Self {
        Self { store, clock, events, signer, network }
    }

    /// The packet of `builder` with this id.
    ///
    /// # Errors
    ///
    /// [`PayoutError::Unknown`], [`PayoutError::NotOwner`], the store's.
    pub async fn get(&self, builder: &BuilderId, id: &PayoutId) -> Result<Packet, PayoutError> {
        if self.builder_of(id).await? != *builder {
            return Err(PayoutError::NotOwner);
        }
        Ok(self.read(builder, id).await?.0)
    }

    /// The packets of `builder`, newest first, before `cursor`.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn list(&self, builder: &BuilderId, limit: usize, cursor: Option<&PayoutId>) -> Result<Page, PayoutError> {
        let mut range = KeyRange::prefix(&packet_key(builder, None));
        if let Some(cursor) = cursor {
            range = range.before(&packet_key(builder, Some(cursor)));
        }
        let pairs = self.store.scan(Space::Payouts, range, limit, Direction::Backward).await?;
        let full = pairs.len() == limit;
        let packets: Vec<_> = pairs.iter().map(|(_, bytes)| Packet::decode(bytes)).collect::<Result<_, _>>()?;
        let next = packets.last().filter(|_| full).map(|packet| packet.id.clone());
        Ok((packets, next))
    }

    /// The packets of all builders, newest first, before `cursor`; with `status` only those.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn list_all(&self, status: Option<Status>, limit: usize, cursor: Option<&PayoutId>) -> Result<Page, PayoutError> {
        let mut range = KeyRange::prefix(&index_key(None));
        if let Some(cursor) = cursor {
            range = range.before(&index_key(Some(cursor)));
        }
        let (mut packets, mut seen) = (Vec::new(), 0);
        loop {
            let pairs = self.store.scan(Space::Payouts, range.clone(), limit, Direction::Backward).await?;
            let last = pairs.len() < limit;
            for (key, builder) in pairs {
                let id = parsed::<PayoutId>(key.get(INDEX.len() + 1..).unwrap_or_default())?;
                let (packet, _) = self.read(&parsed(&builder)?, &id).await?;
                packets.extend(Some(packet).filter(|packet| status.is_none_or(|status| packet.status == status)));
                seen += 1;
                if packets.len() == limit || seen == SCAN_LIMIT {
                    return Ok((packets, Some(id)));
                }
                range = range.before(&key);
            }
            if last {
                return Ok((packets, None));
            }
        }
    }

    /// The receipts of a packet after `cursor`, by their ids, with what each brings.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn receipts(&self, id: &PayoutId, limit: usize, cursor: Option<&str>) -> Result<Vec<(String, MicroUsd)>, StoreError> {
        let mut range = KeyRange::prefix(&receipt_key(id, b""));
        if let Some(cursor) = cursor {
            range = range.after(&receipt_key(id, cursor.as_bytes()));
        }
        let skip = receipt_key(id, b"").len();
        let pairs = self.store.scan(Space::PayoutReceipts, range, limit, Direction::Forward).await?;
        pairs.iter().map(|(key, value)| Ok((text(&key[skip..])?, MicroUsd(unpaid(value)?.net)))).collect()
    }

    /// Records what an admin decided on a packet.
    ///
    /// # Errors
    ///
    /// [`PayoutError::Unknown`], [`PayoutError::WrongState`], the store's.
    pub async fn decide(&self, id: &PayoutId, verdict: &Verdict) -> Result<Packet, PayoutError> {
        let builder = self.builder_of(id).await?;
        for _ in 0..TRIES {
            let (mut packet, before) = self.read(&builder, id).await?;
            packet.decide(verdict, self.clock.now())?;
            let event = self.event(verdict.kind(), &packet);
            let owner = Owner::Builder(builder.clone());
            let check = Check::holds(Space::Payouts, packet_key(&builder, Some(id)), before);
            match self.store.commit(vec![check], vec![packet.write(), Events::write(&owner, &event)], Durability::Durable).await {
                Ok(()) => {
                    self.events.announce(&owner, event);
                    return Ok(packet);
                }
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreError::Conflict.into())
    }

    fn event(&self, kind: Kind, packet: &Packet) -> Event {
        let mut data = json!({ "payoutId": packet.id, "amountUsd": packet.amount(), "receiptCount": packet.receipt_count });
        if let Some(transaction) = packet.transaction.as_ref().filter(|_| kind == Kind::PayoutPaid) {
            data["transaction"] = json!(transaction);
        }
        if let Some(reason) = packet.reason.as_ref().filter(|_| kind == Kind::PayoutFailed) {
            data["reason"] = json!(reason);
        }
        self.events.event(kind, None, data)
    }

    /// Whose packet it is.
    ///
    /// # Errors
    ///
    /// [`PayoutError::Unknown`], the store's.
    pub async fn builder_of(&self, id: &PayoutId) -> Result<BuilderId, PayoutError> {
        let builder = self.store.get(Space::Payouts, &index_key(Some(id))).await?;
        Ok(parsed(&builder.ok_or(PayoutError::Unknown)?)?)
    }

    async fn read(&self, builder: &BuilderId, id: &PayoutId) -> Result<(Packet, Vec<u8>), PayoutError> {
        let bytes = self.store.get(Space::Payouts, &packet_key(builder, Some(id))).await?.ok_or(PayoutError::Unknown)?;
        Ok((Packet::decode(&bytes)?, bytes))
    }
}

/// Packets that one read looks at, matching or not.
const SCAN_LIMIT: usize = 1_000;
/// What the keys of `Space::Payouts` that are no packet's start with; builders' ids start with `bld_`.
const INDEX: &str = "index";
const HEAD: &str = "head";

/// `<builder>\0<payout>`, or what all of a builder's start with.
fn packet_key(builder: &BuilderId, id: Option<&PayoutId>) -> Vec<u8> {
    [builder.as_str().as_bytes(), &[0], id.map_or("", PayoutId::as_str).as_bytes()].concat()
}

/// Where it stands whose packet one is.
fn index_key(id: Option<&PayoutId>) -> Vec<u8> {
    [INDEX.as_bytes(), &[0], id.map_or("", PayoutId::as_str).as_bytes()].concat()
}

/// Where a builder's newest packet is named.
fn head_key(builder: Option<&BuilderId>) -> Vec<u8> {
    [HEAD.as_bytes(), &[0], builder.map_or("", BuilderId::as_str).as_bytes()].concat()
}

fn receipt_key(id: &PayoutId, receipt: &[u8]) -> Vec<u8> {
    [id.as_str().as_bytes(), &[0], receipt].concat()
}

fn text(bytes: &[u8]) -> Result<String, StoreError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| damaged())
}

fn parsed<T: std::str::FromStr>(bytes: &[u8]) -> Result<T, StoreError> {
    std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or_else(damaged)
}

fn unpaid(bytes: &[u8]) -> Result<Unpaid, StoreError> {
    Unpaid::decode(bytes).ok_or_else(damaged)
}

fn damaged() -> StoreError {
    StoreError::Away("the payouts do not read".to_owned())
}
