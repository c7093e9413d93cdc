//! `/dashboard/admin`: what needs an admin's attention, then the state of the host.

use std::collections::BTreeMap;

use maud::{Markup, html};
use tollhouse_api::{AllPayoutsPage, Health, HostRevenue, Metrics, PayoutCounts, RevenueTotals, ReviewPage};
use tollhouse_base::plural::plural;
use tollhouse_front::Code;
use tollhouse_tool::MicroUsd;

use super::shared::Admin;
use crate::{Area, MONTH, Page, PageResult, day, facts, money, text, with_query};

/// Number of past minutes for the rate of calls. The current minute is left out.
const MINUTES: usize = 5;

pub(crate) async fn page(Admin(visitor): Admin) -> PageResult {
    let reviews = visitor.get::<ReviewPage>("/ai/admin/reviews?limit=1").await?;
    let packets = visitor.get::<AllPayoutsPage>("/ai/admin/payouts?limit=1").await?;
    let health = visitor.get::<Health>("/health").await?;
    let simulated = visitor.is_simulated().await?;
    let metrics = visitor.get::<Metrics>("/ai/admin/metrics?since=1h&step=1m").await?;
    let revenue = visitor.get::<HostRevenue>(&with_query("/ai/admin/revenue", [("since", MONTH)])).await?;
    let main = html! {
        (needed(&needs(&reviews, &packets.counts, &health)))
        (numbers(&metrics, &health))
        div.split {
            section { h2 { "Failures in the last hour" } (failures(&metrics)) }
            section { h2 { "Revenue of the last 30 days" } (earned(&revenue, simulated)) }
        }
    };
    Ok(visitor.show(Page::new(Area::Overview, "Overview", main)).await)
}

/// A task that waits: its description, and a link.
struct AdminTask {
    words: String,
    path: &'static str,
    action: &'static str,
}

fn needs(reviews: &ReviewPage, packets: &PayoutCounts, health: &Health) -> Vec<AdminTask> {
    const RUNTIME: &str = "/dashboard/admin/runtime";
    let mut needs = vec![];
    let mut need = |words: String, path, action| needs.push(AdminTask { words, path, action });
    if reviews.total > 0 {
        let first = reviews.reviews.first().and_then(|review| review.since);
        let since = first.map(|since| format!(", the oldest since {}", day(&since.to_string()))).unwrap_or_default();
        need(format!("{} waiting{since}", plural(reviews.total, "review")), "/dashboard/admin/reviews", "Review");
    }
    for (count, what, path, action) in [
        (packets.created, "to approve", "/dashboard/admin/payouts?status=created", "Approve"),
        (packets.approved, "to send", "/dashboard/admin/payouts?status=approved", "Send"),
        (packets.failed, "failed", "/dashboard/admin/payouts?status=failed", "See payouts"),
    ] {
        if count > 0 {
            need(format!("{} {what}", plural(count, "payout")), path, action);
        }
    }
    if let open @ 1.. = health.open_settlements {
        need(format!("{} still open", plural(open, "settlement")), RUNTIME, "See details");
    }
    if let unresolved @ 1.. = unresolved(health) {
        need(format!("{} with an unknown outcome, for you to resolve", plural(unresolved, "settlement")), RUNTIME, "See details");
    }
    for warning in &health.unpaid.warnings {
        need(warning.clone(), RUNTIME, "See details");
    }
    if health.sandbox.starts_fail.is_some() {
        need("No worker can be started, so no handler runs".to_owned(), RUNTIME, "See details");
    }
    if let missing @ 1.. = health.sandbox.jail_refused.len() as u64 {
        let are = if missing == 1 { "is" } else { "are" };
        need(format!("{} of the jail {are} missing", plural(missing, "layer")), RUNTIME, "See details");
    }
    needs
}

/// Returns the number of unresolved settlements, if it is known.
fn unresolved(health: &Health) -> u64 {
    health.unresolved_settlements.unwrap_or_default() as u64
}

fn needed(needs: &[AdminTask]) -> Markup {
    html! {
        section aria-labelledby="needs" {
            h2 #needs { "Needs your attention" }
            @if needs.is_empty() { p.muted { "Nothing needs your attention." } }
            @else {
                ul.rows {
                    @for AdminTask { words, path, action } in needs {
                        li { p { (words) } a.button href=(path) aria-label={ (action) ": " (words) } { (action) } }
                    }
                }
            }
        }
    }
}

/// Returns the recent calls per minute.
fn rate(metrics: &Metrics) -> f64 {
    let whole = metrics.buckets.split_last().map_or(&[][..], |(_, whole)| whole);
    let late = &whole[whole.len().saturating_sub(MINUTES)..];
    late.iter().map(|bucket| bucket.calls).sum::<u64>() as f64 / late.len().max(1) as f64
}

fn numbers(metrics: &Metrics, health: &Health) -> Markup {
    let sandbox = &health.sandbox;
    html! {
        dl.numbers {
            div { dt { "Calls per minute, last 5 minutes" } dd { (format!("{:.1}", rate(metrics))) } }
            div { dt { "Running" } dd { (sandbox.running) } }
            div { dt { "Queued" } dd { (sandbox.queued) } }
            div { dt { "Workers" } dd { (sandbox.workers) } }
            div { dt { "Open settlements" } dd { (health.open_settlements) } }
            div { dt { "Unresolved settlements" } dd { (unresolved(health)) } }
        }
    }
}

