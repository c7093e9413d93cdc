//! `/dashboard/revenue`: earnings of a builder's tools in total, by day and by tool, also as CSV.

mod by_day;
mod by_tool;
mod csv;
mod report;

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use tollhouse_account::session::SessionKind;

pub(crate) use self::csv::csv;
use self::report::{PATH, RevenueView, USUAL, asked, path};
use crate::{
    page::{Area, Page},
    parts::{
        cli_hint::{line, same},
        empty::empty,
        money,
        time_range::day,
    },
    query::PageQuery,
    visitor::{ApiRefusal, SignedIn, Visitor, with_query},
};

/// Selectable time spans.
const SPANS: [(&str, &str); 4] = [("7d", "7 days"), (USUAL, "30 days"), ("90d", "90 days"), ("365d", "a year")];

pub(crate) async fn page(SignedIn(visitor): SignedIn, RawQuery(query): RawQuery) -> Result<Response, ApiRefusal> {
    let request = asked(query.as_deref());
    let path = path(&request);
    let report = visitor.get(&path).await?;
    let today = day(&visitor.now().to_string()).to_owned();
    let shown = RevenueView { requested: &request, report: &report, simulated: visitor.plays().await?, today };
    let main = visitor
        .made(|| {
            html! {
                p.lead { "What " (if visitor.kind() == Some(SessionKind::Admin) { "a builder's" } else { "your" }) " tools earned, in whole days of UTC. A sale is counted when its receipt is written." }
                (filters(&request))
                @if shown.report["totals"]["calls"] == 0 && shown.report["totals"]["refundedUsd"] == 0.0 { (nothing(&visitor, &request)) } @else {
                    (sum(&shown))
                    (by_day::view(&shown))
                    (by_tool::view(&shown))
                }
                (same(&visitor, &path))
            }
        })
        .await?;
    Ok(visitor.show(Page::new(Area::Revenue, "Revenue", main)).await)
}

fn filters(request: &PageQuery) -> Markup {
    let since = request.get("since");
    let now = if since.is_empty() { USUAL } else { since };
    html! {
        p.chips {
            @for (span, name) in SPANS {
                a.chip href=(request.with(PATH, &[("since", span), ("page", "")])) aria-current=[(span == now).then_some("true")] { (name) }
            }
        }
    }
}

fn nothing(visitor: &Visitor, request: &PageQuery) -> Markup {
    let of = [("builderId", request.get("builderId"))];
    let tools = line(visitor, &with_query("/ai/builders/endpoints", of));
    empty("No call has ended in this time.", Some((&with_query("/dashboard/home", of), "Tools")), &tools)
}

/// Shows the calculation: gross minus refunds minus fees is net. Each amount links to its events.
fn sum(shown: &RevenueView) -> Markup {
    let totals = &shown.report["totals"];
    let [settled, refunded, failed] =
        ["payment.settled", "payment.refunded", "call.failed"].map(|kind| shown.events(kind, "", shown.first()));
    let linked = |path: &str, name: &str| html! { a href=(path) { (money::usd(&totals[name])) } (money::mark(shown.simulated)) };
    html! {
        p.figure { (money::usd(&totals["netUsd"])) (money::mark(shown.simulated)) span.muted { "net" } }
        p {
            (linked(&settled, "grossUsd")) " gross − "
            @if totals["refundedUsd"].as_f64() > Some(0.0) { (linked(&refunded, "refundedUsd")) " given back − " }
            (linked(&settled, "feesUsd")) " fees = " (linked(&settled, "netUsd")) " net"
        }
        dl.numbers {
            div { dt { "All calls" } dd { (totals["calls"]) } }
            div { dt { "Paid" } dd { a href=(settled) { (totals["paidCalls"]) } } }
            div { dt { "Failed" } dd { a href=(failed) { (totals["failedCalls"]) } } }
            div { dt { "From" } dd { (shown.first()) } }
        }
    }
}
