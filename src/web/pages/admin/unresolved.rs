//! Unresolved settlements, on the runtime page.

use maud::{Markup, html};
use tollhouse_api::{UnresolvedPage, UnresolvedSettlement};

use crate::{Number, Words, moment, money, page_links, segment, table, text};

/// Maximum number of settlements to show.
pub(super) const ROWS: usize = 20;

/// Shows the first unresolved settlements. `found` is `None` if they cannot be read.
pub(super) fn list(found: Option<&UnresolvedPage>, simulated: bool) -> Markup {
    let Some(found) = found else { return html! { p.note { "Unresolved settlements are not available right now." } } };
    let settlements = &found.settlements;
    let price = money::heading("Price", simulated);
    let columns = [Words("Payment"), Words("Tool"), Words("Since"), Number(&price), Words("Network"), Words("Facilitator")];
    let row = |settlement: &UnresolvedSettlement| {
        let id = &settlement.payment_id;
        [
            html! { a href={ "/dashboard/payments/" (segment(id)) } { code { (text::words(id)) } } },
            page_links::tool(&settlement.slug),
            moment(settlement.since),
            html! { (money::usd(settlement.price_usd)) },
            text::words(&settlement.network),
            text::words(settlement.facilitator.as_deref().unwrap_or_default()),
        ]
    };
    html! {
        @if !settlements.is_empty() {
            h3 { "Unresolved settlements" }
            p { "It is unknown whether the money moved. Resolve each settlement with " code { "tollhouse settlements resolve" } "." }
            (table("Unresolved settlements", columns, settlements.iter().map(row)))
            @if found.next_cursor.is_some() {
                p.note {
                    "The first " (settlements.len()) " are shown. "
                    a href="/dashboard/api/ai/admin/unresolved?limit=200" { "See more as JSON" }
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
    fn unresolved_settlements_are_listed_with_links() {
        let settlement = json!({ "paymentId": "pmt_0123456789abcdef0123456789abcdef", "slug": "echo", "since": "2026-11-21T09:58:03.120Z", "priceUsd": 0.01,
            "network": "eip155:8453", "facilitator": "http <a>", "transaction": null });
        let mut settlement = settlement;
        for field in ["asset", "amount", "payer", "payTo"] {
            settlement[field] = json!("");
        }
        let list = |page: Option<serde_json::Value>| {
            let page = page.map(|page| serde_json::from_value::<UnresolvedPage>(page).unwrap());
            super::list(page.as_ref(), false)
        };
        let page = json!({ "ok": true, "settlements": [settlement] });
        let html = list(Some(page)).into_string();
        let parts = [
            "/dashboard/payments/pmt_0123456789abcdef0123456789abcdef",
            "/dashboard/tools/echo",
            "2026-11-21 09:58:03 UTC",
            "$0.01",
            "&lt;a&gt;",
        ];
        for part in parts.into_iter().chain(["tollhouse settlements resolve"]) {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("as JSON"));
        let first = json!({ "ok": true, "settlements": [settlement], "nextCursor": "pmt_0123456789abcdef0123456789abcdef" });
        assert!(list(Some(first)).into_string().contains("/dashboard/api/ai/admin/unresolved?limit=200"));
        assert_eq!(list(Some(json!({ "ok": true, "settlements": [] }))).into_string(), "");
        assert!(list(None).into_string().contains("not available"));
    }
}
