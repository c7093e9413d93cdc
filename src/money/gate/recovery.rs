//! What is left open: resolved at the start and on a timer, and given back where nothing was taken. What is over:
//! forgotten when nothing can be asked of it any more.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use serde_json::Value;

use super::{Gate, Retry, expiry_key};
use crate::{
    base::clock::Timestamp,
    money::{
        Payment, PaymentId, SettleError, State,
        gate::record::{Due, Record},
    },
    store::{Check, Direction, Durability, KeyRange, Space, StoreError, Write},
};

/// Longest time between two questions about one open settlement.
const MAX_BACKOFF: Duration = Duration::from_secs(300);

/// Age at which a settlement of another process counts as open: above every facilitator's own time-out.
const FOREIGN_AGE: Duration = Duration::from_secs(180);

/// Open settlements, and payments with something to forget, looked at in one go.
const BATCH: usize = 256;

/// Open settlements asked about at once.
const AT_ONCE: usize = 16;

impl Gate {
    /// Ends what a crash left: reservations are released, settlements asked about. For a store that
    /// no other process uses.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn recover(&self) -> Result<(), StoreError> {
        let mut settling = Vec::new();
        for (id, record, before) in self.open_records().await? {
            match record.state {
                State::Reserved => _ = self.release(&id, record, before).await?,
                State::Settling => {
                    self.retries().insert(id.clone(), Retry { at: Some(Instant::now()), tries: 0 });
                    settling.push(id);
                }
                State::Settled | State::Refused | State::Released => {
                    self.store.commit(vec![], vec![Write::delete(Space::OpenIntents, id.key())], Durability::Buffered).await?;
                }
            }
        }
        if !settling.is_empty() {
            tracing::info!(payments = settling.len(), "resolving settlements that were open when the host ended");
            self.tick().await?;
        }
        Ok(())
    }

    /// Asks about open settlements whose time has come, and forgets what is old of those that ended.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn tick(&self) -> Result<(), StoreError> {
        self.give_back_orphans().await;
        let now = Instant::now();
        let mut ended: Vec<PaymentId> = self.retries().iter().filter(|(_, retry)| retry.at.is_some()).map(|(id, _)| id.clone()).collect();
        let foreign = self.clock.now().0.saturating_sub(u64::try_from(FOREIGN_AGE.as_millis()).unwrap_or(u64::MAX));
        let open = self.open_records().await?;
        ended.retain(|id| !open.iter().any(|(other, record, _)| other == id && record.state == State::Settling));
        for id in ended {
            self.retries().remove(&id);
        }
        let mut settling = Vec::new();
        for (id, record, _) in open {
            let due = match self.retries().get(&id) {
                Some(Retry { at: Some(at), .. }) => *at <= now,
                // Another replica's, or of a call whose task died.
                Some(Retry { at: None, .. }) | None => record.updated_ms < foreign,
            };
            if record.state == State::Settling && due {
                settling.push((id, record));
            }
        }
        // One facilitator that does not answer holds up no other settlement.
        let resolve = async |(id, record): (PaymentId, Record)| self.resolve(&id, &record).await;
        futures_util::stream::iter(settling).for_each_concurrent(AT_ONCE, resolve).await;
        self.forget().await
    }

    pub(super) async fn resolve(&self, id: &PaymentId, record: &Record) {
        let Some(intent) = &record.intent else { return };
        let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        let Ok(payment) = Payment::from_parts(intent.version, parse(&intent.payload), parse(&intent.requirements)) else {
            tracing::error!(payment.id = %id, "an intent does not read");
            return self.ask_later(id);
        };
        let outcome = self.facilitator.resolve(&payment).await;
        match self.conclude(id, outcome).await {
            Ok(_) => tracing::info!(payment.id = %id, "an open settlement was found settled"),
            Err(SettleError::Refused { reason, .. }) => tracing::info!(payment.id = %id, reason, "an open settlement was found refused"),
            Err(_) => {}
        }
    }

    pub(super) async fn open_records(&self) -> Result<Vec<(PaymentId, Record, Vec<u8>)>, StoreError> {
        let mut records = Vec::new();
        let mut range = KeyRange::prefix(b"");
        loop {
            let page = self.store.scan(Space::OpenIntents, range.clone(), BATCH, Direction::Forward).await?;
            let Some((last, _)) = page.last() else { return Ok(records) };
            range.start = std::ops::Bound::Excluded(last.clone());
            for (key, _) in &page {
                let id = std::str::from_utf8(key).ok().and_then(|text| text.parse::<PaymentId>().ok());
                let Some(id) = id else { continue };
                if let Some((record, before)) = self.read_among_others(&id).await? {
                    records.push((id, record, before));
                }
            }
        }
    }

    /// Forgets what is due.
    async fn forget(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut due = KeyRange { start: std::ops::Bound::Unbounded, end: std::ops::Bound::Excluded(now.0.to_be_bytes().to_vec()) };
        loop {
            let page = self.store.scan(Space::PaymentExpiry, due.clone(), BATCH, Direction::Forward).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            due = due.after(last);
            for (key, _) in page {
                self.forget_one(key, now).await?;
            }
        }
    }

    /// Forgets what is due of one payment, and says when to look again.
    async fn forget_one(&self, key: Vec<u8>, now: Timestamp) -> Result<(), StoreError> {
        let id = key.get(8..).and_then(|id| std::str::from_utf8(id).ok()?.parse::<PaymentId>().ok());
        let (mut checks, mut writes) = (vec![], vec![Write::delete(Space::PaymentExpiry, key)]);
        if let Some(id) = id
            && let Some((mut record, before)) = self.read_among_others(&id).await?
        {
            checks.push(Check::holds(Space::Payments, id.key(), before));
            match record.due(now) {
                Due::Record => {
                    let named = record.tail.take().and_then(|tail| tail.named);
                    // What moved stays spent, in few bytes: its nonce can be signed for again, for a later time, and a chain
                    // that is asked then tells of the transfer that was.
                    writes.push(match record.transaction {
                        Some(_) => Write::put(Space::Payments, id.key(), record.spent().encode()),
                        None => Write::delete(Space::Payments, id.key()),
                    });
                    if let Some(named) = named
                        && self.store.get(Space::Payments, &named).await?.as_deref() == Some(id.as_str().as_bytes())
                    {
                        checks.push(Check::holds(Space::Payments, named.clone(), id.as_str()));
                        writes.push(Write::delete(Space::Payments, named));
                    }
                }
                Due::Answer => {
                    record.answer = None;
                    writes.push(Write::put(Space::Payments, id.key(), record.encode()));
                    writes.extend(self.look_again(&id, &record));
                }
                Due::At(_) => writes.extend(self.look_again(&id, &record)),
                Due::Never => {}
            }
        }
        match self.store.commit(checks, writes, Durability::Buffered).await {
            // On a conflict the next tick does it.
            Ok(()) | Err(StoreError::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The write that has the payment looked at when something of it is to be forgotten.
    fn look_again(&self, id: &PaymentId, record: &Record) -> Option<Write> {
        match record.due(self.clock.now()) {
            Due::At(at) => Some(Write::put(Space::PaymentExpiry, expiry_key(at, id), vec![])),
            Due::Answer | Due::Record => Some(Write::put(Space::PaymentExpiry, expiry_key(self.clock.now(), id), vec![])),
            Due::Never => None,
        }
    }

    /// The writes that every end of a payment has.
    pub(super) fn ended_writes(&self, id: &PaymentId, record: &Record) -> Vec<Write> {
        let ended = [Write::put(Space::Payments, id.key(), record.encode()), Write::delete(Space::OpenIntents, id.key())];
        ended.into_iter().chain(self.look_again(id, record)).collect()
    }

    /// Releases a reservation. False when it has gone on without us: whoever changed it ends it.
    pub(super) async fn release(&self, id: &PaymentId, mut record: Record, before: Vec<u8>) -> Result<bool, StoreError> {
        record.state = State::Released;
        record.updated_ms = self.clock.now().0;
        let check = Check::holds(Space::Payments, id.key(), before);
        match self.store.commit(vec![check], self.ended_writes(id, &record), Durability::Buffered).await {
            Ok(()) => Ok(true),
            Err(StoreError::Conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Releases a reservation of our own, now or as soon as the store does it. `None`: it is not known yet.
    pub(super) async fn give_back(&self, id: &PaymentId, record: &Record) -> Option<bool> {
        match self.release(id, record.clone(), record.encode()).await {
            Ok(released) => Some(released),
            Err(error) => {
                tracing::error!(payment.id = %id, %error, "a reservation could not be released; it is tried again");
                self.orphans().insert(id.clone(), record.clone());
                None
            }
        }
    }

    pub(super) async fn give_back_orphans(&self) {
        let orphans: Vec<_> = self.orphans().drain().collect();
        for (id, record) in orphans {
            self.give_back(&id, &record).await;
        }
    }

    pub(super) fn ask_later(&self, id: &PaymentId) {
        let mut open = self.retries();
        let retry = open.entry(id.clone()).or_insert(Retry { at: None, tries: 0 });
        let wait = Duration::from_secs(1u64 << retry.tries.min(16)).min(MAX_BACKOFF);
        *retry = Retry { at: Some(Instant::now() + wait), tries: retry.tries + 1 };
    }
}
