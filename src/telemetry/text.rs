//! Metrics as text, in the format of Prometheus or of OpenMetrics.

use std::fmt::Write as _;

use super::{
    histogram::{BOUNDS_US, HistogramSnapshot},
    metric_table::{Kind, Metric},
    sample::{MetricValue, Sample, Samples},
};

/// A text format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's text format.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// Chooses the format for an `Accept` header: OpenMetrics if it is named, otherwise the older one.
    #[must_use]
    pub fn asked_by(accept: &str) -> Self {
        let named = |part: &str| {
            let mut parts = part.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let unwanted = parts.any(|parameter| parameter.strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0)));
            media.eq_ignore_ascii_case("application/openmetrics-text") && !unwanted
        };
        if accept.split(',').any(named) { Self::OpenMetrics } else { Self::Text }
    }

    /// Returns the media type for `Content-Type`.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

impl Samples {
    /// Formats all values.
    #[must_use]
    pub fn written(&self, format: Format) -> String {
        let mut out = String::with_capacity(32 << 10);
        for (metric, samples) in &self.0 {
            head(&mut out, metric, format);
            samples.iter().for_each(|sample| line(&mut out, metric, sample, format));
        }
        if format == Format::OpenMetrics {
            out.push_str("# EOF\n");
        }
        out
    }
}

/// Formats into a string, which cannot fail.
macro_rules! put {
    ($out:expr, $($what:tt)*) => { _ = write!($out, $($what)*) };
}

fn head(out: &mut String, metric: &Metric, format: Format) {
    // In OpenMetrics only a counter's values have the suffix `_total`, not its name.
    let name = if format == Format::OpenMetrics { metric.name.trim_end_matches("_total") } else { metric.name };
    put!(out, "# HELP {name} ");
    escaped(out, metric.what, false);
    put!(out, ".\n# TYPE {name} {}\n", metric.kind.as_str());
    if format == Format::OpenMetrics && !metric.unit().is_empty() {
        put!(out, "# UNIT {name} {}\n", metric.unit());
    }
}

fn line(out: &mut String, metric: &Metric, sample: &Sample, format: Format) {
    match &sample.value {
        MetricValue::Number(value) => {
            debug_assert_ne!(metric.kind, Kind::Histogram, "{}", metric.name);
            one(out, metric, "", sample, None);
            put!(out, " {value}\n");
        }
        MetricValue::Shape(shape) => histogram(out, metric, sample, shape, format),
    }
}

fn histogram(out: &mut String, metric: &Metric, sample: &Sample, shape: &HistogramSnapshot, format: Format) {
    let mut below = 0;
    for (position, bucket) in shape.buckets.iter().enumerate() {
        below += bucket;
        #[expect(clippy::cast_precision_loss, reason = "a minute at most, in microseconds")]
        let bound = BOUNDS_US.get(position).map(|micros| *micros as f64 / 1e6);
        let bound = match (bound, format) {
            (None, _) => "+Inf".to_owned(),
            (Some(bound), Format::Text) => bound.to_string(),
            // OpenMetrics requires canonical numbers: whole seconds have a fraction too.
            (Some(bound), Format::OpenMetrics) => format!("{bound:?}"),
        };
        one(out, metric, "_bucket", sample, Some(&bound));
        put!(out, " {below}\n");
    }
    one(out, metric, "_sum", sample, None);
    put!(out, " {}\n", shape.seconds);
    one(out, metric, "_count", sample, None);
    put!(out, " {below}\n");
}

/// Writes the name and labels of a line.
fn one(out: &mut String, metric: &Metric, suffix: &str, sample: &Sample, bound: Option<&str>) {
    put!(out, "{}{suffix}", metric.name);
    let labels = metric.labels.iter().copied().zip(sample.labels.iter().copied()).chain(bound.map(|bound| ("le", bound)));
    for (position, (name, value)) in labels.enumerate() {
        put!(out, "{}{name}=\"", if position == 0 { '{' } else { ',' });
        escaped(out, value, true);
        out.push('"');
    }
    if !metric.labels.is_empty() || bound.is_some() {
        out.push('}');
    }
}

fn escaped(out: &mut String, text: &str, quoted: bool) {
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quoted => out.push_str("\\\""),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{histogram::Histogram, metric_table};

    #[test]
    fn each_format_has_its_syntax() {
        let mut samples = Samples::default();
        samples.put(&metric_table::SYNCS, [], 3_u64);
        samples.put(&metric_table::BUILD, ["a\"b\\"], true);
        let histogram = Histogram::new();
        histogram.observe(Duration::from_secs(1));
        samples.put_shape(&metric_table::COMMIT_SECONDS, vec!["durable"], histogram.shape());
        let text = samples.written(Format::Text);
        assert!(text.contains("# TYPE tollhouse_store_syncs_total counter\ntollhouse_store_syncs_total 3\n"), "{text}");
        assert!(text.contains("tollhouse_build_info{version=\"a\\\"b\\\\\"} 1\n"), "{text}");
        assert!(text.contains("tollhouse_store_commit_seconds_bucket{durability=\"durable\",le=\"1\"} 1\n"), "{text}");
        assert!(text.contains("_bucket{durability=\"durable\",le=\"0.5\"} 0\n") && text.contains("le=\"+Inf\"} 1\n"), "{text}");
        assert!(!text.contains("# UNIT") && !text.contains("EOF"));
        let open = samples.written(Format::OpenMetrics);
        assert!(open.contains("# TYPE tollhouse_store_syncs counter\ntollhouse_store_syncs_total 3\n"), "{open}");
        assert!(open.contains("# UNIT tollhouse_store_commit_seconds seconds\n") && open.contains("le=\"1.0\"} 1\n"), "{open}");
        assert!(open.ends_with("# EOF\n"));
    }

    #[test]
    fn openmetrics_is_chosen_if_accepted() {
        assert_eq!(Format::asked_by("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"), Format::OpenMetrics);
        for accept in ["", "*/*", "text/plain", "application/openmetrics-text;q=0, text/plain"] {
            assert_eq!(Format::asked_by(accept), Format::Text, "{accept}");
        }
    }
}
