//! Revenue by day: a chart of the whole span, and a table of the last days.

use std::collections::HashMap;

use maud::{Markup, html};
use tollhouse_api::RevenueTotals;
use tollhouse_tool::MicroUsd;

use super::report::{PATH, RevenueView, columns, headings};
use crate::{Bar, Chart, money, parts::time_range::days, table};

/// Maximum days, bars of the chart, and rows of its table.
const MAX_DAYS: usize = 3_660;
const BARS: usize = 92;
const ROWS: usize = 31;

type Sold<'a> = HashMap<&'a str, RevenueTotals>;

/// Shows revenue by day, including days without calls.
pub(super) fn view(shown: &RevenueView) -> Markup {
    let sold: Sold = shown.report.by_day.iter().map(|line| (&*line.day, line.totals)).collect();
    let days = days(&shown.first, &shown.today, MAX_DAYS);
    let together = days.len().div_ceil(BARS).max(1);
    let bars = bars(&days, &sold, together);
    let max = bars.iter().max_by(|one, other| one.value.total_cmp(&other.value));
    let csv = shown.query.with(&format!("{PATH}.csv"), &[("by", "day"), ("page", "")]);
    let chart = Chart {
        id: "by-day",
        caption: caption(&days, together, max, shown.simulated),
        keys: [Some("net"), None],
        max: max.map_or_else(String::new, |bar| format!("{}{}", format_amount(bar.value), money::marked(shown.simulated))),
        table: html! {
            (rows(shown, &days, &sold))
            p.note {
                @if days.len() > ROWS { "The last " (ROWS) " days. " }
                "Each number links to the payments or failures of its day. "
                a href=(csv) { "Download all days as CSV" }
            }
        },
    };
    html! { section { h2 { "By day" } (chart.bars(&bars)) } }
}

/// Groups days into bars. The last bar is complete.
fn bars(days: &[String], sold: &Sold, together: usize) -> Vec<Bar> {
    let net = |day: &String| sold.get(day.as_str()).map_or(0.0, |totals| totals.net_usd.0 as f64);
    let bar = |some: &[String]| Bar { name: some[0].clone(), value: some.iter().map(net).sum(), bad: 0.0 };
    let mut bars: Vec<_> = days.rchunks(together).map(bar).collect();
    bars.reverse();
    bars
}

fn caption(days: &[String], together: usize, max: Option<&Bar>, simulated: bool) -> String {
    let Some(max) = max.filter(|bar| bar.value > 0.0) else { return "No revenue in this period.".to_owned() };
    let (first, highest) = (&days[0], format!("{}{}", format_amount(max.value), money::marked(simulated)));
    match together {
        1 => format!("Net by day since {first}. Maximum per day: {highest}, on {}.", max.name),
        _ => format!("Net since {first}, {together} days per bar. Maximum per bar: {highest}, from {}.", max.name),
    }
}

fn rows(shown: &RevenueView, days: &[String], sold: &Sold) -> Markup {
    table(
        "Revenue by day",
        columns("Day", &headings(shown.simulated)),
        days.iter().rev().take(ROWS).map(|day| {
            let totals = sold.get(day.as_str()).copied();
            // Refunds happened on later days, and the total of calls has no list of events.
            let leads = |sum: &str| match sum {
                "failedCalls" => Some("call.failed"),
                "calls" | "refundedUsd" => None,
                _ => Some("payment.settled"),
            };
            let link = |sum: &str| totals.and_then(|_| leads(sum)).map(|kind| shown.events_of(kind, day));
            let [calls, paid, failed, gross, refunded, fees, net] = RevenueView::cells(&totals.unwrap_or_default(), link);
            [html! { (day) }, calls, paid, failed, gross, refunded, fees, net]
        }),
    )
}

/// Formats micro-dollars, whose sums are exact.
fn format_amount(micros: f64) -> String {
    money::usd(MicroUsd(micros as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_grouped_without_loss() {
        let days: Vec<_> = days("2026-01-01", "2026-11-22", MAX_DAYS);
        let totals = RevenueTotals { net_usd: MicroUsd(100_000), ..RevenueTotals::default() };
        let sold: Sold = days.iter().map(|day| (day.as_str(), totals)).collect();
        let bars = bars(&days, &sold, 4);
        assert_eq!((bars.len(), bars[0].name.as_str(), bars[1].name.as_str()), (82, "2026-01-01", "2026-01-03"));
        assert_eq!(format_amount(bars.iter().map(|bar| bar.value).sum()), "$32.6", "to the micro-dollar");
        assert!(bars.iter().skip(1).all(|bar| format_amount(bar.value) == "$0.4"));
    }
}
