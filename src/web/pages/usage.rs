//! Charts of a tool's calls in the last 30 days. Owners and admins also see failures.

use maud::{Markup, html};
use tollhouse_account::session::SessionKind;
use tollhouse_api::{DailyUsage, Metrics, MetricsBucket, UsageDay};
use tollhouse_base::clock::Timestamp;
use tollhouse_front::Code;

use crate::{
    ApiRefusal, Bar, Chart, MONTH, Number, Visitor, Words, day, page_links,
    parts::chart::{Step, calls_by_day},
    segment, table, with_query,
};

/// Returns charts of the number of calls and their duration.
///
/// # Errors
///
/// The visitor has used up their share of processor time.
pub(super) async fn charts(visitor: &Visitor, slug: &str) -> Result<Markup, ApiRefusal> {
    let read = async {
        match owner_series(visitor, slug).await? {
            Some(days) => Ok::<_, ApiRefusal>((days, true)),
            None => {
                let usage = visitor.without_session().get::<DailyUsage>(&format!("/ai/endpoints/{}/usage", segment(slug))).await?;
                Ok((usage.days.iter().map(Day::from_usage).collect(), false))
            }
        }
    };
    let (days, is_own): (Vec<_>, _) = match read.await {
        Err(refused) if refused.code().is_some() => return Ok(html! { p.note { "Usage data isn't available right now." } }),
        read => read?,
    };
    visitor.render(|| view(slug, is_own, &days)).await
}

/// Fetches the series for owners and admins. `None` for others.
async fn owner_series(visitor: &Visitor, slug: &str) -> Result<Option<Vec<Day>>, ApiRefusal> {
    if !matches!(visitor.kind(), Some(SessionKind::Admin | SessionKind::Builder)) {
        return Ok(None);
    }
    let path = with_query(&format!("/ai/endpoints/{}/metrics", segment(slug)), [("since", MONTH), ("step", "1d")]);
    match visitor.get::<Metrics>(&path).await {
        // Another builder's tool, or a suspended builder, who can read only their earnings.
        Err(refused) if refused.is(Code::NotOwner) || refused.is(Code::BuilderSuspended) => Ok(None),
        series => Ok(Some(series?.buckets.iter().map(Day::from_bucket).collect())),
    }
}

struct Day {
    name: String,
    calls: u64,
    failed: u64,
    /// Median and 95th percentile of the duration.
    millis: [Option<f64>; 2],
}

impl Day {
    fn from_bucket(bucket: &MetricsBucket) -> Self {
        let millis = [bucket.p50_ms, bucket.p95_ms];
        Self { name: name(bucket.at), calls: bucket.calls, failed: bucket.failed.values().sum(), millis }
    }

    fn from_usage(day: &UsageDay) -> Self {
        Self { name: name(day.at), calls: day.calls, failed: 0, millis: [day.p50_ms, day.p95_ms] }
    }
}

/// Returns the date of a day.
fn name(at: Timestamp) -> String {
    day(&at.to_string()).to_owned()
}

fn view(slug: &str, is_own: bool, days: &[Day]) -> Markup {
    let sum = |of: fn(&Day) -> u64| days.iter().map(of).sum::<u64>();
    let (calls, failed) = (sum(|day| day.calls), sum(|day| day.failed));
    let millis = |millis: Option<f64>| html! { @if let Some(millis) = millis { (format_duration(millis)) } };
    let latest = || days.iter().rev();
    let slowest = days.iter().filter_map(|day| day.millis[1]).fold(0.0, f64::max);
    let bars: Vec<_> = days.iter().map(|day| Bar { name: day.name.clone(), value: day.calls as f64, bad: day.failed as f64 }).collect();
    let steps: Vec<_> = days.iter().map(|day| Step { name: day.name.clone(), values: day.millis }).collect();
    let by_time = Chart {
        id: "by-time",
        caption: format!(
            "Duration of calls by day: median (lower line) and 95th percentile (upper line). Maximum: {} ms.",
            format_duration(slowest)
        ),
        keys: [Some("p50"), Some("p95")],
        max: format!("{} ms", format_duration(slowest)),
        table: table(
            "Duration by day",
            [Words("Day"), Number("p50, ms"), Number("p95, ms")],
            latest().map(|day| [html! { (day.name) }, millis(day.millis[0]), millis(day.millis[1])]),
        ),
    };
    html! {
        section {
            h2 { "Last 30 days" }
            @if calls == 0 { p.muted { "No calls." } } @else {
                (calls_by_day("by-calls", &bars, calls, is_own.then_some(failed)))
                (by_time.steps(&steps))
                @if is_own { p { a href=(page_links::tool_path(slug, "/calls")) { "See each call" } } }
            }
        }
    }
}

fn format_duration(millis: f64) -> String {
    format!("{millis:.1}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_are_in_the_caption_and_in_the_table() {
        let day = |at: &str, calls: u64| {
            let failed = json!({ "handler_failed": 1, "error_status": 1 });
            let bucket = json!({ "at": at, "calls": calls, "paid": 0, "failed": failed, "grossUsd": 0, "p50Ms": 1.25, "p95Ms": 9.0 });
            Day::from_bucket(&serde_json::from_value(bucket).unwrap())
        };
        let days = [day("2026-11-21T00:00:00.000Z", 5), day("2026-11-22T00:00:00.000Z", 2)];
        let html = view("a-tool", true, &days).into_string();
        assert!(html.contains("7 calls in 30 days, 4 failed. Maximum per day: 5."), "{html}");
        assert!(html.contains("<th scope=\"row\">2026-11-22</th><td class=\"number\" data-label=\"Calls\">2</td><td class=\"number\" data-label=\"Failed\">2</td>"), "{html}");
        assert_eq!(html.matches("<svg").count(), 2);
        let idle = [Day { name: "2026-11-21".to_owned(), calls: 0, failed: 0, millis: [None; 2] }];
        assert!(!view("a-tool", true, &idle).into_string().contains("<svg"));
    }

    #[test]
    fn others_do_not_see_failures() {
        let usage = json!({ "at": "2026-11-21T00:00:00.000Z", "calls": 3, "p50Ms": 1.25, "p95Ms": 9.0 });
        let days = [Day::from_usage(&serde_json::from_value(usage).unwrap())];
        let html = view("a-tool", false, &days).into_string();
        assert!(html.contains("3 calls in 30 days. Maximum per day: 3.") && html.matches("<svg").count() == 2, "{html}");
        assert!(!html.contains("ailed") && !html.contains("/calls"), "{html}");
    }
}
