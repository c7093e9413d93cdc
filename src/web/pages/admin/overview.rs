//! `/dashboard/admin`: what needs an admin's attention, then the state of the host.

use std::collections::BTreeMap;

use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;
use tollhouse_front::Code;

use super::shared::{Admin, counted, entries, mark};
use crate::{
    page::{Area, Page},
    parts::{facts, money, text, time_range::MONTH},
    visitor::{ApiRefusal, with_query},
};

/// Number of past minutes for the rate of calls. The current minute is left out.
const MINUTES: usize = 5;

pub(crate) async fn page(Admin(visitor): Admin) -> Result<Response, ApiRefusal> {
    let reviews = visitor.get("/ai/admin/reviews?limit=1").await?;
    let packets = visitor.get("/ai/admin/payouts?limit=1").await?;
    let health = visitor.get("/health").await?;
    let simulated = visitor.plays().await?;
    let metrics = visitor.get("/ai/admin/metrics?since=1h&step=1m").await?;
    let revenue = visitor.get(&with_query("/ai/admin/revenue", [("since", MONTH)])).await?;
    let main = html! {
        (needed(&needs(&reviews, &packets["counts"], &health)))
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

fn needs(reviews: &Value, packets: &Value, health: &Value) -> Vec<AdminTask> {
    let mut needs = vec![];
    let mut need = |words: String, path, action| needs.push(AdminTask { words, path, action });
    if let waiting @ 1.. = reviews["total"].as_u64().unwrap_or_default() {
        let first = reviews["reviews"][0]["since"].as_str().and_then(|since| since.split_once('T')).map(|(day, _)| day);
        let since = first.map(|day| format!(", the first since {day}")).unwrap_or_default();
        need(format!("{} to decide{since}", counted(waiting, "review", "reviews")), "/dashboard/admin/reviews", "Review");
    }
    for status in ["created", "approved", "failed"] {
        let count @ 1.. = packets[status].as_u64().unwrap_or_default() else { continue };
        let packets = counted(count, "packet", "packets");
        match status {
            "created" => need(format!("{packets} to approve"), "/dashboard/admin/payouts?status=created", "Approve"),
            "approved" => need(format!("{packets} to send"), "/dashboard/admin/payouts?status=approved", "Send"),
            _ => need(format!("{packets} failed"), "/dashboard/admin/payouts?status=failed", "See payouts"),
        }
    }
    if let open @ 1.. = health["openSettlements"].as_u64().unwrap_or_default() {
        let words = format!("{} whose end is not known yet", counted(open, "settlement", "settlements"));
        need(words, "/dashboard/admin/runtime", "Look");
    }
    if let unresolved @ 1.. = health["unresolvedSettlements"].as_u64().unwrap_or_default() {
        let words = format!("{} to resolve: nobody says how they ended", counted(unresolved, "settlement", "settlements"));
        need(words, "/dashboard/admin/runtime", "Look");
    }
    for warning in entries(&health["unpaid"], "warnings").iter().filter_map(Value::as_str) {
        need(warning.to_owned(), "/dashboard/admin/runtime", "Look");
    }
    let sandbox = &health["sandbox"];
    if sandbox["startsFail"].is_string() {
        need("no worker can be started: no handler runs".to_owned(), "/dashboard/admin/runtime", "Look");
    }
    if let missing @ 1.. = entries(sandbox, "jailRefused").len() as u64 {
        let words = format!("{} of the jail {} missing", counted(missing, "layer", "layers"), if missing == 1 { "is" } else { "are" });
        need(words, "/dashboard/admin/runtime", "Look");
    }
    needs
}

fn needed(needs: &[AdminTask]) -> Markup {
    html! {
        section aria-labelledby="needs" {
            h2 #needs { "Needs you" }
            @if needs.is_empty() { p.muted { "Nothing waits for you." } }
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
fn rate(metrics: &Value) -> f64 {
    let calls: Vec<_> = entries(metrics, "buckets").iter().map(|bucket| bucket["calls"].as_u64().unwrap_or_default()).collect();
    let whole = &calls[..calls.len().saturating_sub(1)];
    let late = &whole[whole.len().saturating_sub(MINUTES)..];
    late.iter().sum::<u64>() as f64 / late.len().max(1) as f64
}

fn numbers(metrics: &Value, health: &Value) -> Markup {
    let sandbox = &health["sandbox"];
    html! {
        dl.numbers {
            div { dt { "Calls a minute, last 5" } dd { (format!("{:.1}", rate(metrics))) } }
            div { dt { "Running" } dd { (sandbox["running"]) } }
            div { dt { "Queued" } dd { (sandbox["queued"]) } }
            div { dt { "Workers" } dd { (sandbox["workers"]) } }
            div { dt { "Open settlements" } dd { (health["openSettlements"]) } }
            div { dt { "Unresolved settlements" } dd { (health["unresolvedSettlements"].as_u64().unwrap_or_default()) } }
        }
    }
}

/// Counts failures by who is at fault, then by code.
fn by_fault(metrics: &Value) -> BTreeMap<&'static str, BTreeMap<&str, u64>> {
    let mut faults: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    let failed = entries(metrics, "buckets").iter().filter_map(|bucket| bucket["failed"].as_object()).flatten();
    for (code, count) in failed {
        let row = Code::ALL.iter().map(|known| known.row()).find(|row| row.name == code);
        let fault = row.map_or("host", |row| row.fault.as_str());
        *faults.entry(fault).or_default().entry(code.as_str()).or_default() += count.as_u64().unwrap_or_default();
    }
    faults
}

fn failures(metrics: &Value) -> Markup {
    let calls: u64 = entries(metrics, "buckets").iter().filter_map(|bucket| bucket["calls"].as_u64()).sum();
    let faults = by_fault(metrics);
    let failed: u64 = faults.values().flat_map(BTreeMap::values).sum();
    html! {
        p { (failed) " of " (counted(calls, "call", "calls")) " failed." }
        @if !faults.is_empty() {
            (facts::list(&faults.iter().map(|(fault, codes)| (*fault, Some(html! {
                @for (code, count) in codes { div { (count) " × " code { (text::words(code)) } } }
            }))).collect::<Vec<_>>()))
        }
    }
}

fn earned(revenue: &Value, simulated: bool) -> Markup {
    let line = |name: &str| html! { (money::usd(&revenue[name]["grossUsd"])) (mark(simulated)) " from " (counted(revenue[name]["paidCalls"].as_u64().unwrap_or_default(), "paid call", "paid calls")) };
    html! {
        p.figure { (money::usd(&revenue["revenueUsd"])) (mark(simulated)) }
        p.muted { "Fees of builders' sales, registrations, and what own tools earned." }
        (facts::list(&[
            ("All sales", Some(line("totals"))),
            ("Builders'", Some(line("builders"))),
            ("Own tools, registrations", Some(line("own"))),
            ("Given back", Some(html! { (money::usd(&revenue["totals"]["refundedUsd"])) (mark(simulated)) })),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_waits_is_reported_with_where_it_is_done() {
        let none = json!({ "created": 0, "approved": 0, "paid": 7, "failed": 0 });
        let well = json!({ "openSettlements": 0, "sandbox": { "startsFail": null, "jailRefused": [] } });
        assert!(needs(&json!({ "total": 0, "reviews": [] }), &none, &well).is_empty());
        let reviews = json!({ "total": 2, "reviews": [{ "since": "2026-11-20T10:00:00.000Z" }] });
        let ill = json!({ "openSettlements": 1, "sandbox": { "startsFail": "no such file", "jailRefused": [{}, {}] } });
        let listed: Vec<_> =
            needs(&reviews, &json!({ "created": 1, "approved": 200, "failed": 3 }), &ill).into_iter().map(|need| need.words).collect();
        assert_eq!(
            listed,
            [
                "2 reviews to decide, the first since 2026-11-20",
                "1 packet to approve",
                "200 packets to send",
                "3 packets failed",
                "1 settlement whose end is not known yet",
                "no worker can be started: no handler runs",
                "2 layers of the jail are missing",
            ]
        );
    }

    #[test]
    fn each_warning_of_unpaid_runs_waits() {
        let (reviews, packets) = (json!({ "total": 0, "reviews": [] }), json!({}));
        let warnings = ["100 runs of the last minute were not paid for", "100 settlements are open", "gas", "another store"];
        let health = json!({ "openSettlements": 0, "unpaid": { "warnings": warnings } });
        let rendered = needs(&reviews, &packets, &health);
        assert_eq!(rendered.iter().map(|need| &*need.words).collect::<Vec<_>>(), warnings);
        assert!(rendered.iter().all(|need| need.path == "/dashboard/admin/runtime"));
    }

    #[test]
    fn the_rate_is_that_of_the_last_whole_minutes() {
        let metrics = |calls: &[u64]| json!({ "buckets": calls.iter().map(|calls| json!({ "calls": calls })).collect::<Vec<_>>() });
        for (calls, requested) in [(&[][..], 0.0), (&[9], 0.0), (&[4, 9], 4.0), (&[100, 1, 2, 3, 4, 5, 99], 3.0)] {
            assert!((rate(&metrics(calls)) - requested).abs() < 1e-9, "{calls:?}");
        }
    }

    #[test]
    fn failures_are_those_of_who_can_fix_them() {
        let metrics = json!({ "buckets": [{ "failed": { "handler_failed": 2, "busy": 1 } }, { "failed": { "handler_failed": 1 } }] });
        let rendered = by_fault(&metrics);
        assert_eq!((rendered["tool"]["handler_failed"], rendered["host"]["busy"], rendered.len()), (3, 1, 2));
    }
}
