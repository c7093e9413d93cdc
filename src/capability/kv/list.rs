//! `ctx.kv.list`: lists the entries with a prefix, page by page.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Serialize;
use serde_json::value::RawValue;
use tollhouse_protocol::{
    OpFailure, OpValue,
    limits::{LIST_BYTES, LIST_LIMIT},
};
use tollhouse_store::{CountedText, Direction, RawRow, Row, TextPrefix};

use super::{EndpointKv, KV, SCAN};
use crate::failure::{self, invalid_argument};

/// Maximum number of entries that one `list` examines, including expired ones.
const SCAN_LIMIT: usize = 4_000;
/// Maximum number of stored bytes that one `list` examines. If so much has expired, the handler must ask again.
pub(super) const SCAN_BYTES: usize = 16 * LIST_BYTES;

/// A page for the handler, encoded as it is built: `{"entries":[{"key","value"}],"cursor"}`.
struct Page {
    json: Vec<u8>,
    entries: usize,
    /// Bytes of keys and values.
    bytes: usize,
    last: Option<String>,
}

#[derive(Serialize)]
struct Line<'a> {
    key: &'a str,
    value: &'a RawValue,
}

impl Page {
    fn new() -> Self {
        Self { json: br#"{"entries":["#.to_vec(), entries: 0, bytes: 0, last: None }
    }

    /// Returns whether a value of `bytes` bytes fits in the page. The first value always does.
    fn takes(&self, bytes: usize, limit: usize) -> bool {
        self.entries < limit && (self.bytes + bytes <= LIST_BYTES || self.entries == 0)
    }

    fn push(&mut self, key: &str, value: &[u8]) -> Result<(), OpFailure> {
        let line = serde_json::from_slice(value).map_err(|_| failure::damaged("kv value"))?;
        if self.entries > 0 {
            self.json.push(b',');
        }
        serde_json::to_writer(&mut self.json, &Line { key, value: line }).map_err(|_| failure::damaged("kv page"))?;
        self.entries += 1;
        self.bytes += key.len() + value.len();
        self.last = Some(key.to_owned());
        Ok(())
    }

    /// Completes the page. The next one continues after the key `last`.
    fn end(mut self, last: Option<&str>) -> Result<OpValue, OpFailure> {
        self.json.extend_from_slice(br#"],"cursor":"#);
        serde_json::to_writer(&mut self.json, &last.map(encode_cursor)).map_err(|_| failure::damaged("kv page"))?;
        self.json.push(b'}');
        Ok(OpValue::Json(self.json.into()))
    }
}

impl EndpointKv<'_> {
    pub(crate) async fn list(&self, prefix: String, limit: u32, cursor: Option<String>) -> Result<OpValue, OpFailure> {
        let limit = check_limit(limit)?;
        let mut range = KV.under(&(CountedText(self.endpoint.clone()), TextPrefix(&prefix))).within(LIST_BYTES);
        if let Some(cursor) = cursor {
            range = range.after(&self.key(&decode_cursor(&cursor, &prefix)?));
        }
        let now = self.kv.clock.now();
        let (mut page, mut seen, mut seen_bytes) = (Page::new(), 0, 0);
        loop {
            let rows = KV.unread(&*self.kv.store, &range, SCAN, Direction::Forward).await.map_err(failure::store)?;
            let bytes: usize = rows.iter().map(RawRow::bytes).sum();
            let Some(last) = rows.last().map(|last| KV.key(last)).transpose().map_err(failure::store)? else { return page.end(None) };
            let is_end = rows.len() < SCAN && bytes < LIST_BYTES;
            range = range.after(&last);
            for found in rows {
                seen += 1;
                seen_bytes += found.bytes();
                let Row { key: (_, key), value: entry, .. } = KV.read(found).map_err(failure::store)?;
                if entry.live(now) {
                    if !page.takes(entry.json.len(), limit) {
                        let last = page.last.take();
                        return page.end(last.as_deref());
                    }
                    page.push(&key, &entry.json)?;
                }
                if seen == SCAN_LIMIT || seen_bytes >= SCAN_BYTES {
                    return page.end(Some(&key));
                }
            }
            if is_end {
                return page.end(None);
            }
            // Let other tasks on this thread run.
            tokio::task::yield_now().await;
        }
    }
}

/// Checks the maximum number of entries that a handler requests.
pub(crate) fn check_limit(limit: u32) -> Result<usize, OpFailure> {
    if !(1..=LIST_LIMIT).contains(&limit) {
        return Err(invalid_argument(format!("the limit of a list must be 1 to {LIST_LIMIT}, and is {limit}")));
    }
    Ok(limit as usize)
}

/// Encodes a position in the list as a cursor for handlers.
pub(crate) fn encode_cursor(key: &str) -> String {
    URL_SAFE_NO_PAD.encode(key)
}

/// Decodes a cursor. A forged one can only name a position within the tool's own prefix.
pub(crate) fn decode_cursor(cursor: &str, prefix: &str) -> Result<String, OpFailure> {
    let key = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|key| String::from_utf8(key).ok()).filter(|key| key.starts_with(prefix));
    key.ok_or_else(|| invalid_argument("the cursor is not from this list"))
}
