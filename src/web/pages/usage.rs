//! Charts of a tool's calls in the last 30 days. Owners and admins also see failures.

use maud::{Markup, html};
use serde_json::Value;
use tollhouse_account::session::SessionKind;
use tollhouse_base::offload::DropOffThread;
use tollhouse_front::Code;

use crate::{
    parts::{
        chart::{Bar, Chart, Step},
        page_links,
        table::{Column, table},
        text::counted,
        time_range::{MONTH, day},
    },
    visitor::{ApiRefusal, Visitor, segment, with_query},
};

/// Returns charts of the number of calls and their duration.
///
/// # Errors
///
/// The visitor has used up their share of processor time.
pub(super) async fn of(visitor: &Visitor, slug: &str) -> Result<Markup, ApiRefusal> {
    let read = async {
        match of_owner(visitor, slug).await? {
            Some(series) => Ok((series, ToolViewer::Own)),
            None => {
                visitor.unsigned().get(&format!("/ai/endpoints/{}/usage", segment(slug))).await.map(|usage| (usage, ToolViewer::Others))
            }
        }
    };
    let (days, owner) = match read.await {
        Err(refused) if refused.code().is_some() => return Ok(html! { p.note { "Its figures are not to be had now." } }),
        read => read?,
    };
    let buckets = days[if owner == ToolViewer::Own { "buckets" } else { "days" }].as_array().map(Vec::as_slice).unwrap_or_default();
    visitor.made(|| view(slug, owner, &buckets.iter().map(Day::of).collect::<Vec<_>>())).await
}

/// Fetches the series for owners and admins. `None` for others.
async fn of_owner(visitor: &Visitor, slug: &str) -> Result<Option<DropOffThread>, ApiRefusal> {
    if !matches!(visitor.kind(), Some(SessionKind::Admin | SessionKind::Builder)) {
        return Ok(None);
    }
    let path = with_query(&format!("/ai/endpoints/{}/metrics", segment(slug)), [("since", MONTH), ("step", "1d")]);
    match visitor.get(&path).await {
        // Another builder's tool, or a suspended builder, who can read only their earnings.
        Err(refused) if refused.is(Code::NotOwner) || refused.is(Code::BuilderSuspended) => Ok(None),
        series => series.map(Some),
    }
}

/// The relation of the visitor to the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolViewer {
    Own,
    Others,
}

/// The calls of one day.
struct Day {
    name: String,
    calls: u64,
    failed: u64,
    /// Median and 95th percentile of the duration.
    millis: [Option<f64>; 2],
}

impl Day {
    fn of(bucket: &Value) -> Self {
        Self {
            name: day(bucket["at"].as_str().unwrap_or_default()).to_owned(),
            calls: bucket["calls"].as_u64().unwrap_or_default(),
            failed: bucket["failed"].as_object().into_iter().flatten().filter_map(|(_, calls)| calls.as_u64()).sum(),
            millis: ["p50Ms", "p95Ms"].map(|name| bucket[name].as_f64()),
        }
    }
}

fn view(slug: &str, owner: ToolViewer, days: &[Day]) -> Markup {
    let sum = |of: fn(&Day) -> u64| days.iter().map(of).sum::<u64>();
    let (calls, failed) = (sum(|day| day.calls), sum(|day| day.failed));
    let millis = |millis: Option<f64>| html! { @if let Some(millis) = millis { (format_duration(millis)) } };
    let latest = || days.iter().rev();
    let max = days.iter().map(|day| day.calls).max().unwrap_or_default();
    let slowest = days.iter().filter_map(|day| day.millis[1]).fold(0.0, f64::max);
    let bars: Vec<_> = days.iter().map(|day| Bar { name: day.name.clone(), value: day.calls as f64, bad: day.failed as f64 }).collect();
    let steps: Vec<_> = days.iter().map(|day| Step { name: day.name.clone(), values: day.millis }).collect();
    let by_calls = match owner {
        ToolViewer::Own => Chart {
            id: "by-calls",
            caption: format!("{} in 30 days, {failed} failed. Most in a day: {max}.", counted(calls, "call", "calls")),
            keys: [Some("calls"), Some("failed")],
            max: max.to_string(),
            table: table(
                "Calls by day",
                [Column::Words("Day"), Column::Number("Calls"), Column::Number("Failed")],
                latest().map(|day| [html! { (day.name) }, html! { (day.calls) }, html! { (day.failed) }]),
            ),
        },
        ToolViewer::Others => Chart {
            id: "by-calls",
            caption: format!("{} in 30 days. Most in a day: {max}.", counted(calls, "call", "calls")),
            keys: [Some("calls"), None],
            max: max.to_string(),
            table: table(
                "Calls by day",
                [Column::Words("Day"), Column::Number("Calls")],
                latest().map(|day| [html! { (day.name) }, html! { (day.calls) }]),
            ),
        },
    };
    let by_time = Chart {
        id: "by-time",
        caption: format!(
            "How long calls took: of a day's, half no longer than the lower line, 95 of 100 no longer than the upper one. At the most {} ms.",
            format_duration(slowest)
        ),
        keys: [Some("p50"), Some("p95")],
        max: format!("{} ms", format_duration(slowest)),
        table: table(
            "Time by day",
            [Column::Words("Day"), Column::Number("p50, ms"), Column::Number("p95, ms")],
            latest().map(|day| [html! { (day.name) }, millis(day.millis[0]), millis(day.millis[1])]),
        ),
    };
    html! {
        section {
            h2 { "In 30 days" }
            @if calls == 0 { p.muted { "Nobody has called it." } } @else {
                (by_calls.bars(&bars))
                (by_time.steps(&steps))
                @if owner == ToolViewer::Own { p { a href=(page_links::of_tool(slug, "/calls")) { "Each of them" } } }
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
    fn a_tool_that_was_called_has_its_figures_in_the_sentence_and_in_the_table() {
        let day = |at: &str, calls: u64| json!({ "at": at, "calls": calls, "failed": { "handler_failed": 1, "error_status": 1 }, "p50Ms": 1.25, "p95Ms": 9.0 });
        let days = [day("2026-11-21T00:00:00.000Z", 5), day("2026-11-22T00:00:00.000Z", 2)].map(|bucket| Day::of(&bucket));
        let html = view("a-tool", ToolViewer::Own, &days).into_string();
        assert!(html.contains("7 calls in 30 days, 4 failed. Most in a day: 5."), "{html}");
        assert!(html.contains("<th scope=\"row\">2026-11-22</th><td class=\"number\" data-label=\"Calls\">2</td><td class=\"number\" data-label=\"Failed\">2</td>"), "{html}");
        assert_eq!(html.matches("<svg").count(), 2);
        let idle = [Day::of(&json!({ "at": "2026-11-21T00:00:00.000Z", "calls": 0, "failed": {} }))];
        assert!(!view("a-tool", ToolViewer::Own, &idle).into_string().contains("<svg"));
    }

    #[test]
    fn strangers_learn_nothing_of_what_failed() {
        let days = [Day::of(&json!({ "at": "2026-11-21T00:00:00.000Z", "calls": 3, "p50Ms": 1.25, "p95Ms": 9.0 }))];
        let html = view("a-tool", ToolViewer::Others, &days).into_string();
        assert!(html.contains("3 calls in 30 days. Most in a day: 3.") && html.matches("<svg").count() == 2, "{html}");
        assert!(!html.contains("ailed") && !html.contains("/calls"), "{html}");
    }
}