/// Counts failures by who is at fault, then by code.
fn by_fault(metrics: &Metrics) -> BTreeMap<&'static str, BTreeMap<&str, u64>> {
    let mut faults: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for (code, count) in metrics.buckets.iter().flat_map(|bucket| &bucket.failed) {
        let row = Code::ALL.iter().map(|known| known.row()).find(|row| row.name == *code);
        let fault = row.map_or("host", |row| row.fault.as_str());
        *faults.entry(fault).or_default().entry(code.as_str()).or_default() += count;
    }
    faults
}

fn failures(metrics: &Metrics) -> Markup {
    let calls: u64 = metrics.buckets.iter().map(|bucket| bucket.calls).sum();
    let faults = by_fault(metrics);
    let failed: u64 = faults.values().flat_map(BTreeMap::values).sum();
    html! {
        p { (failed) " of " (plural(calls, "call")) " failed." }
        @if !faults.is_empty() {
            (facts::list(&faults.iter().map(|(fault, codes)| (*fault, Some(html! {
                @for (code, count) in codes { div { (count) " × " code { (text::words(code)) } } }
            }))).collect::<Vec<_>>()))
        }
    }
}

fn earned(revenue: &HostRevenue, simulated: bool) -> Markup {
    let amount = |usd: MicroUsd| money::amount(usd, simulated);
    let line = |totals: &RevenueTotals| html! { (amount(totals.gross_usd)) " from " (plural(totals.paid_calls, "paid call")) };
    html! {
        p.figure { (amount(revenue.revenue_usd)) }
        p.muted { "Fees from builders' sales, registrations, and sales of the host's own tools." }
        (facts::list(&[
            ("All sales", Some(line(&revenue.totals))),
            ("Builders' sales", Some(line(&revenue.builders))),
            ("The host's tools and registrations", Some(line(&revenue.own))),
            ("Refunded", Some(amount(revenue.totals.refunded_usd))),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};
    use tollhouse_api::{RefusedLayer, True};

    use super::*;

    #[test]
    fn tasks_are_listed_with_their_pages() {
        let (none, well) = (PayoutCounts { paid: 7, ..PayoutCounts::default() }, health());
        let reviews = |total| ReviewPage { ok: True, reviews: vec![], total, next_cursor: None };
        assert!(needs(&reviews(0), &none, &well).is_empty());
        let mut ill = health();
        ill.open_settlements = 1;
        ill.sandbox.starts_fail = Some("no such file".to_owned());
        ill.sandbox.jail_refused = vec![RefusedLayer { layer: String::new(), error: String::new(), more: Map::new() }; 2];
        ill.unpaid.warnings = vec!["gas".to_owned()];
        let packets = PayoutCounts { created: 1, approved: 200, failed: 3, ..PayoutCounts::default() };
        let listed: Vec<_> = needs(&reviews(2), &packets, &ill).into_iter().map(|need| need.words).collect();
        assert_eq!(
            listed,
            [
                "2 reviews waiting",
                "1 payout to approve",
                "200 payouts to send",
                "3 payouts failed",
                "1 settlement still open",
                "gas",
                "No worker can be started, so no handler runs",
                "2 layers of the jail are missing",
            ]
        );
    }

    /// Returns the health of a host without problems.
    fn health() -> Health {
        let examples: Value = serde_json::from_str(include_str!("../../../http/documents/examples.json")).unwrap();
        serde_json::from_value(examples["getHealth"].clone()).unwrap()
    }

    fn metrics(buckets: &[(u64, Value)]) -> Metrics {
        let at = "2026-11-21T00:00:00.000Z";
        let bucket = |(calls, failed): &(u64, Value)| json!({ "at": at, "calls": calls, "paid": 0, "failed": failed, "grossUsd": 0 });
        let buckets: Vec<_> = buckets.iter().map(bucket).collect();
        serde_json::from_value(json!({ "ok": true, "since": at, "step": "1m", "buckets": buckets })).unwrap()
    }

    #[test]
    fn rate_is_of_the_last_whole_minutes() {
        for (calls, expected) in [(&[][..], 0.0), (&[9], 0.0), (&[4, 9], 4.0), (&[100, 1, 2, 3, 4, 5, 99], 3.0)] {
            let buckets: Vec<_> = calls.iter().map(|calls| (*calls, json!({}))).collect();
            assert!((rate(&metrics(&buckets)) - expected).abs() < 1e-9, "{calls:?}");
        }
    }

    #[test]
    fn failures_are_grouped_by_who_can_fix_them() {
        let metrics = metrics(&[(3, json!({ "handler_failed": 2, "busy": 1 })), (1, json!({ "handler_failed": 1 }))]);
        let faults = by_fault(&metrics);
        assert_eq!((faults["tool"]["handler_failed"], faults["host"]["busy"], faults.len()), (3, 1, 2));
    }
}
