//! Bar charts and step charts, drawn on the server as SVG without inline styles. Classes and the
//! style sheet define their look and size. Each chart also has a sentence and a table for readers
//! who cannot see it.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};
use tollhouse_base::plural::plural;

use super::{
    Column::{Number, Words},
    table,
};

/// Width of one place and height of the drawing, in its own units. The drawing is stretched to its
/// box.
const PLACE: usize = 10;
const HEIGHT: f64 = 100.0;
/// Height of a drawing in a table row.
const SPARK: u8 = 24;
/// Minimum height of a nonzero value, so that one call is visible beside thousands.
const SEEN: f64 = 2.0;

pub(crate) struct Chart<'a> {
    /// Unique id on the page.
    pub(crate) id: &'a str,
    /// A sentence that describes the chart.
    pub(crate) caption: String,
    /// Legend of the first and the second color.
    pub(crate) keys: [Option<&'a str>; 2],
    /// Label of the highest value.
    pub(crate) max: String,
    pub(crate) table: Markup,
}

/// A named bar: its height, and the part of it in the second color.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) bad: f64,
}

/// A place of two lines, either of which may have a gap.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) values: [Option<f64>; 2],
}

/// Returns tiny bars for a table row. `says` describes them.
pub(crate) fn spark(text: &str, bars: &[Bar]) -> Markup {
    let max = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let drawn = |of: fn(&Bar) -> f64| {
        let high = |bar: &Bar| if of(bar) > 0.0 { (of(bar) / max * f64::from(SPARK)).round().max(1.0) } else { 0.0 };
        let standing = bars.iter().map(high).enumerate().filter(|(_, high)| *high > 0.0);
        standing.fold(String::new(), |mut path, (position, high)| {
            _ = write!(path, "M{position} {SPARK}v-{high}h1v{high}");
            path
        })
    };
    html! {
        svg.spark role="img" aria-label=(text) viewBox=(format!("0 0 {} {SPARK}", bars.len().max(1))) preserveAspectRatio="none" {
            @for (class, path) in [("col", drawn(|bar| bar.value)), ("col bad", drawn(|bar| bar.bad))] {
                @if !path.is_empty() { path class=(class) d=(path) {} }
            }
        }
    }
}

/// Returns a chart of the calls by day, and of the `failed` ones if they are known.
pub(crate) fn calls_by_day(id: &str, days: &[Bar], calls: u64, failed: Option<u64>) -> Markup {
    let max = days.iter().map(|day| day.value).fold(0.0, f64::max).to_string();
    let latest = days.iter().rev();
    let (failures, table) = match failed {
        Some(failed) => {
            let row = |day: &Bar| [html! { (day.name) }, html! { (day.value) }, html! { (day.bad) }];
            (format!(", {failed} failed"), table("Calls by day", [Words("Day"), Number("Calls"), Number("Failed")], latest.map(row)))
        }
        None => {
            let row = |day: &Bar| [html! { (day.name) }, html! { (day.value) }];
            (String::new(), table("Calls by day", [Words("Day"), Number("Calls")], latest.map(row)))
        }
    };
    let caption = format!("{} in 30 days{failures}. Maximum per day: {max}.", plural(calls, "call"));
    Chart { id, caption, keys: [Some("calls"), failed.map(|_| "failed")], max, table }.bars(days)
}

