//! Telemetry of a host: metrics and access to them, traces, and the log.

mod access;
mod collector;
mod prometheus;
mod secrets;
mod traces;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use reqwest::Client;
use serde_json::json;
use tollhouse::telemetry::{Metric, metric_table};

use crate::harness::{Facilitator, Host, Payer, SettleMode, eventually, js};

/// A series: its name with the formatted labels, and its value.
type Series = BTreeMap<String, f64>;

/// Returns `/metrics` for a client on this machine.
async fn metrics(host: &Host) -> String {
    let answer = host.get("/metrics").await.is(200);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    String::from_utf8(answer.body.to_vec()).unwrap()
}

fn series(text: &str) -> Series {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap()).map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

/// Returns the value of a series.
async fn value(host: &Host, name: &str) -> f64 {
    let all = series(&metrics(host).await);
    *all.get(name).unwrap_or_else(|| panic!("no {name}"))
}

/// Returns the metrics except those of the account for gas, which only hosts with the facilitator `evm` have.
fn metrics_of_every_host() -> impl Iterator<Item = &'static &'static Metric> {
    metric_table::ALL.iter().filter(|metric| !metric.labels.contains(&"network"))
}

#[tokio::test]
async fn every_metric_of_the_table_is_reported_and_none_besides() {
    let host = Host::start().await;
    let text = metrics(&host).await;
    let listed: BTreeSet<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).map(str::to_owned).collect();
    let kind = |metric: &&Metric| format!("{} {}", metric.name, metric.kind.as_str());
    assert_eq!(listed, metrics_of_every_host().map(kind).collect());
    let named: BTreeSet<_> = series(&text).into_keys().map(|series| series.split('{').next().unwrap().to_owned()).collect();
    for metric in metrics_of_every_host() {
        let is_there = named.contains(metric.name) || named.contains(&format!("{}_count", metric.name));
        assert!(is_there, "{} has no value", metric.name);
        let labels = text.lines().filter(|line| line.starts_with(&format!("{}{{", metric.name)));
        for line in labels {
            assert!(metric.labels.iter().all(|label| line.contains(&format!("{label}=\""))), "{line}");
        }
    }
}

#[tokio::test]
async fn openmetrics_needs_an_accept_header() {
    let host = Host::start().await;
    let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
    let answer = Client::builder().no_proxy().build().unwrap().get(format!("{}/metrics", host.url)).header("accept", accept);
    let answer = answer.send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let text = answer.text().await.unwrap();
    assert!(text.ends_with("# EOF\n") && text.contains("# TYPE tollhouse_calls counter\n"), "{text}");
}

#[tokio::test]
async fn calls_and_payments_are_counted_once() {
    let facilitator = Facilitator::start(SettleMode::Well).await;
    let host = Host::builder().settled_by(&facilitator.url).start().await;
    host.publish(&js("free", 0.0, "export default (req) => { if (req.input.fails) throw new Error('no'); return {}; };")).await;
    host.publish(&js("paid", 0.01, "export default () => ({});")).await;
    let payer = Payer::new();
    for _ in 0..3 {
        host.call("free", &json!({})).await.is(200);
    }
    host.call("free", &json!({ "fails": true })).await.is(502);
    let payment = payer.pay(&host.challenge("paid").await);
    let bought = host.call_paid("paid", &json!({}), &payment).await.is(200);
    assert_eq!(host.call_paid("paid", &json!({}), &payment).await.is(200).receipt_id(), bought.receipt_id());
    facilitator.set_mode(SettleMode::Refused("insufficient_funds"));
    host.call_paid("paid", &json!({}), &payer.pay(&host.challenge("paid").await)).await.is(402);
    let credit = host.mint(1.0).await;
    host.call_credit("paid", &json!({}), &credit).await.is(200);
    host.mcp().call("free", json!({}), json!({})).await;

    let answer = series(&metrics(&host).await);
    let is = |name: &str, value: f64| assert_eq!(answer.get(name).copied(), Some(value), "{name}");
    // A repeated answer counts as a successful call.
    is("tollhouse_calls_total{outcome=\"ok\",fault=\"none\"}", 7.0);
    is("tollhouse_calls_total{outcome=\"handler_failed\",fault=\"tool\"}", 1.0);
    is(
        "tollhouse_call_seconds_count",
        answer.iter().filter(|(name, _)| name.starts_with("tollhouse_calls_total")).map(|(_, many)| many).sum(),
    );
    is("tollhouse_call_stage_seconds_count{stage=\"run\"}", 8.0);
    is("tollhouse_call_stage_seconds_count{stage=\"queue\"}", 8.0);
    is("tollhouse_call_stage_seconds_count{stage=\"settle\"}", 3.0);
    is("tollhouse_pool_runs_total", 8.0);
    is("tollhouse_payments_total{state=\"reserved\"}", 2.0);
    is("tollhouse_payments_total{state=\"settled\"}", 2.0);
    is("tollhouse_payments_total{state=\"refused\"}", 1.0);
    is("tollhouse_payments_total{state=\"released\"}", 0.0);
    is("tollhouse_facilitator_requests_total{operation=\"settle\",outcome=\"settled\"}", 1.0);
    is("tollhouse_facilitator_requests_total{operation=\"settle\",outcome=\"refused\"}", 1.0);
    is("tollhouse_facilitator_requests_total{operation=\"verify\",outcome=\"valid\"}", 2.0);
    is("tollhouse_facilitator_seconds_count{operation=\"settle\"}", 2.0);
    is("tollhouse_mcp_calls_total{outcome=\"ok\",fault=\"none\"}", 1.0);
    is("tollhouse_mcp_requests_total{method=\"tools/call\"}", 1.0);
    is("tollhouse_http_refusals_total{code=\"handler_failed\",fault=\"tool\"}", 1.0);
    is("tollhouse_settlements_open", 0.0);
    assert!(answer["tollhouse_store_commits_total{durability=\"durable\",outcome=\"ok\"}"] > 3.0);
    assert!(answer["tollhouse_store_syncs_total"] > 1.0 && answer["tollhouse_connections"] >= 1.0);
    assert!(answer["tollhouse_jail_layer{layer=\"seccomp\"}"] + answer["tollhouse_jail_layer_refused{layer=\"seccomp\"}"] <= 1.0);
}

