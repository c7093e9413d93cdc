//! `ctx.kv.list`: the entries of a prefix, page by page.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Serialize;
use serde_json::value::RawValue;
use tollhouse_protocol::{OpFailure, OpValue, limits::LIST_LIMIT};

use super::{KV, SCAN, Scoped};
use crate::{
    capability::failure::{self, invalid_argument},
    store::{Counted, Direction, Row, Starting},
};

/// A page of `list` ends at the first entry beyond this many bytes, well below a frame.
pub(super) const PAGE_BYTES: usize = 1 << 20;
/// Entries one `list` looks at, expired ones included.
const SCAN_LIMIT: usize = 4_000;

/// What the handler gets.
#[derive(Default, Serialize)]
struct Page {
    entries: Vec<Line>,
    cursor: Option<String>,
}

#[derive(Serialize)]
struct Line {
    key: String,
    value: Box<RawValue>,
}

impl Page {
    fn encode(&self) -> Result<OpValue, OpFailure> {
        serde_json::to_vec(self).map(|json| OpValue::Json(json.into())).map_err(|_| failure::damaged("kv page"))
    }
}

impl Scoped<'_> {
    pub(in crate::capability) async fn list(&self, prefix: String, limit: u32, cursor: Option<String>) -> Result<OpValue, OpFailure> {
        if !(1..=LIST_LIMIT).contains(&limit) {
            return Err(invalid_argument(format!("limit of list is {limit}, it must be 1 to {LIST_LIMIT}")));
        }
        let mut range = KV.under(&(Counted(self.endpoint.clone()), Starting(&prefix)));
        if let Some(cursor) = cursor {
            range = range.after(&self.key(&decode_cursor(&cursor, &prefix)?));
        }
        let now = self.kv.clock.now();
        let (mut page, mut bytes, mut seen, limit) = (Page::default(), 0, 0, limit as usize);
        loop {
            let rows = KV.page(&*self.kv.store, &range, SCAN, Direction::Forward).await?;
            let last = rows.len() < SCAN;
            if let Some(row) = rows.last() {
                range = range.after(&row.key);
            }
            for Row { key: (_, key), value: entry, .. } in rows {
                seen += 1;
                if entry.live(now) {
                    if page.entries.len() == limit || (bytes + entry.json.len() > PAGE_BYTES && !page.entries.is_empty()) {
                        page.cursor = page.entries.last().map(|last| encode_cursor(&last.key));
                        return page.encode();
                    }
                    bytes += entry.json.len() + key.len();
                    let value = serde_json::from_slice(&entry.json).map_err(|_| failure::damaged("kv value"))?;
                    page.entries.push(Line { key: key.clone(), value });
                }
                if seen == SCAN_LIMIT {
                    page.cursor = Some(encode_cursor(&key));
                    return page.encode();
                }
            }
            if last {
                return page.encode();
            }
        }
    }
}

/// A place in a list, as handlers carry it.
pub(super) fn encode_cursor(key: &str) -> String {
    URL_SAFE_NO_PAD.encode(key)
}

/// The key a cursor names. A forged one can only name a place inside the endpoint's own prefix.
fn decode_cursor(cursor: &str, prefix: &str) -> Result<String, OpFailure> {
    let key = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|key| String::from_utf8(key).ok()).filter(|key| key.starts_with(prefix));
    key.ok_or_else(|| invalid_argument("cursor is not one that this list gave out"))
}
