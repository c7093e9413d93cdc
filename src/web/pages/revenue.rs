//! `/dashboard/revenue`: earnings of a builder's tools in total, by day and by tool, also as CSV.

mod by_day;
mod by_tool;
mod csv;
mod report;

use maud::{Markup, html};
use tollhouse_account::session::SessionKind;
use tollhouse_api::Revenue;
use tollhouse_tool::MicroUsd;

pub(crate) use self::csv::csv;
use self::report::{PATH, RevenueView, USUAL, parse, path};
use crate::{
    Area, Page, PageQuery, PageResult, RawQuery, SignedIn, Visitor, api_section, curl_command, day, empty, lazy_html, money, with_query,
};

/// Selectable time spans.
const SPANS: [(&str, &str); 4] = [("7d", "7 days"), (USUAL, "30 days"), ("90d", "90 days"), ("365d", "1 year")];

pub(crate) async fn page(SignedIn(visitor): SignedIn, RawQuery(raw): RawQuery) -> PageResult {
    let query = parse(raw.as_deref());
    let path = path(&query);
    let report = visitor.get::<Revenue>(&path).await?;
    let [first, today] = [report.since.to_string(), visitor.now().to_string()].map(|at| day(&at).to_owned());
    let shown = RevenueView { query: &query, report: &report, simulated: visitor.is_simulated().await?, first, today };
    let main = lazy_html! {
        p.lead { "What " (if visitor.kind() == Some(SessionKind::Admin) { "a builder's" } else { "your" }) " tools earned, in whole UTC days. A sale counts when its receipt is written." }
        (filters(&query))
        @if report.totals.calls == 0 && report.totals.refunded_usd.is_zero() { (empty_report(&visitor, &query)) } @else {
            (sum(&shown))
            (by_day::view(&shown))
            (by_tool::view(&shown))
        }
        (api_section(&visitor, &path))
    };
    let main = visitor.render(main).await?;
    Ok(visitor.show(Page::new(Area::Revenue, "Revenue", main)).await)
}

fn filters(query: &PageQuery) -> Markup {
    let since = query.get("since");
    let now = if since.is_empty() { USUAL } else { since };
    html! {
        p.chips {
            @for (span, name) in SPANS {
                a.chip href=(query.with(PATH, &[("since", span), ("page", "")])) aria-current=[(span == now).then_some("true")] { (name) }
            }
        }
    }
}

fn empty_report(visitor: &Visitor, query: &PageQuery) -> Markup {
    let of = [("builderId", query.get("builderId"))];
    let tools = curl_command(visitor, &with_query("/ai/builders/endpoints", of));
    empty("No calls in this period.", Some((&with_query("/dashboard/home", of), "Tools")), &tools)
}

/// Shows the calculation: gross minus refunds minus fees is net. Each amount links to its events.
fn sum(shown: &RevenueView) -> Markup {
    let totals = &shown.report.totals;
    let [settled, refunded, failed] =
        ["payment.settled", "payment.refunded", "call.failed"].map(|kind| shown.events(kind, "", &shown.first));
    let amount = |usd| money::amount(usd, shown.simulated);
    let linked = |path: &str, usd: MicroUsd| html! { a href=(path) { (money::usd(usd)) } (money::mark(shown.simulated)) };
    html! {
        p.figure { (amount(totals.net_usd)) span.muted { "net" } }
        p {
            (linked(&settled, totals.gross_usd)) " gross − "
            @if !totals.refunded_usd.is_zero() { (linked(&refunded, totals.refunded_usd)) " refunds − " }
            (linked(&settled, totals.fees_usd)) " fees = " (linked(&settled, totals.net_usd)) " net"
        }
        dl.numbers {
            div { dt { "All calls" } dd { (totals.calls) } }
            div { dt { "Paid" } dd { a href=(settled) { (totals.paid_calls) } } }
            div { dt { "Failed" } dd { a href=(failed) { (totals.failed_calls) } } }
            div { dt { "Since" } dd { (shown.first) } }
        }
    }
}
