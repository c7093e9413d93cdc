//! What the store knows of one payment.

mod format;

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tollhouse_base::{
    clock::Timestamp,
    id::{CreditId, ReplicaId, RequestId},
};
use tollhouse_store::postcard_values;

use crate::{Begun, PaymentId, WireVersion};

/// How long an answer is kept for whoever shows its payment again, and how long a refusal can be asked for.
const ANSWER_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a record outlives its release: for clients that ask what became of a call whose answer they did not get.
const RELEASED_KEPT: Duration = Duration::from_secs(60 * 60);

/// How long a record outlives the last moment at which its payment can be shown: clocks differ, and are put back.
pub(crate) const MARGIN: Duration = Duration::from_secs(60 * 60);

/// Where a payment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Bound to a call that is running. Nothing is taken.
    Reserved,
    /// The facilitator has been asked to settle, or is about to be.
    Settling,
    /// The money moved; receipt and answer are stored.
    Settled,
    /// The facilitator refused to settle. Nothing was taken.
    Refused,
    /// The call ended without a result. Nothing was taken, and the authorisation is unspent.
    Released,
    /// For so long as the settings say nobody said whether the money moved, and nobody is asked any more. The authorization stays used
    /// until an admin decides.
    Unresolved,
    /// The money moved before the run, and the payer has no answer yet: the same payment runs the tool.
    Owed,
}

/// An answer that can be given again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAnswer {
    /// HTTP status.
    pub status: u16,
    /// Those that the handler chose.
    pub headers: Vec<(String, String)>,
    /// The bytes, as they were given first.
    pub body: Bytes,
    /// Empty when there is no receipt.
    pub receipt_id: String,
    /// What the payer is told of the settlement.
    pub settlement: Option<SettlementNotice>,
}
postcard_values!(StoredAnswer);

/// A settle response, and the wire it is told in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettlementNotice {
    /// Wire version that it was paid in.
    pub version: WireVersion,
    /// The JSON of `PAYMENT-RESPONSE` or `X-PAYMENT-RESPONSE`.
    pub body: String,
}

/// The state of a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PaymentState {
    /// What it is known by.
    pub payment_id: PaymentId,
    /// Where it stands.
    pub state: State,
    /// Of the call that it paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt_id: Option<String>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where the money moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// When it came to stand there; while it is unresolved, when its settlement began.
    pub updated_at: Timestamp,
}

impl PaymentState {
    /// The same as everyone may see it: not what was bought. Whoever reads the chain can compute ids of payments, and a receipt names the
    /// tool.
    #[must_use]
    pub fn without_purchase(self) -> Self {
        Self { receipt_id: None, transaction: None, ..self }
    }
}

/// Where the answer of a payment that is settled lies: there is one of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Kept {
    /// In the record, which was written once.
    Here(StoredAnswer),
    /// In a row of its own, as its intent had it written. With what the payer is told of the settlement.
    Apart(Option<SettlementNotice>),
}

/// The record of one payment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) state: State,
    /// Whose reservation it is: no two admissions write the same bytes.
    holder: String,
    /// Hash of the request that the payment is bound to.
    pub(crate) request: String,
    /// Hash of the signed payment: who shows it holds that.
    pub(crate) digest: String,
    pub(crate) updated_ms: u64,
    pub(crate) receipt_id: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) transaction: Option<String>,
    /// Present while settling, and while unresolved.
    pub(crate) intent: Option<Intent>,
    /// Present while settled and not yet forgotten.
    pub(crate) answer: Option<Kept>,
    /// `None` in a record that a version without tails wrote.
    pub(crate) tail: Option<Tail>,
    /// Present beside an intent, but for those of versions that did not say.
    pub(crate) settler: Option<Settler>,
    /// Whose it is to end while it is reserved or settling: another replica takes it up once that one's lease is over.
    pub(crate) replica: Option<ReplicaId>,
    /// What it holds of its payer's balance, on hosts that share a store, while it is reserved or settling.
    pub(crate) held: Option<HeldBalance>,
    /// Present where the payment is settled before the run, from its intent until the answer is kept.
    pub(crate) owed: Option<Owed>,
}

/// A part of a payer's balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldBalance {
    /// Whose, and of what: the key of its sum in the store.
    pub(crate) purse: String,
    /// In the token's smallest unit.
    pub(crate) amount: i128,
}

/// What a payer who was charged before the run is owed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owed {
    /// Runs that have begun. Those that the host had no room for are not counted.
    pub(crate) runs: u32,
    /// Until when another run can begin, in milliseconds since 1970; 0 while it is settling.
    pub(crate) until_ms: u64,
    /// What the payer is told of the settlement.
    pub(crate) notice: Option<SettlementNotice>,
}

/// Who was to settle. Nobody else judges what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settler {
    /// As [`crate::Facilitator::identity`] has it.
    pub(crate) facilitator: String,
    /// The transaction that it has prepared, and sends once the intent is on disk.
    pub(crate) transaction: Option<String>,
}

/// What says when a record may go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tail {
    /// Until when the payment could be shown again if the record were not there: the end of its authorisation, or of the
    /// client's key. In milliseconds since 1970.
    pub(crate) showable_until_ms: u64,
    /// The client's own name of the payment, behind [`NAMED`].
    pub(crate) named: Option<String>,
}

/// What names of payments start with in records: they once were the keys of the names.
const NAMED: &str = "cid/";

impl Tail {
    /// Of a payment that can be shown until then. The name is scoped by payer: no one can take another's.
    pub(super) fn new(showable_until_ms: u64, name: Option<(&str, &str)>) -> Self {
        Self { showable_until_ms, named: name.map(|(payer, name)| format!("{NAMED}{payer}/{name}")) }
    }

