//! Lists that a host gives in pages: as many entries as were asked for, and where the rest begins.

use serde_json::{Value, json};

use super::{client::Asking, error::Result, out::Out};

/// Most entries of one page of the host.
const PAGE: usize = 200;

/// How much of a list.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Paging {
    /// Most entries
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000), value_name = "N")]
    pub(crate) limit: u32,
    /// Where to go on: what the list before said
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}

/// Reads entries `name` of as many pages as it takes; answers the last page's document with all entries in it.
///
/// # Errors
///
/// What the host refuses.
pub(crate) async fn read<'c>(paging: &Paging, name: &str, ask: impl Fn() -> Asking<'c>) -> Result<Value> {
    let (mut entries, mut cursor) = (vec![], paging.cursor.clone());
    loop {
        let left = usize::try_from(paging.limit).unwrap_or(usize::MAX).saturating_sub(entries.len());
        let asking = ask().query("limit", left.min(PAGE)).query_opt("cursor", cursor.take());
        let mut page = asking.send().await?.body;
        let before = entries.len();
        if let Value::Array(more) = page[name].take() {
            entries.extend(more);
        }
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        // A page with nothing on it leads nowhere, whatever it says.
        if cursor.is_none() || left <= PAGE || entries.len() == before {
            page[name] = json!(entries);
            return Ok(page);
        }
    }
}

/// Says where a list goes on, beside it.
pub(crate) fn rest(out: Out, page: &Value) {
    if let Some(cursor) = page["nextCursor"].as_str() {
        out.note(&format!("there is more: --cursor {}", super::clean::line(cursor)));
    }
}
