//! Reads calls: newest first in pages, or oldest first from a position on.

use std::sync::Arc;

use serde::Deserialize;
use tollhouse_base::{boxed, clock::Timestamp, id::EndpointId};
use tollhouse_event::feed::Position as _;
use tollhouse_store::{Direction, Store, StoreError, TerminatedText, pack::Pack};

use super::{CALLS, CallOutcome, CallRecord, History, Key, StoredCall, all_of, pack_end, position::CallPosition};

/// Maximum number of calls examined per read, matching or not.
const SCAN_LIMIT: usize = 5_000;
/// Number of packs read at once.
const SCAN: usize = 100;

/// A query for calls.
#[derive(Debug, Clone, Default)]
pub struct CallQuery {
    /// Only calls that ended at or after this time.
    pub since: Option<Timestamp>,
    /// Only calls that ended before this time.
    pub until: Option<Timestamp>,
    /// Only calls with this outcome.
    pub ending: Option<OutcomeFilter>,
    /// Maximum number of calls to return.
    pub limit: usize,
    /// The position from the previous page.
    pub cursor: Option<CallPosition>,
}

/// The outcome to filter by. As text: `succeeded`, `failed`, or an error code.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum OutcomeFilter {
    /// With this outcome.
    As(CallOutcome),
    /// Failed with this code.
    With(String),
}

#[derive(Debug, Clone, Default)]
pub struct CallPage {
    /// The matching calls, up to the limit.
    pub calls: Vec<CallRecord>,
    /// The position of the next page, if there may be more.
    pub next: Option<CallPosition>,
}

impl TryFrom<String> for OutcomeFilter {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let is_code = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        match text.as_str() {
            "succeeded" => Ok(Self::As(CallOutcome::Succeeded)),
            "failed" => Ok(Self::As(CallOutcome::Failed)),
            _ if is_code => Ok(Self::With(text)),
            _ => Err("`outcome` must be `succeeded`, `failed` or an error code, for example `handler_failed`"),
        }
    }
}

impl CallQuery {
    /// Returns whether `call` matches the time and outcome.
    pub fn wants(&self, call: &CallRecord) -> bool {
        let ended = match &self.ending {
            None => true,
            Some(OutcomeFilter::As(outcome)) => call.outcome == *outcome,
            Some(OutcomeFilter::With(code)) => call.code.as_ref() == Some(code),
        };
        ended && self.since.is_none_or(|since| call.at >= since) && self.until.is_none_or(|until| call.at < until)
    }
}

impl History {
    /// Returns the calls of `endpoint` that match `query`.
    #[boxed]
    pub async fn list(&self, endpoint: &EndpointId, query: &CallQuery) -> Result<CallPage, StoreError> {
        let own = TerminatedText(endpoint.clone());
        let since = self.oldest().max(query.since.unwrap_or(Timestamp(0)));
        let query = CallQuery { since: Some(since), ..query.clone() };
        let mut range = all_of(endpoint).from(&(own.clone(), since));
        if let Some(cursor) = query.cursor.as_ref().and_then(|cursor| cursor.pack(own.clone())) {
            range = range.up_to(&cursor);
        } else if let Some(until) = query.until {
            range = range.before(&(own, pack_end(until)));
        }
        let (mut page, mut seen) = (CallPage::default(), 0);
        while !range.is_empty() {
            let packs = CALLS.page(&*self.store, &range, SCAN, Direction::Backward).await?;
            let last = packs.len() < SCAN;
            for pack in packs {
                let newest_first = calls_of(&pack.key, &pack.value).into_iter().rev();
                for StoredCall { position, call } in
                    newest_first.filter(|one| query.cursor.as_ref().is_none_or(|cursor| one.position < *cursor))
                {
                    seen += 1;
                    page.calls.extend(Some(call).filter(|call| query.wants(call)));
                    if page.calls.len() >= query.limit || seen >= SCAN_LIMIT {
                        page.next = Some(position);
                        return Ok(page);
                    }
                }
                range = range.before(&pack.key);
            }
            if last {
                break;
            }
        }
        Ok(page)
    }

    /// Returns at most `limit` calls of `endpoint` after `position`, oldest first.
    #[boxed]
    pub async fn after(&self, endpoint: &EndpointId, position: &CallPosition, limit: usize) -> Result<Vec<StoredCall>, StoreError> {
        let from = position.clone().max(CallPosition::start_of(self.oldest()));
        stored_after(Arc::clone(&self.store), endpoint.to_string(), from, limit).await
    }
}

/// Returns at most `limit` stored calls of `endpoint` after `from`, oldest first.
pub(super) async fn stored_after(
    store: Arc<dyn Store>,
    endpoint: String,
    from: CallPosition,
    limit: usize,
) -> Result<Vec<StoredCall>, StoreError> {
    let Ok(endpoint) = endpoint.parse::<EndpointId>() else { return Ok(vec![]) };
    let (all, own) = (all_of(&endpoint), TerminatedText(endpoint));
    let mut range = match from.pack(own.clone()) {
        Some(pack) => all.from(&pack),
        None => all.from(&(own, from.at)),
    };
    let mut calls = Vec::new();
    loop {
        let packs = CALLS.page(&*store, &range, SCAN, Direction::Forward).await?;
        let Some(last) = packs.last() else { return Ok(calls) };
        range = range.after(&last.key);
        for pack in &packs {
            calls.extend(calls_of(&pack.key, &pack.value).into_iter().filter(|one| one.position > from));
            if calls.len() >= limit {
                calls.truncate(limit);
                return Ok(calls);
            }
        }
    }
}

/// Returns the calls of a pack. An unreadable one is left out.
fn calls_of((_, at, name, part): &Key, pack: &Pack) -> Vec<StoredCall> {
    let read = |(number, value): (u32, &[u8])| {
        Some(StoredCall { position: CallPosition::within(*at, name.clone(), *part, number), call: serde_json::from_slice(value).ok()? })
    };
    (0..).zip(pack.items().map(|item| item.value)).filter_map(read).collect()
}