    /// The name, as its client gave it.
    fn client_name(&self) -> Option<&str> {
        Some(self.named.as_ref()?.strip_prefix(NAMED)?.split_once('/')?.1)
    }

    /// The name, among those of all payers.
    pub(super) fn name(&self) -> Option<String> {
        self.named.as_ref()?.strip_prefix(NAMED).map(str::to_owned)
    }
}

/// What time does to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing more.
    Never,
    /// Nothing until then.
    At(Timestamp),
    /// The answer goes, the record stays.
    Answer,
    /// All of it goes: nothing can be asked of it any more.
    Record,
}

/// All that a restart needs to finish a settlement, but for the answer: that lies in a row of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Intent {
    pub(crate) version: WireVersion,
    /// JSON texts: postcard cannot hold a `Value`.
    pub(crate) payload: String,
    pub(crate) requirements: String,
    /// What the finisher makes the receipt from.
    pub(crate) draft: Vec<u8>,
    /// The answer, where a version without such rows has written it here.
    pub(crate) answer: Option<StoredAnswer>,
}

impl Record {
    pub(crate) fn reserved(request: &str, digest: String, tail: Tail, now: Timestamp) -> Self {
        Self {
            state: State::Reserved,
            holder: RequestId::generate().to_string(),
            request: request.to_owned(),
            digest,
            updated_ms: now.0,
            receipt_id: None,
            reason: None,
            transaction: None,
            intent: None,
            answer: None,
            tail: Some(tail),
            settler: None,
            replica: None,
            held: None,
            owed: None,
        }
    }

    /// Whether a developer credit paid, and not an authorization.
    pub(super) fn is_on_credit(&self) -> bool {
        self.digest.starts_with(CreditId::PREFIX)
    }

    /// Whose reservation it is.
    pub(super) fn holder(&self) -> &str {
        &self.holder
    }

    /// The same, for this replica to end.
    pub(crate) fn held_by(self, replica: &ReplicaId) -> Self {
        Self { replica: Some(replica.clone()), ..self }
    }

    /// The same, without a balance.
    pub(super) fn without_balance(self) -> Self {
        Self { held: None, ..self }
    }

    /// The same, as nobody is asked about it any more. When its settlement began stays: the chain is searched from there.
    pub(super) fn given_up(self) -> Self {
        Self { state: State::Unresolved, replica: None, ..self }
    }

    /// Whether it is under way.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Reserved | State::Settling)
    }

    /// The same, while another run of what is owed is under way at this replica.
    pub(super) fn run_by(self, replica: &ReplicaId, now: Timestamp) -> Self {
        let owed = self.owed.map(|owed| Owed { runs: owed.runs.saturating_add(1), ..owed });
        let holder = RequestId::generate().to_string();
        Self { holder, replica: Some(replica.clone()), updated_ms: now.0, owed, ..self }
    }

    /// No more than that its nonce is spent, and by what: for good, since it has no tail.
    pub(crate) fn spent(self) -> Self {
        let none = String::new;
        Self {
            holder: none(),
            request: none(),
            digest: none(),
            answer: None,
            intent: None,
            tail: None,
            settler: None,
            owed: None,
            ..self.over()
        }
    }

    /// Of what is owed nothing more can be asked for once the record is cut to its nonce.
    fn over(self) -> Self {
        let state = if self.state == State::Owed { State::Settled } else { self.state };
        Self { state, ..self }
    }

    /// What time has done to it by `now`.
    pub(crate) fn due(&self, now: Timestamp) -> Due {
        let after = |at: u64, kept: Duration| at.saturating_add(u64::try_from(kept.as_millis()).unwrap_or(u64::MAX));
        let answer_until = after(self.updated_ms, ANSWER_KEPT);
        let record_until = match (self.state, &self.tail) {
            (State::Reserved | State::Settling | State::Unresolved, _) => return Due::Never,
            (State::Owed, _) => {
                let until = self.owed.as_ref().map_or(self.updated_ms, |owed| owed.until_ms);
                let showable = self.tail.as_ref().map_or(0, |tail| tail.showable_until_ms);
                Some(after(until.max(showable), MARGIN))
            }
            (State::Released, _) => Some(after(self.updated_ms, RELEASED_KEPT)),
            (State::Refused, _) => Some(answer_until),
            (State::Settled, Some(tail)) => Some(answer_until.max(after(tail.showable_until_ms, MARGIN))),
            // Nobody knows how long its authorisation is valid: the record is what refuses it.
            (State::Settled, None) => None,
        };
        match record_until {
            Some(until) if until <= now.0 => Due::Record,
            _ if self.answer.is_some() && answer_until <= now.0 => Due::Answer,
            _ if self.answer.is_some() => Due::At(Timestamp(answer_until)),
            Some(until) => Due::At(Timestamp(until)),
            None => Due::Never,
        }
    }

    /// What a settlement is known by that has begun when this record was written.
    pub(crate) fn begun(&self) -> Begun {
        let settler = self.settler.as_ref();
        let facilitator = settler.map(|settler| settler.facilitator.clone());
        Begun { at: Timestamp(self.updated_ms), facilitator, transaction: settler.and_then(|settler| settler.transaction.clone()) }
    }

    pub(crate) fn public(&self, id: &PaymentId) -> PaymentState {
        PaymentState {
            payment_id: id.clone(),
            state: self.state,
            receipt_id: self.receipt_id.clone(),
            reason: self.reason.clone(),
            transaction: self.transaction.clone(),
            updated_at: Timestamp(self.updated_ms),
        }
    }
}

#[cfg(test)]
mod tests;
