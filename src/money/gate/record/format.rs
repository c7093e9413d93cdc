//! Records as the store keeps them: as postcard. Format 3 ended before the held balance and what is owed. In format 2 they
//! named no replica. Versions before that wrote the answer into them, followed by the [`Tail`] and the [`Settler`] if they had
//! those. Their digest was that of the signed part alone, even where the client had named the payment.

use serde::{Deserialize, Serialize};
use tollhouse_store::{Formatted, Value, read_postcard, write_postcard};

use super::{Intent, Kept, Record, Settler, State, StoredAnswer, Tail};
use crate::{WireVersion, x402::offer::named_digest};

/// The last format with the answer in the record.
const OLDER: u8 = 1;

/// The format that ended where the replica's name stands now.
const UNNAMED: u8 = 2;

/// The format that ended where the held balance and what is owed stand now.
const UNHELD: u8 = 3;

/// How postcard writes that there is none.
const NONE: &[u8] = &[0];

/// A record that says more than format 3 can: only for those who read it
/// ([`Replica::may_write`](tollhouse_replica::Replica::may_write)).
struct Newest(Record);

/// A record as it is written otherwise.
struct Plain(Record);

impl Value for Record {
    fn to_bytes(&self) -> Vec<u8> {
        match matches!(self.state, State::Unresolved | State::Owed) || self.held.is_some() || self.owed.is_some() {
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
        // That it holds nothing, and owes nothing.
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
    pub(super) state: State,
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

fn read_older(bytes: &[u8]) -> Option<Record> {
    let (older, rest) = postcard::take_from_bytes::<Older>(bytes).ok()?;
    let (tail, rest) = match rest.is_empty() {
        true => (None, rest),
        false => postcard::take_from_bytes::<Tail>(rest).map(|(tail, rest)| (Some(tail), rest)).ok()?,
    };
    let settler = match rest.is_empty() {
        true => None,
        false => Some(read_postcard::<Settler>(rest)?),
    };
    Some(older.with(tail, settler))
}

impl Older {
    fn with(self, tail: Option<Tail>, settler: Option<Settler>) -> Record {
        let Self { state, holder, request, digest, updated_ms, receipt_id, reason, transaction, intent, answer } = self;
        let digest = match tail.as_ref().and_then(Tail::client_name) {
            Some(name) => named_digest(&digest, name),
            None => digest,
        };
        let (intent, answer) = (intent.map(Intent::from), answer.map(Kept::Here));
        Record {
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

impl From<OlderIntent> for Intent {
    fn from(OlderIntent { version, payload, requirements, draft, answer }: OlderIntent) -> Self {
        Self { version, payload, requirements, draft, answer: Some(answer) }
    }
}
