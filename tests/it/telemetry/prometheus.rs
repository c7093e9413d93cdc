//! Debian's Prometheus scrapes a loaded host. The metrics can be parsed, are consistent, and fill
//! every panel of the dashboard.

use std::{
    fs,
    io::Write as _,
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use reqwest::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::metrics;
use crate::harness::{Host, Payer, eventually, js, rounds_requested};

/// The examples in the documents for operators.
const SHOWN: &str = include_str!("../../../docs/examples/prometheus.yml");
const DASHBOARD: &str = include_str!("../../../docs/examples/grafana.json");
const RULES: &str = include_str!("../../../docs/examples/alerts.yml");

/// Paths of the programs in Debian's package.
const PROGRAM: &str = "/usr/bin/prometheus";
const TOOL: &str = "/usr/bin/promtool";

/// Default duration of the scraping.
const SECONDS: usize = 6;

/// A Prometheus process. It ends when this is dropped.
struct Prometheus {
    process: Child,
    url: String,
    client: Client,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts it for this host, with the configuration in the documents, but with a scrape every
    /// second.
    async fn start(host: &Host) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut set = SHOWN.to_owned();
        for (shown, here) in [("127.0.0.1:4020", host.url.trim_start_matches("http://")), ("scrape_interval: 15s", "scrape_interval: 1s")] {
            assert!(set.contains(shown), "the example has no `{shown}`");
            set = set.replace(shown, here);
        }
        let file = folder.path().join("prometheus.yml");
        fs::write(&file, set).unwrap();
        let checked =
            Command::new(TOOL).args(["check", "config"]).arg(&file).output().expect("no promtool: `cargo xtask test` installs Debian's");
        assert!(checked.status.success(), "{checked:?}");
        // Prometheus does not report a port that the system chose. So name a port that was free a
        // moment ago.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg("--config.file").arg(&file).arg("--storage.tsdb.path").arg(folder.path().join("data"));
        command.arg(format!("--web.listen-address={port}")).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().unwrap();
        let client = Client::builder().no_proxy().build().unwrap();
        Self { process, url: format!("http://{port}"), client, _folder: folder }
    }

    /// Returns the result of an expression; `None` if Prometheus does not answer.
    async fn ask(&self, expression: &str) -> Option<Value> {
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("query", expression).finish();
        let request = self.client.get(format!("{}/api/v1/query?{query}", self.url));
        let answer: Value = request.send().await.ok()?.json().await.ok()?;
        assert!(answer["status"] == "success" || answer["errorType"] == "unavailable", "{expression}: {answer}");
        Some(answer["data"]["result"].clone())
    }

    /// Returns the value of an expression, if it has one.
    async fn value(&self, expression: &str) -> Option<f64> {
        self.ask(expression).await?[0]["value"][1].as_str()?.parse().ok()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// Returns the complaints of promtool about a text.
fn complaints(text: &str) -> String {
    let mut command = Command::new(TOOL);
    let mut tool = command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    tool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let message = tool.wait_with_output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&message.stdout), String::from_utf8_lossy(&message.stderr))
}

/// Values per minute of a series that triggers no alert.
const ZERO: &str = "0x30";