#[tokio::test]
async fn removed_rows_are_counted_by_kind() {
    let few = Host::builder().env("TOLLHOUSE_CALLS_KEPT", 1).env("TOLLHOUSE_LOG_LINES_KEPT", 1).env("TOLLHOUSE_FREE_RECEIPTS_KEPT", 1);
    let host = few.start().await;
    host.publish(&js("free", 0.0, "export default (req, ctx) => { ctx.log.info('a line'); return {}; };")).await;
    let describe = async |kind: &str| value(&host, &format!("tollhouse_store_rows_removed_total{{kind=\"{kind}\"}}")).await;
    for kind in ["calls", "logs", "freeReceipts", "audit", "events", "payments"] {
        assert_eq!(describe(kind).await, 0.0, "{kind}");
    }
    // Further calls put the counts above the limit, because calls and lines are stored in the
    // background.
    eventually("some of each are removed", Duration::from_secs(60), async || {
        host.call("free", &json!({})).await.is(200);
        let all = [describe("calls").await, describe("logs").await, describe("freeReceipts").await];
        all.iter().all(|removed| *removed > 0.0).then_some(())
    })
    .await;
    for kind in ["audit", "events", "payments"] {
        assert_eq!(describe(kind).await, 0.0, "{kind}");
    }
}

#[tokio::test]
async fn settlement_without_a_reported_end_counts_as_unknown() {
    let facilitator = Facilitator::start(SettleMode::Unanswered).await;
    let host = Host::builder().settled_by(&facilitator.url).start().await;
    host.publish(&js("paid", 0.01, "export default () => ({});")).await;
    let payment = Payer::new().pay(&host.challenge("paid").await);
    host.call_paid("paid", &json!({}), &payment).await.is(502);
    let answer = series(&metrics(&host).await);
    assert_eq!(answer["tollhouse_payments_total{state=\"unknown\"}"], 1.0);
    assert_eq!(answer["tollhouse_settlements_open"], 1.0);
    assert_eq!(answer["tollhouse_calls_total{outcome=\"settlement_unknown\",fault=\"host\"}"], 1.0);
}

/// A label that strangers can choose would permit them to create any number of series.
#[tokio::test]
async fn no_request_makes_a_new_series() {
    let host = Host::start().await;
    host.publish(&js("free", 0.0, "export default () => ({});")).await;
    let names = |text: &str| series(text).into_keys().collect::<BTreeSet<_>>();
    let before = names(&metrics(&host).await);
    for stranger in ["a", "b\"} 1\n", "{{", "\u{1f980}"] {
        host.call("free", &json!({ stranger: stranger })).await.is(200);
        host.get(&format!("/tools/{}?{}=1", stranger.len(), stranger.len())).await;
        host.mcp_legacy().ask("tools/call", json!({ "name": stranger, "arguments": {} })).await;
        host.mcp_legacy().ask(stranger, json!({})).await;
    }
    assert_eq!(names(&metrics(&host).await), before);
}
