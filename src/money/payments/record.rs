//! The stored record of a payment.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tollhouse_api::Payment;
pub use tollhouse_api::PaymentState;
use tollhouse_base::{
    boxed,
    clock::Timestamp,
    id::{CreditId, PaymentId, ReplicaId, RequestId},
};
use tollhouse_store::{IndexEntry, Store, StoreError, Table, postcard_values, schema};

use crate::{StartedSettlement, WireVersion};

/// How long an answer can be fetched again with its payment, and how long a refusal can be looked up.
const ANSWER_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a record is kept after a release, for clients that look up a call whose answer they did not get.
const RELEASED_TTL: Duration = Duration::from_secs(60 * 60);

/// How long a record is kept after its payment can last be used, since clocks differ and can be set back.
pub(crate) const MARGIN: Duration = Duration::from_secs(60 * 60);

/// An answer that can be sent again. The default is a placeholder, for a payment that is settled before the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The headers that the handler set.
    pub headers: Vec<(String, String)>,
    /// The original bytes.
    pub body: Bytes,
    /// The id of the receipt. Empty if there is none.
    pub receipt_id: String,
    /// The settle response for the payer.
    pub settlement: Option<SettlementNotice>,
}

/// The header of an answer that was sent but is not kept. A handler cannot set it.
const UNKEPT: &str = "x-tollhouse-unkept";

impl StoredAnswer {
    /// Constructs the placeholder of a streamed answer that is not kept: it was too long, or its caller did not read it
    /// all.
    pub fn unkept(status: u16) -> Self {
        Self { status, headers: vec![(UNKEPT.to_owned(), String::new())], ..Self::default() }
    }

    /// Returns whether it is such a placeholder.
    pub fn is_unkept(&self) -> bool {
        self.headers.iter().any(|(name, _)| name == UNKEPT)
    }
}
postcard_values!(PaymentRecord);

/// A settle response, and the protocol version that it is sent in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettlementNotice {
    /// The x402 version of the payment.
    pub version: WireVersion,
    /// The JSON of `PAYMENT-RESPONSE` or `X-PAYMENT-RESPONSE`.
    pub body: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PaymentRecord {
    pub(crate) state: PaymentState,
    /// Identifies the reservation, so that no two admissions write the same bytes.
    holder: String,
    pub(crate) request: String,
    /// Hash of the signed payment, which proves that a sender has it.
    pub(crate) digest: String,
    pub(crate) updated_ms: u64,
    pub(crate) receipt_id: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) transaction: Option<String>,
    /// Set while settling, and while unresolved.
    pub(crate) intent: Option<SettlementIntent>,
    /// Whether it is settled and its answer is stored, which has its own row.
    pub(crate) has_answer: bool,
    /// The settle response, as long as an answer is owed or stored.
    pub(crate) notice: Option<SettlementNotice>,
    /// `None` once only the fact is left that its nonce is spent.
    pub(crate) tail: Option<ExpiryInfo>,
    /// Set with an intent.
    pub(crate) settler: Option<Settler>,
    /// The replica that handles it while it is reserved or settling. Another one takes over after that one's lease
    /// ends.
    pub(crate) replica: Option<ReplicaId>,
    /// The amount held of its payer's balance, on hosts that share a store, while it is reserved or settling.
    pub(crate) held: Option<HeldBalance>,
    /// Set if the payment is settled before the run, from its intent until the answer is stored.
    pub(crate) owed: Option<Owed>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldBalance {
    /// Key of the balance's sum in the store.
    pub(crate) key: String,
    /// The amount in the token's smallest unit.
    pub(crate) amount: i128,
}

/// An answer owed to a payer who was charged before the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owed {
    /// Number of started runs. Runs for which the host had no room do not count.
    pub(crate) runs: u32,
    /// The time until which another run can begin, in milliseconds since 1970. 0 while settling.
    pub(crate) until_ms: u64,
}

/// A settled payment whose answer is owed. [`Gate::resume`](crate::Payments::resume) begins another run.
#[derive(Debug)]
pub struct OwedPayment {
    pub(in crate::payments) id: PaymentId,
    pub(in crate::payments) record: Box<PaymentRecord>,
    /// The address of the payer who sent it again, which its other runs count for too. `None` for credit.
    pub(in crate::payments) payer: Option<String>,
}

/// The facilitator that owns this settlement. No other one decides its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settler {
    pub(crate) facilitator: String,
    /// The transaction that it has prepared, and sends after the intent is stored.
    pub(crate) transaction: Option<String>,
}

/// The data that determines when a record is deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExpiryInfo {
    /// The time until which the payment could be used if the record did not exist: the end of its authorization or of
    /// the client's key. In milliseconds since 1970.
    pub(crate) showable_until_ms: u64,
    /// The client's name of the payment, prefixed by its payer, so that nobody can take another's.
    pub(crate) named: Option<String>,
}

