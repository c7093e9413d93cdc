//! OTLP spans of traced calls: one for the call, and below it one for each of its stages.

use std::time::Duration;

use serde_json::{Value, json};

use super::attributes::attributes;
use crate::{counters, span::TracedCall};

/// OTLP's numbers for span kinds and the error status.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const ERROR: u8 = 2;

pub(super) fn body(resource: &Value, batch: &[TracedCall]) -> Value {
    let spans: Vec<_> = batch.iter().flat_map(spans).collect();
    let scope = json!({ "name": "tollhouse", "version": env!("CARGO_PKG_VERSION") });
    json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "scope": scope, "spans": spans }] }] })
}

fn spans(traced: &TracedCall) -> impl Iterator<Item = Value> {
    let at = |from: Duration| nanos(traced.started, from);
    let trace = hex::encode(traced.context.trace);
    let own = hex::encode(traced.context.span);
    let fault = counters::CALLS.fault_of(traced.outcome);
    let reported = traced.attributes.iter().map(|(name, value)| (*name, value.as_str()));
    let mut call = json!({
        "traceId": trace,
        "spanId": own,
        "flags": 1,
        "name": "call",
        "kind": SERVER,
        "startTimeUnixNano": at(Duration::ZERO),
        "endTimeUnixNano": at(traced.elapsed),
        "attributes": attributes([("tollhouse.outcome", traced.outcome), ("tollhouse.fault", fault)].into_iter().chain(reported)),
        "status": {},
    });
    if let Some(parent) = &traced.parent {
        call["parentSpanId"] = json!(hex::encode(parent));
    }
    if let Some(state) = &traced.state {
        call["traceState"] = json!(state);
    }
    if matches!(fault, "tool" | "host") {
        call["status"] = json!({ "code": ERROR, "message": traced.outcome });
    }
    let stages: Vec<_> = traced
        .stages
        .iter()
        .map(|passed| {
            json!({
                "traceId": trace,
                "spanId": hex::encode(passed.span),
                "parentSpanId": own,
                "flags": 1,
                "name": passed.stage.as_str(),
                "kind": INTERNAL,
                "startTimeUnixNano": at(passed.from),
                "endTimeUnixNano": at(passed.to),
            })
        })
        .collect();
    [call].into_iter().chain(stages)
}

/// Formats a time. OTLP's JSON writes 64-bit numbers as strings.
fn nanos(started: u64, after: Duration) -> String {
    started.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)).to_string()
}
