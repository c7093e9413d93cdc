//! Paged lists of a host: reads as many entries as requested, and reports where the rest begins.

use serde_json::{Value, json};
use tollhouse_base::{clock::Clock, time_param::TimeParam};

use super::{client::PendingRequest, error::Result, output::Output, text::text};

/// Maximum number of entries on a page of the host.
const PAGE: usize = 200;

/// How much of a list.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PageArgs {
    /// Most entries
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000), value_name = "N")]
    pub(crate) limit: u32,
    /// Where to go on: what the list before said
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}

/// How much of a list, and how far back.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct HistoryArgs {
    /// From when on, such as `30d` ago or `2026-11-22`
    #[arg(long, value_name = "WHEN")]
    since: Option<TimeParam>,
    #[command(flatten)]
    paging: PageArgs,
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListOrder {
    NewestFirst,
    OldestFirst,
}

/// Whether an entry is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryAction {
    Yes,
    No,
    /// Neither this entry is wanted nor any that follows.
    Past,
}

impl HistoryArgs {
    /// Reads the list `name`, but only entries whose field `at` is `since` or later.
    ///
    /// # Errors
    ///
    /// The host's refusal.
    pub(crate) async fn read<'c>(&self, name: &str, at: &str, order: ListOrder, ask: impl Fn() -> PendingRequest<'c>) -> Result<Value> {
        let Some(since) = self.since else { return read(&self.paging, name, ask).await };
        let now = Clock::default().now();
        let since = since.at(now);
        let requested = |entry: &Value| match text(entry, at).parse::<TimeParam>() {
            Ok(at) if at.at(now) >= since => EntryAction::Yes,
            Ok(_) if order == ListOrder::NewestFirst => EntryAction::Past,
            Ok(_) => EntryAction::No,
            // Keep entries without a valid time.
            Err(_) => EntryAction::Yes,
        };
        sift(&self.paging, name, ask, requested).await
    }
}

/// Reads the wanted entries of the list `name` from as many pages as needed. Returns a document like [`read`].
///
/// # Errors
///
/// The host's refusal.
pub(crate) async fn sift<'c>(
    paging: &PageArgs,
    name: &str,
    ask: impl Fn() -> PendingRequest<'c>,
    requested: impl Fn(&Value) -> EntryAction,
) -> Result<Value> {
    let (mut found, mut cursor) = (vec![], paging.cursor.clone());
    loop {
        let remaining = usize::try_from(paging.limit).unwrap_or(usize::MAX).saturating_sub(found.len());
        // Never request more entries than are still needed, so that the next page begins where this list continues.
        let mut page = ask().query("limit", remaining.min(PAGE)).query_opt("cursor", cursor.take()).send().await?.body;
        let entries = if let Value::Array(entries) = page[name].take() { entries } else { vec![] };
        let (is_empty, mut is_past) = (entries.is_empty(), false);
        for entry in entries {
            match requested(&entry) {
                EntryAction::Yes => found.push(entry),
                EntryAction::No => {}
                EntryAction::Past => {
                    is_past = true;
                    break;
                }
            }
        }
        cursor = page["nextCursor"].as_str().map(str::to_owned).filter(|_| !is_past && !is_empty);
        if cursor.is_none() || u32::try_from(found.len()).is_ok_and(|found| found >= paging.limit) {
            if let Some(page) = page.as_object_mut().filter(|_| cursor.is_none()) {
                page.remove("nextCursor");
            }
            page[name] = json!(found);
            return Ok(page);
        }
    }
}

/// Reads the list `name` from as many pages as needed. Returns the last page's document with all entries in it.
///
/// # Errors
///
/// The host's refusal.
pub(crate) async fn read<'c>(paging: &PageArgs, name: &str, ask: impl Fn() -> PendingRequest<'c>) -> Result<Value> {
    let (mut entries, mut cursor) = (vec![], paging.cursor.clone());
    loop {
        let remaining = usize::try_from(paging.limit).unwrap_or(usize::MAX).saturating_sub(entries.len());
        let asking = ask().query("limit", remaining.min(PAGE)).query_opt("cursor", cursor.take());
        let mut page = asking.send().await?.body;
        let before = entries.len();
        if let Value::Array(more) = page[name].take() {
            entries.extend(more);
        }
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        // An empty page ends the list, even if it has a cursor.
        if cursor.is_none() || remaining <= PAGE || entries.len() == before {
            page[name] = json!(entries);
            return Ok(page);
        }
    }
}

/// Prints the cursor of the rest of a list as a remark.
pub(crate) fn rest(out: Output, page: &Value) {
    if let Some(cursor) = page["nextCursor"].as_str() {
        out.note(&format!("there is more: --cursor {}", super::sanitize::line(cursor)));
    }
}