impl Chart<'_> {
    /// Returns bars from left to right.
    pub(crate) fn bars(&self, bars: &[Bar]) -> Markup {
        let max = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
        let high = |value: f64| if value > 0.0 { (value / max * HEIGHT).max(SEEN) } else { 0.0 };
        let mut drawn = String::new();
        for (position, bar) in bars.iter().enumerate() {
            let whole = high(bar.value);
            let bad = high(bar.bad).min(whole);
            for (class, high, top) in [("col", whole - bad, HEIGHT - whole + bad), ("col bad", bad, HEIGHT - whole)] {
                if high > 0.0 {
                    let remaining = position * PLACE + 1;
                    _ = write!(drawn, r#"<rect class="{class}" x="{remaining}" y="{top:.1}" width="{}" height="{high:.1}"/>"#, PLACE - 2);
                }
            }
        }
        self.drawn(&drawn, ["key", "key bad"], bars.iter().map(|bar| bar.name.as_str()))
    }

    /// Returns two step lines with a constant height at each place.
    pub(crate) fn steps(&self, steps: &[Step]) -> Markup {
        let max = steps.iter().flat_map(|step| step.values).flatten().fold(0.0, f64::max);
        let mut drawn = String::new();
        for (line, class) in ["step", "step bad"].into_iter().enumerate() {
            let (mut path, mut goes_on) = (String::new(), false);
            for (position, step) in steps.iter().enumerate() {
                let Some(value) = step.values[line] else {
                    goes_on = false;
                    continue;
                };
                let high = HEIGHT - if max > 0.0 { value / max * (HEIGHT - SEEN) } else { 0.0 };
                let (from, to) = (position * PLACE, (position + 1) * PLACE);
                _ = if goes_on { write!(path, "V{high:.1}H{to}") } else { write!(path, "M{from} {high:.1}H{to}") };
                goes_on = true;
            }
            if !path.is_empty() {
                _ = write!(drawn, r#"<path class="{class}" d="{path}"/>"#);
            }
        }
        self.drawn(&drawn, ["key of-line", "key bad of-line"], steps.iter().map(|step| step.name.as_str()))
    }

    /// Combines a drawing, which consists of numbers only, with the texts. `keys` are the classes
    /// of the legend.
    fn drawn<'a>(&self, drawn: &str, keys: [&str; 2], mut names: impl DoubleEndedIterator<Item = &'a str> + ExactSizeIterator) -> Markup {
        let positions = names.len();
        let (first, last) = (names.next().unwrap_or_default(), names.next_back().unwrap_or_default());
        html! {
            figure.chart {
                figcaption {
                    p id=(self.id) { (self.caption) }
                    p.keys aria-hidden="true" {
                        span.most { "highest: " (self.max) }
                        @for (class, key) in keys.into_iter().zip(self.keys) {
                            @if let Some(key) = key { span class=(class) { (key) } }
                        }
                    }
                }
                svg role="img" aria-labelledby=(self.id) viewBox=(format!("0 0 {} {HEIGHT}", (positions * PLACE).max(1))) preserveAspectRatio="none" {
                    (PreEscaped(drawn))
                }
                p.ends aria-hidden="true" { span { (first) } span { (last) } }
                details.way { summary { "Table" } (self.table) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart<'static> {
        Chart { id: "calls", caption: "3 calls".to_owned(), keys: [Some("calls"), Some("failed")], max: "2".to_owned(), table: html! {} }
    }

    fn bar(value: f64, bad: f64) -> Bar {
        Bar { name: String::new(), value, bad }
    }

    #[test]
    fn second_color_is_on_top_of_its_bar() {
        let html = chart().bars(&[bar(0.0, 0.0), bar(4.0, 1.0), bar(2.0, 2.0)]).into_string();
        assert_eq!(html.matches("<rect").count(), 3, "{html}");
        for rect in [
            r#"<rect class="col" x="11" y="25.0" width="8" height="75.0"/>"#,
            r#"<rect class="col bad" x="11" y="0.0" width="8" height="25.0"/>"#,
            r#"<rect class="col bad" x="21" y="50.0" width="8" height="50.0"/>"#,
        ] {
            assert!(html.contains(rect), "{rect}: {html}");
        }
        assert!(html.contains(r#"viewBox="0 0 30 100""#) && html.contains(r#"aria-labelledby="calls""#), "{html}");
        assert!(!html.contains("style"), "the policy lets no style in the markup be: {html}");
    }

    #[test]
    fn small_bars_are_visible_and_zero_is_not() {
        let html = chart().bars(&[bar(1e6, 0.0), bar(1.0, 1.0), bar(0.0, 0.0)]).into_string();
        assert_eq!(html.matches("<rect").count(), 2, "{html}");
        assert!(html.contains(r#"y="98.0" width="8" height="2.0""#), "{html}");
        assert_eq!(chart().bars(&[]).into_string().matches("NaN").count(), 0);
        assert_eq!(chart().bars(&[bar(0.0, 0.0)]).into_string().matches("<rect").count(), 0);
    }

    #[test]
    fn sparkline_is_small_and_labeled() {
        let html = spark("4 at the most", &[bar(0.0, 0.0), bar(4.0, 1.0), bar(0.01, 0.0)]).into_string();
        assert!(html.contains(r#"aria-label="4 at the most" viewBox="0 0 3 24""#), "{html}");
        assert!(html.contains(r#"<path class="col" d="M1 24v-24h1v24M2 24v-1h1v1">"#), "{html}");
        assert!(html.contains(r#"<path class="col bad" d="M1 24v-6h1v6">"#), "{html}");
        let full = spark("", &[const { Bar { name: String::new(), value: 9.0, bad: 3.0 } }; 31]).into_string();
        assert!(full.len() < 1_200, "{} bytes", full.len());
        assert!(!spark("", &[bar(0.0, 0.0)]).into_string().contains("<path") && !spark("", &[]).into_string().contains("NaN"));
    }

    #[test]
    fn step_lines_have_gaps_without_values() {
        let step = |values| Step { name: String::new(), values };
        let steps = [step([Some(49.0), Some(98.0)]), step([Some(98.0), None]), step([None, None]), step([Some(0.0), None])];
        let html = chart().steps(&steps).into_string();
        assert!(html.contains(r#"<path class="step" d="M0 51.0H10V2.0H20M30 100.0H40"/>"#), "{html}");
        assert!(html.contains(r#"<path class="step bad" d="M0 2.0H10"/>"#), "{html}");
    }
}