/// Each alert rule with a series: values per minute that trigger the alert, values that do not, and the alert's labels.
const ALERTS: &[(&str, &str, &str, &str, &str)] = &[
    ("TollhouseManyUnpaidRuns", r#"tollhouse_unpaid_runs_total{job="t",instance="h",why="failed"}"#, "0+200x30", ZERO, r#"instance: h"#),
    ("TollhouseGasBurned", r#"tollhouse_burned_gas_total{job="t",instance="h"}"#, "0+1500000x30", ZERO, r#"job: t"#),
    (
        "TollhouseGasLow",
        r#"tollhouse_gas_settlements_left{job="t",instance="h",network="eip155:8453"}"#,
        "999x30",
        "1000x30",
        r#"job: t, network: "eip155:8453""#,
    ),
    ("TollhouseSettlementsOpen", r#"tollhouse_settlements_open{job="t",instance="h"}"#, "101x30", ZERO, r#"job: t, instance: h"#),
    ("TollhouseSettlementsUnresolved", r#"tollhouse_settlements_unresolved{job="t",instance="h"}"#, "1x30", ZERO, r#"job: t"#),
    (
        "TollhouseOneTransactionForTwoReceipts",
        r#"tollhouse_settlement_faults_total{job="t",instance="h",kind="second_receipt"}"#,
        "0x25 1x5",
        ZERO,
        r#"instance: h"#,
    ),
    (
        "TollhousePaymentUsedElsewhere",
        r#"tollhouse_settlement_faults_total{job="t",instance="h",kind="elsewhere"}"#,
        "0x25 1x5",
        ZERO,
        r#"instance: h"#,
    ),
    (
        "TollhouseSettlementReorganized",
        r#"tollhouse_settlement_faults_total{job="t",instance="h",kind="reorganized"}"#,
        "0x25 1x5",
        ZERO,
        r#"job: t"#,
    ),
    ("TollhouseAllHostsDown", r#"up{job="tollhouse",instance="h"}"#, "0x30", "1x30", r#"job: tollhouse"#),
    ("TollhouseHostDown", r#"up{job="tollhouse",instance="h"}"#, "0x30", "1x30", r#"job: tollhouse, instance: h"#),
    ("TollhouseFenced", r#"tollhouse_replica_fenced{job="t",instance="h"}"#, "1x30", ZERO, r#"job: t"#),
    ("TollhouseNoWorkers", r#"tollhouse_pool_failing{job="t",instance="h"}"#, "1x30", ZERO, r#"job: t"#),
    ("TollhouseStoreDown", r#"tollhouse_store_available{job="t",instance="h"}"#, ZERO, "1x30", r#"job: t"#),
    ("TollhouseDiskFull", r#"tollhouse_disk_free_bytes{job="t",instance="h"}"#, "900000000x30", "2000000000x30", r#"instance: h"#),
    ("TollhouseDiskLow", r#"tollhouse_disk_free_bytes{job="t",instance="h"}"#, "2000000000x30", "20000000000x30", r#"instance: h"#),
    (
        "TollhouseFacilitatorDown",
        r#"tollhouse_facilitator_requests_total{job="t",instance="h",operation="verify",outcome="unavailable"}"#,
        "0+5x30",
        ZERO,
        r#"job: t"#,
    ),
    ("TollhouseHostErrors", r#"tollhouse_calls_total{job="t",instance="h",outcome="internal",fault="host"}"#, "0+5x30", ZERO, r#"job: t"#),
    (
        "TollhouseJobsFail",
        r#"tollhouse_job_runs_total{job="t",instance="h",name="retention",outcome="failed"}"#,
        "0+1x30",
        ZERO,
        r#"job: t"#,
    ),
];

/// promtool reads the rules and runs them over the series.
#[test]
fn alert_rules_of_the_documents_begin_when_they_should() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("alerts.yml"), RULES).unwrap();
    let promtool = |args: &[&str]| {
        let output = Command::new(TOOL).args(args).current_dir(folder.path()).output().expect("no promtool");
        assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    };
    promtool(&["check", "rules", "alerts.yml"]);
    assert_eq!(RULES.matches("- alert: ").count(), ALERTS.len());
    let mut tests = "rule_files: [alerts.yml]\ntests:\n".to_owned();
    for (alert, series, values, calm, labels) in ALERTS {
        let rule = RULES.split("- alert: ").find(|rule| rule.starts_with(alert)).unwrap();
        let text = |name: &str| rule.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap();
        let filled = |text: &str| {
            let text = text.replace("{{ $labels.instance }}", "h").replace("{{ $labels.job }}", "t");
            text.replace("{{ $labels.network }}", "eip155:8453")
        };
        let severity = text("severity: ");
        for (values, started) in [(*values, true), (*calm, false)] {
            let expected = if started {
                let (summary, description) = (filled(text("summary: ")), filled(text("description: ")));
                format!(
                    "[{{ exp_labels: {{ {labels}, severity: {severity} }}, exp_annotations: {{ summary: {summary:?}, description: \
                     {description:?} }} }}]"
                )
            } else {
                "[]".to_owned()
            };
            tests += &format!(
                "  - interval: 1m\n    input_series: [{{ series: '{series}', values: '{values}' }}]\n    alert_rule_test: [{{ eval_time: 30m, \
                 alertname: {alert}, exp_alerts: {expected} }}]\n"
            );
        }
    }
    fs::write(folder.path().join("tests.yml"), tests).unwrap();
    promtool(&["test", "rules", "tests.yml"]);
}

/// Returns the titles and expressions of all panels.
fn panels() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().replace("$__rate_interval", "10s").replace("$job", ".+");
    panels
        .flat_map(|panel| panel["targets"].as_array().unwrap().iter().map(move |target| (text(&panel["title"]), text(&target["expr"]))))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prometheus_scrapes_a_loaded_host() {
    let seconds = rounds_requested("TOLLHOUSE_SCRAPE_SECONDS").unwrap_or(SECONDS);
    let host = Host::start().await;
    host.publish(&js("free", 0.0, "export default (req) => { if (req.input.fails) throw new Error('no'); return {}; };")).await;
    host.publish(&js("paid", 0.01, "export default () => ({});")).await;
    let prometheus = Prometheus::start(&host).await;
    let up = || async { prometheus.value("up").await.filter(|up| *up == 1.0) };
    eventually("Prometheus has scraped the host", Duration::from_secs(60), up).await;

    let (is_over, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
    let payer = Payer::funded(&host, 1_000.0).await;
    let challenge = host.challenge("paid").await;
    let load = || async {
        while !is_over.load(Ordering::Relaxed) {
            host.call("free", &json!({})).await.is(200);
            host.call("free", &json!({ "fails": true })).await.is(502);
            host.call_paid("paid", &json!({}), &payer.pay(&challenge)).await.is(200);
            host.mcp().call("free", json!({}), json!({})).await;
            calls.fetch_add(3, Ordering::Relaxed);
        }
    };
    let scraped = async {
        let until = Instant::now() + Duration::from_secs(seconds as u64);
        let mut checked = 0;
        while Instant::now() < until {
            let response = complaints(&metrics(&host).await);
            assert_eq!(response, "", "promtool");
            checked += 1;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        // Query the panels while there are data.
        let mut empty = vec![];
        for (panel, expression) in panels() {
            let answer = eventually(&panel, Duration::from_secs(20), || prometheus.ask(&expression)).await;
            if answer.as_array().is_none_or(Vec::is_empty) {
                empty.push((panel, expression));
            }
        }
        is_over.store(true, Ordering::Relaxed);
        (checked, empty)
    };
    let (_, _, (checked, empty)) = tokio::join!(load(), load(), scraped);
    // Panels about facilitators, refusals and failed jobs may be empty: simulated payments have no
    // facilitator and need no gas, and nothing may have failed. Panels about hosts always have data.
    let may_be_empty =
        |expression: &str| expression.trim_end().ends_with("> 0") || expression.contains("> 0)") || expression.contains("tollhouse_gas_");
    let astray: Vec<_> = empty.iter().filter(|(_, expression)| !may_be_empty(expression)).collect();
    assert!(astray.is_empty(), "panels without an answer: {astray:#?}");

    let done = calls.load(Ordering::Relaxed) as f64;
    let describe = || async {
        let value = prometheus.value("sum(tollhouse_calls_total{outcome=\"ok\"})").await?;
        (value == done).then_some(value)
    };
    eventually("Prometheus has seen the last call", Duration::from_secs(20), describe).await;
    let span = format!("{}s", seconds);
    assert_eq!(prometheus.value(&format!("min_over_time(up[{span}])")).await, Some(1.0), "a scrape failed");
    let scrapes = prometheus.value(&format!("count_over_time(up[{span}])")).await.unwrap();
    let settled = prometheus.value("sum(tollhouse_payments_total{state=\"settled\"})").await.unwrap();
    assert_eq!(settled, done / 3.0);
    println!("{scrapes} scrapes in {seconds} s, {done} calls that went well, {checked} texts checked by promtool");
}
