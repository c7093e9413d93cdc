//! Paged lists of a host: reads as many entries as requested, and reports where the rest begins.

use std::fmt::Display;

use serde::{Serialize, de::DeserializeOwned};
use tollhouse_api::{
    AllPayoutsPage, AuditEntry, AuditPage, BuilderListEntry, BuilderPage, Call, CallPage, Catalog, Credit, CreditHistory, CreditMovement,
    CreditPage, Endpoint, EndpointSummary, EndpointSummaryPage, Event, EventPage, Ledger, LedgerAccount, LogLine, LogPage, Payout,
    PayoutPage, PayoutReceipt, PayoutReceiptPage, PendingReview, ReviewPage, UnresolvedPage, UnresolvedSettlement,
};
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::{AuditId, BuilderId, CreditId, PaymentId, PayoutId},
    time_param::TimeParam,
};

use super::{Output, PendingRequest, Result, Table, line};

/// Maximum number of entries on a page of the host.
const PAGE: usize = 200;

/// How much of a list.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PageArgs {
    /// Maximum number of entries
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000), value_name = "N")]
    pub(crate) limit: u32,
    /// Cursor printed after the previous page
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}

/// How much of a list, and how far back.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct HistoryArgs {
    /// Start, for example `30d` (ago) or `2026-11-22`
    #[arg(long, value_name = "WHEN")]
    since: Option<TimeParam>,
    #[command(flatten)]
    paging: PageArgs,
}

/// The order in which the host lists entries.
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

/// A page of a list.
pub(crate) trait Page: Serialize + DeserializeOwned {
    type Entry: Serialize + DeserializeOwned;
    type Cursor: Display;

    /// Name of the list in JSON.
    const LIST: &str;

    /// Returns the entries and the cursor of the next page.
    fn parts(&mut self) -> (&mut Vec<Self::Entry>, &mut Option<Self::Cursor>);
}

macro_rules! pages {
    ($($page:ident: $entries:ident of $entry:ident, $($next:ident).+ of $cursor:ident;)*) => {$(
        impl Page for $page {
            type Entry = $entry;
            type Cursor = $cursor;

            const LIST: &str = stringify!($entries);

            fn parts(&mut self) -> (&mut Vec<$entry>, &mut Option<$cursor>) {
                (&mut self.$entries, &mut self.$($next).+)
            }
        }
    )*};
}

pages! {
    AllPayoutsPage: payouts of Payout, next_cursor of PayoutId;
    AuditPage: entries of AuditEntry, next_cursor of AuditId;
    BuilderPage: builders of BuilderListEntry, next_cursor of BuilderId;
    CallPage: calls of Call, next_cursor of String;
    Catalog: endpoints of Endpoint, envelope.next_cursor of String;
    CreditHistory: movements of CreditMovement, next_cursor of String;
    CreditPage: credits of Credit, next_cursor of CreditId;
    EndpointSummaryPage: endpoints of EndpointSummary, next_cursor of String;
    EventPage: events of Event, next_cursor of String;
    Ledger: accounts of LedgerAccount, next_cursor of String;
    LogPage: logs of LogLine, next_cursor of String;
    PayoutPage: payouts of Payout, next_cursor of PayoutId;
    PayoutReceiptPage: receipts of PayoutReceipt, next_cursor of String;
    ReviewPage: reviews of PendingReview, next_cursor of String;
    UnresolvedPage: settlements of UnresolvedSettlement, next_cursor of PaymentId;
}

impl HistoryArgs {
    /// Reads a list, but only entries whose time `at` is `since` or later. Entries without a time are kept.
    pub(crate) async fn read<'c, P: Page>(
        &self,
        at: impl Fn(&P::Entry) -> Option<Timestamp>,
        order: ListOrder,
        ask: impl Fn() -> PendingRequest<'c>,
    ) -> Result<P> {
        let since = self.since.map(|since| since.at(Clock::default().now()).0);
        let requested = |entry: &P::Entry| match (since, at(entry)) {
            (Some(since), Some(at)) if at.0 < since && order == ListOrder::NewestFirst => EntryAction::Past,
            (Some(since), Some(at)) if at.0 < since => EntryAction::No,
            _ => EntryAction::Yes,
        };
        filter(&self.paging, ask, requested).await
    }
}

/// Reads a list from as many pages as needed. Returns the last page with all entries in it.
pub(crate) async fn read<'c, P: Page>(paging: &PageArgs, ask: impl Fn() -> PendingRequest<'c>) -> Result<P> {
    filter(paging, ask, |_| EntryAction::Yes).await
}

/// Reads the wanted entries of a list, as [`read`] does.
pub(crate) async fn filter<'c, P: Page>(
    paging: &PageArgs,
    ask: impl Fn() -> PendingRequest<'c>,
    requested: impl Fn(&P::Entry) -> EntryAction,
) -> Result<P> {
    let (mut found, mut cursor) = (vec![], paging.cursor.clone());
    let limit = usize::try_from(paging.limit).unwrap_or(usize::MAX);
    loop {
        // Never request more entries than are still needed, so that the next page begins where this list ends.
        let asking = ask().query("limit", (limit - found.len()).min(PAGE)).query_opt("cursor", cursor.take());
        let mut page: P = asking.send().await?.body;
        let (entries, next) = page.parts();
        // An empty page ends the list, even if it has a cursor.
        let is_empty = entries.is_empty();
        for entry in entries.drain(..) {
            match requested(&entry) {
                EntryAction::Yes => found.push(entry),
                EntryAction::No => {}
                EntryAction::Past => {
                    *next = None;
                    break;
                }
            }
        }
        if next.is_none() || is_empty || found.len() >= limit {
            *entries = found;
            return Ok(page);
        }
        cursor = next.take().map(|next| next.to_string());
    }
}

/// Prints a page: as one document, or as a table with a row for each entry, or the sentence `empty`.
pub(crate) fn print<P: Page, const N: usize>(
    out: Output,
    mut page: P,
    heads: [&'static str; N],
    empty: &str,
    row: impl Fn(&P::Entry) -> [String; N],
) -> Result {
    if out.json {
        return out.document(&page);
    }
    let (entries, next) = page.parts();
    let mut table = Table::new(&heads);
    entries.iter().for_each(|entry| table.row(row(entry)));
    out.table(&table, empty)?;
    print_cursor(out, next.as_ref());
    Ok(())
}

/// Prints the cursor of the rest of a list, if there is more, as a remark.
pub(crate) fn print_cursor(out: Output, next: Option<&impl Display>) {
    if let Some(cursor) = next {
        out.note(&format!("more results: --cursor {}", line(&cursor.to_string())));
    }
}
