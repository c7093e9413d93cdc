//! Data of a builder's revenue page, and the links of its sums.

use maud::{Markup, html};
use serde_json::Value;

use crate::{
    parts::{
        money,
        table::Column,
        time_range::{day, next_day},
    },
    query::PageQuery,
    visitor::with_query,
};

pub(super) const PATH: &str = "/dashboard/revenue";
/// Default time span.
pub(super) const USUAL: &str = "30d";

/// Columns of the report: field, heading, and whether it is an amount.
pub(super) const SUMS: [(&str, &str, bool); 7] = [
    ("calls", "Calls", false),
    ("paidCalls", "Paid", false),
    ("failedCalls", "Failed", false),
    ("grossUsd", "Gross", true),
    ("refundedUsd", "Given back", true),
    ("feesUsd", "Fees", true),
    ("netUsd", "Net", true),
];

/// The query and the API's answer.
pub(super) struct RevenueView<'a> {
    pub(super) requested: &'a PageQuery,
    pub(super) report: &'a Value,
    pub(super) simulated: bool,
    /// Today's date.
    pub(super) today: String,
}

pub(super) fn asked(query: Option<&str>) -> PageQuery {
    PageQuery::read(query, &["builderId", "since", "page", "by"])
}

/// Returns the API path for a query.
pub(super) fn path(request: &PageQuery) -> String {
    let since = Some(request.get("since")).filter(|since| !since.is_empty()).unwrap_or(USUAL);
    with_query("/ai/builders/revenue", [("builderId", request.get("builderId")), ("since", since)])
}

/// Returns the headings of the sums.
pub(super) fn headings(simulated: bool) -> [String; 7] {
    SUMS.map(|(_, heading, is_amount)| money::heading(heading, is_amount && simulated))
}

/// Returns the columns of a table of sums.
pub(super) fn columns<'a>(name: &'a str, headings: &'a [String; 7]) -> [Column<'a>; 8] {
    let [calls, paid, failed, gross, refunded, fees, net] = headings.each_ref().map(|heading| Column::Number(heading));
    [Column::Words(name), calls, paid, failed, gross, refunded, fees, net]
}

impl RevenueView<'_> {
    /// Returns the first day of the report.
    pub(super) fn first(&self) -> &str {
        day(self.report["since"].as_str().unwrap_or_default())
    }

    /// Returns the address of events of a kind since a day, of one tool or of all.
    pub(super) fn events(&self, kind: &str, slug: &str, from: &str) -> String {
        let builder = self.requested.get("builderId");
        with_query("/dashboard/events", [("builderId", builder), ("kind", kind), ("tool", slug), ("since", from)])
    }

    /// Returns the address of events of a kind on one day.
    pub(super) fn events_of(&self, kind: &str, day: &str) -> String {
        let builder = self.requested.get("builderId");
        with_query("/dashboard/events", [("builderId", builder), ("kind", kind), ("since", day), ("until", &next_day(day))])
    }

    /// Returns the cells of an entry, linked as `linked` says.
    pub(super) fn cells(line: &Value, linked: impl Fn(&str) -> Option<String>) -> [Markup; 7] {
        SUMS.map(|(name, _, is_amount)| {
            let text = if is_amount { money::usd(&line[name]) } else { line[name].to_string() };
            html! { @match linked(name) { Some(path) => a href=(path) { (text) }, None => (text) } }
        })
    }
}
