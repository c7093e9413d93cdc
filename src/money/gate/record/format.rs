//! Records as the store keeps them: as postcard. Format 3 ended before what is owed. In format 2 they named no replica. Versions before wrote the answer into them, and
//! behind it, since there are such, the [`Tail`] and the [`Settler`]. Their digest was that of what is signed alone, whether its client had
//! named it or not.

use serde::{Deserialize, Serialize};
use tollhouse_store::{Formatted, read_postcard, write_postcard};

use super::{Intent, Kept, Record, Settler, State, StoredAnswer, Tail};
use crate::{WireVersion, x402::offer::named_digest};

/// The last format with the answer in the record.
const OLDER: u8 = 1;

/// The format that ended where the replica's name stands now.
const UNNAMED: u8 = 2;

/// The format that ended where [`Owed`](super::Owed) stands now.
const OWING_NOTHING: u8 = 3;

/// How postcard writes that there is none.
const NONE: &[u8] = &[0];

impl Formatted for Record {
    const FORMAT: u8 = 4;

    fn write(&self, out: &mut Vec<u8>) {
        write_postcard(self, out);
    }

    fn read(format: u8, bytes: &[u8]) -> Option<Self> {
        match format {
            Self::FORMAT => read_postcard(bytes),
            OWING_NOTHING => read_postcard(&[bytes, NONE].concat()),
            UNNAMED => read_postcard(&[bytes, NONE, NONE].concat()),
            ..=OLDER => read_older(bytes),
            _ => None,
        }
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
            owed: None,
        }
    }
}

impl From<OlderIntent> for Intent {
    fn from(OlderIntent { version, payload, requirements, draft, answer }: OlderIntent) -> Self {
        Self { version, payload, requirements, draft, answer: Some(answer) }
    }
}
