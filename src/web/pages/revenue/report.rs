//! Data of a builder's revenue page, and the links of its sums.

use maud::{Markup, html};
use tollhouse_api::{Revenue, RevenueTotals};
use tollhouse_tool::MicroUsd;

use crate::{Column, Number, PageQuery, Words, money, parts::time_range::next_day, with_query};

pub(super) const PATH: &str = "/dashboard/revenue";
/// Default time span.
pub(super) const USUAL: &str = "30d";

/// A value of a column.
#[derive(Clone, Copy)]
pub(super) enum Sum {
    Count(fn(&RevenueTotals) -> u64),
    Amount(fn(&RevenueTotals) -> MicroUsd),
}

/// Columns of the report: field in the CSV, heading, and value.
pub(super) const SUMS: [(&str, &str, Sum); 7] = [
    ("calls", "Calls", Sum::Count(|totals| totals.calls)),
    ("paidCalls", "Paid", Sum::Count(|totals| totals.paid_calls)),
    ("failedCalls", "Failed", Sum::Count(|totals| totals.failed_calls)),
    ("grossUsd", "Gross", Sum::Amount(|totals| totals.gross_usd)),
    ("refundedUsd", "Refunds", Sum::Amount(|totals| totals.refunded_usd)),
    ("feesUsd", "Fees", Sum::Amount(|totals| totals.fees_usd)),
    ("netUsd", "Net", Sum::Amount(|totals| totals.net_usd)),
];

pub(super) struct RevenueView<'a> {
    pub(super) query: &'a PageQuery,
    pub(super) report: &'a Revenue,
    pub(super) simulated: bool,
    /// First day of the report, and today.
    pub(super) first: String,
    pub(super) today: String,
}

pub(super) fn parse(query: Option<&str>) -> PageQuery {
    PageQuery::read(query, &["builderId", "since", "page", "by"])
}

pub(super) fn path(query: &PageQuery) -> String {
    let since = Some(query.get("since")).filter(|since| !since.is_empty()).unwrap_or(USUAL);
    with_query("/ai/builders/revenue", [("builderId", query.get("builderId")), ("since", since)])
}

pub(super) fn headings(simulated: bool) -> [String; 7] {
    SUMS.map(|(_, heading, sum)| money::heading(heading, simulated && matches!(sum, Sum::Amount(_))))
}

/// Returns the columns of a table of sums.
pub(super) fn columns<'a>(name: &'a str, headings: &'a [String; 7]) -> [Column<'a>; 8] {
    let [calls, paid, failed, gross, refunded, fees, net] = headings.each_ref().map(|heading| Number(heading));
    [Words(name), calls, paid, failed, gross, refunded, fees, net]
}

impl RevenueView<'_> {
    /// Returns the address of events of a kind since a day, of one tool or of all.
    pub(super) fn events(&self, kind: &str, slug: &str, from: &str) -> String {
        let builder = self.query.get("builderId");
        with_query("/dashboard/events", [("builderId", builder), ("kind", kind), ("tool", slug), ("since", from)])
    }

    pub(super) fn events_of(&self, kind: &str, day: &str) -> String {
        let builder = self.query.get("builderId");
        with_query("/dashboard/events", [("builderId", builder), ("kind", kind), ("since", day), ("until", &next_day(day))])
    }

    /// Returns the cells of an entry. `links` returns the address for a field.
    pub(super) fn cells(totals: &RevenueTotals, links: impl Fn(&str) -> Option<String>) -> [Markup; 7] {
        SUMS.map(|(name, _, sum)| {
            let text = match sum {
                Sum::Count(count) => count(totals).to_string(),
                Sum::Amount(amount) => money::usd(amount(totals)),
            };
            html! { @match links(name) { Some(path) => a href=(path) { (text) }, None => (text) } }
        })
    }
}