impl ExpiryInfo {
    /// `name` is the payer and the client's name of the payment.
    pub(super) fn new(showable_until_ms: u64, name: Option<(&str, &str)>) -> Self {
        Self { showable_until_ms, named: name.map(|(payer, name)| format!("{payer}/{name}")) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordTimeout {
    Never,
    /// None until then.
    At(Timestamp),
    Answer,
    /// The record is deleted: nothing can be looked up anymore.
    Record,
}

/// The data that a restart needs to finish a settlement. The answer has its own row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SettlementIntent {
    pub(crate) version: WireVersion,
    /// JSON text, because postcard cannot encode a `Value`.
    pub(crate) payload: String,
    pub(crate) requirements: String,
    pub(crate) draft: Vec<u8>,
}

impl PaymentRecord {
    pub(crate) fn reserved(request: &str, digest: String, tail: ExpiryInfo, now: Timestamp) -> Self {
        Self {
            state: PaymentState::Reserved,
            holder: RequestId::generate().to_string(),
            request: request.to_owned(),
            digest,
            updated_ms: now.0,
            receipt_id: None,
            reason: None,
            transaction: None,
            intent: None,
            has_answer: false,
            notice: None,
            tail: Some(tail),
            settler: None,
            replica: None,
            held: None,
            owed: None,
        }
    }

    pub(super) fn is_on_credit(&self) -> bool {
        self.digest.starts_with(CreditId::PREFIX)
    }

    /// Returns the client's name of the payment, prefixed by its payer.
    pub(super) fn name(&self) -> Option<&String> {
        self.tail.as_ref()?.named.as_ref()
    }

    pub(super) fn holder(&self) -> &str {
        &self.holder
    }

    pub(crate) fn held_by(self, replica: &ReplicaId) -> Self {
        Self { replica: Some(replica.clone()), ..self }
    }

    pub(super) fn without_balance(self) -> Self {
        Self { held: None, ..self }
    }

    /// Marks it as unresolved, so that it is no longer looked up. The time when its settlement began stays, because a
    /// search of the chain starts there.
    pub(super) fn given_up(self) -> Self {
        Self { state: PaymentState::Unresolved, replica: None, ..self }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, PaymentState::Reserved | PaymentState::Settling)
    }

    /// Marks it as being run again by this replica.
    pub(super) fn run_by(self, replica: &ReplicaId, now: Timestamp) -> Self {
        let owed = self.owed.map(|owed| Owed { runs: owed.runs.saturating_add(1), ..owed });
        let holder = RequestId::generate().to_string();
        Self { holder, replica: Some(replica.clone()), updated_ms: now.0, owed, ..self }
    }

    /// Returns how many runs of an owed answer ended without one. A run in flight does not count, nor does the last one
    /// if its host died during it.
    pub(super) fn failed_runs(&self) -> u32 {
        let runs = self.owed.as_ref().map_or(0, |owed| owed.runs);
        runs.saturating_sub(u32::from(self.replica.is_some()))
    }

    /// Reduces it to the fact that its nonce is spent, and by which transaction. It is kept forever, since it has no
    /// expiry. Nothing more is owed.
    pub(crate) fn spent(self) -> Self {
        let state = if self.state == PaymentState::Owed { PaymentState::Settled } else { self.state };
        let (holder, request, digest) = Default::default();
        Self {
            state,
            holder,
            request,
            digest,
            has_answer: false,
            notice: None,
            intent: None,
            tail: None,
            settler: None,
            owed: None,
            ..self
        }
    }

    pub(crate) fn due(&self, now: Timestamp) -> RecordTimeout {
        let after = |at: u64, stored: Duration| at.saturating_add(u64::try_from(stored.as_millis()).unwrap_or(u64::MAX));
        let answer_until = after(self.updated_ms, ANSWER_TTL);
        let record_until = match (self.state, &self.tail) {
            (PaymentState::Reserved | PaymentState::Settling | PaymentState::Unresolved, _) => return RecordTimeout::Never,
            (PaymentState::Owed, _) => {
                let until = self.owed.as_ref().map_or(self.updated_ms, |owed| owed.until_ms);
                let showable = self.tail.as_ref().map_or(0, |tail| tail.showable_until_ms);
                Some(after(until.max(showable), MARGIN))
            }
            (PaymentState::Released, _) => Some(after(self.updated_ms, RELEASED_TTL)),
            (PaymentState::Refused, _) => Some(answer_until),
            (PaymentState::Settled, Some(tail)) => Some(answer_until.max(after(tail.showable_until_ms, MARGIN))),
            // The validity of its authorization is unknown, and only the record prevents its reuse.
            (PaymentState::Settled, None) => None,
        };
        match record_until {
            Some(until) if until <= now.0 => RecordTimeout::Record,
            _ if self.has_answer && answer_until <= now.0 => RecordTimeout::Answer,
            _ if self.has_answer => RecordTimeout::At(Timestamp(answer_until)),
            Some(until) => RecordTimeout::At(Timestamp(until)),
            None => RecordTimeout::Never,
        }
    }

    pub(crate) fn started(&self) -> StartedSettlement {
        let settler = self.settler.as_ref();
        let facilitator = settler.map(|settler| settler.facilitator.clone());
        StartedSettlement {
            at: Timestamp(self.updated_ms),
            facilitator,
            transaction: settler.and_then(|settler| settler.transaction.clone()),
        }
    }

    pub(crate) fn public(&self, id: &PaymentId) -> Payment {
        Payment {
            payment_id: id.clone(),
            state: self.state,
            receipt_id: self.receipt_id.clone(),
            reason: self.reason.clone(),
            transaction: self.transaction.clone(),
            updated_at: Timestamp(self.updated_ms),
            settlement: None,
        }
    }
}

pub(crate) const UNRESOLVED: Table<PaymentId, ()> = schema::UNRESOLVED_SETTLEMENTS.holding();

/// Returns the entry of a payment among the unresolved settlements, if it is one.
pub(crate) fn unresolved_index(id: &PaymentId, record: &PaymentRecord) -> Option<IndexEntry> {
    (record.state == PaymentState::Unresolved).then(|| schema::UNRESOLVED_SETTLEMENTS.entry(id, &()))
}

/// Counts unresolved settlements, up to `max`.
#[boxed]
pub async fn count_unresolved(store: &dyn Store, max: usize) -> Result<usize, StoreError> {
    UNRESOLVED.count(store, &UNRESOLVED.all(), max).await
}

#[cfg(test)]
mod tests;
