//! Checks that the dashboard and the alert rules for operators query only metrics and labels that exist.

use serde_json::Value;
use tollhouse::telemetry::{Metric, metric_table};

const DASHBOARD: &str = include_str!("../../docs/examples/grafana.json");
const ALERTS: &str = include_str!("../../docs/examples/alerts.yml");

/// Labels that Prometheus adds to every series, and to those of a histogram.
const ADDED: [&str; 3] = ["job", "instance", "le"];

/// Returns all expressions of the dashboard, from its panels and its variables.
fn expressions() -> Vec<String> {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => members.iter().for_each(|(name, value)| match value.as_str() {
                Some(text) if name == "expr" || name == "query" => found.push(text.to_owned()),
                _ => collect(value, found),
            }),
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            _ => {}
        }
    }
    let mut found = vec![];
    collect(&serde_json::from_str(DASHBOARD).expect("the dashboard is JSON"), &mut found);
    found
}

/// Returns the metric to which a series belongs.
fn metric(series: &str) -> Option<&'static Metric> {
    let of = |name: &str| metric_table::ALL.iter().copied().find(|metric| metric.name == name);
    let is_histogram = |metric: &&Metric| metric.kind == metric_table::Kind::Histogram;
    let of_histogram = || ["_bucket", "_sum", "_count"].iter().find_map(|part| of(series.strip_suffix(part)?).filter(is_histogram));
    of(series).filter(|metric| !is_histogram(metric)).or_else(of_histogram)
}

/// Returns the names in an expression: those of series, and those of labels in braces and after
/// `by`.
fn names(expression: &str) -> (Vec<&str>, Vec<&str>) {
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let series = words.filter(|word| word.starts_with("tollhouse_") || word.starts_with("process_")).collect();
    let braces = expression.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let matched = braces.flat_map(|braces| braces.split(',')).filter_map(|pair| pair.split(['=', '!']).next());
    let by = expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next()).flat_map(|list| list.split(','));
    (series, matched.chain(by).map(str::trim).filter(|name| !name.is_empty()).collect())
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are_by_labels_that_they_have() {
    let expressions = expressions();
    assert!(expressions.len() > 15, "{expressions:?}");
    ask_for_what_there_is(expressions);
}

#[test]
fn the_alert_rules_ask_for_metrics_that_there_are_by_labels_that_they_have() {
    let expressions: Vec<_> = ALERTS.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).map(str::to_owned).collect();
    assert_eq!(expressions.len(), ALERTS.matches("- alert: ").count());
    ask_for_what_there_is(expressions);
}

fn ask_for_what_there_is(expressions: Vec<String>) {
    for expression in expressions {
        let (series, labels) = names(&expression);
        let metrics: Vec<_> =
            series.iter().map(|series| metric(series).unwrap_or_else(|| panic!("no metric `{series}`: {expression}"))).collect();
        for label in labels {
            let known = ADDED.contains(&label) || metrics.iter().any(|metric| metric.labels.contains(&label));
            assert!(known, "no label `{label}`: {expression}");
        }
    }
}

#[test]
fn unknown_metric_names_are_found() {
    assert!(metric("tollhouse_calls_total").is_some() && metric("tollhouse_call_seconds_bucket").is_some());
    assert!(
        metric("tollhouse_call_seconds").is_none() && metric("tollhouse_calls").is_none() && metric("tollhouse_calls_total_sum").is_none()
    );
    let reported = names("sum by (stage, le) (rate(tollhouse_call_stage_seconds_bucket{job=\"a\", stage!=\"x\"}[5m]))");
    assert_eq!(reported, (vec!["tollhouse_call_stage_seconds_bucket"], vec!["job", "stage", "stage", "le"]));
}
