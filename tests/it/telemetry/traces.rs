//! Calls as a collector sees them: their stages, the trace to which they belong, and the case that
//! nobody collects them.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{Json, Router, http::HeaderMap, http::StatusCode, routing::post};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::{collector::Collector, metrics, series, value};
use crate::harness::{Facilitator, Host, HostBuilder, Payer, SettleMode, eventually, js, serve};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// Duration of the handler. Compared with it, the way to the host and back is short.
const RUNS_MS: u64 = 400;
/// Additional time for that way on a loaded machine.
const STAGES: Duration = Duration::from_millis(30);

fn traced(collector: &Collector) -> HostBuilder {
    Host::builder().env("TOLLHOUSE_OTLP_ENDPOINT", &collector.url).env("TOLLHOUSE_OTLP_METRICS_MS", 200)
}

/// Returns the header of a caller whose trace is sampled or not, according to `flags`.
fn parent(flags: &str) -> String {
    format!("00-{TRACE}-{SPAN}-{flags}")
}

#[tokio::test]
async fn a_paid_call_is_a_trace_whose_stages_add_up_to_its_time() {
    let (collector, facilitator) = (Collector::start().await, Facilitator::start(SettleMode::Well).await);
    let host = traced(&collector).settled_by(&facilitator.url).start().await;
    host.publish(&js("paid", 0.01, &format!("export default () => new Promise((done) => setTimeout(() => done({{}}), {RUNS_MS}));"))).await;
    let payment = Payer::new().pay(&host.challenge("paid").await);
    let started = Instant::now();
    host.call_paid("paid", &json!({}), &payment).await.is(200);
    let by_the_clock = started.elapsed();
    let paid = || async {
        let spans = collector.spans();
        spans.iter().find(|span| span.text("name") == "settle").map(|span| span.text("parentSpanId").to_owned())
    };
    let id = eventually("a call that settled", Duration::from_secs(20), paid).await;
    let spans = collector.spans();
    let call = spans.iter().find(|span| span.text("spanId") == id).unwrap();
    let mut stages: Vec<_> = spans.iter().filter(|span| span.text("parentSpanId") == id).collect();
    stages.sort_by_key(|span| span.time("startTimeUnixNano"));
    let names: Vec<_> = stages.iter().filter(|span| span.elapsed() > Duration::ZERO).map(|span| span.text("name")).collect();
    let mut distinct = names.clone();
    distinct.dedup();
    assert_eq!(distinct, ["admit", "queue", "run", "check", "settle", "commit", "settle", "commit"], "{stages:#?}");
    assert!(stages.iter().all(|span| span.text("traceId") == call.text("traceId")));
    let sum: Duration = stages.iter().map(|span| span.elapsed()).sum();
    let share = sum.as_secs_f64() / call.elapsed().as_secs_f64();
    println!("stages {sum:?} of {:?}, {:.2} %; the caller's clock says {by_the_clock:?}", call.elapsed(), share * 100.0);
    assert!((share - 1.0).abs() < 0.05, "{share}");
    assert!(call.elapsed() <= by_the_clock && call.elapsed() >= Duration::from_millis(RUNS_MS), "{call:?}");
    // The stages add up to the time that the caller measures, except for the way there and back.
    let alongside = by_the_clock.saturating_sub(sum);
    let max = by_the_clock.mul_f64(0.05) + STAGES;
    assert!(alongside < max, "{alongside:?} of {by_the_clock:?} are in no stage");
    assert_eq!((call.attribute("tollhouse.outcome"), call.attribute("tollhouse.endpoint.slug")), ("ok".to_owned(), "paid".to_owned()));
    assert!(call.attribute("tollhouse.call.id").starts_with("call_"), "{call:?}");
}

#[tokio::test]
async fn a_callers_trace_continues_here_and_at_the_facilitator() {
    let query = Arc::<Mutex<Vec<HeaderMap>>>::default();
    let stored = Arc::clone(&query);
    let router = Router::new().route(
        "/verify",
        post(move |headers: HeaderMap, Json(_): Json<Value>| async move {
            stored.lock().unwrap().push(headers);
            Json(json!({ "isValid": false, "invalidReason": "insufficient_funds" }))
        }),
    );
    let url = serve(router).await;
    let collector = Collector::start().await;
    let host = traced(&collector).settled_by(&url).start().await;
    host.publish(&js("paid", 0.01, "export default () => ({});")).await;
    let payment = Payer::new().pay(&host.challenge("paid").await);
    let request = host.paid_request("paid", &json!({}), &payment).header("traceparent", parent("01")).header("tracestate", "a=1,b=2");
    let answer = host.send(request).await.is(402);
    let text = answer.has("traceresponse").to_owned();
    let spans = eventually("a span of the caller's trace", Duration::from_secs(20), || async {
        let spans: Vec<_> = collector.spans().into_iter().filter(|span| span.text("traceId") == TRACE).collect();
        (!spans.is_empty()).then_some(spans)
    })
    .await;
    let call = spans.iter().find(|span| span.text("name") == "call").unwrap();
    assert_eq!((call.text("parentSpanId"), call.text("traceState")), (SPAN, "a=1,b=2"));
    assert_eq!(text, format!("00-{TRACE}-{}-01", call.text("spanId")));
    let received = query.lock().unwrap().last().unwrap().clone();
    let admit = spans.iter().find(|span| span.text("name") == "admit").unwrap();
    assert_eq!(received["traceparent"], format!("00-{TRACE}-{}-01", admit.text("spanId")));
    assert_eq!(received["tracestate"], "a=1,b=2");
}

