//! Unresolved settlements, on the runtime page.

use maud::{Markup, html};
use serde_json::Value;

use super::shared::{entries, text_of};
use crate::{
    parts::{
        money, page_links,
        table::{Column, table},
        text,
        time::moment,
    },
    visitor::segment,
};

/// Maximum number of settlements to show.
pub(super) const ROWS: usize = 20;

/// Shows the first unresolved settlements. `found` is `None` if they cannot be read.
pub(super) fn list(found: Option<&Value>, simulated: bool) -> Markup {
    let Some(found) = found else { return html! { p.note { "Unresolved settlements cannot be read now." } } };
    let settlements = entries(found, "settlements");
    let price = money::heading("Price", simulated);
    let columns = [
        Column::Words("Payment"),
        Column::Words("Tool"),
        Column::Words("Since"),
        Column::Number(&price),
        Column::Words("Network"),
        Column::Words("Facilitator"),
    ];
    let row = |settlement: &Value| {
        let id = text_of(settlement, "paymentId");
        [
            html! { a href={ "/dashboard/payments/" (segment(id)) } { code { (text::words(id)) } } },
            page_links::tool(text_of(settlement, "slug")),
            moment(&settlement["since"]),
            html! { (money::usd(&settlement["priceUsd"])) },
            text::words(text_of(settlement, "network")),
            text::words(text_of(settlement, "facilitator")),
        ]
    };
    html! {
        @if !settlements.is_empty() {
            h3 { "Unresolved settlements" }
            p { "It is unknown whether the money moved. Resolve each settlement with " code { "tollhouse settlements resolve" } "." }
            (table("Unresolved settlements", columns, settlements.iter().map(row)))
            @if found["nextCursor"].is_string() {
                p.note {
                    "The first " (settlements.len()) " are shown. "
                    a href="/dashboard/api/ai/admin/unresolved?limit=200" { "More of them as JSON" }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unresolved_settlements_are_listed_with_links_and_what_to_do() {
        let settlement = json!({ "paymentId": "pmt_1", "slug": "echo", "since": "2026-11-21T09:58:03.120Z", "priceUsd": 0.01,
            "network": "eip155:8453", "facilitator": "http <a>" });
        let page = json!({ "settlements": [settlement] });
        let html = list(Some(&page), false).into_string();
        let parts = ["/dashboard/payments/pmt_1", "/dashboard/tools/echo", "2026-11-21 09:58:03 UTC", "$0.01", "&lt;a&gt;"];
        for part in parts.into_iter().chain(["tollhouse settlements resolve"]) {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("as JSON"));
        let first = json!({ "settlements": [settlement], "nextCursor": "pmt_1" });
        assert!(list(Some(&first), false).into_string().contains("/dashboard/api/ai/admin/unresolved?limit=200"));
        assert_eq!(list(Some(&json!({ "settlements": [] })), false).into_string(), "");
        assert!(list(None, false).into_string().contains("cannot be read"));
    }
}
