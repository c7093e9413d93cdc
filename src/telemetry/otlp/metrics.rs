//! OTLP metrics, with the names, kinds and labels of the table.

use serde_json::{Value, json};

use super::attributes::attributes;
use crate::{
    histogram::BOUNDS_US,
    metric_table::{Kind, Metric},
    sample::{MetricValue as Measured, Sample, Samples},
};

/// OTLP's number for sums that count from the start of the process.
const CUMULATIVE: u8 = 2;

pub(super) fn body(resource: &Value, samples: &Samples, started: u64, now: u64) -> Value {
    let metrics: Vec<_> = samples.0.iter().map(|(metric, samples)| metric_json(metric, samples, started, now)).collect();
    let scope = json!({ "name": "tollhouse", "version": env!("CARGO_PKG_VERSION") });
    json!({ "resourceMetrics": [{ "resource": resource, "scopeMetrics": [{ "scope": scope, "metrics": metrics }] }] })
}

fn metric_json(metric: &Metric, samples: &[Sample], started: u64, now: u64) -> Value {
    let points: Vec<_> = samples.iter().map(|sample| point(metric, sample, started, now)).collect();
    let unit = match metric.unit() {
        "seconds" => "s",
        "bytes" => "By",
        _ => "1",
    };
    let mut body = json!({ "name": metric.name, "description": metric.what, "unit": unit });
    let (kind, data) = match metric.kind {
        Kind::Counter => ("sum", json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true })),
        Kind::Gauge => ("gauge", json!({ "dataPoints": points })),
        Kind::Histogram => ("histogram", json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE })),
    };
    body[kind] = data;
    body
}

fn point(metric: &Metric, sample: &Sample, started: u64, now: u64) -> Value {
    let labels = metric.labels.iter().copied().zip(sample.labels.iter().copied());
    let mut point = json!({ "attributes": attributes(labels), "timeUnixNano": now.to_string() });
    if metric.kind != Kind::Gauge {
        point["startTimeUnixNano"] = json!(started.to_string());
    }
    match &sample.value {
        Measured::Number(value) => point["asDouble"] = json!(value),
        Measured::Shape(shape) => {
            point["count"] = json!(shape.count().to_string());
            point["sum"] = json!(shape.seconds);
            point["bucketCounts"] = shape.buckets.iter().map(u64::to_string).collect();
            #[expect(clippy::cast_precision_loss, reason = "a minute at most, in microseconds")]
            let bounds: Vec<_> = BOUNDS_US.iter().map(|micros| *micros as f64 / 1e6).collect();
            point["explicitBounds"] = json!(bounds);
        }
    }
    point
}
