//! Reading calls: newest first in pages, or oldest first from a place on.

use std::ops::Bound;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;

use super::{CallRecord, History, Outcome, Placed, all_of, prefix};
use crate::{
    base::{clock::Timestamp, id::EndpointId},
    store::{Direction, KeyRange, Space, StoreError, pack::unpack},
};

/// Calls that one read looks at, matching or not.
const SCAN_LIMIT: usize = 5_000;
/// Packs read from the store at once.
const SCAN: usize = 100;
/// Bytes of a pack's place: time, name of the batch, number in the batch.
const PACK_BYTES: usize = 8 + 30 + 4;
/// Bytes of a call's place: that, and its number in the pack.
const PLACE_BYTES: usize = PACK_BYTES + 4;

/// Which calls to read.
#[derive(Debug, Clone, Default)]
pub struct CallQuery {
    /// Only calls that ended from then on.
    pub since: Option<Timestamp>,
    /// Only calls that ended so.
    pub ending: Option<Ending>,
    /// Most calls of the answer.
    pub limit: usize,
    /// As the page before gave it.
    pub cursor: Option<CallPlace>,
}

/// How the calls ended that are asked for. As text: `succeeded`, `failed`, or the code of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Ending {
    /// Exactly so.
    As(Outcome),
    /// Failed with this code.
    With(String),
}

/// Calls, newest first.
#[derive(Debug, Clone, Default)]
pub struct CallPage {
    /// Those that are wanted, up to the limit.
    pub calls: Vec<CallRecord>,
    /// There while there may be more.
    pub next: Option<CallPlace>,
}

/// Where a call stands among those of its endpoint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallPlace(Vec<u8>);

impl CallPlace {
    /// Before all calls of `at`.
    #[must_use]
    pub fn start_of(at: Timestamp) -> Self {
        Self(at.0.to_be_bytes().to_vec())
    }

    pub(super) fn within(pack: &[u8], number: u32) -> Self {
        Self([pack, &number.to_be_bytes()].concat())
    }

    /// The time of it.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        Timestamp(self.0.first_chunk().map_or(0, |at| u64::from_be_bytes(*at)))
    }

    /// As [`CallPlace::to_cursor`] gave it; `None` for other texts.
    #[must_use]
    pub fn from_cursor(text: &str) -> Option<Self> {
        URL_SAFE_NO_PAD.decode(text).ok().filter(|place| place.len() == PLACE_BYTES).map(Self)
    }

    /// As clients show it again.
    #[must_use]
    pub fn to_cursor(&self) -> String {
        URL_SAFE_NO_PAD.encode(&self.0)
    }

    fn pack(&self) -> &[u8] {
        &self.0[..self.0.len().min(PACK_BYTES)]
    }
}

impl TryFrom<String> for Ending {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let is_code = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        match text.as_str() {
            "succeeded" => Ok(Self::As(Outcome::Succeeded)),
            "failed" => Ok(Self::As(Outcome::Failed)),
            _ if is_code => Ok(Self::With(text)),
            _ => Err("`outcome` is `succeeded`, `failed`, or the code of a failure such as `handler_failed`"),
        }
    }
}

impl CallQuery {
    /// Whether `call` is of the time and the ending asked for.
    #[must_use]
    pub fn wants(&self, call: &CallRecord) -> bool {
        let ended = match &self.ending {
            None => true,
            Some(Ending::As(outcome)) => call.outcome == *outcome,
            Some(Ending::With(code)) => call.code.as_ref() == Some(code),
        };
        ended && self.since.is_none_or(|since| call.at >= since)
    }
}

impl History {
    /// The calls of `endpoint` that `query` asks for.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn list(&self, endpoint: &EndpointId, query: &CallQuery) -> Result<CallPage, StoreError> {
        let own = prefix(endpoint);
        let since = self.oldest().max(query.since.unwrap_or(Timestamp(0)));
        let query = CallQuery { since: Some(since), ..query.clone() };
        let mut range = all_of(endpoint);
        range.start = Bound::Included([&own[..], &since.0.to_be_bytes()].concat());
        if let Some(cursor) = &query.cursor {
            range.end = Bound::Included([&own[..], cursor.pack()].concat());
        }
        let (mut page, mut seen) = (CallPage::default(), 0);
        while !range.is_empty() {
            let packs = self.store.scan(Space::Calls, range.clone(), SCAN, Direction::Backward).await?;
            let last = packs.len() < SCAN;
            for (key, pack) in packs {
                let newest_first = placed(&key[own.len()..], &pack).into_iter().rev();
                for Placed { place, call } in newest_first.filter(|one| query.cursor.as_ref().is_none_or(|cursor| one.place < *cursor)) {
                    seen += 1;
                    page.calls.extend(Some(call).filter(|call| query.wants(call)));
                    if page.calls.len() >= query.limit || seen >= SCAN_LIMIT {
                        page.next = Some(place);
                        return Ok(page);
                    }
                }
                range.end = Bound::Excluded(key);
            }
            if last {
                break;
            }
        }
        Ok(page)
    }

    /// The calls of `endpoint` that come after `place`, oldest first, at most `limit`.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn after(&self, endpoint: &EndpointId, place: &CallPlace, limit: usize) -> Result<Vec<Placed>, StoreError> {
        let own = prefix(endpoint);
        let from = place.clone().max(CallPlace::start_of(self.oldest()));
        let mut range = KeyRange { start: Bound::Included([&own[..], from.pack()].concat()), end: all_of(endpoint).end };
        let mut calls = Vec::new();
        loop {
            let packs = self.store.scan(Space::Calls, range.clone(), SCAN, Direction::Forward).await?;
            let Some((last, _)) = packs.last() else { return Ok(calls) };
            range = range.after(last);
            for (key, pack) in &packs {
                calls.extend(placed(&key[own.len()..], pack).into_iter().filter(|one| one.place > from));
                if calls.len() >= limit {
                    calls.truncate(limit);
                    return Ok(calls);
                }
            }
        }
    }
}

/// The calls of a pack. One that does not read is left out.
fn placed(place: &[u8], pack: &[u8]) -> Vec<Placed> {
    let read =
        |(number, value): (u32, &[u8])| Some(Placed { place: CallPlace::within(place, number), call: serde_json::from_slice(value).ok()? });
    (0..).zip(unpack(pack).map(|item| item.value)).filter_map(read).collect()
}