#[tokio::test]
async fn the_context_of_mcps_meta_goes_before_that_of_its_headers() {
    let collector = Collector::start().await;
    let host = traced(&collector).start().await;
    host.publish(&js("free", 0.0, "export default () => ({});")).await;
    let client = host.mcp().with_header("traceparent", parent("00"));
    client.call("free", json!({}), json!({ "traceparent": parent("01") })).await;
    let (call, _) = collector.call("free").await;
    assert_eq!((call.text("traceId"), call.text("parentSpanId")), (TRACE, SPAN));
}

#[tokio::test]
async fn caller_is_traced_within_the_settings_and_its_own_choice() {
    let collector = Collector::start().await;
    let host = traced(&collector).env("TOLLHOUSE_TRACE_CALLER_RATE", 1).env("TOLLHOUSE_TRACE_RATE", 0).start().await;
    host.publish(&js("free", 0.0, "export default () => ({});")).await;
    let call = |flags: Option<&str>| {
        let request = host.request(Method::POST, "/tools/free").json(&json!({}));
        host.send(match flags {
            Some(flags) => request.header("traceparent", parent(flags)),
            None => request,
        })
    };
    let started = Instant::now();
    let answers = join_all((0..40).map(|_| call(Some("01")))).await;
    let traced = answers.iter().filter(|answer| answer.header("traceresponse").is_some()).count();
    let max = started.elapsed().as_secs() as usize + 2;
    assert!((1..=max).contains(&traced), "{traced} of 40, at most {max}");
    for flags in [None, Some("00")] {
        assert_eq!(call(flags).await.is(200).header("traceresponse"), None);
    }
    assert_eq!(value(&host, "tollhouse_traces_total{asked=\"caller\"}").await, traced as f64);
    assert_eq!(value(&host, "tollhouse_traces_left_out_total{asked=\"caller\"}").await, (40 - traced) as f64);
    assert_eq!(value(&host, "tollhouse_traces_left_out_total{asked=\"host\"}").await, 1.0);
}

#[tokio::test]
async fn a_collector_that_takes_nothing_costs_spans_and_no_call() {
    let collector = Collector::start().await;
    collector.answers(StatusCode::BAD_REQUEST);
    let host = traced(&collector).start().await;
    host.publish(&js("free", 0.0, "export default () => ({});")).await;
    host.call("free", &json!({})).await.is(200);
    eventually("dropped spans are counted", Duration::from_secs(20), || async {
        let answer = series(&metrics(&host).await);
        (answer["tollhouse_spans_total{outcome=\"failed\"}"] >= 4.0 && answer["tollhouse_spans_total{outcome=\"sent\"}"] == 0.0)
            .then_some(())
    })
    .await;
    assert_eq!(host.log().matches("the collector does not accept telemetry").count(), 1, "{}", host.log());
}

#[tokio::test]
async fn metrics_are_sent_to_the_collector_by_the_names_of_the_table() {
    let collector = Collector::start().await;
    let host = traced(&collector).env("TOLLHOUSE_OTLP_HEADERS", "x-collector-key=a%20key").start().await;
    let body = eventually("metrics", Duration::from_secs(20), || async { collector.bodies("metrics").pop() }).await;
    let sent = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let names: Vec<_> = sent.iter().map(|metric| metric["name"].as_str().unwrap()).collect();
    for metric in super::metrics_of_every_host() {
        assert!(names.contains(&metric.name), "{}", metric.name);
    }
    let seconds = sent.iter().find(|metric| metric["name"] == "tollhouse_store_commit_seconds").unwrap();
    let point = &seconds["histogram"]["dataPoints"][0];
    let (bounds, counts) = (point["explicitBounds"].as_array().unwrap().len(), point["bucketCounts"].as_array().unwrap().len());
    assert!(counts == bounds + 1 && point["count"].is_string() && seconds["unit"] == "s", "{seconds}");
    assert!(collector.text().contains("\"x-collector-key\": \"a key\""));
    drop(host);
}

#[tokio::test]
async fn pending_telemetry_is_sent_at_shutdown() {
    let collector = Collector::start().await;
    let mut host = traced(&collector).start().await;
    host.publish(&js("free", 0.0, "export default () => ({});")).await;
    host.call("free", &json!({})).await.is(200);
    host.terminate();
    eventually("the end of the host", Duration::from_secs(30), || async { (!host.lives()).then_some(()) }).await;
    let sent = collector.spans().iter().any(|span| span.attribute("tollhouse.endpoint.slug") == "free");
    assert!(sent, "{}", collector.text());
    host.kill9();
}

#[tokio::test]
async fn an_endpoint_of_opentelemetrys_own_variable_is_taken_where_it_speaks_http() {
    let collector = Collector::start().await;
    let host = |protocol: &str| {
        let builder = Host::builder().env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url).env("OTEL_SERVICE_NAME", "tolls");
        builder.env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol).env("TOLLHOUSE_OTLP_METRICS_MS", 100)
    };
    let grpc = host("grpc").start().await;
    grpc.publish(&js("free", 0.0, "export default () => ({});")).await;
    assert_eq!(grpc.call("free", &json!({})).await.is(200).header("traceresponse"), None);
    drop(grpc);
    assert_eq!(collector.text(), "");
    let _http = host("http/protobuf").start().await;
    let body = eventually("metrics", Duration::from_secs(20), || async { collector.bodies("metrics").pop() }).await;
    assert!(body["resourceMetrics"][0]["resource"].to_string().contains("\"tolls\""), "{body}");
}
