//! The stored format of payment records, encoded with postcard. Format 3 lacks the held balance and the owed answer.
//! Format 2 also lacks the replica. Earlier formats contain the answer, followed by the optional [`ExpiryInfo`] and
//! [`Settler`]. Their digest covers only the signed part, even if the client named the payment.

use serde::{Deserialize, Serialize};
use tollhouse_store::{Formatted, Value, read_postcard, write_postcard};

use super::{AnswerLocation, ExpiryInfo, PaymentPhase, PaymentRecord, SettlementIntent, Settler, StoredAnswer};
use crate::{WireVersion, x402::offer::named_digest};

/// The last format that contains the answer.
const OLDER: u8 = 1;

/// The last format without the replica.
const UNNAMED: u8 = 2;

/// The last format without the held balance and the owed answer.
const UNHELD: u8 = 3;

/// The postcard encoding of `None`.
const NONE: &[u8] = &[0];

/// A record that format 3 cannot represent. It is written only if all replicas read it
/// ([`Replica::may_write`](tollhouse_replica::Replica::may_write)).
struct Newest(PaymentRecord);

/// A record that is written as format 3.
struct Plain(PaymentRecord);

impl Value for PaymentRecord {
    fn to_bytes(&self) -> Vec<u8> {
        match matches!(self.state, PaymentPhase::Unresolved | PaymentPhase::Owed) || self.held.is_some() || self.owed.is_some() {
            true => Newest(self.clone()).to_bytes(),
            false => Plain(self.clone()).to_bytes(),
        }
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let newest = Newest::of_bytes(bytes).map(|Newest(record)| record);
        newest.or_else(|| Plain::of_bytes(bytes).map(|Plain(record)| record))
    }
}

impl Formatted for Newest {
    const FORMAT: u8 = 4;

    fn write(&self, out: &mut Vec<u8>) {
        write_postcard(&self.0, out);
    }

    fn read(format: u8, bytes: &[u8]) -> Option<Self> {
        (format == Self::FORMAT).then(|| read_postcard(bytes)).flatten().map(Self)
    }
}

impl Formatted for Plain {
    const FORMAT: u8 = UNHELD;

    fn write(&self, out: &mut Vec<u8>) {
        write_postcard(&self.0, out);
        // Removes the two `None` at the end: held balance and owed answer.
        out.truncate(out.len() - 2 * NONE.len());
    }

    fn read(format: u8, bytes: &[u8]) -> Option<Self> {
        let record = match format {
            UNHELD => read_postcard(&[bytes, NONE, NONE].concat()),
            UNNAMED => read_postcard(&[bytes, NONE, NONE, NONE].concat()),
            ..=OLDER => read_older(bytes),
            _ => None,
        };
        record.map(Self)
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Older {
    pub(super) state: PaymentPhase,
    pub(super) holder: String,
    pub(super) request: String,
    pub(super) digest: String,
    pub(super) updated_ms: u64,
    pub(super) receipt_id: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) transaction: Option<String>,
    pub(super) intent: Option<OlderIntent>,
    pub(super) answer: Option<StoredAnswer>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct OlderIntent {
    pub(super) version: WireVersion,
    pub(super) payload: String,
    pub(super) requirements: String,
    pub(super) draft: Vec<u8>,
    pub(super) answer: StoredAnswer,
}

fn read_older(bytes: &[u8]) -> Option<PaymentRecord> {
    let (older, rest) = postcard::take_from_bytes::<Older>(bytes).ok()?;
    let (tail, rest) = match rest.is_empty() {
        true => (None, rest),
        false => postcard::take_from_bytes::<ExpiryInfo>(rest).map(|(tail, rest)| (Some(tail), rest)).ok()?,
    };
    let settler = match rest.is_empty() {
        true => None,
        false => Some(read_postcard::<Settler>(rest)?),
    };
    Some(older.with(tail, settler))
}

impl Older {
    fn with(self, tail: Option<ExpiryInfo>, settler: Option<Settler>) -> PaymentRecord {
        let Self { state, holder, request, digest, updated_ms, receipt_id, reason, transaction, intent, answer } = self;
        let digest = match tail.as_ref().and_then(ExpiryInfo::client_name) {
            Some(name) => named_digest(&digest, name),
            None => digest,
        };
        let (intent, answer) = (intent.map(SettlementIntent::from), answer.map(AnswerLocation::Here));
        PaymentRecord {
            state,
            holder,
            request,
            digest,
            updated_ms,
            receipt_id,
            reason,
            transaction,
            intent,
            answer,
            tail,
            settler,
            replica: None,
            held: None,
            owed: None,
        }
    }
}

impl From<OlderIntent> for SettlementIntent {
    fn from(OlderIntent { version, payload, requirements, draft, answer }: OlderIntent) -> Self {
        Self { version, payload, requirements, draft, answer: Some(answer) }
    }
}
